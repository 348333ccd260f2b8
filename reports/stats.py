"""The arithmetic of intervals. Times in seconds, throughput in samples per second.

A launch's value is the median of the slowest rank's steps in it, because steps of one process are
correlated and launches are not; with several children in a launch it is the median of theirs. A
cell's step time is the geometric mean of its launches' values:
ratios of step times are what is asked for, and their logarithms are what adds up.

All intervals are at 95 %. Where they come from is part of the answer:

- ``launches``: Student's t on the logarithms of the launches' values;
- ``one launch``: order statistics of the steps, with their effective number. What changes from
  one launch to the next is not in it;
- blank: too few steps, or none kept; or one launch of several children, whose steps are no run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from bench import student
from bench.precision import median_interval
from reports.frames import Row, columns, frame, groups, rows

LEVEL = 0.95
FROM_LAUNCHES = "launches"
FROM_ONE_LAUNCH = "one launch"
#: A stated throughput and the one that follows from the step time are the same number within this.
SAME_NUMBER = 0.01

ESTIMATE_COLUMNS = columns(
    Float64=(
        "step_s step_low_s step_high_s step_p90_s step_p99_s throughput_samples_per_s "
        "throughput_low_samples_per_s throughput_high_samples_per_s"
    ),
    string="interval_from throughput_note",
    Int64="launch_count step_count",
    object="launch_medians_s",
)


@dataclass(frozen=True)
class Estimate:
    """A positive value with its interval; ``low`` and ``high`` are None where it is not known."""

    value: float
    low: float | None = None
    high: float | None = None
    interval_from: str | None = None

    def scaled(self, factor: float) -> Estimate:
        return Estimate(
            self.value * factor,
            None if self.low is None else self.low * factor,
            None if self.high is None else self.high * factor,
            self.interval_from,
        )

    @property
    def includes_one(self) -> bool | None:
        """Whether a ratio cannot be told from 1; None where that is not known."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 1 <= self.high


def step_time(medians_s: Mapping[int, float], steps_s: Sequence[float]) -> Estimate | None:
    """A cell's step time, s: ``medians_s`` by launch, ``steps_s`` the steps of the only launch."""
    if not medians_s:
        return None
    values = list(medians_s.values())
    if len(values) > 1:
        return _exp(student.mean(_logs(medians_s)))
    around = median_interval(steps_s, LEVEL) if steps_s else None
    if around is None:
        return Estimate(values[0])
    return Estimate(values[0], *around, FROM_ONE_LAUNCH)


def throughput_ratio(a: Row, b: Row, *, one_run: bool = True) -> Estimate | None:
    """Throughput of cell ``a`` over that of cell ``b``, with its interval on the log scale.

    Both measured in the same launches (of ``one_run``): Student's t on the paired differences, so
    that what a launch does to both cancels. Several launches each, but not the same: Welch's t. One
    launch: both one-launch intervals, their log half-widths added in quadrature (MOVER, Zou &
    Donner 2008). None where a throughput is blank.
    """
    above, below = a["throughput_samples_per_s"], b["throughput_samples_per_s"]
    if above is None or below is None:
        return None
    value = above / below
    if a["cell"] == b["cell"]:
        return Estimate(1.0)
    if a["throughput_low_samples_per_s"] is None or b["throughput_low_samples_per_s"] is None:
        return Estimate(value)
    of_a, of_b = a["launch_medians_s"] or {}, b["launch_medians_s"] or {}
    batches = math.log(a["global_batch_size"] / b["global_batch_size"])
    if one_run and len(of_a) > 1 and of_a.keys() == of_b.keys():
        differences = [batches + math.log(of_b[n]) - math.log(of_a[n]) for n in of_a]
        return _exp(student.mean(differences))
    if len(of_a) > 1 and len(of_b) > 1:
        return _exp(student.difference(_logs(of_a), _logs(of_b)), math.log(value))
    # The upper end of a ratio goes with the upper end above and the lower end below.
    up_a = math.log(a["throughput_high_samples_per_s"] / above)
    down_a = math.log(above / a["throughput_low_samples_per_s"])
    up_b = math.log(b["throughput_high_samples_per_s"] / below)
    down_b = math.log(below / b["throughput_low_samples_per_s"])
    low = value * math.exp(-math.hypot(down_a, up_b))
    high = value * math.exp(math.hypot(up_a, down_b))
    return Estimate(value, low, high, FROM_ONE_LAUNCH)


