"""One step on all ranks: which it is, whose clock it is on, and what is left out."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from bench import timeline as module
from bench.outline import from_outline, outline
from bench.rank_trace import RankTrace
from bench.ranks import match_collectives
from bench.timeline import timeline
from bench.trace import analyse

US = 1e-6
Call = tuple[float, float, int]


def rank_trace(rank: int, steps: list[tuple[float, float, list[Call]]]) -> RankTrace:
    """Steps of (start, length, calls), µs; calls of (start, end, elements) from the step's start.
    The first half of a step is forward, the rest backward."""
    events: list[dict[str, Any]] = []

    def event(name: str, start: float, length: float, tid: int = 1, **args: Any) -> None:
        made = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": tid}
        events.append(made | {"ts": start, "dur": length, "args": args})

    for number, (start, length, calls) in enumerate(steps, 1):
        event(f"ProfilerStep#{number}", start, length)
        event("lockstep:forward", start, length / 2)
        event("lockstep:backward", start + length / 2, length / 2)
        for begun, ended, elements in calls:
            shape = {"Input Dims": [[elements]], "Input type": ["float"]}
            event("gloo:all_reduce", start + begun, ended - begun, 2, **shape)
    info = {"distributedInfo": {"rank": rank, "world_size": 2}}
    return analyse(info | {"traceEvents": events})


def record(traces: list[RankTrace], same_clock: bool = True) -> dict[str, Any]:
    """As the controller sees them: from outlines."""
    kept = [from_outline(json.loads(json.dumps(outline(trace, 1000)))) for trace in traces]
    found = timeline(kept, match_collectives(kept, same_clock))
    json.dumps(found, allow_nan=False)
    return found


LENGTHS = (1000, 3000, 2000)


def two_ranks(ahead_us: float = 0) -> list[RankTrace]:
    """Three steps of 1, 3 and 2 ms; rank 1 begins each 100 µs late, and its clock is ahead."""
    found = []
    for rank in range(2):
        late = 100 * rank
        steps = []
        for n, length in enumerate(LENGTHS):
            # It joins 100 µs after rank 0, which waits so long.
            calls = [(600.0, 800.0 - late, 4), (700.0, 900.0 - late, 8)]
            steps.append((10_000.0 * n + late + ahead_us * rank, float(length), calls))
        found.append(rank_trace(rank, steps))
    return found


def test_the_step_of_median_length_from_the_first_ranks_start() -> None:
    found = record(two_ranks())
    assert (found["step"], found["steps"], found["reason"]) == (3, 3, None)
    assert found["step_s"] == pytest.approx(2000 * US)
    first, second = found["ranks"]
    assert (first["start_s"], first["end_s"]) == (0, pytest.approx(2000 * US))
    assert (second["start_s"], second["end_s"]) == pytest.approx((100 * US, 2100 * US))
    assert second["phases"] == [
        {"name": "forward", "start_s": pytest.approx(100e-6), "end_s": pytest.approx(1100e-6)},
        {"name": "backward", "start_s": pytest.approx(1100e-6), "end_s": pytest.approx(2100e-6)},
    ]
    assert [call["bytes"] for call in first["collectives"]] == [16, 32]
    assert [call["kind"] for call in first["collectives"]] == ["all_reduce"] * 2
    waits = [[call["wait_s"] for call in rank["collectives"]] for rank in (first, second)]
    assert waits == [pytest.approx([100e-6] * 2), [0, 0]]
    call = second["collectives"][1]
    assert (call["start_s"], call["end_s"]) == pytest.approx((800 * US, 900 * US))
    assert found["left_out"] == {"ranks": 0, "collectives": 0}


def test_of_an_even_number_the_shorter_of_the_middle_two() -> None:
    traces = [rank_trace(r, [(0, 1000, []), (5000, 2000, [])]) for r in range(2)]
    assert record(traces)["step"] == 1


def test_a_step_is_as_long_as_on_its_slowest_rank() -> None:
    fast = rank_trace(0, [(0, 900, []), (5000, 800, []), (9000, 700, [])])
    slow = rank_trace(1, [(0, 1000, []), (5000, 3000, []), (9000, 2000, [])])
    found = record([fast, slow])
    assert (found["step"], found["step_s"]) == (3, pytest.approx(2000 * US))
    assert found["ranks"][0]["end_s"] == pytest.approx(700 * US)


def test_clocks_that_differ_are_aligned_first() -> None:
    """One second apart, and the same comes out as of one clock."""
    same, apart = record(two_ranks()), record(two_ranks(1e6), same_clock=False)
    assert (same["aligned"], apart["aligned"]) == (False, True)
    assert apart["ends_within_s"] == pytest.approx(0, abs=1e-9)
    for one, other in zip(same["ranks"], apart["ranks"], strict=True):
        assert other["start_s"] == pytest.approx(one["start_s"])
        for name in ("phases", "collectives"):
            for a, b in zip(one[name], other[name], strict=True):
                assert b == a | {key: pytest.approx(a[key]) for key in a if key.endswith("_s")}


def test_clocks_that_cannot_be_compared_give_a_reason_and_nothing_else() -> None:
    one_step = [rank_trace(r, [(1e6 * r, 1000, [(10, 20, 4)])]) for r in range(2)]
    found = record(one_step, same_clock=False)
    assert found == {
        "ranks": [],
        "reason": "the ranks' times cannot be compared: the ranks have different clocks",
    }
    nothing_common = [rank_trace(0, [(0, 1000, [])]), rank_trace(1, [])]
    assert "no profiled step" in record(nothing_common)["reason"]


def test_a_collective_that_was_not_matched_has_no_wait() -> None:
    found = record([rank_trace(0, [(0, 1000, [(10, 20, 4)])]), rank_trace(1, [(0, 1000, [])])])
    (call,) = found["ranks"][0]["collectives"]
    assert call["wait_s"] is None
    assert found["ranks"][1]["collectives"] == []


def test_a_record_is_bounded_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COLLECTIVES", 2)
    monkeypatch.setattr(module, "MOST_RANKS", 6)
    lengths = (10, 40, 20, 30)
    calls = [(100.0 * n, 100.0 * n + length, 4) for n, length in enumerate(lengths)]
    # How long each rank comes after the first: rank 4 is the one all the others wait for.
    late_by = (3.0, 2.0, 4.0, 0.0, 9.0, 5.0, 1.0)
    traces = [
        rank_trace(r, [(0, 1000, [(start + by, end, of) for start, end, of in calls])])
        for r, by in enumerate(late_by)
    ]
    found = record(traces)
    assert found["left_out"] == {"ranks": 4, "collectives": 2}
    assert {rank["rank"]: rank["why"] for rank in found["ranks"]} == {
        0: "the first rank, waits as long as most",
        3: "waits longest",
        4: "waits least, the one waited for",
    }
    starts = [call["start_s"] for call in found["ranks"][1]["collectives"]]
    assert starts == pytest.approx([100 * US, 300 * US])


def test_few_ranks_are_all_kept_and_need_no_reason() -> None:
    assert [rank["why"] for rank in record(two_ranks())["ranks"]] == [None, None]


def test_gpu_steps_without_a_known_length_do_not_count() -> None:
    traces = two_ranks()
    for n, trace in enumerate(traces):
        *known, last = trace.steps
        traces[n] = dataclasses.replace(
            trace, steps=(*known, dataclasses.replace(last, step_ns=None))
        )
    assert record(traces)["step"] == 1
