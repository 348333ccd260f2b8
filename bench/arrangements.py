"""Exact tests by arrangement: how rare is this difference if A and B were only names?

Pairs: every pair may have been the other way round, which flips the sign of its difference
(Fisher 1935). Launches that are no pairs: any of them may have been A's. ``scipy`` goes through
all arrangements, or through randomly drawn ones, seeded, where there are more than MOST_EXACT.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

#: Arrangements that are all gone through: up to 18 pairs, or 10 launches against 10.
MOST_EXACT = 2**18
#: Drawn otherwise: so many, and more for very many cases, since the least p that draws can give is
#: one in their number, and it has to stay significant after a correction for all cases.
_DRAWN, _DRAWN_PER_CASE = 99_999, 100
_SEED = 0
_AT_ONCE = 1024
#: Sums this close, as a share of the largest value, are the same: they differ by rounding alone.
#: scipy's own tolerance is a share of the observed sum, which may be next to 0.
_SAME = 1e-9

Array = npt.NDArray[np.float64]
#: Of one case: (differences of the pairs,), or (values of A, values of B).
Parts = tuple[Sequence[float], ...]


def p_values(cases: Sequence[Parts]) -> list[float | None]:
    """The two-sided p of every case; None with fewer than two values in a part."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for i, parts in enumerate(cases):
        alike.setdefault(tuple(map(len, parts)), []).append(i)
    found: list[float | None] = [None] * len(cases)
    drawn = max(_DRAWN, _DRAWN_PER_CASE * len(cases))
    for sizes, members in alike.items():
        if min(sizes) >= 2:
            tested = _tested(np.array([np.concatenate(cases[i]) for i in members]), sizes, drawn)
            for i, p in zip(members, tested, strict=True):
                found[i] = float(p)
    return found


def least_p(*sizes: int) -> float:
    """The smallest p that parts of these sizes can have: 2 / 2**n of pairs, else 2 / C(n+m, n)."""
    return 2 / _arrangements(*sizes)


def _arrangements(*sizes: int) -> int:
    return 2 ** sizes[0] if len(sizes) == 1 else math.comb(sum(sizes), sizes[0])


def _tested(values: Array, sizes: tuple[int, ...], drawn: int) -> Array:
    """p by row of ``values``: the parts of a case one after another."""
    from scipy.stats import permutation_test  # takes half a second, and few runs need it

    if len(sizes) > 1:  # only differences count: their middle is 0
        values = values - (values.max(1, keepdims=True) + values.min(1, keepdims=True)) / 2
    kind: Literal["samples", "independent"] = "samples" if len(sizes) == 1 else "independent"
    every = _arrangements(*sizes)
    exact = every <= MOST_EXACT
    tested: Any = permutation_test(
        np.split(values, np.cumsum(sizes)[:-1], axis=1),
        _last_sum,
        permutation_type=kind,
        vectorized=True,
        n_resamples=every if exact else drawn,
        batch=_AT_ONCE,
        axis=1,
        random_state=np.random.default_rng(_SEED),
    )
    sums, same = tested.null_distribution, _SAME * np.abs(values).max(1)
    above = np.count_nonzero(sums >= tested.statistic - same, axis=0)
    below = np.count_nonzero(sums <= tested.statistic + same, axis=0)
    # Among drawn ones the observed arrangement counts too, or p could be 0.
    observed = 0 if exact else 1
    found: Array = 2 * (np.minimum(above, below) + observed) / (len(sums) + observed)
    return np.minimum(found, 1.0)


def _last_sum(*parts: Array, axis: int) -> Any:
    """Orders the arrangements as the difference of the means does, for all have the same total."""
    return parts[-1].sum(axis=axis)
