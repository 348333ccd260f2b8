"""Which step work belongs to, which steps are whole, and what counts as compute."""

from __future__ import annotations

from typing import Any

import pytest

from bench.trace import RankTrace, analyse


def event(
    category: str, name: str, start_us: float, duration_us: float, tid: int = 1, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start_us,
        "dur": duration_us,
        "args": args,
    }


def step(number: int, start_us: float, duration_us: float = 1000, tid: int = 1) -> dict[str, Any]:
    return event("user_annotation", f"ProfilerStep#{number}", start_us, duration_us, tid)


def op(start_us: float, duration_us: float, tid: int = 1, name: str = "aten::mm") -> dict[str, Any]:
    return event("cpu_op", name, start_us, duration_us, tid)


def enqueue(start_us: float, duration_us: float = 10, tid: int = 1) -> dict[str, Any]:
    return op(start_us, duration_us, tid, "c10d::allreduce_")


def gloo(start_us: float, duration_us: float, tid: int = 2, **args: Any) -> dict[str, Any]:
    return event("user_annotation", "gloo:all_reduce", start_us, duration_us, tid, **args)


def launch(
    correlation: int, start_us: float, name: str = "cudaLaunchKernel", tid: int = 1
) -> dict[str, Any]:
    return event("cuda_runtime", name, start_us, 5, tid, correlation=correlation)


def kernel(
    correlation: int, start_us: float, duration_us: float, name: str = "gemm", **args: Any
) -> dict[str, Any]:
    return event("kernel", name, start_us, duration_us, 7, correlation=correlation, **args)


def exposed_us(trace: RankTrace) -> list[float]:
    return [figures.exposed_ns / 1000 for figures in trace.per_step("all_reduce")]


def calls(trace: RankTrace) -> dict[int, int]:
    return {figures.step: figures.calls for figures in trace.per_step("all_reduce")}


# --- CPU


def test_a_late_gloo_range_belongs_to_the_step_that_handed_it_over() -> None:
    events = [step(1, 0), enqueue(900), step(2, 1000), gloo(1100, 50), enqueue(1900), gloo(1950, 9)]
    assert calls(analyse(events)) == {1: 1, 2: 1}
    # With one call missing there is no telling which: it stays where it starts.
    assert calls(analyse([e for e in events if e["ts"] != 900])) == {1: 0, 2: 2}


def test_ranges_and_calls_that_the_recording_cut_are_not_taken_for_each_other() -> None:
    """The first range was called before the recording, the last call's range ends after it."""
    events = [step(1, 0), gloo(100, 50), step(2, 1000), enqueue(1050), gloo(1100, 50)]
    trace = analyse([*events, enqueue(1900)])
    assert [c.step for c in trace.collectives] == [1, None]
    assert (calls(trace), trace.dropped_steps) == ({1: 1}, 1)


def test_what_starts_between_two_steps_belongs_to_the_first() -> None:
    events = [step(1, 0, 950), op(0, 10), gloo(970, 10), step(2, 1000), op(1000, 10)]
    assert calls(analyse(events)) == {1: 1, 2: 0}
    # A step is missing in between: the range may be that one's.
    events[3] = step(3, 1000)
    assert calls(analyse(events)) == {1: 0, 3: 0}


def test_compute_is_operators_off_gloo_threads_less_their_c10d_calls() -> None:
    trace = analyse(
        [
            step(1, 0),
            gloo(100, 400),
            op(150, 20, tid=2),
            op(200, 100, name="autograd::engine::evaluate_function: AccumulateGrad"),
            enqueue(250, 30),
            op(400, 50, tid=3),
        ]
    )
    totals = trace.totals()
    # 200-250 and 280-300 on the main thread, 400-450 on another, nothing on gloo's own.
    assert totals.compute_ns == 120_000
    assert exposed_us(trace) == [280]
    assert trace.to_json()["overlap_ratio"] == pytest.approx(120 / 400)


def test_waiting_inside_an_operator_is_not_compute() -> None:
    wait = op(100, 300, name="_c10d_functional::wait_tensor")
    trace = analyse(
        [step(1, 0), op(50, 400, name="CompiledFunctionBackward"), wait, gloo(100, 300)]
    )
    assert exposed_us(trace) == [300]


def test_a_gloo_range_on_the_calling_thread_does_not_hide_its_compute() -> None:
    trace = analyse([step(1, 0), op(100, 100), gloo(100, 200, tid=1)])
    assert exposed_us(trace) == [100]


