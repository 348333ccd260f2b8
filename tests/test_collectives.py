"""Collectives: the buffers and their check, the loop, and a sweep on two real gloo ranks."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
import torch
import torch.distributed as dist

from bench.case import COLLECTIVES, DTYPE_BYTES, Case
from bench.worker import collectives
from bench.worker.collectives import Buffers, CollectiveLoop, PairsLoop
from bench.worker.device import CpuDevice
from bench.worker.loop import Ranks, timed_pass
from tests.sweeps import SHORT, Sweep, sweep

ALONE = Ranks(1, None)


def case_of(kind: str, ranks: int = 2, **fields: Any) -> Case:
    own = {"model": "", "strategy": "collective", "collective": kind, "world_size": ranks}
    return Case.from_dict(own | {"bytes": 4800} | fields)


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
@pytest.mark.parametrize("ranks", [2, 3, 200])
def test_the_check_is_exact_in_every_dtype_at_every_number_of_ranks(
    dtype: str, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of("all_reduce", ranks, dtype=dtype)
    own = Buffers(case, 1, CpuDevice())
    many = own.sent.numel()

    def all_reduce(tensor: torch.Tensor, left_out: int | None = None) -> None:
        """Rank by rank in the tensor's own arithmetic, as a ring adds."""
        total = torch.zeros_like(tensor)
        for rank in range(ranks):
            if rank != left_out:
                of_rank = Buffers(case, rank, CpuDevice())._contribution(torch.arange(many))
                total += of_rank.to(tensor.dtype)
        tensor.copy_(total)

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    assert own.right(ALONE)
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: all_reduce(tensor, left_out=0))
    assert not own.right(ALONE)
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: None)
    assert not own.right(ALONE)


def test_one_wrong_element_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = Buffers(case_of("broadcast"), 0, CpuDevice())
    monkeypatch.setattr(dist, "broadcast", lambda tensor, root: None)  # rank 0 has it already
    assert buffers.right(ALONE)
    monkeypatch.setattr(dist, "broadcast", lambda tensor, root: tensor[-1].add_(0.5))
    assert not buffers.right(ALONE)


@pytest.mark.parametrize(
    ("kind", "sent", "received"),
    [
        ("all_reduce", 1200, 0),
        ("broadcast", 1200, 0),
        ("all_gather", 400, 1200),
        ("reduce_scatter", 1200, 400),
        ("pairs", 1200, 1200),
    ],
)
def test_bytes_are_the_larger_buffer(kind: str, sent: int, received: int) -> None:
    buffers = Buffers(case_of(kind, ranks=3), 0, CpuDevice())
    assert (buffers.sent.numel(), buffers.received.numel()) == (sent, received)


def test_the_loop_is_timed_as_training_is() -> None:
    calls: list[int] = []
    device = CpuDevice()
    loop = CollectiveLoop(lambda: calls.append(loop.step_index), device, [0])
    own, phases, slowest = timed_pass(
        loop, device, ALONE, min_steps=5, precision=1e9, max_seconds=1e-9
    )
    assert calls == [-1, 0, 1, 2, 3, 4]  # one leads in
    assert own == slowest == phases["communication"]


def test_a_pair_waits_for_no_other_in_its_own_time() -> None:
    exchanged: list[int] = []
    device = CpuDevice()
    buffers = Buffers(case_of("pairs", ranks=4), 2, device)
    buffers.exchange = exchanged.append  # type: ignore[method-assign]
    loop = PairsLoop(buffers, ALONE, device, [0])
    loop.step()
    assert exchanged == [0, 1, 3]
    assert len(loop.phases) == 2 * 6
    phases = {name: [1.0, 2.0, 3.0] for name in loop.phases}
    assert loop.own_pairs(phases) == {"0": 2.0, "1": 2.0, "3": 2.0}


@pytest.mark.parametrize("message", ["ProcessGroupGloo does not support x", "Invalid scalar type"])
def test_what_a_backend_lacks_is_said_in_words(message: str) -> None:
    error = collectives._not_there(RuntimeError(message), case_of("all_gather"))
    assert str(error).startswith("gloo here has no all_gather of float32")
    lost = RuntimeError("Connection closed by peer")
    assert collectives._not_there(lost, case_of("all_gather")) is lost


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return sweep(
        tmp_path_factory.mktemp("collectives"),
        *("--matrix", "collectives", "--axis", "bytes=1MiB,4MiB", "--axis", "world_size=2"),
        *("--axis", "dtype=bfloat16", "--min-busbw", "1000GB"),
        *SHORT,
        *("--max-seconds", "0.05"),
    )


def test_every_collective_is_measured_and_right(measured: Sweep) -> None:
    ids = {entry["extra_info"]["id"] for entry in measured.document["benchmarks"]}
    assert ids == {
        f"collective-{kind}-w2-{size}-bfloat16" for kind in COLLECTIVES for size in ("1MiB", "4MiB")
    }, measured.output[-3000:]
    for name in ids:
        assert measured.launch(name)["checks"]["values_right"] is True
        result = measured.entry(name)["extra_info"]["result"]
        assert result["throughput_samples_per_s"] is result["global_batch_size"] is None


def test_pairs_are_known_to_both_of_their_ranks(measured: Sweep) -> None:
    launch = measured.launch("collective-pairs-w2-4MiB-bfloat16")
    (first, second) = (rank["pair_s"] for rank in launch["ranks"])
    assert first.keys() == {"1"} and second.keys() == {"0"}
    assert max(first["1"], second["0"]) < launch["median_step_s"]
    steps = launch["ranks"][0]["step_s"]
    assert statistics.median(steps) == launch["ranks"][0]["median_step_s"]


def test_a_network_below_its_rate_fails_the_sweep_by_name(measured: Sweep) -> None:
    assert measured.status == 1
    assert "10 passed" in measured.output and " failed" not in measured.output
    below = [line for line in measured.output.splitlines() if "below 1000 GB/s" in line]
    # The largest size of each series, and its one pair.
    assert [line.split(",")[0] for line in below] == [
        "all_reduce of 4MiB of bfloat16",
        "pairs of 4MiB of bfloat16",
    ]
    assert measured.document["lockstep"]["settings"]["min_busbw_bytes_per_s"] == 1e12


def test_the_lines_of_collectives_show_bandwidth_and_no_samples(measured: Sweep) -> None:
    lines = [line for line in measured.output.splitlines() if line.startswith("collective-")]
    assert len(lines) == 10
    assert all("samples" not in line and "busbw" in line for line in lines)
    assert all("/s algbw" in line for line in lines if "pairs" not in line)
