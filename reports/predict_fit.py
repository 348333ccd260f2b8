"""What a measured case tells of its network, as three numbers; what it cannot tell is assumed.

- bandwidth: what payload gets of the link, bytes/s; over the link's rate it is its ``share``;
- queue: what each bucket costs beside latency and bytes, seconds;
- contention: how much longer computing takes while something is reduced, as a ratio.

They are fitted together, by least squares on the logarithms of the measured step times, each in
units of its own uncertainty, beside what is assumed of them in units of *its* uncertainty. So one
case moves what it is sensitive to and leaves the rest near the assumption, and the width that is
left after the fit is the width in which predictions are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.predict_collectives import SeenNetwork
from reports.predict_cost import Link, all_reduce_cost
from reports.predict_step import Compute, Step, step

#: By backend: (share of a link's rate that payload gets, its uncertainty on the log scale). TCP
#: over Ethernet has 0.94 to 0.96 of it.
ASSUMED_SHARE = {"gloo": (0.95, 0.03), "nccl": (0.90, 0.10)}
#: By backend: seconds a bucket costs beside its bytes, and as uncertain as large.
ASSUMED_QUEUE_S = {"gloo": 2e-4, "nccl": 3e-5}
#: Nothing is assumed to be slowed down, give or take this ratio.
CONTENTION_WIDTH = 0.3
_MOST_CONTENTION = 5.0
#: Uncertainty (log scale) of the bandwidth where no link is stated: as the profiler saw the
#: transfers, or not at all.
_SEEN_WIDTH, _UNSEEN_WIDTH, _UNSEEN_BYTES_PER_S = 0.3, 2.0, 1e9
#: Of what all-reduces alone have shown: a bucket's cost under DDP may be another by this share of
#: it; the bandwidth by at least so much (log scale).
_QUEUE_WIDTH, _ALONE_WIDTH = 0.5, 0.03
#: No step time is taken for more certain than this.
LEAST_SPREAD = 0.005
#: How far the model is taken to be off at least: how well it meets the cases it was fitted to says
#: little of others.
ASSUMED_RESIDUAL = 0.02
#: How many all-reduces go on at once: nccl has one stream for them, gloo two threads.
WORKERS = {"nccl": 1, "gloo": 2}


@dataclass(frozen=True)
class Setting:
    """One measured case. ``spread``: relative standard error of ``step_s``; ``link``: what its
    ranks were joined by, where it is known; ``seen_bytes_per_s``: the bus bandwidth of its
    transfers under the profiler; ``silent_step_s``: steps of single ranks without communication.
    """

    id: str
    world_size: int
    bucket_cap_mb: float | None
    compute: Compute
    step_s: float
    spread: float
    link: Link | None = None
    seen_bytes_per_s: float | None = None
    silent_step_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Network:
    """A network's three numbers."""

    bytes_per_s: float
    queue_s: float
    contention: float


@dataclass(frozen=True)
class Fit:
    """``drawn``: networks as likely as what was measured and assumed makes them. ``told``: by name
    whether the measured cases have told a number, rather than the assumption. ``residual``: root
    mean square of the relative errors at the fitted cases; None where there are not more cases
    than numbers that they tell. ``link``: the one of the measured cases; ``seen``: what all-reduces
    alone have shown of it."""

    network: Network
    drawn: tuple[Network, ...]
    told: dict[str, bool]
    residual: float | None
    errors: dict[str, float]
    link: Link | None
    backend: str
    workers: int
    seen: SeenNetwork | None = None

    @property
    def latency_s(self) -> float:
        """Of a message over the measured link, as far as it is known; else 0, and what there is
        of it is in ``queue_s``."""
        return known_latency_s(self.link, self.seen)

    @property
    def model_error(self) -> float:
        """Relative standard error of the model itself, for cases that were not measured."""
        return max(ASSUMED_RESIDUAL, self.residual or 0.0)

    def share(self, network: Network) -> float | None:
        return None if self.link is None else network.bytes_per_s * 8 / self.link.bits_per_s


def known_latency_s(link: Link | None, seen: SeenNetwork | None) -> float:
    if link is not None and link.latency_s is not None:
        return link.latency_s
    return (seen.latency_s if seen is not None else None) or 0.0


