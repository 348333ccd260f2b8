"""The order in which cells are measured: launches outside, cells inside.

Every launch goes over the whole matrix, so that the launches of a cell lie apart in time and the
interval over them holds the drift of the machine as well as the noise of a restart. The last
launch of a cell is its pytest item; the launches before it run before the first item. What a
resumed run has measured before is not measured again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.case import Case
from bench.interrupt import Interrupt
from bench.journal import Journal
from bench.result import Failure, LaunchResult


class RunsCases(Protocol):
    def run(self, case: Case, launch: int, world_size: int) -> LaunchResult | Failure: ...

    def stop(self) -> None: ...


Report = Callable[[Case, int, "LaunchResult | Failure"], None]


@dataclass
class Sweep:
    """Measures cells, each in every launch. ``cells``: what will be measured, in order;
    ``answers``: by case id and launch, also what an earlier run has measured; ``definitions``: by
    model, what the journal keeps to know a changed one."""

    controller: RunsCases
    journal: Journal
    launches: int
    cells: list[Case]
    report: Report
    clock: Callable[[], float] = time.monotonic
    interrupt: Interrupt = field(default_factory=Interrupt)
    answers: dict[str, dict[int, LaunchResult | Failure]] = field(default_factory=dict)
    definitions: dict[str, str | None] = field(default_factory=dict)
    _spent_s: float = 0.0
    _measured: int = 0

    def earlier_launches(self) -> None:
        """All launches but the last. A cell that fails is not tried again in the next."""
        for launch in range(self.launches - 1):
            for case in in_launch_order(self.cells, launch, self.launches):
                if self.failure(case) is None and launch not in self.answers.get(case.id, {}):
                    answer = self._measure(case, launch)
                    if answer is None:  # interrupted
                        return
                    self.report(case, launch, answer)

    def last_launch(self, case: Case) -> list[LaunchResult] | Failure:
        """The cell's last launch; all its launches, or the failure of one.

        After an interruption nothing more is measured: then those launches that there are.
        """
        last = self.launches - 1
        if self.failure(case) is None and last not in self.answers.get(case.id, {}):
            self._measure(case, last)
        return self.failure(case) or self.good(case)

    def failure(self, case: Case) -> Failure | None:
        for answer in self.answers.get(case.id, {}).values():
            if isinstance(answer, Failure):
                return answer
        return None

    def good(self, case: Case) -> list[LaunchResult]:
        """The cell's launches that ended well, in their order."""
        answers = sorted(self.answers.get(case.id, {}).items())
        return [answer for _, answer in answers if isinstance(answer, LaunchResult)]

    @property
    def complete(self) -> bool:
        """Whether every cell has all its launches, or a failure."""
        return all(
            self.failure(case) is not None or len(self.good(case)) == self.launches
            for case in self.cells
        )

    def seconds_left(self) -> float | None:
        """An estimate from the cells measured so far; None before the first."""
        if not self._measured or self.interrupt.asked:
            return None
        done = sum(map(len, self.answers.values()))
        total = len(self.cells) * self.launches
        return max(0, total - done) * self._spent_s / self._measured

    def _measure(self, case: Case, launch: int) -> LaunchResult | Failure | None:
        """None where it was interrupted."""
        started = self.clock()
        ranks = max(
            cell.processes
            for cell in self.cells
            if (cell.torch, cell.launcher) == (case.torch, case.launcher)
        )
        try:
            with self.interrupt.measuring():
                answer = self.controller.run(case, launch, ranks)
        except KeyboardInterrupt:
            self.interrupt.asked = True
            self.controller.stop()
            return None
        self.journal.append(case, launch, answer, self.definitions.get(case.model))
        self.answers.setdefault(case.id, {})[launch] = answer
        self._measured += 1
        self._spent_s += self.clock() - started
        return answer


def in_launch_order(cells: Sequence[Case], launch: int, launches: int) -> list[Case]:
    """The cells of a launch: each launch begins at another one, so that no cell is always first
    or always last. Cells that share ranks stay together."""
    blocks: dict[tuple[str, str], list[Case]] = {}
    for case in cells:
        blocks.setdefault((case.torch, case.launcher), []).append(case)
    order: list[Case] = []
    for block in blocks.values():
        # The last launch is pytest's own and begins at the first cell.
        first = len(block) * ((launch + 1) % launches) // launches
        order += block[first:] + block[:first]
    return order
