"""Means of a few values, and how far they are to be trusted: Student's t and Welch's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit


@dataclass(frozen=True)
class Mean:
    """A mean or a difference of two, its standard error (same unit) and degrees of freedom."""

    value: float
    error: float
    freedom: float

    def half_width(self, level: float = 0.95) -> float:
        """Half the width of the interval that holds the true mean in a share ``level`` of cases."""
        return quantile(self.freedom, 0.5 + level / 2) * self.error


def mean(values: Sequence[float]) -> Mean:
    """Student's; needs at least two values."""
    n, middle = len(values), statistics.fmean(values)
    return Mean(middle, math.sqrt(_variance(values, middle) / n), n - 1)


def difference(a: Sequence[float], b: Sequence[float]) -> Mean:
    """Mean of ``b`` minus mean of ``a``, variances unequal (Welch 1947); two values each."""
    middle_a, middle_b = statistics.fmean(a), statistics.fmean(b)
    value = middle_b - middle_a
    share_a, share_b = _variance(a, middle_a) / len(a), _variance(b, middle_b) / len(b)
    total = share_a + share_b
    if total == 0:
        return Mean(value, 0.0, len(a) + len(b) - 2)
    # In shares of the total, so that squares of tiny variances do not vanish.
    part_a, part_b = share_a / total, share_b / total
    freedom = 1 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))
    return Mean(value, math.sqrt(total), freedom)


def _variance(values: Sequence[float], middle: float) -> float:
    """Of a sample; ``statistics.variance`` reckons with fractions and takes twenty times longer."""
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def quantile(freedom: float, probability: float) -> float:
    """Of Student's t distribution."""
    return float(stdtrit(freedom, probability))