def fit(
    settings: Sequence[Setting],
    backend: str,
    workers: int,
    seen: SeenNetwork | None = None,
    draws: int = 200,
) -> Fit:
    """From cases of several ranks over one and the same link, beside what all-reduces alone have
    shown of it (``seen``) or what is assumed."""
    from scipy.optimize import least_squares  # a tenth of a second, for one command of many

    cases = [one for one in settings if one.world_size > 1]
    link = next((one.link for one in cases if one.link is not None), None)
    latency_s = known_latency_s(link, seen)
    middle, width = _assumed(cases, link, backend, seen)

    def off(x: np.ndarray) -> np.ndarray:
        network = _network(x)
        said = [
            math.log(simulated(one, network, workers, latency_s).step_s / one.step_s)
            / max(one.spread, LEAST_SPREAD)
            for one in cases
        ]
        return np.array([*said, *((x - middle) / width)])

    lowest = np.array([middle[0] - 10 * width[0], 0.0, 0.0])
    highest = np.array([middle[0] + 10 * width[0], middle[1] + 100 * width[1], _MOST_CONTENTION])
    start = np.clip(middle, lowest + 1e-3 * width, highest)
    found = least_squares(off, start, bounds=(lowest, highest), x_scale=width, diff_step=[1e-3] * 3)
    jacobian = np.asarray(found.jac)
    covariance = np.linalg.inv(jacobian.T @ jacobian)
    errors = {
        one.id: simulated(one, _network(found.x), workers, latency_s).step_s / one.step_s - 1
        for one in cases
    }
    left = np.sqrt(np.diag(covariance))
    told = dict(zip(("bandwidth", "queue", "contention"), left < 0.7 * width, strict=True))
    degrees = len(cases) - sum(told.values())
    squares = sum(error**2 for error in errors.values())
    generator = np.random.default_rng(0)
    drawn = generator.multivariate_normal(found.x, covariance, size=draws)
    drawn[:, 1:] = np.maximum(drawn[:, 1:], 0.0)
    return Fit(
        _network(found.x),
        tuple(map(_network, drawn)),
        {name: bool(value) for name, value in told.items()},
        math.sqrt(squares / degrees) if degrees > 0 else None,
        errors,
        link,
        backend,
        workers,
        seen,
    )


def simulated(setting: Setting, network: Network, workers: int, latency_s: float) -> Step:
    """The setting's own step, over a network of these numbers."""
    ready_s, sizes = setting.compute.buckets(setting.bucket_cap_mb)
    costs = [
        all_reduce_cost(size, setting.world_size, network.bytes_per_s, latency_s, network.queue_s)
        for size in sizes
    ]
    return step(setting.compute, ready_s, sizes, costs, workers, network.contention)


def _assumed(
    cases: Sequence[Setting], link: Link | None, backend: str, seen: SeenNetwork | None
) -> tuple[np.ndarray, np.ndarray]:
    """(middle, width) of (log bandwidth, queue, contention) before anything is fitted."""
    share, share_width = ASSUMED_SHARE[backend]
    queue_s = queue_width_s = ASSUMED_QUEUE_S[backend]
    under_profiler = [one.seen_bytes_per_s for one in cases if one.seen_bytes_per_s]
    if seen is not None:
        # Few bytes after a pause may pass a shaped link faster than it is.
        most = link.bits_per_s / 8 if link is not None else math.inf
        bandwidth, width = min(seen.bytes_per_s, most), max(_ALONE_WIDTH, seen.residual)
        queue_s = max(seen.queue_s, queue_s / 10)
        queue_width_s = _QUEUE_WIDTH * queue_s
    elif link is not None:
        bandwidth, width = share * link.bits_per_s / 8, share_width
    elif under_profiler:
        bandwidth, width = float(np.median(under_profiler)), _SEEN_WIDTH
    else:
        bandwidth, width = _UNSEEN_BYTES_PER_S, _UNSEEN_WIDTH
    return (
        np.array([math.log(bandwidth), queue_s, 0.0]),
        np.array([width, queue_width_s, CONTENTION_WIDTH]),
    )


def _network(x: np.ndarray) -> Network:
    return Network(math.exp(x[0]), float(x[1]), float(x[2]))
