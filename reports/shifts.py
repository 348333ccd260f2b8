"""Lasting shifts in a short series of runs: a level that changed and stayed, not one bad run.

Works on logarithms of positive values, in the order of the runs. The series is cut into stretches
of at least ``FEWEST`` runs so that the absolute deviations from each stretch's median add up to as
little as possible (least absolute deviations: one outlier costs what it is off by, and moves no
median). A cut has to be worth it: with F(m) the deviations left after m cuts, the m is taken for
which

    n log F(m) + m (6.5 + log(n) / 2)

is smallest: the log likelihood of Laplace noise of unknown size, and a price for each cut in the
manner of Schwarz's criterion. The price is the one at which about 1 % of series without any shift
are cut at all, for n from 6 to 100, under normal noise, under Student's t with 3 degrees of
freedom, and under normal noise with 5 % outliers of five times its size; tests/reports/
test_shifts.py simulates it. It holds for each series by itself, and for runs that are independent.

Two more conditions make it a shift worth naming: the levels differ by more than ``delta``, and at
least ``FEWEST`` runs on either side of the cut are nearer to their own level than to the other, so
that no two bad runs and a good one pass for three.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

#: Runs a level must last to be one.
FEWEST = 3
#: With fewer runs than this there is no telling: FEWEST before and FEWEST after.
FEWEST_RUNS = 2 * FEWEST
DELTA = 0.03
#: Cuts looked for in one series.
_MOST_CUTS = 8
#: Added to each deviation, as a ratio: no machine repeats itself better, and log F stays finite.
_FINEST = 1e-3
#: A cut is known to within the places that cost less than this more: half of it is the log
#: likelihood ratio, so they are an interval of about 85 %.
_AS_GOOD = 2.0
#: The largest planted shift that is tried.
_MOST_DETECTABLE = 1.0


@dataclass(frozen=True)
class Shift:
    """From run ``at`` on (0 is the first run) the level is another.

    ``before`` and ``after`` are the medians of the stretches around it, in the values' own unit,
    ``ratio`` is after / before. ``runs_before`` and ``runs_after`` are the stretches' lengths.
    """

    at: int
    before: float
    after: float
    runs_before: int
    runs_after: int

    @property
    def ratio(self) -> float:
        return self.after / self.before

    def is_worse(self, lower_is_better: bool) -> bool:
        return (self.ratio > 1) == lower_is_better


def find_shifts(
    values: Sequence[float], delta: float = DELTA, preferred: Collection[int] = ()
) -> list[Shift]:
    """The lasting shifts in ``values`` (all > 0, in the order of the runs); none in short series.

    ``delta``: the smallest change of level that counts, as a ratio - 1. ``preferred``: places where
    something is known to have changed, as torch's version; a cut is put there where that explains
    the values as well as its best place does.
    """
    if len(values) < FEWEST_RUNS:
        return []
    logs = [math.log(value) for value in values]
    costs = _costs(logs)
    cuts = _best_cuts(costs)
    while cuts:
        cuts = _moved(costs, cuts, preferred)
        levels = _levels(logs, cuts)
        weak = [(abs(b - a), i) for i, (a, b) in enumerate(pairwise(levels))]
        weak = [
            (size, i)
            for size, i in weak
            if size <= math.log1p(delta) or not _lasts(logs, cuts, levels, i)
        ]
        if not weak:
            break
        cuts.pop(min(weak)[1])
    edges = [0, *cuts, len(logs)]
    levels = _levels(logs, cuts)
    return [
        Shift(
            at=cut,
            before=math.exp(levels[i]),
            after=math.exp(levels[i + 1]),
            runs_before=cut - edges[i],
            runs_after=edges[i + 2] - cut,
        )
        for i, cut in enumerate(cuts)
    ]


def standing_change(shifts: Sequence[Shift], lower_is_better: bool, delta: float) -> float | None:
    """How much worse the last level is than that before the first shift it has not recovered from.

    A ratio of levels, last / before; None where no shift to the worse is still in force: a level
    that came back to within ``delta`` of the one before the shift has recovered.
    """
    sign = 1 if lower_is_better else -1
    for shift in shifts:
        lost = sign * math.log(shifts[-1].after / shift.before)
        if shift.is_worse(lower_is_better) and lost > math.log1p(delta):
            return shifts[-1].after / shift.before
    return None


def detectable(values: Sequence[float], delta: float = DELTA) -> float | None:
    """The smallest shift halfway through a series without one that would have been found.

    A ratio - 1, planted into these very values and looked for, to about 0.5 %; None with too few
    runs, or where not even a doubling would have been seen.
    """
    if len(values) < FEWEST_RUNS:
        return None
    half = len(values) // 2

    def found(change: float) -> bool:
        planted = [value * (1 + change) if i >= half else value for i, value in enumerate(values)]
        return any(shift.ratio > 1 for shift in find_shifts(planted, delta))

    low, high = math.log1p(delta), math.log1p(_MOST_DETECTABLE)
    if not found(math.expm1(high)):
        return None
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if found(math.expm1(middle)) else (middle, high)
    return math.expm1(high)


def _price(n: int) -> float:
    return 6.5 + math.log(n) / 2


def _costs(logs: Sequence[float]) -> Matrix:
    """``[start, end]``: absolute deviations of ``logs[start:end]`` from their median, summed.

    Infinite for stretches that are too short. Two heaps hold the lower and the upper half of a
    stretch that grows, so that all of them take n² log n.
    """
    n = len(logs)
    costs = np.full((n + 1, n + 1), np.inf)
    for start in range(n - FEWEST + 1):
        lower: list[float] = []  # negated: its first is the largest
        upper: list[float] = []
        for end in range(start + 1, n + 1):
            heapq.heappush(lower, -heapq.heappushpop(upper, logs[end - 1]))
            if len(lower) > len(upper):
                heapq.heappush(upper, -heapq.heappop(lower))
            if end - start >= FEWEST:
                excess = (len(upper) - len(lower)) * upper[0]
                costs[start, end] = sum(upper) + sum(lower) - excess
    return costs


def _best_cuts(costs: Matrix) -> list[int]:
    """The places of the cuts that are worth their price (Bellman's recursion over the ends)."""
    n = len(costs) - 1
    best = costs[0]
    came_from: list[npt.NDArray[np.intp]] = []
    scores = [_score(best[n], n, 0)]
    for cuts in range(1, min(_MOST_CUTS, n // FEWEST - 1) + 1):
        through = best[:, None] + costs
        came_from.append(through.argmin(axis=0))
        best = through.min(axis=0)
        scores.append(_score(best[n], n, cuts))
    found: list[int] = []
    end = n
    for origin in reversed(came_from[: scores.index(min(scores))]):
        end = int(origin[end])
        found.append(end)
    return found[::-1]


def _score(deviations: float, n: int, cuts: int) -> float:
    return n * math.log(max(float(deviations), 0.0) + n * _FINEST) + cuts * _price(n)


def _moved(
    costs: Matrix,
    cuts: list[int],
    preferred: Collection[int],
) -> list[int]:
    """The cuts, each at the nearest preferred place that is as good as its own."""
    n = len(costs) - 1
    edges = [0, *cuts, n]
    for i in range(1, len(edges) - 1):
        before, cut, after = edges[i - 1 : i + 2]
        rest = sum(costs[a, b] for j, (a, b) in enumerate(pairwise(edges)) if j not in (i - 1, i))
        limit = _score(rest + costs[before, cut] + costs[cut, after], n, 0) + _AS_GOOD
        for place in sorted(preferred, key=lambda place: abs(place - cut)):
            if not before + FEWEST <= place <= after - FEWEST:
                continue
            if _score(rest + costs[before, place] + costs[place, after], n, 0) <= limit:
                edges[i] = place
                break
    return edges[1:-1]


def _lasts(logs: Sequence[float], cuts: list[int], levels: list[float], i: int) -> bool:
    """Whether FEWEST runs on either side of cut ``i`` are nearer to their own level."""
    edges = [0, *cuts, len(logs)]
    own, other = levels[i], levels[i + 1]
    left = sum(abs(x - own) < abs(x - other) for x in logs[edges[i] : cuts[i]])
    right = sum(abs(x - other) < abs(x - own) for x in logs[cuts[i] : edges[i + 2]])
    return left >= FEWEST and right >= FEWEST


def _levels(logs: Sequence[float], cuts: list[int]) -> list[float]:
    return [statistics.median(logs[a:b]) for a, b in pairwise([0, *cuts, len(logs)])]
