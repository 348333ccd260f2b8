"""What a prediction of one workload says: the asked cases, the best cap, the network needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reports import usl
from reports.predict import Prediction, Predictor, Wish
from reports.predict_cases import Workload
from reports.predict_cost import Link
from reports.predict_fit import WORKERS, Fit, Setting, fit

MIB = 2**20
#: The efficiency whose network is sought.
WANTED = 0.9
#: World sizes of the figure.
CURVE = tuple(2**n for n in range(11))
_MOST_BITS_PER_S = 1e14
_CAPS_OF_CURVE = 28
_ROUND_CAPS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)


@dataclass(frozen=True)
class Asked:
    world_sizes: tuple[int, ...]
    links: tuple[Link, ...]
    caps_mb: tuple[float | None, ...]
    compression: float = 1.0
    queues: int | None = None


@dataclass(frozen=True)
class Line:
    """One asked case beside what is known of it. ``usl_s``: the Universal Scalability Law's step;
    ``measured_s`` where the file has this very case; ``beyond``: in what it lies outside the range
    of the data ("ranks", "link", "buckets"); empty for interpolation."""

    prediction: Prediction
    usl_s: float | None
    measured_s: float | None
    beyond: tuple[str, ...]


class PredictReport:
    """What is asked of one workload, computed when it is read."""

    def __init__(self, workload: Workload, asked: Asked) -> None:
        self.workload, self.asked = workload, asked
        workers = asked.queues or WORKERS[workload.backend]
        self.fit: Fit = fit(workload.settings, workload.backend, workers, workload.seen)
        self.base: Setting = workload.base
        self.predictor = Predictor(self.base, self.fit)
        self.law = usl.fit(workload.throughputs)

    @cached_property
    def lines(self) -> list[Line]:
        asked = self.asked
        return [
            self.line(Wish(size, link, cap, asked.compression))
            for size in asked.world_sizes
            for link in asked.links
            for cap in asked.caps_mb
        ]

    def line(self, wish: Wish) -> Line:
        return Line(
            self.predictor.predict(wish),
            self._usl_s(wish.world_size),
            self._measured_s(wish),
            self._beyond(wish),
        )

    def line_of(self, world_size: int, link: Link, cap_mb: float | None) -> Prediction:
        return self.predictor.predict(Wish(world_size, link, cap_mb, self.asked.compression))

    def step_s(self, world_size: int, link: Link, cap_mb: float | None) -> float:
        return self.predictor.step_s(Wish(world_size, link, cap_mb, self.asked.compression))

    def efficiency(self, world_size: int, link: Link, cap_mb: float | None) -> float:
        return self.predictor.alone_s / self.step_s(world_size, link, cap_mb)

    @cached_property
    def caps_of_curve(self) -> list[float]:
        """Bucket caps from a hundredth of the gradients, or 0.05 MiB, to all of them in one; round
        ones and those that were measured or asked for among them."""
        whole = max(self.base.compute.gradient_bytes / MIB, 0.1)
        low = max(0.05, whole / 100)
        ratio = (whole * 1.05 / low) ** (1 / (_CAPS_OF_CURVE - 1))
        caps = {low * ratio**n for n in range(_CAPS_OF_CURVE)} | set(_ROUND_CAPS)
        caps |= {one.bucket_cap_mb for one in self.workload.settings if one.bucket_cap_mb}
        caps |= {cap for cap in self.asked.caps_mb if cap}
        return sorted(cap for cap in caps if cap <= max(1.05 * whole, 25))

    def best_cap(self, world_size: int, link: Link) -> tuple[float, float]:
        """(the cap of the curve with the shortest step, that step); of those as good the largest,
        and a round one rather than another"""
        steps = [(self.step_s(world_size, link, cap), cap) for cap in self.caps_of_curve]
        shortest_s = min(steps)[0]
        as_good = [(cap, step_s) for step_s, cap in steps if step_s <= 1.001 * shortest_s]
        return max(as_good, key=lambda one: (one[0] in _ROUND_CAPS, one[0]))

    def rate_needed(self, world_size: int, link: Link, cap_mb: float | None) -> float | None:
        """The slowest rate, bits/s, at which efficiency reaches WANTED with this link's latency;
        None where no network is fast enough."""

        def reaches(bits_per_s: float) -> bool:
            asked = Link(bits_per_s, link.latency_s)
            return self.efficiency(world_size, asked, cap_mb) >= WANTED

        low, high = math.log(1e3), math.log(_MOST_BITS_PER_S)
        if not reaches(_MOST_BITS_PER_S):
            return None
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (low, middle) if reaches(math.exp(middle)) else (middle, high)
        return math.exp(high)

    def measured(self, world_size: int, link: Link) -> list[Setting]:
        """What was measured over this very link."""
        return [
            one
            for one in self.workload.settings
            if one.world_size == world_size
            and one.link is not None
            and math.isclose(one.link.bits_per_s, link.bits_per_s, rel_tol=1e-3)
            and (link.latency_s or 0.0) == (one.link.latency_s or 0.0)
        ]

    @property
    def sizes_measured(self) -> list[int]:
        return sorted({one.world_size for one in self.workload.settings})

    @cached_property
    def bucket_range(self) -> tuple[int, int]:
        """Bytes of the smallest and the largest bucket that was reduced where it was measured."""
        sizes = [
            size
            for one in self.workload.settings
            for size in one.compute.buckets(one.bucket_cap_mb)[1]
        ]
        return min(sizes), max(sizes)

    def _usl_s(self, world_size: int) -> float | None:
        batch = self.workload.batch_size
        if isinstance(self.law, str) or batch is None:
            return None
        throughput = self.law.throughput(world_size)
        return batch * world_size / throughput if throughput > 0 else None

    def _measured_s(self, wish: Wish) -> float | None:
        if wish.compression != 1:
            return None
        found = [
            one.step_s
            for one in self.measured(wish.world_size, wish.link)
            if one.bucket_cap_mb == wish.bucket_cap_mb
        ]
        return found[0] if found else None

    def _beyond(self, wish: Wish) -> tuple[str, ...]:
        sizes, link = self.sizes_measured, self.fit.link
        small, large = self.bucket_range
        own = self.base.compute.buckets(wish.bucket_cap_mb)[1]
        found = []
        if not sizes[0] <= wish.world_size <= sizes[-1]:
            found.append("ranks")
        if link is None or not math.isclose(link.bits_per_s, wish.link.bits_per_s, rel_tol=1e-3):
            found.append("link")
        if min(own) < 0.99 * small or max(own) > 1.01 * large:
            found.append("buckets")
        return tuple(found)


def reports_of(workloads: Sequence[Workload], asked: Asked) -> list[PredictReport]:
    return [PredictReport(one, asked) for one in workloads]
