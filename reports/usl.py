"""The Universal Scalability Law (Gunther): a curve through measured throughputs, as a baseline.

    X(N) = one N / (1 + contention (N − 1) + coherency N (N − 1))

It knows nothing of networks or buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

LEAST_SIZES = 3


@dataclass(frozen=True)
class ScalabilityLaw:
    """``one_per_s``: throughput of one rank."""

    one_per_s: float
    contention: float
    coherency: float

    def throughput(self, n: int) -> float:
        return self.one_per_s * n / (1 + self.contention * (n - 1) + self.coherency * n * (n - 1))


def fit(throughputs: Mapping[int, float]) -> ScalabilityLaw | str:
    """By world size, samples per second; why there is no fit, in words, with too few of them."""
    if len(throughputs) < LEAST_SIZES:
        return f"needs {LEAST_SIZES} measured world sizes, found {len(throughputs)}"
    from scipy.optimize import least_squares  # a tenth of a second, for one command of many

    sizes = np.array(sorted(throughputs), dtype=float)
    measured = np.array([throughputs[int(n)] for n in sizes])

    def off(found: np.ndarray) -> np.ndarray:
        law = ScalabilityLaw(*found)
        law_says = np.array([law.throughput(n) for n in sizes])
        return np.asarray(law_says / measured - 1)

    start = [measured[0] / sizes[0], 0.01, 0.0]
    found = least_squares(off, start, bounds=(0, np.inf), x_scale=[start[0], 0.01, 0.001])
    return ScalabilityLaw(*map(float, found.x))
