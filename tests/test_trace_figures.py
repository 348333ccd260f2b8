"""What a step's time goes to, and its collectives one by one: by hand, and on recorded traces."""

from __future__ import annotations

import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.outline import from_outline, outline
from bench.ranks import match_collectives
from bench.trace import RankTrace, analyse

SHARED = Path(
    os.environ.get("LOCKSTEP_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)
US = 1e-6


def recorded(name: str) -> Path:
    path = SHARED / "traces" / name
    if not path.exists():
        pytest.skip(f"recorded traces are absent: no {path}; set LOCKSTEP_SHARED to their folder")
    return path


def event(category: str, name: str, start: float, length: float, tid: int, **args: Any) -> Any:
    fields = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "args": args}
    return fields | {"ts": start, "dur": length}


def step(number: int, start: float, length: float = 1000) -> Any:
    return event("user_annotation", f"ProfilerStep#{number}", start, length, 1)


def op(start: float, length: float) -> Any:
    return event("cpu_op", "aten::mm", start, length, 1)


def gloo(start: float, length: float, elements: int, kind: str = "all_reduce", tid: int = 2) -> Any:
    shapes = {"Input Dims": [[elements]], "Input type": ["float"]}
    return event("user_annotation", f"gloo:{kind}", start, length, tid, **shapes)


class Gpu:
    """Events of kernels with their launches: `at` on the CPU, `start` on the GPU."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def run(self, at: float, start: float, length: float, name: str = "gemm", **args: Any) -> None:
        number = len(self.events)
        category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        call = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
        self.events += [
            event("cuda_runtime", call, at, 5, 1, correlation=number),
            event(category, name, start, length, 7, correlation=number, **args),
        ]


def all_reduce(elements: int, ranks: int = 4, group: str = "0") -> dict[str, Any]:
    sizes = {"In msg nelems": elements, "dtype": "Float", "Group size": ranks}
    return {"Collective name": "allreduce", "Process Group Name": group, **sizes}


NCCL = "ncclDevKernel_Generic"


def three_gpu_steps(**of_kernel: Any) -> RankTrace:
    """Each step, 700 us behind the CPU, from its first kernel on: 0-600 compute, 500-700
    communication, 800-850 a copy, nothing until 1000; the last has no next."""
    gpu = Gpu()
    for n in range(3):
        at, start = 1000 * n, 1000 * n + 700
        gpu.events.append(step(n, at, 990))
        gpu.run(at + 10, start, 600)
        gpu.run(at + 20, start + 500, 200, NCCL, **of_kernel)
        gpu.run(at + 30, start + 800, 50, "Memcpy DtoD")
    return analyse(gpu.events)


# --- by hand


def test_where_the_time_of_a_gpu_step_goes() -> None:
    trace = three_gpu_steps(**all_reduce(1000))
    record = trace.to_json()
    first, second, last = record["per_step"]
    for found in (first, second):
        assert found["step_s"] == pytest.approx(1000 * US)
        assert found["compute_s"] == pytest.approx(600 * US)
        assert found["memory_s"] == pytest.approx(50 * US)
        assert found["idle_s"] == pytest.approx(250 * US)
        assert found["unknown_s"] == 0
    # What the last one computed is known, how long it took is not.
    assert (last["step_s"], last["idle_s"]) == (None, None)
    assert last["compute_s"] == pytest.approx(600 * US)
    assert record["compute_s"] == pytest.approx(600 * US)
    assert record["memory_s"] == pytest.approx(50 * US)
    assert record["idle_s"] == pytest.approx(250 * US)
    assert record["unknown_s"] == 0
    assert record["explained_ratio"] == pytest.approx(0.75)


def test_communication_of_unknown_kind_explains_nothing_where_it_runs_alone() -> None:
    record = three_gpu_steps().to_json()
    assert record["unknown_s"] == pytest.approx(200 * US)
    assert record["idle_s"] == pytest.approx(250 * US)
    # 100 of its 200 us pass beside a kernel whose purpose is known.
    assert record["explained_ratio"] == pytest.approx(0.65)


def test_a_kernel_of_another_step_fills_this_ones_time() -> None:
    """A step's own time holds whatever runs in it; its compute is what it launched."""
    gpu = Gpu()
    gpu.events += [step(1, 0), step(2, 1000)]
    gpu.run(10, 100, 200)
    gpu.run(20, 1300, 300)  # launched by step 1, runs after the first kernel of step 2
    gpu.run(1010, 1100, 100)
    first, second = analyse(gpu.events).per_step()
    assert (first.step_ns, first.idle_ns) == (1_000_000, 800_000)
    assert (first.compute_ns, second.compute_ns) == (500_000, 100_000)


def test_where_the_time_of_a_cpu_step_goes() -> None:
    trace = analyse(
        {
            "distributedInfo": {"world_size": 4, "rank": 0},
            "traceEvents": [
                *(step(1, 0), op(100, 300), gloo(300, 200, 250), gloo(600, 100, 500)),
                *(step(2, 1000), op(1100, 500), gloo(1300, 400, 250), gloo(1800, 100, 500)),
            ],
        }
    )
    record = trace.to_json()
    assert [found["idle_s"] for found in record["per_step"]] == pytest.approx([500 * US, 300 * US])
    assert [found["compute_s"] for found in record["per_step"]] == pytest.approx([3e-4, 5e-4])
    assert record["explained_ratio"] == pytest.approx(1200 / 2000)
    first, second = record["calls"]
    assert (first["kind"], first["bytes"], first["dtype"]) == ("all_reduce", 1000, "float32")
    # The mean of 200 and 400 us, turned into a rate once: 1000 B / 300 us x 2 x 3/4.
    assert first["duration_s"] == pytest.approx(300 * US)
    assert first["busbw_bytes_per_s"] == pytest.approx(1000 / 300e-6 * 1.5)
    assert (second["bytes"], second["duration_s"]) == (2000, pytest.approx(100 * US))


def test_calls_take_the_size_of_their_own_group() -> None:
    gpu = Gpu()
    gpu.events.append(step(1, 0))
    gpu.run(10, 100, 100, NCCL, **all_reduce(1000, ranks=2, group="1"))
    gpu.run(20, 300, 100, NCCL, **all_reduce(1000, ranks=8))
    gpu.run(30, 500, 100, NCCL, **(all_reduce(1000) | {"Collective name": "broadcast"}))
    trace = analyse({"distributedInfo": {"world_size": 8}, "traceEvents": gpu.events})
    rates = [call["busbw_bytes_per_s"] for call in trace.calls()]
    assert rates == pytest.approx([4000 / 1e-4, 4000 / 1e-4 * 1.75])
    assert [call["group"] for call in trace.calls()] == ["1", "0"]
    assert [call["kind"] for call in trace.calls(None)] == ["all_reduce"] * 2 + ["broadcast"]
    assert [call["kind"] for call in trace.calls("broadcast")] == ["broadcast"]


@pytest.mark.parametrize("odd", [gloo(1300, 9, 999), gloo(1300, 9, 250, "broadcast"), None])
def test_calls_of_steps_that_differ_are_not_put_together(odd: Any) -> None:
    events = [step(1, 0), gloo(300, 200, 250), step(2, 1000), op(1000, 900)]
    trace = analyse([*events, *([odd] if odd else [])])
    assert trace.calls() == []
    assert trace.calls("reduce") == []
    assert analyse([gloo(300, 200, 250)]).calls() == []


def test_without_a_size_or_a_world_there_is_no_rate() -> None:
    nameless = event("user_annotation", "gloo:all_reduce", 300, 100, 2)
    for events, world_size in (([nameless], 2), ([gloo(300, 100, 8)], None)):
        header = {"distributedInfo": {"world_size": world_size}}
        (call,) = analyse(header | {"traceEvents": [step(1, 0), *events]}).calls()
        assert call["duration_s"] == pytest.approx(100 * US)
        assert call["busbw_bytes_per_s"] is None


def test_calls_across_ranks_are_transfers() -> None:
    ranks = []
    for rank, late in ((0, 0), (1, 50)):
        events = [
            *(step(1, 0), gloo(100 + late, 200 - late, 250), gloo(400, 100, 500)),
            *(step(2, 1000), gloo(1100 + late, 300 - late, 250), gloo(1600, 100, 500)),
        ]
        info = {"rank": rank, "world_size": 2}
        ranks.append(analyse({"distributedInfo": info, "traceEvents": events}))
    across = match_collectives(ranks, same_clock=True)
    first, second = across.to_json()["calls"]
    assert first == {
        "kind": "all_reduce",
        "bytes": 1000,
        "transfer_s": pytest.approx(200 * US),  # the mean of 150 and 250
        "busbw_bytes_per_s": pytest.approx(1000 / 200e-6),
    }
    assert second["transfer_s"] == pytest.approx(100 * US)
    # The controller sees outlines, and the same.
    kept = [from_outline(json.loads(json.dumps(outline(trace, 100)))) for trace in ranks]
    assert match_collectives(kept, same_clock=True).to_json() == across.to_json()
    assert across.to_json("broadcast")["calls"] == []


def test_traces_of_two_of_eight_ranks_do_not_make_a_bus_of_two() -> None:
    def rate(world_size: int | None, **of_kernel: Any) -> float:
        ranks = []
        for rank in range(2):
            gpu = Gpu()
            gpu.events.append(step(1, 0))
            gpu.run(10, 100, 100, NCCL, **of_kernel)
            info = {"rank": rank, "world_size": world_size}
            ranks.append(analyse({"distributedInfo": info, "traceEvents": gpu.events}))
        (call,) = match_collectives(ranks, same_clock=True).to_json()["calls"]
        found = call["busbw_bytes_per_s"]
        assert isinstance(found, float)
        return found

    silent = all_reduce(1000) | {"Group size": None}
    assert rate(8, **all_reduce(1000, ranks=8)) == pytest.approx(4000 / 1e-4 * 1.75)
    assert rate(8, **silent) == pytest.approx(4000 / 1e-4 * 1.75)
    assert rate(None, **silent) == pytest.approx(4000 / 1e-4)


# --- any work, and recorded traces

SPANS = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 900)), max_size=8)