def test_user_annotations_are_not_compute() -> None:
    annotation = event("user_annotation", "Optimizer.step#SGD.step", 0, 900)
    old = op(0, 900, name="DistributedDataParallel.forward")
    trace = analyse([step(1, 0), annotation, old, gloo(100, 200)])
    assert exposed_us(trace) == [200]


def test_a_last_step_whose_range_is_missing_is_cut() -> None:
    whole = [step(1, 0), enqueue(100), gloo(110, 50), step(2, 1000), enqueue(1100)]
    trace = analyse(whole)
    assert (list(calls(trace)), trace.dropped_steps) == ([1], 1)
    assert "ProfilerSteps dropped: 1 cut" in trace.notes
    assert list(calls(analyse([*whole, gloo(1110, 50)]))) == [1, 2]
    # Where every step has more calls than ranges, the calls are of another kind.
    assert list(calls(analyse([*whole, enqueue(500)]))) == [1, 2]


def test_a_short_last_step_with_fewer_calls_is_cut_and_one_with_as_many_is_not() -> None:
    whole = [step(1, 0), gloo(100, 50), gloo(300, 50), step(2, 1000), gloo(1100, 50), gloo(1300, 5)]
    short = [step(3, 2000, 300), gloo(2100, 50)]
    assert list(calls(analyse([*whole, *short]))) == [1, 2]
    assert list(calls(analyse([*whole, *short, gloo(2200, 50)]))) == [1, 2, 3]
    # Accumulating gradients: fewer calls, but as long as the others.
    assert list(calls(analyse([*whole, step(3, 2000), gloo(2100, 50)]))) == [1, 2, 3]


def test_repeated_steps_are_dropped_with_their_work() -> None:
    events = [
        step(1, 0),
        gloo(100, 50),
        step(2, 1000),
        gloo(1100, 50),
        step(1, 5000),
        gloo(5100, 9),
    ]
    trace = analyse(events)
    assert calls(trace) == {1: 1, 2: 1}
    assert [c.step for c in trace.collectives] == [1, 2, None]
    assert "ProfilerSteps dropped: 1 repeated or overlapping" in trace.notes
    twice = analyse([step(1, 0), step(1, 0, tid=9), gloo(100, 50)])
    assert (calls(twice), twice.dropped_steps) == ({1: 1}, 1)


def test_a_stub_before_a_whole_step_of_the_same_number_gives_way_to_it() -> None:
    trace = analyse([step(1, 0, 60), step(1, 1000), gloo(1100, 50), step(2, 2000), gloo(2100, 50)])
    assert calls(trace) == {1: 1, 2: 1}


def test_a_step_without_a_usable_time_is_counted() -> None:
    trace = analyse([step(1, 0), gloo(100, 50), step(2, 1000, -5), gloo(1100, 50)])
    assert (calls(trace), trace.dropped_steps) == ({1: 1}, 1)
    assert any("1 without a usable time" in note for note in trace.notes)


def test_an_unknown_size_makes_the_sum_unknown() -> None:
    known: dict[str, Any] = {"Input Dims": [[8]], "Input type": ["float"]}
    trace = analyse([step(1, 0), gloo(100, 50, **known), step(2, 1000), gloo(1100, 50, **known)])
    assert trace.to_json()["bytes_per_step"] == 32
    trace = analyse([step(1, 0), gloo(100, 50, **known), step(2, 1000), gloo(1100, 50)])
    record = trace.to_json()
    assert record["bytes_per_step"] is None
    assert [item["bytes"] for item in record["per_step"]] == [32, None]
    trace = analyse([step(1, 0), gloo(100, 50, **known), gloo(200, 50)])
    assert trace.to_json()["bytes_per_step"] is None


def test_a_job_of_several_ranks_without_communication_is_told() -> None:
    trace = analyse({"distributedInfo": {"world_size": 2}, "traceEvents": [step(1, 0), op(0, 9)]})
    assert trace.missing_communication
    assert any("no communication found" in note for note in trace.notes)


# --- GPU


def two_gpu_steps() -> list[dict[str, Any]]:
    """The GPU runs 700 us behind the CPU; its period is 1500 us, the CPU's 1000."""
    return [
        *(step(1, 0), launch(1, 100), launch(2, 110), step(2, 1000), launch(3, 1100)),
        *(launch(4, 1110), kernel(1, 800, 600), kernel(3, 2300, 600)),
        *(kernel(2, 1300, 200, "ncclKernel_AllReduce_Sum"),),
        *(kernel(4, 2800, 200, "ncclKernel_AllReduce_Sum"),),
    ]