def difference_half_width_s(a: Mapping[int, float], b: Mapping[int, float]) -> float | None:
    """Half the 95 % interval of the difference of two step times, s, from values by launch.

    Student's t on paired differences where the launches are the same, else Welch's t; None with
    fewer than two launches.
    """
    if len(a) > 1 and a.keys() == b.keys():
        return student.mean([a[n] - b[n] for n in a]).half_width(LEVEL)
    if len(a) > 1 and len(b) > 1:
        return student.difference(list(a.values()), list(b.values())).half_width(LEVEL)
    return None


def with_estimates(cells: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """``cells`` with step time and throughput, their intervals and where these come from.

    Throughput is global_batch_size / step time. Another suite's own throughput is used where it
    states one; it gets an interval only when it is the number that follows from the step times.
    """
    of_cell = groups(rows(launches), "cell")
    found = [_estimates(row, of_cell.get((row["cell"],), [])) for row in rows(cells)]
    return pd.concat([cells, frame(found, ESTIMATE_COLUMNS)], axis=1)


def launch_step_s(launch: Row) -> float | None:
    """A launch's step time, s: of its steps where they are of one child, else as it states it."""
    own: list[float] = launch["step_s"] or []
    if own and (launch["children"] or 1) == 1:
        return statistics.median(own)
    stated: float | None = launch["median_step_s"]
    return stated


def _estimates(cell: Row, launches: list[Row]) -> Row:
    medians: dict[int, float] = {}
    steps: list[float] = []
    for launch in launches:
        median = launch_step_s(launch)
        if median is not None:
            medians[launch["launch"]] = median
        steps += launch["step_s"] or []
    if not medians and cell["stats_median_s"] is not None:
        medians = {0: cell["stats_median_s"]}
    row: Row = {
        "launch_count": len(medians) or None,
        "step_count": len(steps) or cell["rounds"],
        "launch_medians_s": medians,
        "step_p90_s": percentile(steps, 0.90),
        "step_p99_s": percentile(steps, 0.99),
    }
    one_child = all((launch["children"] or 1) == 1 for launch in launches)
    step = step_time(medians, steps if one_child else [])
    if cell["outcome"] not in (None, "ok"):
        row["throughput_note"] = f"not counted: the case {cell['outcome']} after it was timed"
        return row
    if step is not None:
        row |= {"step_s": step.value, "step_low_s": step.low, "step_high_s": step.high}
        row["interval_from"] = step.interval_from
    return row | _throughput(cell, step)


def _throughput(cell: Row, step: Estimate | None) -> Row:
    batch = cell["global_batch_size"]
    stated = cell["stated_throughput_samples_per_s"]
    derived = batch / step.value if batch is not None and step is not None else None
    if cell["throughput_is_stated"]:
        if stated is None:
            return {"throughput_note": "the file's throughput is not a number"}
        if derived is None:
            return {"throughput_samples_per_s": stated, "throughput_note": "as the file states it"}
        if abs(math.log(stated / derived)) > SAME_NUMBER:
            note = f"as the file states it; its step time gives {derived:.4g} samples/s"
            return {"throughput_samples_per_s": stated, "throughput_note": note}
    if derived is None or step is None:
        return {}
    row = {"throughput_samples_per_s": stated if cell["throughput_is_stated"] else derived}
    if step.low is not None and step.high is not None:
        row["throughput_low_samples_per_s"] = batch / step.high
        row["throughput_high_samples_per_s"] = batch / step.low
    return row


def percentile(steps_s: Sequence[float], level: float) -> float | None:
    """The step time that a share ``level`` of steps does not exceed, s (nearest rank).

    None with fewer than 2 / (1 - level) steps: fewer say nothing about so rare a step.
    """
    n = len(steps_s)
    if n * (1 - level) < 2 - 1e-9:
        return None
    return sorted(steps_s)[math.ceil(n * level - 1e-9) - 1]


def _exp(log: student.Mean, middle: float | None = None) -> Estimate:
    """From a mean of logarithms; ``middle`` in its place keeps the interval's width."""
    middle, half = log.value if middle is None else middle, log.half_width(LEVEL)
    return Estimate(
        math.exp(middle), math.exp(middle - half), math.exp(middle + half), FROM_LAUNCHES
    )


def _logs(values: Mapping[int, float]) -> list[float]:
    return [math.log(value) for value in values.values()]
