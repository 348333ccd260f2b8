from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.case import Case
from bench.record import ReplayTimer, case_warnings, confirmed, extra_info
from bench.result import (
    Failure,
    LaunchResult,
    gather,
    of_children,
    slowest_rank,
    slowest_rank_step_s,
)

AWKWARD = [0.1, 0.2, 1 / 3, 0.062113879999742494, 5e-324, 1e9 + 0.1, 0.30000000000000004]


def launch(number: int, times: list[float], **fields: Any) -> LaunchResult:
    ranks = fields.pop("ranks", [{"threads": 1}])
    return LaunchResult(number, tuple(times), {"median_step_s": times[0], "ranks": ranks, **fields})


def test_the_timer_replays_in_order() -> None:
    timer = ReplayTimer()
    timer.load(AWKWARD)
    seen = []
    for _ in AWKWARD:
        begin = timer()
        seen.append(timer() - begin)
    assert seen == AWKWARD


def test_pytest_benchmark_keeps_the_times_bit_for_bit(tmp_path: Path) -> None:
    """Through the real pytest-benchmark, its JSON, and back."""
    (tmp_path / "test_replay.py").write_text(
        f"""
import pytest
from bench.record import ReplayTimer, replay
from bench.result import LaunchResult
TIMER = ReplayTimer()

@pytest.mark.benchmark(timer=TIMER)
def test_replay(benchmark):
    launches = [LaunchResult(0, tuple({AWKWARD[:3]!r}), {{}}),
                LaunchResult(1, tuple({AWKWARD[3:]!r}), {{}})]
    replay(benchmark, TIMER, launches)
"""
    )
    out = tmp_path / "out.json"
    root = Path(__file__).resolve().parent.parent
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_replay.py", f"--benchmark-json={out}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )
    (entry,) = json.loads(out.read_text())["benchmarks"]
    assert entry["stats"]["data"] == AWKWARD
    assert entry["stats"]["rounds"] == len(AWKWARD)
    assert entry["options"]["timer"] == "slowest_rank_step_s"


def test_the_record_of_a_case() -> None:
    case = Case(world_size=2, batch_size=32)
    launches = [launch(0, [0.1, 0.1, 0.1]), launch(1, [0.1, 0.1], label=None)]
    info = extra_info(case, launches, ["beware"])
    json.dumps(info, allow_nan=False)
    result = info["result"]
    # B02: 32 samples a rank, 2 ranks, 0.1 s a step.
    assert result["throughput_samples_per_s"] == pytest.approx(640)
    assert result["throughput_per_rank_samples_per_s"] == pytest.approx(320)
    assert result["launch_of_round"] == [0, 0, 0, 1, 1]
    assert result["warnings"] == ["beware"]
    assert info["id"] == case.id


def test_the_slowest_rank_is_taken_step_by_step() -> None:
    ranks = [[0.1, 0.3, 0.2], [0.2, 0.1, 0.2]]
    assert slowest_rank_step_s(ranks) == (0.2, 0.3, 0.2)
    assert slowest_rank(ranks) == [1, 0, 0]
    with pytest.raises(ValueError, match=r"different numbers of steps: \[2, 3\]"):
        slowest_rank_step_s([[0.1, 0.2], [0.1, 0.2, 0.3]])


def rank_record(rank: int, times: list[float]) -> dict[str, Any]:
    return {"rank": rank, "timed_step_s": times, "job": {"parameters": 67}}


def test_gathering_keeps_every_rank_apart() -> None:
    records = [rank_record(0, [0.1, 0.3]), rank_record(1, [0.2, 0.1])]
    result = gather(4, 1e9, records)
    assert (result.launch, result.step_s) == (4, (0.2, 0.3))
    assert result.fields["parameters"] == 67
    assert (result.fields["launch"], result.fields["started_unix_s"]) == (4, 1e9)
    assert (result.fields["median_step_s"], result.fields["steps"]) == (0.25, 2)
    assert result.fields["slowest_rank"] == [1, 0]
    assert not [rank for rank in result.fields["ranks"] if "job" in rank or "timed_step_s" in rank]
    assert [rank["step_s"] for rank in result.fields["ranks"]] == [[0.1, 0.3], [0.2, 0.1]]
    assert [rank["median_step_s"] for rank in result.fields["ranks"]] == pytest.approx([0.2, 0.15])


