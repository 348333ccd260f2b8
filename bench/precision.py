"""How well a median of correlated steps is known.

Steps of one process are correlated, so that n steps are worth fewer than n independent ones. The
interval of the median is the binomial one between two order statistics, with the number of steps
replaced by their effective number.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

#: Below this many independent steps even the whole range of them holds the median with less than
#: 95 % probability: 2 * (1/2)**n > 0.05.
FEWEST_INDEPENDENT = 6


def effective_sample_size(values: Sequence[float]) -> float:
    """How many independent steps these are worth *for their median*; at most ``len(values)``.

    What matters for a median is the correlation of "above or below the median" (the asymptotic
    variance of a sample median holds no other), which also makes the answer safe from outliers.
    The sum of autocorrelations ends at the first pair that is not positive (Geyer 1992, initial
    positive sequence).
    """
    n = len(values)
    if n < 4:
        return float(n)
    middle = statistics.median(values)
    signs = [(value > middle) - (value < middle) for value in values]
    mean = sum(signs) / n
    centred = [sign - mean for sign in signs]
    variance = sum(value * value for value in centred)
    if variance == 0:
        return float(n)

    def autocorrelation(lag: int) -> float:
        return sum(a * b for a, b in zip(centred, centred[lag:], strict=False)) / variance

    inflation = -1.0
    for lag in range(0, n - 1, 2):
        pair = autocorrelation(lag) + autocorrelation(lag + 1)
        if pair <= 0:
            break
        inflation += 2 * pair
    return n / max(1.0, inflation)


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """(low, high) that holds the median with probability ``level``, in the unit of ``values``.

    None where the steps are too few, or too alike in time, to say.
    """
    n = len(values)
    effective = effective_sample_size(values)
    if n < FEWEST_INDEPENDENT or effective < FEWEST_INDEPENDENT:
        return None
    z = statistics.NormalDist().inv_cdf(0.5 + level / 2)
    reach = z * 0.5 / math.sqrt(effective)
    low = math.floor(n * (0.5 - reach))
    high = math.ceil(n * (0.5 + reach)) - 1
    if low < 0 or high > n - 1:
        return None
    ordered = sorted(values)
    return ordered[low], ordered[max(high, low)]


def relative_half_width(values: Sequence[float]) -> float | None:
    """Half the interval over the median, a ratio; None where the interval is not known."""
    interval = median_interval(values)
    middle = statistics.median(values) if values else 0.0
    if interval is None or middle <= 0:
        return None
    return (interval[1] - interval[0]) / 2 / middle
