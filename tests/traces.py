"""Small traces whose figures are plain to see."""

from __future__ import annotations

from typing import Any


def event(category: str, name: str, start_us: Any, duration_us: Any, **more: Any) -> dict[str, Any]:
    thread = more.pop("tid", 1)
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": start_us,
        "dur": duration_us,
        "args": more,
    }


def gloo_trace() -> dict[str, Any]:
    """Two steps of 1000 us; in each 300 us of compute and an all-reduce of 200 us, 100 hidden."""
    events = []
    for step in range(2):
        at = 1000 * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, 1000),
            event("cpu_op", "aten::mm", at + 100, 300),
            event("cpu_op", "c10d::allreduce_", at + 280, 10),
            event(
                "user_annotation",
                "gloo:all_reduce",
                at + 300,
                200,
                tid=2,
                **{"Input Dims": [[250]], "Input type": ["float"]},
            ),
        ]
    return {
        "baseTimeNanoseconds": 1_790_000_000_000_000_000,
        "distributedInfo": {"backend": "gloo", "rank": 1, "world_size": 2},
        "traceEvents": events,
    }


def gpu_trace() -> dict[str, Any]:
    """Two steps; in each a kernel, a copy and an all-reduce that overlaps the kernel."""
    events = []
    for step in range(2):
        at, first = 1000 * step, 10 * step
        events += [event("user_annotation", f"ProfilerStep#{step}", at, 990)]
        for order, (category, name, start, duration, args) in enumerate(
            [
                ("kernel", "gemm", 100, 300, {}),
                ("gpu_memcpy", "Memcpy HtoD", 50, 10, {}),
                (
                    "kernel",
                    "ncclDevKernel_Generic",
                    300,
                    200,
                    {"Collective name": "allreduce", "In msg nelems": 4, "dtype": "Float"},
                ),
            ]
        ):
            runtime = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
            correlation = first + order + 1
            events += [
                event("cuda_runtime", runtime, at + 10 * order, 5, correlation=correlation),
                event(category, name, at + start, duration, tid=7, correlation=correlation, **args),
            ]
    return {
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
        "traceEvents": events,
    }
