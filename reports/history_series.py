"""Results of many runs -> series over torch's versions and over dates, with lasting shifts.

A series is one case on one machine with one family and one channel of torch builds (see
`reports.torch_versions`) at one number of threads per rank; nothing joins two series. Its points
are ordered by torch's version, and within a version by date. Shifts are looked for in that order:
within a version the machine or the code has changed, between two of them torch may have.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from reports import words
from reports.frames import Row
from reports.history_store import Store
from reports.shifts import (
    DELTA,
    FEWEST,
    FEWEST_RUNS,
    Shift,
    detectable,
    find_shifts,
    standing_change,
)
from reports.torch_versions import TorchVersion, torch_version

#: What a series is of, and whether less of it is better.
STEP_TIME, THROUGHPUT = "step_s", "throughput_samples_per_s"
LOWER_IS_BETTER = {STEP_TIME: True, THROUGHPUT: False}
_BEFORE_ALL = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Point:
    """One case in one run: ``value`` (s, or samples/s) and its 95 % interval over launches.

    ``low`` and ``high`` are None with one launch: what changes between launches is not known.
    ``throughput_samples_per_s`` stands beside a step time where the file lets it be known.
    """

    file: str
    date: datetime | None
    commit: str | None
    version: TorchVersion
    label: str
    value: float
    low: float | None
    high: float | None
    launches: int
    throughput_samples_per_s: float | None


@dataclass(frozen=True)
class Where:
    """What keeps series of one case apart."""

    machine: str
    family: str
    channel: str
    threads_per_rank: int | None


@dataclass(frozen=True)
class MarkedShift:
    """A shift between two points: the last before it and the first after it, and why it may be.

    ``of_version``: torch's version changed there, and nothing speaks against its being the cause.
    ``doubt``: what does.
    """

    shift: Shift
    last: Point
    first: Point
    of_version: bool
    doubt: str | None
    worse: bool


@dataclass(frozen=True)
class Series:
    """Points of one case in order, and the shifts in them.

    ``runs`` are the values that shifts are looked for in, one per run and version. ``standing`` is
    last level / level before, where a shift to the worse is still in force. ``detectable``: the
    smallest shift that would have been found, a ratio - 1, in a series without any.
    """

    case: str
    model: str
    strategy: str | None
    where: Where
    metric: str
    points: tuple[Point, ...]
    runs: tuple[float, ...]
    shifts: tuple[MarkedShift, ...]
    standing: float | None
    detectable: float | None
    notes: tuple[str, ...] = ()

    @property
    def lower_is_better(self) -> bool:
        return LOWER_IS_BETTER[self.metric]

    @property
    def versions(self) -> list[TorchVersion]:
        return list(dict.fromkeys(point.version for point in self.points))

    @property
    def too_few(self) -> bool:
        return len(self.runs) < FEWEST_RUNS

    @property
    def changed(self) -> float | None:
        """The last level over the level before the last shift; None without a shift."""
        return self.shifts[-1].shift.ratio if self.shifts else None


@dataclass(frozen=True)
class History:
    series: tuple[Series, ...]
    files: int
    delta: float
    notes: tuple[str, ...]
    failures: tuple[Row, ...] = field(default=())

    @property
    def standing(self) -> list[Series]:
        """Those in which a lasting shift to the worse is still in force."""
        return [one for one in self.series if one.standing is not None]


def history(store: Store, delta: float = DELTA) -> History:
    """All series: first those that got worse and still are, then those with a shift."""
    parts: dict[tuple[tuple[object, ...], Where], list[Row]] = {}
    notes = list(store.notes)
    for row in store.results:
        version = torch_version(row["torch_version"])
        where = Where(_machine(row), version.family, version.channel, row["threads_per_rank"])
        parts.setdefault((_case_key(row), where), []).append(row | {"version": version})
    series = []
    for (_, where), results in parts.items():
        made = _series(where, results, delta)
        if isinstance(made, str):
            notes.append(made)
        else:
            series.append(made)
    if any(point.date is None for one in series for point in one.points):
        notes.append("results without a date come before those that have one")
    series.sort(key=lambda one: (one.standing is None, not one.shifts, -len(one.runs)))
    return History(tuple(series), store.files, delta, tuple(notes), tuple(store.failures))


def _case_key(row: Row) -> tuple[object, ...]:
    """One definition of a case: ours by its id without torch's label, others by name and params."""
    if row["own"]:
        return (_case_name(row), row["model"], row["other"])
    return (row["name"], row["identity"])


def _case_name(row: Row) -> str:
    """The id without what `bench.case` puts at its end for the interpreter's label."""
    name: str = row["id"]
    return name.rpartition("-torch_")[0] or name if row["own"] and row["torch"] else name