def test_kernels_belong_to_the_step_that_launched_them() -> None:
    trace = analyse(two_gpu_steps())
    assert trace.device == "gpu"
    assert calls(trace) == {1: 1, 2: 1}
    assert exposed_us(trace) == [100, 100]
    assert [s.step_ns for s in trace.steps] == [1_500_000, None]
    assert trace.to_json()["per_step"][1]["step_s"] is None
    assert trace.totals(steps=[1]).kernels == 2


def test_a_copy_hides_no_communication_and_a_kernel_of_the_next_step_does() -> None:
    copy = event("gpu_memcpy", "Memcpy DtoD", 1400, 100, 8, correlation=9)
    trace = analyse([*two_gpu_steps(), launch(9, 120, "cudaMemcpyAsync"), copy])
    assert exposed_us(trace) == [100, 100]
    assert trace.totals().busy_ns == (1500 - 800 + 3000 - 2300) * 1000
    early = [launch(10, 1120), kernel(10, 1450, 20)]
    assert exposed_us(analyse([*two_gpu_steps(), *early])) == [80, 100]


def test_a_kernel_launched_before_the_recording_belongs_to_no_step() -> None:
    events = [*two_gpu_steps(), kernel(77, 1100, 10, "ncclKernel_AllReduce_Sum")]
    trace = analyse(events)
    assert calls(trace) == {1: 1, 2: 1}
    assert len(trace.collectives) == 3
    assert any("launch is not in the trace" in note for note in trace.notes)


def test_a_last_step_that_lacks_kernels_is_cut() -> None:
    trace = analyse([e for e in two_gpu_steps() if e["ts"] != 2800])
    assert (list(calls(trace)), trace.dropped_steps) == ([1], 1)
    # A memory fill of no bytes is launched and never runs; so is a captured graph in mid-run.
    fill = launch(9, 1120, "cudaMemsetAsync")
    assert list(calls(analyse([*two_gpu_steps(), fill]))) == [1, 2]
    captured = launch(9, 120)
    assert list(calls(analyse([*two_gpu_steps(), captured]))) == [1, 2]


def test_without_launches_kernels_go_by_their_start_and_steps_by_their_length() -> None:
    events = [e for e in two_gpu_steps() if e["cat"] != "cuda_runtime"]
    events = [*events, step(3, 2000)]
    trace = analyse(events)
    assert calls(trace) == {1: 0, 2: 1, 3: 1}
    assert [s.step_ns for s in trace.steps] == [1_000_000] * 3
    assert any("no launches in the trace" in note for note in trace.notes)


def test_one_launch_of_two_kernels_counts_its_bytes_once() -> None:
    shapes: dict[str, Any] = {"Input Dims": [[8]], "Input type": ["float"]}
    trace = analyse(
        [
            step(1, 0),
            event("user_annotation", "nccl:all_reduce", 100, 50, 1, **shapes),
            *(launch(1, 110), launch(2, 120), launch(3, 500)),
            *(kernel(1, 200, 50, "ncclDevKernel_Generic"),),
            *(kernel(2, 300, 50, "ncclDevKernel_Generic"),),
            *(kernel(3, 600, 50, "ncclDevKernel_Generic"),),
        ]
    )
    found = [(c.kind, c.bytes, c.dtype) for c in trace.collectives]
    assert found[:2] == [("all_reduce", 32, "float32"), ("all_reduce", None, "float32")]
    assert found[2] == ("unknown", None, None)
    assert "not counted as all_reduce: 1 unknown call, 0.050 ms" in trace.to_json()["notes"]


def test_sync_events_and_annotation_twins_are_no_kernels() -> None:
    more = [
        kernel(5, 800, 9000, "Stream Sync"),
        event("cuda_sync", "Context Sync", 0, 9000),
        event("gpu_user_annotation", "nccl:all_reduce", 1300, 200, 7),
        event("gpu_user_annotation", "ProfilerStep#1", 800, 900, 7),
    ]
    plain, trace = analyse(two_gpu_steps()), analyse([*two_gpu_steps(), *more])
    assert trace.totals() == plain.totals()
    assert trace.per_step() == plain.per_step()
