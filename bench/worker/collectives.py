"""Collectives without a model: the buffers, the loop that is timed, the check of the values.

A step is one call, with the next one right behind it, as nccl-tests and training do; the ranks meet
before a window and not between its steps. It is never a batch of calls: reading the clock takes
some 50 ns, and the quickest collective between two processes some 20 µs. Of "pairs" a step is one
round over all pairs, of which each has a phase of its own.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, MutableSequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from bench.case import Case
from bench.worker.device import Device
from bench.worker.loop import Ranks, timed_pass
from bench.worker.strategies import InvalidCase, software

if TYPE_CHECKING:
    from bench.worker.run_case import Life

#: So many ranks contribute to an element in the check: their sum is exact in every dtype, bfloat16
#: and uint8 among them, at any number of ranks and in any order.
_CONTRIBUTORS = 4
#: What is sent as it is counts up to this, for the same reason.
_PERIOD = 97


class CollectiveLoop:
    """One step: the call. For ``step_index`` and ``phases`` see TrainingLoop."""

    phases: tuple[str, ...] = ("communication",)

    def __init__(
        self,
        call: Callable[[], None],
        device: Device,
        progress: MutableSequence[int] | memoryview,
    ) -> None:
        self._call = call
        self._mark = device.clock.mark
        self._progress = progress

    @property
    def step_index(self) -> int:
        return self._progress[0]

    @step_index.setter
    def step_index(self, step: int) -> None:
        self._progress[0] = step

    def step(self) -> None:
        self._mark()
        self._call()
        self.step_index += 1


class PairsLoop(CollectiveLoop):
    """One step: every pair in its turn. All ranks meet before a pair, so that no other is on the
    network beside it, and that meeting is a phase too, which is no part of the pair's time."""

    def __init__(
        self,
        buffers: Buffers,
        ranks: Ranks,
        device: Device,
        progress: MutableSequence[int] | memoryview,
    ) -> None:
        super().__init__(lambda: None, device, progress)
        self._buffers, self._ranks, self._device = buffers, ranks, device
        self.pairs = list(itertools.combinations(range(buffers.case.world_size), 2))
        self.phases = tuple(name for pair in self.pairs for name in (f"meet {pair}", f"{pair}"))

    def step(self) -> None:
        for pair in self.pairs:
            self._mark()
            self._device.synchronize()
            self._ranks.barrier()
            self._mark()
            if self._buffers.rank in pair:
                first, second = pair
                self._buffers.exchange(second if self._buffers.rank == first else first)
        self.step_index += 1

    def own_pairs(self, phases: dict[str, list[float]]) -> dict[str, float]:
        """Median seconds of this rank's exchange with each other rank, by that rank's number."""
        found = {}
        for pair in self.pairs:
            if self._buffers.rank in pair:
                (other,) = set(pair) - {self._buffers.rank}
                found[str(other)] = statistics.median(phases[f"{pair}"])
        return found


class Buffers:
    """What a rank sends and receives, and the call between them."""

    def __init__(self, case: Case, rank: int, device: Device) -> None:
        self.case, self.rank = case, rank
        dtype = getattr(torch, case.dtype)
        self._many = case.bytes // dtype.itemsize
        self._share = self._many // case.world_size
        shared = {"all_gather": (self._share, self._many)}
        shared |= {"reduce_scatter": (self._many, self._share), "pairs": (self._many, self._many)}
        sends, receives = shared.get(case.collective, (self._many, 0))
        # Zeros stay zeros in a sum, however often. Written, or their pages would all be one page.
        self.sent, self.received = (
            torch.empty(n, dtype=dtype, device=device.name).fill_(0) for n in (sends, receives)
        )

    @property
    def call(self) -> Callable[[], None]:
        sent, received = self.sent, self.received
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": lambda: dist.all_reduce(sent),
            "broadcast": lambda: dist.broadcast(sent, 0),
            "all_gather": lambda: dist.all_gather_into_tensor(received, sent),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(received, sent),
        }
        return calls[self.case.collective]

    def exchange(self, other: int) -> None:
        """``bytes`` to the other rank, and as many from it, at the same time."""
        # gloo takes them one by one: what comes before its buffer is known has to wait, and both
        # ways together then have half the rate of the link.
        both = [
            dist.P2POp(dist.irecv, self.received, other),
            dist.P2POp(dist.isend, self.sent, other),
        ]
        for work in dist.batch_isend_irecv(both):
            work.wait()

    def right(self, ranks: Ranks) -> bool:
        """Whether known values come out as they must: on this rank, in every element."""
        kind, whole = self.case.collective, torch.arange(self._many)
        if kind == "pairs":
            return self._pairs_are_right(ranks)
        if kind in ("all_reduce", "reduce_scatter"):
            self.sent.copy_(self._contribution(whole))
            expected = min(_CONTRIBUTORS, self.case.world_size) * (1 + whole % 3)
        elif kind == "broadcast":
            self.sent.copy_(_values(whole, 0) if self.rank == 0 else torch.zeros_like(whole))
            expected = _values(whole, 0)
        else:
            own = torch.arange(self._share)
            self.sent.copy_(_values(own, self.rank))
            expected = torch.cat([_values(own, rank) for rank in range(self.case.world_size)])
        if kind == "reduce_scatter":
            expected = expected[self.rank * self._share :][: self._share]
        ranks.barrier()
        self.call()
        found = self.received if kind in ("all_gather", "reduce_scatter") else self.sent
        return _equal(found, expected)

    def _pairs_are_right(self, ranks: Ranks) -> bool:
        right, every = True, torch.arange(self._many)
        self.sent.copy_(_values(every, self.rank))
        for pair in itertools.combinations(range(self.case.world_size), 2):
            ranks.barrier()
            if self.rank in pair:
                (other,) = set(pair) - {self.rank}
                self.exchange(other)
                right = right and _equal(self.received, _values(every, other))
        return right

    def _contribution(self, whole: torch.Tensor) -> torch.Tensor:
        mine = (whole + self.rank) % self.case.world_size < _CONTRIBUTORS
        return torch.where(mine, 1 + whole % 3, 0)


