"""Reading traces: against HolisticTraceAnalysis, and as files grow.

Both sides are whole processes, from the start of an interpreter to its end, that compute the
communication/computation overlap of every rank; they take turns. HolisticTraceAnalysis lives in an
environment of its own, whose interpreter is named on the command line; it is never a dependency.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHARED = Path(os.environ.get("LOCKSTEP_SHARED", ROOT.parent / "shared")) / "traces"
HOW_TO_GET_THEIRS = (
    "    python -m venv /tmp/hta\n"
    "    /tmp/hta/bin/pip install HolisticTraceAnalysis==0.5.0 'pandas<3'\n"
    "    python -m tests.selfbench --part traces --other-python /tmp/hta/bin/python"
)
SETS = {
    "nccl_data": "hta/nccl_data.json.gz",
    "sampled, 2 ranks": "hta/sampled_rank-*.json.gz",
    "dlrm, 8 ranks": "dlrm_8rank_v100/rank-*.json.gz",
    "mi300x": "tracelens/mi300x_resnet_ddp_ws8_rank0.json.gz",
    "ns_resolution": "hta/ns_resolution_rank0.json.gz",
}


@dataclass(frozen=True)
class Cost:
    """Of one process, or the medians of several; `error` is its last words if it failed."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    error: str = ""

    @classmethod
    def of_command(cls, command: list[str]) -> Cost:
        small = [sys.executable, "-IS", str(HERE / "measured.py"), *command]
        done = subprocess.run(
            small,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        words = done.stderr.strip().splitlines()
        found = json.loads(done.stdout)
        error = words[-1] if words else "no word"
        error = error if done.returncode else ""
        return cls(found["wall_s"], found["cpu_s"], found["peak_bytes"], error)

    @classmethod
    def median(cls, costs: list[Cost]) -> Cost:
        return cls(
            statistics.median(cost.wall_s for cost in costs),
            statistics.median(cost.cpu_s for cost in costs),
            int(statistics.median(cost.peak_bytes for cost in costs)),
            costs[-1].error,
        )

    def __str__(self) -> str:
        return (
            f"{self.wall_s:.3f} s ({self.cpu_s:.3f} of a processor), {self.peak_bytes / 1e6:.0f} MB"
        )


def compare(other_python: str | None, repeats: int) -> None:
    """Prints, for every set of traces that both read, costs, their ratios, and figures of both."""
    if other_python is None:
        print(f"HolisticTraceAnalysis: no --other-python given. To compare:\n{HOW_TO_GET_THEIRS}")
        return
    if not SHARED.is_dir():
        print(f"HolisticTraceAnalysis: recorded traces are absent: no {SHARED}; LOCKSTEP_SHARED")
        return
    print(f"ours / HolisticTraceAnalysis, medians of {repeats} whole processes each, in turns")
    for name, pattern in SETS.items():
        paths = [str(path) for path in sorted(SHARED.glob(pattern))]
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            outs = [Path(folder) / "ours.json", Path(folder) / "theirs.json"]
            commands = [
                [sys.executable, str(HERE / "overlap_ours.py"), str(outs[0]), *paths],
                [other_python, str(HERE / "overlap_theirs.py"), str(outs[1]), *paths],
            ]
            costs: list[list[Cost]] = [[], []]
            for turn in range(repeats):
                for side in (0, 1) if turn % 2 else (1, 0):
                    costs[side].append(Cost.of_command(commands[side]))
            ours, theirs = map(Cost.median, costs)
            if ours.error or theirs.error:
                print(f"{name}: ours {ours}{failed(ours)}; theirs {theirs}{failed(theirs)}")
                continue
            ratio = theirs.wall_s / ours.wall_s
            cpu = theirs.cpu_s / ours.cpu_s
            memory = theirs.peak_bytes / ours.peak_bytes
            print(f"{name}: {ours} / {theirs}")
            print(f"    {ratio:.1f} x faster, {cpu:.1f} x less processor time, ", end="")
            print(f"{memory:.1f} x less memory")
            figures = json.loads(outs[0].read_text())
            print(f"    overlap, per cent: whole file    {texts(figures['whole'])}")
            print(f"    all steps but the last: ours     {texts(figures['steps'])}")
            print(f"    all steps but the last: theirs   {texts(json.loads(outs[1].read_text()))}")
        sys.stdout.flush()


def failed(cost: Cost) -> str:
    return f" (cannot read it: {cost.error[:160]})" if cost.error else ""


def texts(values: list[float | None]) -> str:
    return "  ".join("none" if value is None else f"{value:.2f}" for value in values)


def grow(sizes_mb: list[int], repeats: int) -> None:
    """Prints wall time and peak memory over files of several sizes, and per MB of file."""
    print("one trace repeated to a size; memory is the peak less that of a trace of one step")
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        empty = Path(folder) / "empty.json"
        write_trace(empty, 0)
        base = overlap_cost(empty, repeats)
        print(f"    one step: {base}")
        for size_mb in sizes_mb:
            path = Path(folder) / "rank0.json"
            size = write_trace(path, size_mb * 10**6)
            cost = overlap_cost(path, repeats)
            if cost.error:
                raise SystemExit(f"the trace of {size_mb} MB was refused: {cost.error}")
            more = cost.peak_bytes - base.peak_bytes
            print(
                f"    {size / 1e6:.0f} MB: {cost}; "
                f"{(cost.wall_s - base.wall_s) / size * 1e9:.2f} ms and "
                f"{(cost.cpu_s - base.cpu_s) / size * 1e9:.2f} ms of a processor per MB, "
                f"memory {more / size:.2f} x the file",
                flush=True,
            )


def overlap_cost(path: Path, repeats: int) -> Cost:
    command = [sys.executable, str(HERE / "overlap_ours.py"), os.devnull, str(path)]
    return Cost.median([Cost.of_command(command) for _ in range(repeats)])


def write_trace(path: Path, least_bytes: int) -> int:
    """A trace of whole GPU steps, at least one, to at least this size; gives its size.

    Events are as rich as those of a real profiler: for each of 30 layers two operators, a Python
    function, a launch and a kernel; 5 all-reduces on another stream, a copy, and arrows between.
    """
    with path.open("w", encoding="ascii") as file:
        header = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0}}
        header["distributedInfo"] |= {"world_size": 8}
        file.write(json.dumps(header)[:-1] + ',\n"traceEvents": [\n')
        number = 0
        while number == 0 or file.tell() < least_bytes:
            texts = (json.dumps(event) for event in one_step(number))
            file.write((",\n" if number else "") + ",\n".join(texts))
            number += 1
        file.write('\n],\n"traceName": "synthetic"}\n')
        return file.tell()


