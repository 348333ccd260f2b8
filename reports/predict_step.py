"""A step of DDP on paper: gradients become ready, buckets are handed over and reduced meanwhile.

Bucket i is handed over when its last gradient is ready (and those before it are handed over), and
begins when a worker is free. With one worker that is

    s_i = max(R_i, e_(i-1)),  e_i = s_i + c_i

Several workers share the link: each of n transfers at once has an nth of it. While something is
reduced, computing takes 1 + contention times as long. When the backward pass is over, DDP waits for
each bucket in turn and copies it back; then comes the optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench import ddp_buckets
from reports.predict_cost import Cost

_NOTHING = 1e-12


@dataclass(frozen=True)
class Compute:
    """A step without communication, seconds from its beginning; the maximum over its ranks.

    ``ready_s``, ``bytes`` and ``dtypes`` by gradient, in the order in which they become ready.
    ``backward_end_s``: the end of the backward pass, with what DDP does after the last gradient.
    """

    ready_s: tuple[float, ...]
    bytes: tuple[int, ...]
    dtypes: tuple[str, ...]
    backward_end_s: float
    optimizer_s: float

    @property
    def step_s(self) -> float:
        return self.backward_end_s + self.optimizer_s

    @property
    def gradient_bytes(self) -> int:
        return sum(self.bytes)

    def longer_by(self, extra_s: float) -> Compute:
        """The same work, stretched evenly."""
        factor = 1 + extra_s / self.step_s
        return Compute(
            tuple(factor * ready for ready in self.ready_s),
            self.bytes,
            self.dtypes,
            factor * self.backward_end_s,
            factor * self.optimizer_s,
        )

    def buckets(self, bucket_cap_mb: float | None) -> tuple[list[float], list[int]]:
        """(when each bucket is handed over, its bytes), in the order of handing over."""
        found = ddp_buckets.buckets(self.bytes, bucket_cap_mb, self.dtypes)
        ready: list[float] = []
        for bucket in found:
            own = max(self.ready_s[position] for position in bucket)
            ready.append(max(own, ready[-1]) if ready else own)
        return ready, ddp_buckets.bucket_bytes(self.bytes, found)


@dataclass(frozen=True)
class Step:
    """``starts_s`` and ``ends_s`` by bucket; ``computed_s``: when the last gradient was ready."""

    starts_s: tuple[float, ...]
    ends_s: tuple[float, ...]
    computed_s: float
    step_s: float


def pipeline(
    ready_s: Sequence[float], costs: Sequence[Cost], workers: int = 1, contention: float = 0.0
) -> tuple[list[float], list[float], float]:
    """(start of each bucket, its end, when the last was handed over); ``ready_s`` must rise."""
    count = len(ready_s)
    starts, ends = [0.0] * count, [0.0] * count
    now = worked = handed_s = 0.0
    handed = begun = 0
    active: list[list[float]] = []  # [bucket, fixed seconds left, transfer seconds left]
    while handed < count or active or begun < handed:
        while begun < handed and len(active) < workers:
            starts[begun] = now
            active.append([begun, costs[begun].fixed_s, costs[begun].transfer_s])
            begun += 1
        pace = 1 / (1 + contention) if active else 1.0
        moving = sum(1 for job in active if job[1] <= _NOTHING)
        left = [job[1] if job[1] > _NOTHING else job[2] * moving for job in active]
        if handed < count:
            left.append((ready_s[handed] - worked) / pace)
        passed = max(0.0, min(left))
        now += passed
        worked += passed * pace
        for job in active:
            if job[1] > _NOTHING:
                job[1] -= passed
            else:
                job[2] -= passed / moving
        for job in active:
            if job[1] <= _NOTHING and job[2] <= _NOTHING:
                ends[int(job[0])] = now
        active = [job for job in active if job[1] > _NOTHING or job[2] > _NOTHING]
        while handed < count and ready_s[handed] - worked <= _NOTHING:
            handed += 1
            handed_s = now
    return starts, ends, handed_s


def step(
    compute: Compute,
    ready_s: Sequence[float],
    sizes: Sequence[int],
    costs: Sequence[Cost],
    workers: int = 1,
    contention: float = 0.0,
) -> Step:
    """One step; ``ready_s`` and ``sizes`` as ``compute.buckets`` gives them, ``costs`` of them."""
    starts, ends, handed_s = pipeline(ready_s, costs, workers, contention)
    rest_s = compute.backward_end_s - ready_s[-1]  # copying back, and what else comes last
    end = handed_s
    for size, reduced_s in zip(sizes, ends, strict=True):
        end = max(end, reduced_s) + rest_s * size / sum(sizes)
    return Step(tuple(starts), tuple(ends), handed_s, end + compute.optimizer_s)
