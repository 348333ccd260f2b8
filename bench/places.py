"""Where the ranks of a case are: how many in each phase, so that the last of them is known at once
however many there are."""

from __future__ import annotations

from bench.result import PHASES


class Places:
    """All ranks begin in the first phase."""

    def __init__(self, ranks: int) -> None:
        self._ranks_in = dict.fromkeys(PHASES, 0) | {PHASES[0]: ranks}

    @property
    def last(self) -> str | None:
        """The phase of the rank that is furthest behind; None when all have left."""
        return next((phase for phase, ranks in self._ranks_in.items() if ranks), None)

    def move(self, phase: str, to: str) -> None:
        self._ranks_in[phase] -= 1
        self._ranks_in[to] += 1

    def leave(self, phase: str) -> None:
        self._ranks_in[phase] -= 1
