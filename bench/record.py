"""Result -> pytest-benchmark rounds and extra_info.

A round of pytest-benchmark is one timed step, and its time is the slowest rank's. The numbers are
handed over through the documented ``timer`` option: ``ReplayTimer`` answers 0 when a round
begins and the measured time when it ends, so that the difference is the measured float itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.case import Case
from bench.result import LaunchResult


class ReplayTimer:
    """A timer for pytest-benchmark that replays measured times, in seconds."""

    __name__ = "slowest_rank_step_s"  # pytest-benchmark writes a timer's name into its JSON

    def __init__(self) -> None:
        self._times: list[float] = []
        self._round = 0
        self._inside = False

    def load(self, times: Sequence[float]) -> None:
        self._times = list(times)

    def __call__(self) -> float:
        self._inside = not self._inside
        if self._inside:
            return 0.0
        self._round += 1
        return self._times[self._round - 1]


def replay(benchmark: Any, timer: ReplayTimer, launches: Sequence[LaunchResult]) -> None:
    """Give the steps of all launches, one launch after another, to the ``benchmark`` fixture."""
    times = [time for launch in launches for time in launch.step_s]
    timer.load(times)
    benchmark.pedantic(_already_measured, rounds=len(times), iterations=1, warmup_rounds=0)


def _already_measured() -> None:
    """What pytest-benchmark calls in a round: the step was run by the ranks."""


def extra_info(
    case: Case,
    launches: Sequence[LaunchResult],
    warnings: Sequence[str],
    confirmation: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The record of a case: the whole of what its launches gave.

    ``confirmation``: see ``confirmed``; None where the case was not measured once more.
    """
    times = [time for launch in launches for time in launch.step_s]
    # A collective has no samples.
    samples = case.global_batch_size if case.trains else None
    throughput = samples / statistics.median(times) if samples else None
    result = {
        "global_batch_size": samples,
        "throughput_samples_per_s": throughput,
        "throughput_per_rank_samples_per_s": throughput / case.world_size if throughput else None,
        "launch_of_round": [launch.launch for launch in launches for _ in launch.step_s],
        "label": launches[0].fields.get("label"),
        "warnings": list(warnings),
        "launches": [launch.fields for launch in launches],
    }
    children = [_child_of_step(launch) for launch in launches]
    if any(1 in of_launch for of_launch in children):
        result["child_of_round"] = [child for of_launch in children for child in of_launch]
    if confirmation is not None:
        result["confirmation"] = confirmation
    return {"id": case.id, "case": case.to_dict(), "result": result}


def confirmed(launches: Sequence[LaunchResult], wanted: int) -> dict[str, Any]:
    """The record of a case's confirmation: fresh launches, of which ``wanted`` were asked for."""
    return {
        "launches": [launch.fields for launch in launches],
        "complete": len(launches) == wanted,
    }


def _child_of_step(launch: LaunchResult) -> list[int]:
    children = launch.fields.get("children") or [{"steps": len(launch.step_s)}]
    return [n for n, child in enumerate(children) for _ in range(child["steps"])]


def case_warnings(case: Case, launches: Sequence[LaunchResult], cores: int) -> list[str]:
    """What a reader must know before believing this case's numbers, one sentence each."""
    found: list[str] = []
    threads = launches[0].fields["ranks"][0]["threads"]
    if case.device == "cpu" and case.processes * threads > cores:
        found.append(
            f"oversubscribed: {case.processes} ranks of {threads} thread(s) on {cores} core(s); "
            "no evidence about scaling"
        )
    checks = [launch.fields.get("checks") or {} for launch in launches]
    if any(check.get("parameters_equal") is False for check in checks):
        found.append("parameters differ between ranks after the timed pass")
    if any(check.get("values_right") is False for check in checks):
        found.append(f"{case.collective} gave wrong values")
    if any(check.get("gradients_match") is False for check in checks):
        worst = max(check.get("gradient_relative_error") or 0 for check in checks)
        found.append(f"gradients do not match those of one process (relative error {worst:.1e})")
    if any(check.get("reduced_bytes_equal_gradient_bytes") is False for check in checks):
        found.append("bytes reduced per step are not the bytes of the gradients")
    for launch in launches:
        for rank in launch.fields["ranks"]:
            if rank.get("trace_not_kept"):
                found.append(f"a trace could not be kept: {rank['trace_not_kept']}")
            note = rank.get("communication_note")
            if note and "unknown, not zero" in note and note not in found:
                found.append(note)
    used = launches[0].fields.get("replicas_used")
    if used is not None and used < case.world_size:
        found.append(f"DataParallel used {used} of {case.world_size} devices for this batch")
    threads_seen = {rank["threads"] for launch in launches for rank in launch.fields["ranks"]}
    if len(threads_seen) > 1:
        found.append(f"ranks had different numbers of threads: {sorted(threads_seen)}")
    return found
