"""The training loop that is timed, and the windows in which it is."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, MutableSequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

from bench.precision import relative_half_width
from bench.worker.device import Clock, Device
from bench.worker.strategies import Wrapped
from models.model import Batch, Model


class Loop(Protocol):
    """What is timed: a step marks the clock where each of its ``phases`` begins."""

    step_index: int

    @property
    def phases(self) -> tuple[str, ...]: ...

    def step(self) -> None: ...


class TrainingLoop:
    """One step: data, forward, backward, (hand-made all-reduce,) optimizer.

    ``phases`` names what lies between the marks of a step, in order. Where the model brings its
    own ``step_fn`` forward and backward cannot be told apart and are one phase of that name.
    """

    def __init__(
        self,
        model: Model,
        wrapped: Wrapped,
        optimizer: torch.optim.Optimizer | None,
        next_batch: Callable[[], Batch],
        device: Device,
        precision: str,
        progress: MutableSequence[int] | memoryview,
    ) -> None:
        """``progress``: its first number is the step the loop is in, also for others to read."""
        self._model = model
        self._wrapped = wrapped
        self._optimizer = optimizer
        self._next_batch = next_batch
        self._mark = device.clock.mark
        self._autocast: Callable[[], contextlib.AbstractContextManager[Any]] = (
            (lambda: torch.autocast(device.kind, dtype=torch.bfloat16))
            if precision == "bf16"
            else contextlib.nullcontext
        )
        phases = ["data"]
        phases += ["step_fn"] if model.step_fn else ["forward", "backward"]
        if wrapped.reduce:
            phases.append("communication")
        self.phases = (*phases, "optimizer")
        self._progress = progress
        self.step_index = 0

    @property
    def step_index(self) -> int:
        return self._progress[0]

    @step_index.setter
    def step_index(self, step: int) -> None:
        self._progress[0] = step

    @contextlib.contextmanager
    def marked_by(self, mark: Callable[[], None]) -> Iterator[None]:
        """Within it the borders of a step's phases are told to ``mark`` in place of the clock."""
        before, self._mark = self._mark, mark
        try:
            yield
        finally:
            self._mark = before

    def step(self) -> None:
        mark = self._mark
        mark()
        args, target = self._next_batch()
        mark()
        self.gradients(args, target)
        if self._optimizer is not None:
            self._optimizer.step()
            # A step_fn may look at the gradients of the step before, as an old-style zero_grad
            # does: there they are zero and not gone.
            self._optimizer.zero_grad(set_to_none=self._model.step_fn is None)
        self.step_index += 1

    def gradients(self, args: tuple[Any, ...], target: Any) -> None:
        """Forward, backward and reduction, with the marks between them."""
        mark = self._mark
        if self._model.step_fn:
            self._model.step_fn(self._wrapped.forward, args, target)
        else:
            with self._autocast():
                loss = self._model.loss(self._wrapped.forward(*args), target)
            mark()
            if loss.requires_grad:  # not so where every parameter is frozen
                loss.backward()
        mark()
        if self._wrapped.reduce:
            self._wrapped.reduce()
            mark()


class Window:
    """The times of one window of steps: seconds per step, and per phase and step."""

    def __init__(self, clock: Clock, phases: tuple[str, ...], steps: int) -> None:
        marks = len(phases)
        self.step_s = [clock.seconds(i * marks, (i + 1) * marks) for i in range(steps)]
        self.phase_s = {
            phase: [clock.seconds(i * marks + k, i * marks + k + 1) for i in range(steps)]
            for k, phase in enumerate(phases)
        }


class Ranks:
    """What the ranks of a case agree on between windows. Never used inside one."""

    def __init__(self, world_size: int, group: Any | None) -> None:
        self._alone = world_size == 1
        self._group = group

    def barrier(self) -> None:
        if not self._alone:
            dist.barrier(group=self._group)

    def maximum(self, values: list[float]) -> list[float]:
        """Element by element the largest over ranks; exact."""
        if self._alone:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self._group)
        return [float(value) for value in tensor.tolist()]

    def mean(self, values: list[float]) -> list[float]:
        """Element by element the mean over ranks."""
        if self._alone:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, group=self._group)
        return [float(value) / dist.get_world_size() for value in tensor.tolist()]

    def same_everywhere(self, number: int) -> bool:
        """Whether all ranks hold the same 63-bit number."""
        if self._alone:
            return True
        both = torch.tensor([number, -number], dtype=torch.int64)
        dist.all_reduce(both, op=dist.ReduceOp.MAX, group=self._group)
        highest, negated_lowest = both.tolist()
        return bool(highest == -negated_lowest)


def run_window(loop: Loop, device: Device, ranks: Ranks, steps: int, first_step: int = 0) -> Window:
    """Time ``steps`` steps. The ranks meet first; one step that is not timed leads in, so that
    the ranks have found their stride (and, on a GPU, the CPU is running ahead).

    ``first_step``: the steps of the pass that earlier windows have timed.
    """
    ranks.barrier()
    device.clock.start()
    loop.step_index = first_step - 1
    loop.step()
    device.clock.start()
    for _ in range(steps):
        loop.step()
    device.clock.mark()
    device.clock.finish()
    return Window(device.clock, loop.phases, steps)


def next_window(
    slowest_step_s: list[float], *, min_steps: int, precision: float, max_seconds: float
) -> int:
    """How many steps the next window has; 0 ends the pass.

    All ranks hold the same times and so come to the same answer without asking each other.
    """
    done = len(slowest_step_s)
    if done < min_steps:
        return min_steps - done
    reached = relative_half_width(slowest_step_s)
    if reached is not None and reached <= precision:
        return 0
    left_s = max_seconds - sum(slowest_step_s)
    affordable = int(left_s / statistics.median(slowest_step_s)) if left_s > 0 else 0
    steps = min(max(done // 2, 10), affordable)
    return steps if steps >= 5 else 0


def timed_pass(
    loop: Loop,
    device: Device,
    ranks: Ranks,
    *,
    min_steps: int,
    precision: float,
    max_seconds: float,
) -> tuple[list[float], dict[str, list[float]], list[float]]:
    """(this rank's step times, its phase times, the slowest rank's step times), in seconds."""
    own: list[float] = []
    phases: dict[str, list[float]] = {phase: [] for phase in loop.phases}
    slowest: list[float] = []
    while True:
        steps = next_window(
            slowest, min_steps=min_steps, precision=precision, max_seconds=max_seconds
        )
        if steps == 0:
            return own, phases, slowest
        window = run_window(loop, device, ranks, steps, first_step=len(own))
        own += window.step_s
        for phase, times in window.phase_s.items():
            phases[phase] += times
        slowest += ranks.maximum(window.step_s)
