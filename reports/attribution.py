"""Where the time of a worse case went: its parts under A and under B, side by side.

Three kinds of parts, in seconds a step, all of the launches in which both were first measured:

- ``waterfall``: the loss waterfall (reports/waterfall.py) from the last level that both sides have;
  its terms add up to the step, and so their growths to its growth;
- ``phase``: medians over steps on the rank where the phase took longest, mean over launches; they
  need not add up;
- ``communication``: of the profiled pass and of the pass without communication, the same way.

A growth is told from noise by its own 95 % interval over launches: Student's t on the differences
of pairs, Welch's for separate runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from reports import words
from reports.communication import mean
from reports.frames import Row, columns, frame, groups, rows
from reports.load import Records
from reports.pairing import Paired
from reports.stats import difference_half_width_s
from reports.waterfall import LEVELS, TERMS

STEP, WATERFALL, PHASE, COMMUNICATION = "step", "waterfall", "phase", "communication"
COLUMNS = columns(
    string="case new kind part",
    Float64="a_s b_s growth_s half_width_s",
    boolean="beyond_noise",
)
_PHASES = {
    "data_s": "data",
    "forward_s": "forward",
    "backward_s": "backward",
    "communication_s": "communication",
    "optimizer_s": "optimizer",
}
_OF_RANKS = {
    "all_reduce_s": "all-reduce time",
    "exposed_s": "exposed communication",
    "wait_s": "waiting for other ranks",
}
_OF_LAUNCHES = {
    "transfer_s": "transfer",
    "no_communication_step_s": "step without communication",
}
#: A part with this share of the growth has "most" of it.
MOST = 0.5

ByLaunch = Mapping[int, float]


def attribution(
    worse: Sequence[Paired], records: Records, waterfall: pd.DataFrame, is_paired: bool
) -> pd.DataFrame:
    """One row per part of every case in ``worse``; ``COLUMNS``. ``waterfall``: of all cells."""
    launches, ranks = (groups(rows(table), "cell") for table in (records.launches, records.ranks))
    of_cell = {row["cell"]: row for row in rows(waterfall)}
    found: list[Row] = []
    for one in worse:
        parts = [
            _part(STEP, "step", one.a["launch_medians_s"], one.b["launch_medians_s"], is_paired)
        ]
        parts += _terms(of_cell.get(one.a["cell"]), of_cell.get(one.b["cell"]), is_paired)
        sides = [
            (launches.get((cell["cell"],), []), groups(ranks.get((cell["cell"],), []), "launch"))
            for cell in (one.a, one.b)
        ]
        for kind, name, title, read in _READERS:
            a, b = (read(name, *side) for side in sides)
            if a or b:
                parts.append(_part(kind, title, a, b, is_paired))
        found += [part | {"case": one.name, "new": one.new.name} for part in parts]
    return frame(found, COLUMNS)


def sentences(parts: Sequence[Row]) -> list[str]:
    """Of the parts of one case: where most of the growth is, if that can be told."""
    step = next((row for row in parts if row["kind"] == STEP), None)
    if step is None or step["growth_s"] is None:
        return []
    found = []
    for kind, noun in ((WATERFALL, "term of the waterfall"), (PHASE, "phase")):
        own = [row for row in parts if row["kind"] == kind and row["growth_s"] is not None]
        if own:
            found.append(_sentence(own, noun, step["growth_s"]))
    return found


def _sentence(parts: Sequence[Row], noun: str, total_s: float) -> str:
    total = f"{words.signed_milliseconds(total_s)}{words.SPACE}ms"
    if all(row["half_width_s"] is None for row in parts):
        return f"No {noun} can be named: one launch does not tell growth from noise."
    grown = [row for row in parts if row["beyond_noise"] and row["growth_s"] > 0]
    if not grown:
        return f"No single {noun} stands out: none has grown by more than its own noise."
    largest = max(grown, key=lambda row: row["growth_s"])
    by = f"{words.signed_milliseconds(largest['growth_s'])}{words.SPACE}ms"
    if total_s > 0 and largest["growth_s"] >= MOST * total_s:
        return f"Most of the {total} is in one {noun}: {largest['part']} ({by})."
    return f"The {noun} that has grown most is {largest['part']}: {by}, of {total} in all."


def _terms(a: Row | None, b: Row | None, is_paired: bool) -> list[Row]:
    """From the later of the two levels at which the waterfalls begin."""
    if a is None or b is None:
        return []
    levels, titles = list(LEVELS), list(LEVELS.values())
    start = max(titles.index(a["begins"]), titles.index(b["begins"]))
    one, other = a["level_medians_s"], b["level_medians_s"]
    first = levels[start]
    found = [
        _part(WATERFALL, LEVELS[first], one[first], other[first], is_paired)
        | _values(a[f"{first}_s"], b[f"{first}_s"])
    ]
    for (term, title), below, above in list(zip(TERMS.items(), levels, levels[1:], strict=False))[
        start:
    ]:
        was, now = (_minus(side[above], side[below]) for side in (one, other))
        found.append(
            _part(WATERFALL, title, was, now, is_paired) | _values(a[f"{term}_s"], b[f"{term}_s"])
        )
    return [_judged(part) for part in found]


def _part(kind: str, title: str, a: ByLaunch, b: ByLaunch, is_paired: bool) -> Row:
    return _judged(
        {
            "kind": kind,
            "part": title,
            **_values(mean(a.values()), mean(b.values())),
            "half_width_s": _half_width_s(a, b, is_paired),
        }
    )


def _values(a: float | None, b: float | None) -> Row:
    return {"a_s": a, "b_s": b, "growth_s": None if a is None or b is None else b - a}


def _judged(part: Row) -> Row:
    growth, half = part["growth_s"], part["half_width_s"]
    known = growth is not None and half is not None
    return part | {"beyond_noise": abs(growth) > half if known else None}


def _half_width_s(a: ByLaunch, b: ByLaunch, is_paired: bool) -> float | None:
    if is_paired:
        shared = a.keys() & b.keys()
        return difference_half_width_s({n: b[n] for n in shared}, {n: a[n] for n in shared})
    # Launch 1 of one run is not that of the other: no number may be the same.
    return difference_half_width_s(b, {-1 - n: value for n, value in a.items()})


def _minus(above: ByLaunch, below: ByLaunch) -> ByLaunch:
    return {n: above[n] - below[n] for n in above.keys() & below.keys()}


Reader = Callable[[str, Sequence[Row], Mapping[tuple[int], Sequence[Row]]], ByLaunch]


def _largest_of_ranks(
    name: str, launches: Sequence[Row], ranks: Mapping[tuple[int], Sequence[Row]]
) -> ByLaunch:
    """Blank unless every rank has a value: the one that has none may be the largest."""
    found = {}
    for (launch,), own in ranks.items():
        values = [rank[name] for rank in own]
        if None not in values:
            found[launch] = max(values)
    return found


def _of_launches(
    name: str, launches: Sequence[Row], ranks: Mapping[tuple[int], Sequence[Row]]
) -> ByLaunch:
    return {one["launch"]: one[name] for one in launches if one[name] is not None}


_READERS: list[tuple[str, str, str, Reader]] = [
    *((PHASE, name, title, _largest_of_ranks) for name, title in _PHASES.items()),
    *((COMMUNICATION, name, title, _largest_of_ranks) for name, title in _OF_RANKS.items()),
    *((COMMUNICATION, name, title, _of_launches) for name, title in _OF_LAUNCHES.items()),
]
