"""Step times of DDP that nobody has measured: other world sizes, links, bucket caps.

From one measured case come its gradients' ready times, its forward, backward and optimizer; from
the fit (predict_fit.py) what its network does; from the steps of single ranks how long the slowest
of more ranks takes. Intervals hold 95 % of what the fit's width and the measured spread leave open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.predict_cost import Cost, Link, all_reduce_cost
from reports.predict_fit import ASSUMED_SHARE, Fit, Network, Setting
from reports.predict_skew import waiting_for_more
from reports.predict_step import Compute, pipeline, step


@dataclass(frozen=True)
class Wish:
    """What is to be predicted. ``compression``: bytes on the wire over bytes of gradients."""

    world_size: int
    link: Link
    bucket_cap_mb: float | None
    compression: float = 1.0


@dataclass(frozen=True)
class Prediction:
    """Seconds per step. ``no_overlap_s``: all buckets one after another when all is computed;
    ``perfect_overlap_s``: the longer of computing and communicating; ``efficiency``: over one rank
    that communicates with nobody; ``algorithm`` of the largest bucket."""

    wish: Wish
    step_s: float
    low_s: float
    high_s: float
    efficiency: float
    no_overlap_s: float
    perfect_overlap_s: float
    communication_s: float
    skew_s: float
    buckets: int
    algorithm: str


class Predictor:
    """Predictions from one measured case (``base``) and what was fitted."""

    def __init__(self, base: Setting, fitted: Fit, draws: int = 100) -> None:
        self.base, self.fit = base, fitted
        self._draws = fitted.drawn[:draws]
        generator = np.random.default_rng(1)
        model = math.hypot(base.spread, fitted.model_error)
        self._factors = np.exp(generator.normal(0.0, model, len(self._draws)))
        self.assumed_share, width = ASSUMED_SHARE[fitted.backend]
        self._shares = self.assumed_share * np.exp(generator.normal(0.0, width, len(self._draws)))

    @property
    def alone_s(self) -> float:
        """A step of one rank that communicates with nobody."""
        return self.compute(1)[0].step_s

    def compute(self, world_size: int) -> tuple[Compute, float]:
        """(the step without communication, how much longer its slowest rank takes than was seen)"""
        steps = self.base.silent_step_s
        measured = self.base.compute
        extra_s = waiting_for_more(steps, self.base.world_size, world_size) if steps else 0.0
        return measured.longer_by(extra_s), extra_s

    def bytes_per_s(self, network: Network, link: Link, share: float) -> float:
        """What payload gets of ``link``; ``share`` of it, unless the fit knows better."""
        known = self.fit.share(network)
        return (share if known is None else known) * link.bits_per_s / 8

    def predict(self, wish: Wish) -> Prediction:
        compute, skew_s = self.compute(wish.world_size)
        ready_s, sizes = compute.buckets(wish.bucket_cap_mb)
        costs = self._costs(wish, sizes, self.fit.network, self.assumed_share)
        drawn = [
            factor
            * step(
                *(compute, ready_s, sizes, self._costs(wish, sizes, network, share)),
                *(self.fit.workers, network.contention),
            ).step_s
            for network, factor, share in zip(self._draws, self._factors, self._shares, strict=True)
        ]
        step_s = self._step_s(compute, ready_s, sizes, costs)
        low_s, high_s = np.percentile(drawn, (2.5, 97.5)) if drawn else (step_s, step_s)
        # Together on the link, as many at once as there are workers.
        _, ends, _ = pipeline([0.0] * len(costs), costs, self.fit.workers)
        together_s = max(ends)
        return Prediction(
            wish=wish,
            step_s=step_s,
            low_s=min(float(low_s), step_s),
            high_s=max(float(high_s), step_s),
            efficiency=self.alone_s / step_s,
            no_overlap_s=compute.step_s + together_s,
            perfect_overlap_s=max(compute.step_s, together_s),
            communication_s=together_s,
            skew_s=skew_s,
            buckets=len(sizes),
            algorithm=max(costs, key=lambda cost: cost.seconds).algorithm,
        )

    def step_s(self, wish: Wish) -> float:
        """The predicted step alone, without its interval."""
        compute, _ = self.compute(wish.world_size)
        ready_s, sizes = compute.buckets(wish.bucket_cap_mb)
        costs = self._costs(wish, sizes, self.fit.network, self.assumed_share)
        return self._step_s(compute, ready_s, sizes, costs)

    def _step_s(
        self, compute: Compute, ready_s: list[float], sizes: list[int], costs: list[Cost]
    ) -> float:
        fitted = self.fit
        made = step(compute, ready_s, sizes, costs, fitted.workers, fitted.network.contention)
        return made.step_s

    def _costs(
        self, wish: Wish, sizes: Sequence[int], network: Network, share: float
    ) -> list[Cost]:
        link = wish.link
        latency_s = self.fit.latency_s if link.latency_s is None else link.latency_s
        bytes_per_s = self.bytes_per_s(network, link, share)
        return [
            all_reduce_cost(
                *(size * wish.compression, wish.world_size, bytes_per_s, latency_s),
                network.queue_s,
            )
            for size in sizes
        ]
