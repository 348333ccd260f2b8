"""The main job as a user starts it: real pytest, real torch, real gloo ranks."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from bench.trace import analyse
from tests.sweeps import (
    MODELS,
    SHORT,
    Sweep,
    models_of,
    needs_shared,
    results,
    sweep,
)


@pytest.fixture(scope="module")
def strategies(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """All strategies of one small model, in two launches."""
    return sweep(
        tmp_path_factory.mktemp("strategies"),
        *SHORT,
        *("--launches", "2"),
        *("--axis", "model=mlp", "--axis", "strategy=single,dp,data_parallel,ddp,all_reduce"),
        *("--axis", "world_size=1,2", "--axis", "batch_size=8", "--axis", "scaling=weak"),
        *("-k", "test_scaling"),
    )


def test_the_times_in_the_json_are_the_slowest_ranks_bit_for_bit(strategies: Sweep) -> None:
    entry = strategies.entry("ddp-mlp-w2-b8")
    expected: list[float] = []
    launch_of_round: list[int] = []
    for launch in entry["extra_info"]["result"]["launches"]:
        ranks = [rank["step_s"] for rank in launch["ranks"]]
        assert len(ranks) == 2
        expected += [max(times) for times in zip(*ranks, strict=True)]
        launch_of_round += [launch["launch"]] * len(ranks[0])
    assert entry["stats"]["data"] == expected
    assert entry["extra_info"]["result"]["launch_of_round"] == launch_of_round
    assert set(launch_of_round) == {0, 1}
    assert entry["stats"]["median"] == statistics.median(expected)


def test_every_cell_has_an_outcome(strategies: Sweep) -> None:
    outcomes = {each["id"]: each["outcome"] for each in strategies.document["lockstep"]["outcomes"]}
    assert outcomes == {
        "single-mlp-w1-b8": "ok",
        "dp-mlp-w1-b8": "ok",
        "dp-mlp-w2-b8": "skipped",
        "data_parallel-mlp-w1-b8": "skipped",
        "data_parallel-mlp-w2-b8": "skipped",
        "ddp-mlp-w1-b8": "ok",
        "ddp-mlp-w2-b8": "ok",
        "all_reduce-mlp-w1-b8": "ok",
        "all_reduce-mlp-w2-b8": "ok",
    }
    assert strategies.status == 0, strategies.output


def test_dataparallel_on_a_cpu_is_no_parallel_result(strategies: Sweep) -> None:
    """A25."""
    result = strategies.entry("dp-mlp-w1-b8")["extra_info"]["result"]
    assert result["label"] == "not parallel: plain module"
    assert "accelerators only" in strategies.outcome("dp-mlp-w2-b8")["reason"]


def test_threads_are_equal_at_every_world_size(strategies: Sweep) -> None:
    """B01: torchrun alone would give one rank all cores and two ranks one thread each."""
    threads = {
        rank["threads"]
        for entry in strategies.document["benchmarks"]
        for launch in entry["extra_info"]["result"]["launches"]
        for rank in launch["ranks"]
    }
    assert threads == {strategies.document["lockstep"]["settings"]["threads_per_rank"]}


@pytest.mark.parametrize("strategy", ["ddp", "all_reduce"])
def test_two_ranks_train_as_one_process_would(strategies: Sweep, strategy: str) -> None:
    launch = strategies.launch(f"{strategy}-mlp-w2-b8")
    checks = launch["checks"]
    assert checks["parameters_equal"] is True
    assert checks["gradients_match"] is True
    assert checks["gradient_method"] == "one process on the concatenated batch"
    assert checks["reduced_bytes_per_step"] == launch["gradient_bytes"] == 67 * 4
    assert checks["reduced_bytes_equal_gradient_bytes"] is True


def test_what_is_recorded_of_a_case(strategies: Sweep) -> None:
    launch = strategies.launch("ddp-mlp-w2-b8")
    assert launch["buckets"]["rebuilt_bytes"] == [268]
    assert launch["no_communication_step_s"] > 0
    assert launch["profiled_step_s"] > 0
    assert launch["checkpoint"]["bytes"] > 268
    assert launch["across_ranks"]["collectives"] == 5
    for rank in launch["ranks"]:
        assert rank["communication"]["calls_per_step"] == 1
        assert rank["communication"]["bytes_per_step"] == 268
        assert set(rank["phases"]) == {"data", "forward", "backward", "optimizer"}
        assert rank["memory"]["peak_bytes"] > 10_000_000
        assert all(seconds >= 0 for seconds in rank["lifecycle"].values())
        assert rank["first_step_s"] > 0
    by_hand = strategies.launch("all_reduce-mlp-w2-b8")
    assert by_hand["ranks"][0]["phases"]["communication"]["mean_s"] > 0
    assert by_hand["ranks"][0]["communication"]["calls_per_step"] == 4  # a call a parameter
    assert by_hand["no_communication_step_s"] is None


def test_when_gradients_are_ready_and_what_is_predicted_from_it(strategies: Sweep) -> None:
    """4 parameters of 268 bytes; the last layer's gradients come first."""
    for world_size in (1, 2):
        launch = strategies.launch(f"ddp-mlp-w{world_size}-b8")
        ready = launch["gradient_ready"]
        assert (ready["reason"], ready["parameters"], sum(ready["bytes"])) == (None, 4, 268)
        assert sorted(ready["order"]) == [0, 1, 2, 3] and set(ready["order"][:2]) == {2, 3}
        assert ready["ready_s"] == sorted(ready["ready_s"])
        end_s = ready["forward_s"] + ready["backward_s"]
        assert ready["forward_s"] < ready["ready_s"][0] <= ready["ready_s"][-1] <= end_s
        assert end_s < ready["step_s"]
        assert all(0 < len(rank["silent_step_s"]) <= 50 for rank in launch["ranks"])
    assert strategies.launch("ddp-mlp-w1-b8")["no_communication_step_s"] is None
    assert strategies.launch("all_reduce-mlp-w2-b8")["gradient_ready"] is None
    done = subprocess.run(
        [
            *(sys.executable, "-m", "reports", "predict", str(strategies.json_path)),
            *("--link", "10Gbit,20us", "--json"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = json.loads(done.stdout)["predictions"]
    assert [case["world_size"] for case in found["cases"]] == [8, 64, 512]
    assert all(case["low_s"] <= case["step_s"] <= case["high_s"] for case in found["cases"])


@pytest.mark.parametrize("strategy", ["ddp", "all_reduce"])
def test_one_step_on_all_ranks(strategies: Sweep, strategy: str) -> None:
    entry = strategies.entry(f"{strategy}-mlp-w2-b8")
    first, second = entry["extra_info"]["result"]["launches"]
    assert "timeline" not in second  # one step of a case is kept
    record = first["timeline"]
    assert (record["reason"], record["steps"], record["aligned"]) == (None, 5, False)
    assert record["left_out"] == {"ranks": 0, "collectives": 0}
    assert [rank["rank"] for rank in record["ranks"]] == [0, 1]
    assert min(rank["start_s"] for rank in record["ranks"]) == 0
    lengths = [rank["end_s"] - rank["start_s"] for rank in record["ranks"]]
    assert max(lengths) == pytest.approx(record["step_s"])
    for rank, of_rank in zip(record["ranks"], first["ranks"], strict=True):
        names = [phase["name"] for phase in rank["phases"]]
        assert names == list(of_rank["phases"])
        borders = [phase[end] for phase in rank["phases"] for end in ("start_s", "end_s")]
        assert borders == sorted(borders)
        assert rank["start_s"] <= borders[0]
        assert borders[-1] <= rank["end_s"]
        calls, counted = rank["collectives"], of_rank["communication"]
        assert [call["bytes"] for call in calls] == [call["bytes"] for call in counted["calls"]]
        assert len(calls) == counted["calls_per_step"]
        assert {call["kind"] for call in calls} == {"all_reduce"}
        for call in calls:
            assert rank["start_s"] <= call["start_s"] <= call["end_s"]
            assert 0 <= call["wait_s"] <= call["end_s"] - call["start_s"]


def test_a_step_that_is_drawn_is_made_of_what_was_timed(cells: Sweep) -> None:
    """Of a model of known times: forward 20 ms, backward 40 ms, and rank 1 another 50 ms late."""
    ((_, launch),) = results(cells, model=SLEEP, strategy="ddp")
    for rank, of_rank in zip(launch["timeline"]["ranks"], launch["ranks"], strict=True):
        drawn = {one["name"]: one["end_s"] - one["start_s"] for one in rank["phases"]}
        timed = {name: of_rank["phases"][name]["median_s"] for name in ("forward", "backward")}
        for name, seconds in timed.items():
            assert 0.6 < drawn[name] / seconds < 1.7, (name, drawn, timed)
        assert drawn["forward"] + drawn["backward"] > 0.8 * (rank["end_s"] - rank["start_s"])
    early, late = launch["timeline"]["ranks"]
    waits = [max(call["wait_s"] for call in rank["collectives"]) for rank in (early, late)]
    assert waits[0] > 0.04 > waits[1]
    assert [call["bytes"] for call in early["collectives"]] == [2**20] * 4


def test_traces_can_be_kept_and_read_again(tmp_path: Path) -> None:
    ran = sweep(
        tmp_path,
        *(*SHORT, "--save-traces", "--passes", "profiled", "--axis", "model=mlp"),
        *("--axis", "strategy=ddp", "--axis", "world_size=2", "--axis", "scaling=weak"),
        *("--axis", "batch_size=32", "-k", "test_scaling"),
    )
    assert ran.status == 0, ran.output
    traces = sorted((tmp_path / "results" / "run.traces").iterdir())
    assert [trace.name for trace in traces] == [
        f"ddp-mlp-w2.launch0.rank{rank}.json.gz" for rank in range(2)
    ]
    for rank, (kept, record) in enumerate(
        zip(traces, ran.launch("ddp-mlp-w2")["ranks"], strict=True)
    ):
        found = analyse(kept)
        assert found.rank == rank
        recorded = {**record["communication"], "calls": None}
        assert {**found.to_json(), "calls": None} == recorded


def test_versions_stay_out_of_what_other_tools_follow(strategies: Sweep) -> None:
    """A series is followed across torch versions by name, fullname and machine_info."""
    version = strategies.document["lockstep"]["interpreters"][""]["torch"]
    assert version not in json.dumps(strategies.document["machine_info"])
    for entry in strategies.document["benchmarks"]:
        assert version not in entry["fullname"] + entry["name"]
        assert entry["params"] == entry["extra_info"]["case"]


def test_the_journal_holds_every_launch(strategies: Sweep) -> None:
    entries = strategies.journal
    assert entries[0]["type"] == "header"
    assert entries[-1]["type"] == "end"  # nothing is left to resume
    assert len(entries) == 1 + 2 * 6 + 1
    times = strategies.entry("ddp-mlp-w2-b8")["stats"]["data"]
    written = [e["launch_result"]["step_s"] for e in entries[1:-1] if e["id"] == "ddp-mlp-w2-b8"]
    assert written[0] + written[1] == times


FORTY_LAYERS = """
import torch
from torch import nn
def build(): return nn.Sequential(*[nn.Linear(256, 256) for _ in range(40)])
def batch(n, rank, step): return (torch.randn(n, 256),), torch.randn(n, 256)
def loss(output, target): return (output - target).pow(2).mean()
"""
RAISES = """
import itertools
import torch
from torch import nn
calls = itertools.count(1)
def build(): return nn.Linear(8, 4)
def batch(n, rank, step): return (torch.randn(n, 8),), torch.randn(n, 4)
def loss(output, target):
    if torch.distributed.get_rank() == 1 and next(calls) == 3:
        raise ValueError("a sample of nothing but zeros")
    return (output - target).abs().sum()
"""
#: 4 layers: 20 ms of forward, 40 ms of backward, and rank 1 another 50 ms late.
SLEEP = "sleep:layers=4:forward_ms=5:backward_ms=10:mb=1:late_rank=1:late_ms=50"
#: The cell that fails stands before others: they must not suffer from it.
CELLS = """
[[scaling]]
model = ["RAISES"]
strategy = ["ddp"]
world_size = [2]
batch_size = [4]

[[scaling]]
world_size = [2]

[[scaling]]
model = ["cifar_cnn"]
strategy = ["ddp"]
world_size = [2]
batch_size = [2]
init_method = ["env", "tcp", "file"]

[[scaling]]
model = ["cifar_cnn"]
strategy = ["ddp"]
world_size = [2]
batch_size = [2]
launcher = ["spawn"]
data = ["loader"]

[[scaling]]
model = ["SLEEP"]
strategy = ["single", "ddp", "all_reduce"]
world_size = [2]
bucket_cap_mb = [1]

[[buckets]]
model = ["FORTY"]
strategy = ["ddp"]
world_size = [2]
batch_size = [4]
bucket_cap_mb = ["unset", 25]
"""
MANY_SMALL = """
[[buckets]]
model = ["MODEL"]
strategy = ["ddp"]
world_size = [2]
batch_size = [4]
bucket_cap_mb = [0.1, 0.25, 25]
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Cells of many kinds, from a matrix file: one launch a launcher serves them all."""
    folder = tmp_path_factory.mktemp("cells")
    (folder / "forty.py").write_text(FORTY_LAYERS)
    (folder / "raises.py").write_text(RAISES)
    text = CELLS.replace("SLEEP", SLEEP)
    text = text.replace("FORTY", f"{folder}/forty.py").replace("RAISES", f"{folder}/raises.py")
    if MODELS.is_dir():
        text += MANY_SMALL.replace("MODEL", f"{MODELS}/m24_many_small_params.py")
    (folder / "cells.toml").write_text(text)
    return sweep(
        folder,
        *(*SHORT, "--matrix", str(folder / "cells.toml")),
        # A shell that sat in another job.
        PET_NNODES="2",
        RANK="7",
        WORLD_SIZE="64",
        MASTER_ADDR="elsewhere.invalid",
    )


@pytest.mark.parametrize(
    "how",
    [
        {"init_method": "env", "launcher": "torchrun"},
        {"init_method": "tcp", "launcher": "torchrun"},
        {"init_method": "file", "launcher": "torchrun"},
        {"init_method": "env", "launcher": "spawn"},
    ],
    ids=lambda how: "-".join(how.values()),
)
def test_ranks_meet_and_train_as_one(cells: Sweep, how: dict[str, str]) -> None:
    ((_, launch),) = results(cells, model="cifar_cnn", **how)
    assert launch["checks"]["parameters_equal"] is True
    assert launch["checks"]["gradients_match"] is True
    assert launch["checks"]["reduced_bytes_per_step"] == launch["gradient_bytes"]
    assert [rank["rank"] for rank in launch["ranks"]] == [0, 1]
    assert len({rank["pid"] for rank in launch["ranks"]}) == 2


def test_a_loaders_data_is_named_and_its_time_told_apart(cells: Sweep) -> None:
    ((_, loaded),) = results(cells, model="cifar_cnn", data="loader")
    made_once = results(cells, model="cifar_cnn", data="synthetic")[0][1]
    assert loaded["data_source"] == "FakeData 3x32x32, no data root given"
    assert made_once["data_source"].startswith("synthetic")
    for mine, other in zip(loaded["ranks"], made_once["ranks"], strict=True):
        assert mine["phases"]["data"]["median_s"] > 10 * other["phases"]["data"]["median_s"]


def test_a_model_of_known_times(cells: Sweep) -> None:
    ((_, single),) = results(cells, model=SLEEP, strategy="single")
    phases = single["ranks"][0]["phases"]
    # No machine waits less than it was asked to.
    assert single["median_step_s"] >= 0.060
    assert phases["forward"]["median_s"] >= 0.020
    assert phases["backward"]["median_s"] >= 0.040
    # Nobody is late where there is no rank 1.
    assert phases["forward"]["median_s"] < single["median_step_s"] - 0.040


@pytest.mark.parametrize("strategy", ["ddp", "all_reduce"])
def test_a_rank_that_is_late_is_named_as_the_one_waited_for(cells: Sweep, strategy: str) -> None:
    ((_, launch),) = results(cells, model=SLEEP, strategy=strategy)
    assert launch["median_step_s"] >= 0.110
    early, late = launch["ranks"]
    assert late["phases"]["forward"]["median_s"] >= 0.070
    for rank in (early, late):
        assert rank["communication"]["calls_per_step"] == 4
        assert rank["communication"]["bytes_per_step"] == 4 * 2**20
    # The early rank spends the other's 50 ms inside its all-reduces, computing nothing.
    assert launch["across_ranks"]["waited_for"] == 1
    assert launch["across_ranks"]["wait_s"][0] >= 0.045
    assert early["communication"]["exposed_s"] >= 0.045
    assert late["communication"]["exposed_s"] < early["communication"]["exposed_s"] / 2
    if strategy == "ddp":
        # Two buckets wait at the same time, on two of gloo's threads: counted once.
        waits = early["communication"]
        assert waits["summed_s"] > 1.2 * waits["all_reduce_s"]
    for rank in (early, late):
        calls = rank["communication"]["calls"]
        assert [call["bytes"] for call in calls] == [2**20] * 4
        if strategy == "ddp":
            assert [call["bucket"] for call in calls] == [0, 1, 2, 3]
        assert all(call["busbw_bytes_per_s"] > 0 for call in calls)
    assert len(launch["across_ranks"]["calls"]) == 4


def test_an_unset_bucket_cap_is_not_25(cells: Sweep) -> None:
    """A23: unset has a first bucket of 1 MiB."""
    found = results(cells, model=next(m for m in models_of(cells) if m.endswith("forty.py")))
    bytes_of = {case.bucket_cap_mb: each["buckets"]["rebuilt_bytes"] for case, each in found}
    assert {cap: len(sizes) for cap, sizes in bytes_of.items()} == {None: 2, 25: 1}
    for _, launch in found:
        assert sum(launch["buckets"]["rebuilt_bytes"]) == launch["gradient_bytes"]
        for rank in launch["ranks"]:
            calls = rank["communication"]["calls_per_step"]
            assert calls == len(launch["buckets"]["rebuilt_bytes"])


@needs_shared
def test_all_reduces_of_a_step_follow_the_bucket_cap(cells: Sweep) -> None:
    """A21: 6, 3 and 1 from the second step on, when DDP has rebuilt its buckets."""
    found = results(cells, model=f"{MODELS}/m24_many_small_params.py")
    calls = {
        case.bucket_cap_mb: [rank["communication"]["calls_per_step"] for rank in launch["ranks"]]
        for case, launch in found
    }
    assert calls == {0.1: [6, 6], 0.25: [3, 3], 25: [1, 1]}


def test_a_rank_that_raises_costs_its_case_and_no_other(cells: Sweep) -> None:
    assert cells.status == 1
    outcomes = cells.document["lockstep"]["outcomes"]
    (failed,) = (outcome for outcome in outcomes if outcome["outcome"] != "ok")
    failure = failed["failure"]
    # Rank 0 saw a connection close: that is not the cause.
    assert (failure["rank"], failure["type"]) == (1, "ValueError")
    assert (failure["phase"], failure["step"]) == ("warm-up", 2)
    assert failure["message"] == "a sample of nothing but zeros"
    assert "in loss" in failure["traceback"]
    assert f"rank 1 failed in warm-up step 2 of {failed['id']}: ValueError" in cells.output
    assert "Traceback" not in cells.output  # it is in the record, and with -v
    # It was the first; all others have numbers and it has none.
    assert outcomes[0] == failed
    assert len(cells.document["benchmarks"]) == len(outcomes) - 1
    assert not [model for model in models_of(cells) if model.endswith("raises.py")]


def test_disabled_benchmarks_run_every_case_once(tmp_path: Path) -> None:
    """D11: no file is written, and (see ``sweep``) no process is left."""
    ran = sweep(
        tmp_path,
        *("--benchmark-disable", "--axis", "model=mlp", "--axis", "strategy=ddp"),
        *("--axis", "world_size=2", "-k", "test_scaling and not strong"),
    )
    assert ran.status == 0, ran.output
    assert "nothing measured" in ran.output
    assert not ran.document


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--axis", "wolrd_size=2"), "unknown axis 'wolrd_size'; did you mean 'world_size'?"),
        (("--axis", "backend=nccll"), "'nccll' is not known; did you mean 'nccl'?"),
        (("--matrix", "quik"), "did you mean 'quick'?"),
        (("--passes", "timed,profild"), "'profild' is not a pass"),
        (("--precision", "0"), "--precision must be above 0"),
        (("--max-seconds", "nan"), "--max-seconds must be above 0"),
        (("--case-timeout", "inf"), "--case-timeout must be above 0"),
        (("--axis", "batch_size=5", "--axis", "world_size=2"), "cannot be divided"),
    ],
)
def test_bad_options_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = sweep(tmp_path, *arguments)
    assert ran.status == 4  # pytest's usage error
    assert message in ran.output
    assert "Traceback" not in ran.output
    errors = [line for line in ran.output.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 1


def test_the_cells_can_be_listed(tmp_path: Path) -> None:
    ran = sweep(tmp_path, "--collect-only", "-q")
    assert ran.status == 0
    assert "bench/test_scaling.py::test_scaling[ddp-cifar_cnn-w1]" in ran.output
