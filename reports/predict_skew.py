"""The slowest of W ranks, from how much the steps of single ranks differ.

A step's time is the slowest rank's, and a case's the median over its steps. Of W independent draws
from n measured numbers the largest is the k-th smallest or less with probability (k/n)^W: where
that is one half lies the median of the slowest, what a bootstrap tends to, without drawing. (The
mean of the slowest, for a median step, would count one hiccup as if it were in every step.)

Ranks that are slow together (one power budget, one file server) are not independent, and then this
is too much; what is rarer than one step in n is in no measured number, and then it is too little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def typical_maximum(values: Sequence[float], ranks: int) -> float:
    """The median of the largest of ``ranks`` independent draws with replacement; between two
    measured numbers in proportion."""
    ordered, n = sorted(values), len(values)
    place = float(0.5 ** (1 / ranks)) * n - 0.5  # the k-th smallest stands in the middle of its 1/n
    if place >= n - 1:
        return ordered[-1]
    below = math.floor(max(0.0, place))
    part = max(0.0, place) - below
    return ordered[below] * (1 - part) + ordered[min(below + 1, n - 1)] * part


def waiting_for_more(values: Sequence[float], measured: int, ranks: int) -> float:
    """How much longer the slowest of ``ranks`` takes than the slowest of ``measured``, seconds."""
    return typical_maximum(values, ranks) - typical_maximum(values, measured)


def most_ranks(values: Sequence[float]) -> int:
    """Of how many ranks the slowest can be told from so many numbers; more are taken as these."""
    n = len(values)
    return max(1, math.floor(math.log(0.5) / math.log((n - 0.5) / n))) if n else 1
