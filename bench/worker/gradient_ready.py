"""When each gradient is ready, measured where nothing is communicated: what a prediction of other
networks, buckets and world sizes begins with.

A gradient is ready when it lies in its bucket: the hook is one of the autograd node that has
accumulated it, and stands behind DDP's own. Hooks cost time, so they have a window of their own
and touch no other number.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from bench.worker.device import Device
from bench.worker.loop import Ranks, TrainingLoop

#: More would make a record of any size.
MOST_PARAMETERS = 5_000
#: The window takes about this long at most, but never fewer than LEAST_STEPS steps.
_SECONDS, LEAST_STEPS, MOST_STEPS = 2.0, 5, 20
#: A gradient that a rank's step did not have.
_NEVER = -1.0


def steps_of_window(step_s: float) -> int:
    """How many steps, of which each takes about ``step_s``; the same on all ranks."""
    return max(LEAST_STEPS, min(MOST_STEPS, int(_SECONDS / step_s)))


def gradient_ready(
    loop: TrainingLoop,
    device: Device,
    ranks: Ranks,
    parameters: Sequence[nn.Parameter],
    steps: int,
    first_step: int,
) -> dict[str, Any]:
    """The record ``gradient_ready``; DDP must be silent already, and all ranks must call this.

    ``ready_s``, by gradient in the order in which they become ready: seconds from the beginning
    of the step, of every step the maximum over ranks, and then the median over the steps.
    ``order``: their places in ``parameters``, the trainable ones; ``bytes`` and ``dtypes`` of the
    gradients in the same order. ``forward_s`` (with the data before it), ``backward_s``,
    ``optimizer_s`` and ``step_s`` of these steps, likewise. ``reason``: why there is nothing.
    """
    reason = _why_not(loop, parameters)
    if reason:
        return {"reason": reason}
    marks = Marks(device.clock.mark)
    handles = [
        node.register_hook(marks.hook(position))
        for position, node in enumerate(map(_accumulator, parameters))
    ]
    try:
        ranks.barrier()
        with loop.marked_by(marks.border):
            loop.step_index = first_step
            device.clock.start()
            loop.step()  # leads in, as in every window
            marks.start()
            device.clock.start()
            for _ in range(steps):
                loop.step()
            marks.border()
        device.clock.finish()
    finally:
        for handle in handles:
            handle.remove()
    own = marks.steps(device.clock.seconds, len(loop.phases), len(parameters))
    flat = ranks.maximum([number for step in own for number in step])
    width = len(parameters) + len(_PARTS)
    return _record([flat[i : i + width] for i in range(0, len(flat), width)], parameters)


class Marks:
    """Which mark of the clock is what: a border between phases of a step, or a gradient."""

    def __init__(self, mark: Callable[[], None]) -> None:
        self._mark = mark
        self._names: list[int | None] = []

    def start(self) -> None:
        self._names.clear()

    def border(self) -> None:
        self._names.append(None)
        self._mark()

    def hook(self, position: int) -> Callable[[Any, Any], None]:
        def ready(_inputs: Any, _outputs: Any) -> None:
            self._names.append(position)
            self._mark()

        return ready

    def steps(
        self, seconds: Callable[[int, int], float], phases: int, parameters: int
    ) -> list[list[float]]:
        """Of every step: when each gradient was ready, then the parts named in ``_PARTS``."""
        borders = [place for place, name in enumerate(self._names) if name is None]
        found = []
        for first in range(0, len(borders) - 1, phases):
            start, backward, optimizer, end = (
                borders[first + k] for k in (0, phases - 2, phases - 1, phases)
            )
            ready = [_NEVER] * parameters
            for place in range(backward, optimizer):
                position = self._names[place]
                if position is not None:  # accumulated twice: the last time counts
                    ready[position] = seconds(start, place)
            found.append(
                [
                    *ready,
                    seconds(start, backward),
                    seconds(start, optimizer),
                    seconds(optimizer, end),
                    seconds(start, end),
                ]
            )
        return found


#: What follows the gradients in a step's row.
_PARTS = ("forward_s", "_backward_end_s", "optimizer_s", "step_s")


def _record(rows: list[list[float]], parameters: Sequence[nn.Parameter]) -> dict[str, Any]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    parts = dict(zip(_PARTS, map(statistics.median, columns[len(parameters) :]), strict=True))
    backward_end_s = parts.pop("_backward_end_s")
    ready = {
        position: statistics.median(column)
        for position, column in enumerate(columns[: len(parameters)])
        if min(column) > _NEVER
    }
    if not ready:
        return {"reason": "no gradient was ready in every step"}
    order = sorted(ready, key=ready.__getitem__)
    dtypes = [str(parameters[n].dtype).removeprefix("torch.") for n in order]
    return {
        "reason": None,
        "steps": len(rows),
        "parameters": len(parameters),
        "order": order,
        "ready_s": [ready[n] for n in order],
        "bytes": [parameters[n].numel() * parameters[n].element_size() for n in order],
        "dtypes": dtypes if len(set(dtypes)) > 1 else dtypes[:1],
        "backward_s": backward_end_s - parts["forward_s"],
        **parts,
    }


def _why_not(loop: TrainingLoop, parameters: Sequence[nn.Parameter]) -> str | None:
    if "backward" not in loop.phases:
        return "the model brings its own step_fn: where its backward begins is not known"
    if len(parameters) > MOST_PARAMETERS:
        return f"more than {MOST_PARAMETERS} parameters"
    if any(_accumulator(parameter) is None for parameter in parameters):
        return "this torch has no hook for when a gradient is accumulated"
    return None


def _accumulator(parameter: nn.Parameter) -> Any:
    """The autograd node that accumulates the parameter's gradient; None where it is not found."""
    edge = getattr(torch.autograd.graph, "get_gradient_edge", None)
    if edge is not None:
        node = edge(parameter).node
    else:
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return node if hasattr(node, "register_hook") else None