def _machine(row: Row) -> str:
    known = [text for text in (row["cpu"], *row["devices"]) if text]
    host = row["host"] or "machine not stated"
    return f"{host} ({', '.join(known)})" if known else str(host)


def _series(where: Where, results: list[Row], delta: float) -> Series | str:
    """A series, or a sentence that says why there is none."""
    row = results[0]
    case, notes = _case_name(row), []
    known = [row for row in results if not row["conflict"]]
    if len(known) < len(results):
        files = sorted({row["file"] for row in results if row["conflict"]})
        notes.append(f"two results for one case in {words.joined(files)}: neither is counted")
    metric = STEP_TIME if any(row[STEP_TIME] is not None for row in known) else THROUGHPUT
    measured = [row for row in known if row[metric] is not None]
    if not measured:
        return f"{case}: no series, none of its {len(results)} results has a value"
    if len(measured) < len(known):
        lost = [row for row in known if row[metric] is None]
        why = next((row["throughput_note"] for row in lost if row["throughput_note"]), "no value")
        notes.append(f"{len(lost)} of {len(known)} results left out: {why}")
    points = sorted((_point(row, metric) for row in measured), key=_order)
    runs = _runs(points)
    values = [_value(run) for run in runs]
    starts = [i for i in range(1, len(runs)) if _new_torch(runs[i - 1][0], runs[i][0])]
    lower = LOWER_IS_BETTER[metric]
    found = find_shifts(values, delta, preferred=starts)
    return Series(
        case=case,
        model=words.model(row),
        strategy=row["strategy"],
        where=where,
        metric=metric,
        points=tuple(points),
        runs=tuple(values),
        shifts=tuple(_marked(shift, runs, lower, delta) for shift in found),
        standing=standing_change(found, lower, delta),
        detectable=None if found else detectable(values, delta),
        notes=tuple(notes),
    )


def _point(row: Row, metric: str) -> Point:
    stem = "step" if metric == STEP_TIME else "throughput"
    unit = metric.removeprefix(stem)
    several = (row["launch_count"] or 0) > 1
    return Point(
        file=row["file"],
        date=row["date"],
        commit=row["commit"],
        version=row["version"],
        label=row["torch"] or "",
        value=row[metric],
        low=row[f"{stem}_low{unit}"] if several else None,
        high=row[f"{stem}_high{unit}"] if several else None,
        launches=row["launch_count"] or 1,
        throughput_samples_per_s=row[THROUGHPUT],
    )


def _order(point: Point) -> tuple[object, ...]:
    return point.version.key, point.date or _BEFORE_ALL, point.file, point.label


def _runs(points: Sequence[Point]) -> list[list[Point]]:
    """The points by run and version. Labels of one run with one torch are one run of it."""
    found: dict[tuple[str, TorchVersion], list[Point]] = {}
    for point in points:
        found.setdefault((point.file, point.version), []).append(point)
    return list(found.values())


def _value(run: Sequence[Point]) -> float:
    return math.exp(statistics.fmean(math.log(point.value) for point in run))


def _marked(shift: Shift, runs: list[list[Point]], lower: bool, delta: float) -> MarkedShift:
    last, first = runs[shift.at - 1][-1], runs[shift.at][0]
    doubt = None
    of_version = _new_torch(last, first)
    if of_version:
        doubt = _doubt(shift, runs, last.version, first.version, delta)
    worse = shift.is_worse(lower)
    return MarkedShift(shift, last, first, of_version and doubt is None, doubt, worse)


def _new_torch(last: Point, first: Point) -> bool:
    """Whether torch changed between two points; two texts that are no versions do not say."""
    return last.version.order is not None and last.version != first.version


def _doubt(
    shift: Shift, runs: list[list[Point]], old: TorchVersion, new: TorchVersion, delta: float
) -> str | None:
    """Whether the runs that hold both versions gainsay that torch is what made the difference.

    Versions that were measured side by side share what the machine did meanwhile; those of
    different dates do not.
    """
    of_old = {run[0].file: _value(run) for run in runs if run[0].version == old}
    of_new = {run[0].file: _value(run) for run in runs if run[0].version == new}
    both = of_old.keys() & of_new.keys()
    if len(both) < FEWEST:
        return None
    apart = statistics.median(math.log(of_new[name] / of_old[name]) for name in both)
    if math.copysign(1, math.log(shift.ratio)) * apart > math.log1p(delta):
        return None
    return (
        f"in the {len(both)} runs that hold both, the two versions differ by "
        f"{words.change(math.exp(apart))} only"
    )