def one_step(number: int) -> list[dict[str, object]]:
    """10 ms: 30 kernels of 250 us, 5 all-reduces of 400 us, 350 of them hidden, of the last 100."""
    start_us = 1_712_195_495_000_000 + 10_000 * number
    events: list[dict[str, object]] = []
    next_id = 1000 * number

    def add(
        category: str, name: str, at_us: float, dur_us: float, tid: int, **args: object
    ) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 4711, "tid": tid}
        events.append(event | {"ts": start_us + at_us, "dur": dur_us, "args": args})

    def launch(name: str, at_us: float, kernel_us: float, dur_us: float, tid: int, **args: object):
        nonlocal next_id
        next_id += 1
        ids = {"correlation": next_id, "External id": next_id}
        add("cuda_runtime", "cudaLaunchKernel", at_us, 5.125, 1, cbid=211, **ids)
        shape = {"grid": [432, 1, 1], "block": [128, 1, 1], "registers per thread": 64}
        place = {"device": 0, "stream": tid, "shared memory": 0, **shape}
        add("kernel", name, kernel_us, dur_us, tid, **place, **ids, **args)

    add("user_annotation", f"ProfilerStep#{number}", 0, 9_990, 1)
    for layer in range(30):
        at_us = 100 + 300 * layer
        shapes = {"Input Dims": [[256, 1024], [1024, 1024]], "Input type": ["float", "float"]}
        add("python_function", f"torch/nn/modules/linear.py(114): forward_{layer}", at_us, 90, 1)
        add("cpu_op", "aten::linear", at_us + 1.5, 80.25, 1, **shapes)
        add("cpu_op", "aten::addmm", at_us + 5.5, 60.75, 1, **shapes)
        name = "ampere_sgemm_128x64_tn_kernel<float, 4, 128>(float const*, float*)"
        launch(name, at_us + 20.25, at_us + 40.125, 250, 7)
        arrow = {"ph": "s", "cat": "ac2g", "name": "ac2g", "pid": 4711, "tid": 1}
        events.append(arrow | {"id": next_id, "ts": start_us + at_us + 20.25})
        if layer % 6 == 5:
            message = {"In msg nelems": 2**20, "Out msg nelems": 2**20, "dtype": "Float"}
            group = {"Process Group Name": "0", "Group size": 8}
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)"
            launch(
                *(name, at_us + 60.5, at_us + 190.125, 400, 20),
                **({"Collective name": "allreduce"} | message | group),
            )
    return events
