"""The phases of a step as ranges in a profiler's trace, so that a step can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from bench.classify import PHASE_MARK


class PhaseMarks:
    """Stands in for the clock's ``mark`` in a profiled pass: marks the clock, ends the range of the
    phase before and begins that of the next.

    The timed pass knows nothing of this: a range costs a few microseconds even when nobody records.
    """

    def __init__(
        self,
        mark: Callable[[], None],
        phases: tuple[str, ...],
        range_of: Callable[[str], AbstractContextManager[Any]] = torch.profiler.record_function,
    ) -> None:
        self._mark = mark
        self._phases = phases
        self._range_of = range_of
        self._open: AbstractContextManager[Any] | None = None
        self._next = 0

    def __call__(self) -> None:
        self._end()
        self._mark()
        self._open = self._range_of(PHASE_MARK + self._phases[self._next])
        self._open.__enter__()
        self._next = (self._next + 1) % len(self._phases)

    def end_step(self) -> None:
        """The last phase of a step ends here, and not with the first mark of the next step, before
        which the profiler has closed the step."""
        self._end()
        self._next = 0

    def _end(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