@given(SPANS, SPANS, SPANS)
def test_the_parts_of_a_step_are_parts_of_it(
    compute: list[tuple[int, int]], named: list[tuple[int, int]], nameless: list[tuple[int, int]]
) -> None:
    gpu = Gpu()
    gpu.events += [step(n, 1000 * n) for n in range(3)]
    for n in range(3):
        gpu.run(1000 * n, 1000 * n + 50, 1)
    for spans, name, args in (
        (compute, "gemm", {}),
        (named, NCCL, all_reduce(8)),
        (nameless, NCCL, {}),
    ):
        for start, length in spans:
            gpu.run(start, start + 40, length, name, **args)
    trace = analyse(gpu.events)
    known = {
        at for start, length in [*compute, *named] for at in range(start + 40, start + 40 + length)
    } | {1000 * n + 50 for n in range(3)}
    ran = known | {at for s, length in nameless for at in range(s + 40, s + 40 + length)}
    explained = whole = 0
    for found, of_step in zip(trace.per_step(None), trace.steps, strict=True):
        if of_step.step_ns is None or of_step.from_ns is None:
            assert found.idle_ns is None
            continue
        window = set(range(of_step.from_ns // 1000, (of_step.from_ns + of_step.step_ns) // 1000))
        assert found.idle_ns == 1000 * len(window - ran)
        explained += len(window & known)
        whole += len(window)
    ratio = trace.to_json()["explained_ratio"]
    assert ratio == (pytest.approx(explained / whole) if whole else None)


NAMES = [
    *(f"dlrm_8rank_v100/rank-{rank}.json.gz" for rank in (0, 7)),
    *("hta/nccl_data.json.gz", "hta/sampled_rank-0.json.gz", "hta/sampled_rank-1.json.gz"),
    *("hta/ns_resolution_rank0.json.gz", "hta/gloo_cpu_only_rank34.json.gz"),
    *("tracelens/mi300x_resnet_ddp_ws8_rank0.json.gz",),
    "tracelens/mi300x_ddp_resnet18_no_nccl.json.gz",
]


@pytest.mark.parametrize("name", NAMES)
def test_busy_and_idle_of_recorded_steps(name: str) -> None:
    trace = analyse(recorded(name))
    text = gzip.decompress(recorded(name).read_bytes())
    ran = [
        (round(Decimal(item["ts"]) * 1000), round(Decimal(item["dur"]) * 1000))
        for item in json.loads(text, parse_float=Decimal, strict=False)["traceEvents"]
        if item.get("cat", "").lower() in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    shift_ns = trace.base_ns or 0
    known = 0
    for figures, of_step in zip(trace.per_step(None), trace.steps, strict=True):
        if of_step.step_ns is None or of_step.from_ns is None:
            assert figures.idle_ns is None
            continue
        known += 1
        assert figures.idle_ns is not None
        assert 0 <= figures.idle_ns <= of_step.step_ns
        assert figures.exposed_ns <= figures.union_ns <= figures.summed_ns
        if trace.device == "gpu":
            reached = of_step.from_ns - shift_ns
            end_ns, idle_ns = reached + of_step.step_ns, 0
            for start_ns, length_ns in sorted(ran):
                if reached < start_ns:
                    idle_ns += max(0, min(start_ns, end_ns) - reached)
                reached = max(reached, min(start_ns + length_ns, end_ns))
            assert figures.idle_ns == idle_ns + max(0, end_ns - reached)
    record = trace.to_json(None)
    ratio = record["explained_ratio"]
    if known:
        assert 0 <= ratio <= 1
    else:
        assert (ratio, record["idle_s"]) == (None, None)


def test_buckets_of_a_recorded_resnet50_one_by_one() -> None:
    calls = analyse(recorded("hta/nccl_data.json.gz")).calls()
    assert len(calls) == 5
    assert sum(call["bytes"] for call in calls) == 102_228_128
    for call in calls:
        assert call["dtype"] == "float32"
        # At two ranks bus and algorithm bandwidth are one.
        assert call["busbw_bytes_per_s"] == pytest.approx(call["bytes"] / call["duration_s"])