def test_many_ranks_are_kept_in_bounded_size() -> None:
    result = gather(0, 1e9, [rank_record(rank, [0.1] * 100) for rank in range(300)])
    assert len(result.step_s) == 100
    assert all(rank["step_s"] is None for rank in result.fields["ranks"])
    assert result.fields["slowest_rank"] is None
    assert result.fields["ranks"][299]["median_step_s"] == 0.1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"checks": {"parameters_equal": False}}, "parameters differ between ranks"),
        (
            {"checks": {"gradients_match": False, "gradient_relative_error": 0.5}},
            "gradients do not match those of one process (relative error 5.0e-01)",
        ),
        (
            {"checks": {"reduced_bytes_equal_gradient_bytes": False}},
            "bytes reduced per step are not the bytes of the gradients",
        ),
        ({"ranks": [{"threads": 1}, {"threads": 2}]}, "different numbers of threads: [1, 2]"),
        (
            {"ranks": [{"threads": 1, "communication_note": "it is unknown, not zero"}]},
            "unknown, not zero",
        ),
        (
            {"ranks": [{"threads": 1, "trace_not_kept": "/x/y.json.gz: No space left on device"}]},
            "a trace could not be kept: /x/y.json.gz: No space left on device",
        ),
        ({"replicas_used": 1}, "DataParallel used 1 of 2 devices"),
        ({"ranks": [{"threads": 4}]}, "oversubscribed: 2 ranks of 4 thread(s) on 4 core(s)"),
        ({}, None),
        ({"checks": {"parameters_equal": True, "gradients_match": None}}, None),
    ],
)
def test_warnings_of_a_case(fields: dict[str, Any], sentence: str | None) -> None:
    found = case_warnings(Case(world_size=2), [launch(0, [0.1], **fields)], cores=4)
    if sentence is None:
        assert found == []
    else:
        assert any(sentence in each for each in found), found


def test_a_failures_sentence_says_who_where_why_and_what_next() -> None:
    failure = Failure(phase="timed", message="bad sample\nmore", type="ValueError", rank=1, step=17)
    assert failure.sentence("ddp-mlp-w2", "pytest x") == (
        "rank 1 failed in timed step 17 of ddp-mlp-w2: ValueError: bad sample; "
        "rerun it with pytest x"
    )


def test_a_failure_on_another_host_names_it() -> None:
    there = Failure(phase="timed", message="gone", type="Crash", rank=1, host="node-b")
    assert there.sentence("x-w2") == "rank 1 on node-b failed in timed of x-w2: gone"
    here = dataclasses.replace(there, host=socket.gethostname())
    assert here.sentence("x-w2") == "rank 1 failed in timed of x-w2: gone"


def a_rank(rank: int, times: list[float], **changes: Any) -> dict[str, Any]:
    return {
        "rank": rank,
        "timed_step_s": times,
        "job": {"parameters": 5},
        "threads": 1,
        "first_step_s": 0.5 + rank,
        "lifecycle": {"init_s": 0.2 - rank / 10},
        "memory": {"peak_bytes": 1000 + rank},
    } | changes


def test_what_every_child_says_is_its_slowest_ranks() -> None:
    made = gather(3, 1.5, [a_rank(0, [0.1, 0.2, 0.3]), a_rank(1, [0.2, 0.1, 0.6])])
    assert made.fields["children"] == [
        {
            "started_unix_s": 1.5,
            "median_step_s": 0.2,
            "steps": 3,
            "first_step_s": 1.5,
            "init_s": 0.2,
            "peak_bytes": 1001,
        }
    ]
    blank = gather(0, 0.0, [a_rank(0, [0.1], memory=None), a_rank(1, [0.2], lifecycle={})])
    (child,) = blank.fields["children"]
    assert (child["peak_bytes"], child["init_s"], child["first_step_s"]) == (None, None, 1.5)


def test_a_launch_of_several_children_is_their_median() -> None:
    children = [
        gather(2, float(n), [a_rank(0, [median] * 3)]) for n, median in enumerate((0.3, 0.1, 0.2))
    ]
    for child, reached in zip(children, (0.01, 0.05, 0.03), strict=True):
        child.fields["precision_reached"], child.fields["reached_precision"] = reached, True
    children[2].fields["reached_precision"] = False
    children[0].fields["ranks"][0]["communication"] = {"all_reduce_s": 0.07}
    made = of_children(children)
    assert made.launch == 2
    assert made.step_s == (0.3,) * 3 + (0.1,) * 3 + (0.2,) * 3
    assert made.fields["median_step_s"] == 0.2  # of 0.3, 0.1 and 0.2
    assert made.fields["steps"] == 9
    assert [child["started_unix_s"] for child in made.fields["children"]] == [0.0, 1.0, 2.0]
    assert made.fields["ranks"] == children[0].fields["ranks"]
    # The worst of them; and a launch is as precise as its least precise child.
    assert (made.fields["precision_reached"], made.fields["reached_precision"]) == (0.05, False)
    assert of_children(children[:1]) is children[0]
    children[1].fields["precision_reached"] = None
    assert of_children(children).fields["precision_reached"] is None


def test_a_round_knows_its_launch_and_its_child() -> None:
    launches = [
        of_children([gather(n, 0.0, [a_rank(0, times)]) for times in ([0.1, 0.1], [0.2])])
        for n in range(2)
    ]
    result = extra_info(Case(), launches, [])["result"]
    assert result["launch_of_round"] == [0, 0, 0, 1, 1, 1]
    assert result["child_of_round"] == [0, 0, 1, 0, 0, 1]
    assert "confirmation" not in result
    alone = extra_info(Case(), [gather(0, 0.0, [a_rank(0, [0.1, 0.1])])], [])["result"]
    assert "child_of_round" not in alone


def test_a_confirmation_is_kept_apart() -> None:
    launches, fresh = [launch(0, [0.1])], [launch(1, [0.3])]
    result = extra_info(Case(), launches, [], confirmed(fresh, 2))["result"]
    assert result["confirmation"] == {"launches": [fresh[0].fields], "complete": False}
    assert result["launch_of_round"] == [0]
    assert confirmed(fresh, 1)["complete"]
