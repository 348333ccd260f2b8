"""What the collectives measured in the same file tell of the network under DDP.

All-reduces of many sizes give alpha + beta x bytes for their world size (reports/cost_fit.py).
beta is 2 (W - 1) / W over the bandwidth that payload gets; alpha is what a bucket costs beside its
bytes, and latency once for each of 2 (W - 1) messages: with several world sizes the two are told
apart.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.cost_fit import CostFit, fit_cost
from reports.frames import Row, groups


@dataclass(frozen=True)
class SeenNetwork:
    """Of all-reduces alone. ``latency_s``: None where one world size cannot tell it; ``queue_s``
    then holds all of alpha. ``residual``: largest root mean square relative error of the fits."""

    bytes_per_s: float
    queue_s: float
    latency_s: float | None
    residual: float
    world_sizes: tuple[int, ...]


def seen_network(cells: Sequence[Row], like: Row) -> SeenNetwork | None:
    """From the all-reduces among ``cells`` that ran as ``like``, a case of ddp, does: in the same
    file, with its backend, on its device, under its interpreter; None where there are none."""
    same = ("file", "backend", "device", "torch")
    own = [
        cell
        for cell in cells
        if cell["strategy"] == "collective"
        and cell["collective"] == "all_reduce"
        and cell["step_s"] is not None
        and (cell["world_size"] or 0) > 1
        and all(cell[name] == like[name] for name in same)
    ]
    fits: dict[int, CostFit] = {}
    for (world_size,), of_size in groups(own, "world_size").items():
        found = fit_cost([cell["bytes"] for cell in of_size], [cell["step_s"] for cell in of_size])
        if found is not None and _beta(found):
            fits[world_size] = found
    return from_fits(fits) if fits else None


def from_fits(fits: Mapping[int, CostFit]) -> SeenNetwork:
    """``fits`` by world size; each must have a rate."""
    rates = [2 * (size - 1) / size / _beta(found) for size, found in fits.items()]
    alphas = {size: _alpha(found) for size, found in fits.items()}
    residuals = [found.rms_relative_residual or 0.0 for found in fits.values()]
    queue_s, latency_s = statistics.median(alphas.values()), None
    if len(alphas) > 1:
        hops = [2 * (size - 1) for size in alphas]
        slope, start = np.polyfit(hops, list(alphas.values()), 1)
        if slope > 0 and start > 0:
            queue_s, latency_s = float(start), float(slope)
    return SeenNetwork(
        bytes_per_s=math.exp(statistics.fmean(map(math.log, rates))),
        queue_s=queue_s,
        latency_s=latency_s,
        residual=max(residuals),
        world_sizes=tuple(sorted(fits)),
    )


def _alpha(found: CostFit) -> float:
    """Of the small sizes, where there are two regimes."""
    line = found.regimes[0] if found.regimes else found
    return line.alpha_s or 0.0


def _beta(found: CostFit) -> float:
    """Of the large sizes, where there are two regimes; 0 where no rate is seen."""
    line = found.regimes[-1] if found.regimes else found
    return line.beta_s_per_byte or 0.0
