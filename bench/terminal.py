"""The lines a sweep prints: one for every case."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.case import Case
from bench.precision import median_interval
from bench.result import Failure, LaunchResult


def launch_line(
    block: Sequence[Case],
    launch: int,
    launches: int,
    answers: Mapping[str, LaunchResult | Failure],
    seconds_left: float | None,
) -> str:
    """One launch of a cell that has more to come, under each of its interpreters.

    Launches from ``launches`` on are those of the confirmation.
    """
    kind = "launch" if launch < launches else "confirm"
    parts = [f"{kind} {launch % launches + 1}/{launches}", f"{block[0].replace(torch='').id:<44}"]
    values = []
    for case in block:
        answer = answers.get(case.id)
        if answer is None:
            continue
        label = f"{case.torch} " if case.torch else ""
        if isinstance(answer, Failure):
            parts.append(f"{label}{answer.outcome}: {answer.sentence(case.id)}")
        else:
            values.append(answer.fields["median_step_s"])
            parts.append(f"{label}{milliseconds(values[-1])}")
    if len(values) == len(block) == 2:
        parts.append(f"{values[1] / values[0] - 1:+6.1%}")
    if seconds_left is not None:
        parts.append(f"{duration(seconds_left)} left")
    return "  ".join(parts)


def case_line(
    case: Case,
    launches: Sequence[LaunchResult],
    alone: float | None,
    seconds_left: float | None,
) -> str:
    """A finished case: step, throughput, per cent of ideal, all-reduce, time left.

    ``alone``: samples per second of the same job on one rank, where that is known.
    """
    step_s = step_time_s(launches)
    per_second = throughput(case, launches)
    parts = [
        f"{case.id:<44}",
        f"{milliseconds(step_s)} {half_width(launches):>9}",
        f"{per_second:8.1f} samples/s",
    ]
    if alone and case.world_size > 1:
        # Ideal: as many times the samples of one rank as there are ranks.
        parts.append(f"{per_second / (case.world_size * alone):4.0%} of ideal")
    if case.processes > 1:
        parts.append(communication(launches))
    label = launches[0].fields.get("label")
    if label:
        parts.append(str(label))
    if seconds_left is not None:
        parts.append(f"{duration(seconds_left)} left")
    return "  ".join(part for part in parts if part)


def step_time_s(launches: Sequence[LaunchResult]) -> float:
    """Geometric mean of the launches' medians, seconds: what the page shows too."""
    return math.exp(statistics.fmean(math.log(x.fields["median_step_s"]) for x in launches))


def throughput(case: Case, launches: Sequence[LaunchResult]) -> float:
    """Samples per second of the whole job."""
    return case.global_batch_size / step_time_s(launches)


def half_width(launches: Sequence[LaunchResult]) -> str:
    """Half the 95 % interval in per cent: from launches where there are several, else from the
    steps of the one; "± ?" where it cannot be known."""
    logs = [math.log(launch.fields["median_step_s"]) for launch in launches]
    if len(logs) > 1:
        from scipy.special import stdtrit

        reach = stdtrit(len(logs) - 1, 0.975) * statistics.stdev(logs) / math.sqrt(len(logs))
        return f"±{math.expm1(reach):.1%}"
    interval = median_interval(launches[0].step_s)
    if interval is None:
        return "± ?"
    return f"±{(interval[1] - interval[0]) / 2 / statistics.median(launches[0].step_s):.1%}"


def communication(launches: Sequence[LaunchResult]) -> str:
    """All-reduce time of the rank that has most of it, and how much of it was hidden."""
    figures = [
        rank["communication"]
        for launch in launches
        for rank in launch.fields["ranks"]
        if rank.get("communication") and rank["communication"]["calls_per_step"]
    ]
    if not figures:
        return ""
    longest: dict[str, Any] = max(figures, key=lambda each: each["all_reduce_s"])
    hidden = longest["overlap_ratio"]
    text = f"all-reduce {milliseconds(longest['all_reduce_s']).strip()}"
    return text if hidden is None else f"{text}, {hidden:.0%} hidden"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:8.2f} ms"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