def measure(
    job: dict[str, Any], case: Case, life: Life, device: Device, ranks: Ranks
) -> dict[str, Any]:
    """The phases of a collective's life between init and teardown, and what they gave."""
    with life.phase("build"):
        if case.bytes % case.granule_bytes:
            raise InvalidCase(
                f"bytes={case.bytes} of {case.dtype} cannot be divided among {case.world_size} "
                f"ranks: it has to be a multiple of {case.granule_bytes}"
            )
        buffers = Buffers(case, job["rank"], device)
        loop: CollectiveLoop
        if case.collective == "pairs":
            loop = PairsLoop(buffers, ranks, device, life.progress)
        else:
            loop = CollectiveLoop(buffers.call, device, life.progress)
        life.loop = loop

    with life.phase("warm-up"):
        ranks.barrier()
        device.clock.start()
        try:
            loop.step()
        except (RuntimeError, NotImplementedError) as error:
            raise _not_there(error, case) from None
        device.clock.mark()
        device.clock.finish()
        first_step_s = device.clock.seconds(0, len(loop.phases))
        device.start_memory()
        for _ in range(job["warm_up_steps"] - 1):
            loop.step()
        device.synchronize()

    with life.phase("timed"):
        own, phases, _ = timed_pass(
            loop,
            device,
            ranks,
            min_steps=job["min_steps"],
            precision=job["precision"],
            max_seconds=job["max_seconds"],
        )
        peak_bytes = device.peak_memory_bytes()

    right = None
    if "check" in job["passes"]:
        with life.phase("check"):
            wrong = [0.0 if buffers.right(ranks) else 1.0]
            right = ranks.maximum(wrong) == [0.0]

    return {
        "timed_step_s": own,
        "phases": {} if isinstance(loop, PairsLoop) else _phases(phases),
        "pair_s": loop.own_pairs(phases) if isinstance(loop, PairsLoop) else None,
        "first_step_s": first_step_s,
        "communication": None,
        "communication_note": None,
        "memory": {"peak_bytes": peak_bytes, "kind": device.memory_kind},
        "software": software(case.backend),
        "job": {"reached_precision": None, "checks": {"values_right": right, "notes": []}},
    }


def _phases(phases: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {"median_s": statistics.median(times), "mean_s": statistics.fmean(times)}
        for name, times in phases.items()
    }


def _values(index: torch.Tensor, rank: int) -> torch.Tensor:
    return (index + 7 * rank) % _PERIOD + 1


def _equal(found: torch.Tensor, expected: torch.Tensor) -> bool:
    # Small whole numbers: the way back to int64 loses nothing, and a wrong fraction is kept apart.
    return bool(torch.equal(found.cpu().double(), expected.double()))


def _not_there(error: Exception, case: Case) -> Exception:
    """A backend that lacks the call or the dtype says so in many ways; else the error itself."""
    message = str(error).strip().splitlines()[0]
    lacks = ("support", "implement", "invalid scalar type", "unknown type", "no backend type")
    if not any(word in message.lower() for word in lacks):
        return error
    return InvalidCase(f"{case.backend} here has no {case.collective} of {case.dtype}: {message}")
