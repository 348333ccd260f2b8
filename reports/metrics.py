"""What of a case is compared: names, units, which direction is worse, and a launch's value.

A launch is one value of each metric. Times that exist by rank are those of the slowest rank, and
memory that of the largest: that is what a job waits for and what it must have room for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.nearest import did_you_mean
from reports import words
from reports.frames import Row
from reports.stats import launch_step_s

#: One launch's value, from its cell, its row and the rows of its ranks; None is not known.
Reader = Callable[[Row, Row, Sequence[Row]], "float | None"]


@dataclass(frozen=True)
class Metric:
    """One thing that is compared. ``worse`` and ``better`` are what a change is called."""

    name: str
    title: str
    unit: str
    lower_is_better: bool
    worse: str
    better: str
    read: Reader
    #: How one value is put in words, unit and all.
    say: Callable[[float | None], str]

    @property
    def direction(self) -> str:
        return f"{'lower' if self.lower_is_better else 'higher'} is better"

    def by_launch(
        self, cell: Row, launches: Sequence[Row], ranks: Mapping[int, Sequence[Row]]
    ) -> dict[int, float]:
        """Launch -> value, without those of which it is not known; ``ranks`` by launch."""
        read = {
            one["launch"]: self.read(cell, one, ranks.get(one["launch"], ())) for one in launches
        }
        return {launch: value for launch, value in read.items() if value is not None}


def _step_s(cell: Row, launch: Row, ranks: Sequence[Row]) -> float | None:
    return launch_step_s(launch)


def _throughput(cell: Row, launch: Row, ranks: Sequence[Row]) -> float | None:
    """Another suite's own where it states one, and then its file is one launch."""
    if cell["throughput_is_stated"]:
        stated: float | None = cell["stated_throughput_samples_per_s"]
        return stated
    step_s, batch = launch_step_s(launch), cell["global_batch_size"]
    return None if step_s is None or batch is None else batch / step_s


def _column(name: str) -> Reader:
    def read(cell: Row, launch: Row, ranks: Sequence[Row]) -> float | None:
        value: float | None = launch[name]
        return value

    return read


def _slowest_rank(name: str) -> Reader:
    """Blank unless every rank has a value: the one that has none may be the slowest."""

    def read(cell: Row, launch: Row, ranks: Sequence[Row]) -> float | None:
        values = [rank[name] for rank in ranks]
        return max(values) if values and None not in values else None

    return read


def _rate(value: float | None) -> str:
    return words.BLANK if value is None else f"{words.plain(value)}/s"


STEP_TIME = Metric("step_time", "step time", "s", True, "slower", "faster", _step_s, words.seconds)
METRICS = (
    STEP_TIME,
    Metric(
        *("throughput", "throughput", "samples/s", False, "slower", "faster"), _throughput, _rate
    ),
    Metric(
        *("all_reduce_time", "all-reduce time", "s", True, "slower", "faster"),
        _slowest_rank("all_reduce_s"),
        words.seconds,
    ),
    Metric(
        *("exposed_communication", "exposed communication", "s", True, "more", "less"),
        _slowest_rank("exposed_s"),
        words.seconds,
    ),
    Metric(
        *("peak_memory", "peak memory", "bytes", True, "more", "less"),
        _column("peak_bytes"),
        words.size,
    ),
    Metric(
        *("first_step", "first step", "s", True, "slower", "faster"),
        _column("first_step_s"),
        words.seconds,
    ),
    Metric(*("init", "init", "s", True, "slower", "faster"), _column("init_s"), words.seconds),
)
#: What a run measures its flagged cases again for.
CONFIRMED_BY_RUNS = ("step_time", "throughput")


def metric(name: str) -> Metric:
    """By name, with spaces or hyphens too. Raises ValueError in one line."""
    plain = name.strip().lower().replace(" ", "_").replace("-", "_")
    for one in METRICS:
        if one.name == plain:
            return one
    names = [one.name for one in METRICS]
    raise ValueError(
        f"{name!r} is no metric{did_you_mean(plain, names)} (choose from {', '.join(names)})"
    )
