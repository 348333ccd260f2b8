"""What a collective costs by its size: t = alpha + beta x bytes, fitted to measured times.

The squares of *relative* errors are least: an error of a tenth counts the same for a kilobyte as
for 64 megabytes, which plain squares would hear alone. alpha is what a call costs before its first
byte moves, and 1/beta the rate of many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: A regime has at least so many sizes: two would lie on any line.
LEAST_SIZES = 3
#: Two lines are believed instead of one where they leave at most this share of its relative
#: error (root mean square, both corrected for the numbers that were fitted), and ...
CLEARLY_BETTER = 0.5
#: ... where one line is off by more than this, relative: noise is no second regime.
GOOD_ENOUGH = 0.05


@dataclass(frozen=True)
class Line:
    """``seconds = alpha_s + beta_s_per_byte x bytes``, with the sizes it was fitted to.

    A number that the times do not show is None, ``note`` says why, and the line does without it.
    Residuals are relative to the measured times; None where there are no more sizes than numbers
    fitted, so that the line goes through them whatever they are.
    """

    alpha_s: float | None
    beta_s_per_byte: float | None
    least_bytes: int
    most_bytes: int
    sizes: int
    rms_relative_residual: float | None
    largest_relative_residual: float | None
    note: str = ""

    def seconds(self, bytes: float) -> float:
        return (self.alpha_s or 0.0) + (self.beta_s_per_byte or 0.0) * bytes

    def covers(self, bytes: float) -> bool:
        """Whether the size lies in what was measured; beyond it the line is an extrapolation."""
        return self.least_bytes <= bytes <= self.most_bytes

    @property
    def rate_bytes_per_s(self) -> float | None:
        """1 / beta."""
        return 1 / self.beta_s_per_byte if self.beta_s_per_byte else None


@dataclass(frozen=True)
class CostFit(Line):
    """One line over all sizes; ``regimes`` holds two, of small and of large sizes, where they are
    clearly better, and is empty where they are not."""

    regimes: tuple[Line, ...] = ()

    def seconds(self, bytes: float) -> float:
        """By the regime that the size belongs to."""
        for regime in self.regimes:
            if bytes <= regime.most_bytes:
                return regime.seconds(bytes)
        return self.regimes[-1].seconds(bytes) if self.regimes else super().seconds(bytes)


def fit_cost(bytes: Sequence[float], seconds: Sequence[float]) -> CostFit | None:
    """The cost of one kind of collective, from pairs of size and time; a size may come twice.

    None where there are fewer than two sizes: one says nothing of latency and rate apart. Raises
    ValueError for times or sizes that are not above 0.
    """
    size, time = np.asarray(bytes, dtype=float), np.asarray(seconds, dtype=float)
    if size.shape != time.shape or not (np.all(size > 0) and np.all(time > 0)):
        raise ValueError("a fit needs a time above 0 for every size above 0")
    distinct = np.unique(size)
    if len(distinct) < 2:
        return None
    whole = _line(size, time)
    pairs = [
        (_line(size[size <= cut], time[size <= cut]), _line(size[size > cut], time[size > cut]))
        for cut in distinct[LEAST_SIZES - 1 : -LEAST_SIZES]
    ]
    best = min(pairs, key=lambda pair: _squares(pair, size, time), default=None)
    regimes = best if best and _clearly_better(whole, best, size, time) else ()
    return CostFit(**vars(whole), regimes=regimes)


def _line(size: np.ndarray, time: np.ndarray) -> Line:
    # Both columns and the time are divided by the time: the errors become relative.
    columns = np.column_stack([np.ones_like(size), size]) / time[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(columns, np.ones_like(time), rcond=None)
    note, fitted = "", 2
    if alpha < 0:
        alpha, note, fitted = None, "no latency is seen: the times fall faster than the sizes", 1
        (beta,), *_ = np.linalg.lstsq(columns[:, 1:], np.ones_like(time), rcond=None)
    elif beta <= 0:
        beta, note, fitted = None, "no rate is seen: more bytes take no longer", 1
        (alpha,), *_ = np.linalg.lstsq(columns[:, :1], np.ones_like(time), rcond=None)
    residuals = np.abs(((alpha or 0.0) + (beta or 0.0) * size - time) / time)
    tells = len(np.unique(size)) > fitted
    return Line(
        alpha_s=None if alpha is None else float(alpha),
        beta_s_per_byte=None if beta is None else float(beta),
        least_bytes=int(size.min()),
        most_bytes=int(size.max()),
        sizes=len(np.unique(size)),
        rms_relative_residual=float(np.sqrt(np.mean(residuals**2))) if tells else None,
        largest_relative_residual=float(residuals.max()) if tells else None,
        note=note,
    )


def _squares(lines: Sequence[Line], size: np.ndarray, time: np.ndarray) -> float:
    total = 0.0
    for line in lines:
        own = (size >= line.least_bytes) & (size <= line.most_bytes)
        errors = [line.seconds(s) / t - 1 for s, t in zip(size[own], time[own], strict=True)]
        total += sum(error**2 for error in errors)
    return total


def _clearly_better(
    whole: Line, regimes: Sequence[Line], size: np.ndarray, time: np.ndarray
) -> bool:
    one = (_squares([whole], size, time) / (len(size) - 2)) ** 0.5
    two = (_squares(regimes, size, time) / (len(size) - 4)) ** 0.5
    return bool(one > GOOD_ENOUGH and two <= CLEARLY_BETTER * one)
