"""The profiled pass: a few steps under torch.profiler, and what its trace says of them."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import statistics
from pathlib import Path
from typing import Any

import torch

from bench import trace
from bench.case import Case
from bench.outline import most_collectives, outline
from bench.worker.case_folder import scratch
from bench.worker.device import Device
from bench.worker.loop import Ranks, TrainingLoop
from bench.worker.phase_marks import PhaseMarks


def profiled_pass(
    job: dict[str, Any],
    loop: TrainingLoop,
    device: Device,
    ranks: Ranks,
    case: Case,
    trains: bool,
) -> tuple[dict[str, Any], list[float]]:
    """The communication figures of this rank, and its step times under the profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.kind == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    steps = job["profiled_steps"]
    clock = device.clock
    phase_marks = PhaseMarks(clock.mark, loop.phases)
    ranks.barrier()
    with (
        loop.marked_by(phase_marks),
        torch.profiler.profile(
            activities=activities,
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
            record_shapes=True,  # the bytes of gloo's collectives are in their shapes
        ) as profiler,
    ):
        loop.step()
        phase_marks.end_step()
        device.synchronize()
        profiler.step()
        clock.start()
        for step in range(steps):
            if step:
                profiler.step()
            loop.step()
            phase_marks.end_step()
        clock.mark()
        clock.finish()
        profiler.step()
    marks = len(loop.phases)
    step_s = [clock.seconds(i * marks, (i + 1) * marks) for i in range(steps)]
    with scratch(job) as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        figures = trace.analyse(path, rank=job["rank"])
        not_kept = None
        if job["save_trace"] is not None:
            not_kept = _keep(path, Path(job["save_trace"].format(rank=job["rank"])))
    found = _communication(figures, case, trains)
    found["trace_not_kept"] = not_kept
    return found, step_s


def _keep(trace_file: Path, target: Path) -> str | None:
    """Put the trace where the user wants it. Why it could not be, if it could not: that costs no
    measurement, and half a trace is not left behind."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with trace_file.open("rb") as plain, gzip.open(target, "wb", compresslevel=5) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
    except OSError as error:
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
        return f"{target}: {error.strerror or error}"
    return None


def _communication(figures: trace.RankTrace, case: Case, trains: bool) -> dict[str, Any]:
    """What the record keeps; no communication found where there must be some is said in words."""
    record: dict[str, Any] | None = figures.to_json()
    note = None
    if case.processes == 1:
        note = "one process: nothing to communicate" if case.strategy != "ddp" else None
    elif not trains:
        note = "nothing is trained: nothing to communicate"
    elif not figures.to_json()["calls_per_step"]:
        note = (
            "the profiler shows no communication although several ranks train together; "
            "the all-reduce time is unknown, not zero"
        )
        record = None
    return {
        "communication": record,
        "communication_note": note,
        "outline": outline(figures, most_collectives(case.processes))
        if case.processes > 1
        else None,
        "reduced_bytes": figures,
    }


def name_buckets(calls: list[dict[str, Any]], rebuilt_bytes: list[int] | None) -> None:
    """Which of DDP's buckets a call reduced: by size, and of equal sizes in order."""
    left = list(enumerate(rebuilt_bytes or []))
    for call in calls:
        match = next((each for each in left if each[1] == call["bytes"]), None)
        call["bucket"] = match[0] if match is not None else None
        if match is not None:
            left.remove(match)


def reduced_bytes(figures: trace.RankTrace, gradient_bytes: int, case: Case) -> dict[str, Any]:
    """Bytes all-reduced per step against the bytes of the gradients."""
    if case.processes == 1:
        return {"reduced_bytes_per_step": None, "reduced_bytes_equal_gradient_bytes": None}
    steps: dict[int, int] = {}
    for collective in figures.collectives:
        if collective.kind != "all_reduce" or collective.step is None:
            continue
        if collective.bytes is None:
            return {"reduced_bytes_per_step": None, "reduced_bytes_equal_gradient_bytes": None}
        if case.find_unused_parameters and str(collective.dtype).lower() in ("int", "int32"):
            continue  # the map of used parameters, not a gradient
        steps[collective.step] = steps.get(collective.step, 0) + collective.bytes
    if not steps:
        return {"reduced_bytes_per_step": None, "reduced_bytes_equal_gradient_bytes": None}
    return {
        "reduced_bytes_per_step": statistics.median_low(steps.values()),
        "reduced_bytes_equal_gradient_bytes": set(steps.values()) == {gradient_bytes},
    }
