"""The order in which cells are measured: launches outside, cells inside, interpreters innermost.

Every launch goes over the whole matrix, so that the launches of a cell lie apart in time and the
interval over them holds the drift of the machine as well as the noise of a restart. The last
launch of a cell is its pytest item; the launches before it run before the first item. What a
resumed run has measured before is not measured again.

Where several interpreters are compared, a cell of all of them is a *block*: within one launch its
children take turns in random order, so that what the machine does meanwhile meets all alike, and
the k-th launches of two interpreters are a pair. A block is kept whole or not at all. All launches
run before the first item, and after them the confirmation: fresh pairs of what looks slower.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from bench.case import Case
from bench.interrupt import Interrupt
from bench.journal import Journal
from bench.result import Failure, LaunchResult, of_children

Answer = LaunchResult | Failure


class RunsCases(Protocol):
    def run(self, case: Case, launch: int, world_size: int, child: int = 0) -> Answer: ...

    def ready(
        self, cases: Sequence[Case], launch: int, world_size: int
    ) -> Mapping[str, Failure]: ...

    def stop(self) -> None: ...


#: A block, the launch, and what came of it by case id.
Report = Callable[[Sequence[Case], int, Mapping[str, Answer]], None]
#: Entered with a block and the launch while it is measured.
Showing = Callable[[Sequence[Case], int], AbstractContextManager[None]]


def unseen(block: Sequence[Case], launch: int) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass
class Sweep:
    """Measures cells, each in every launch. ``cells``: what will be measured, in order;
    ``answers``: by case id and launch, also what an earlier run has measured; ``definitions``: by
    model, what the journal keeps to know a changed one. Launches from ``launches`` on are the
    confirmation's."""

    controller: RunsCases
    journal: Journal
    launches: int
    cells: list[Case]
    report: Report
    children: int = 1
    order_seed: int = 0
    clock: Callable[[], float] = time.monotonic
    interrupt: Interrupt = field(default_factory=Interrupt)
    answers: dict[str, dict[int, Answer]] = field(default_factory=dict)
    definitions: dict[str, str | None] = field(default_factory=dict)
    showing: Showing = unseen
    #: Blocks that are measured once more, in fresh launches.
    confirming: list[list[Case]] = field(default_factory=list)
    _spent_s: float = 0.0
    _measured: int = 0

    def __post_init__(self) -> None:
        self.blocks = blocks(self.cells)
        self._block_of = {case.id: block for block in self.blocks for case in block}

    @property
    def comparing(self) -> bool:
        return any(len(block) > 1 for block in self.blocks)

    def before_items(self) -> None:
        """All launches but the last; all of them where interpreters are compared. A cell that
        fails is not tried again in the next."""
        self._run(range(self.launches if self.comparing else self.launches - 1), self.blocks)

    def confirm(self, flagged: Iterable[Sequence[Case]]) -> None:
        """Measure these blocks once more, in as many fresh launches; without what has failed."""
        self.confirming = [
            [case for case in block if self.failure(case) is None] for block in flagged
        ]
        self._run(range(self.launches, 2 * self.launches), self.confirming)

    def _run(self, launches: Iterable[int], wanted: Sequence[Sequence[Case]]) -> None:
        for launch in launches:
            for block in in_launch_order(wanted, launch, self.launches):
                answers = self._measure(block, launch)
                if answers is None:  # interrupted
                    return
                if answers:
                    self.report(block, launch, answers)

    def last_launch(self, case: Case) -> list[LaunchResult] | Failure:
        """The cell's last launch; all its launches, or the failure of one.

        After an interruption nothing more is measured: then those launches that there are.
        """
        self._measure(self._block_of[case.id], self.launches - 1)
        return self.failure(case) or self.good(case)

    def failure(self, case: Case) -> Failure | None:
        for launch, answer in self.answers.get(case.id, {}).items():
            if isinstance(answer, Failure) and launch < self.launches:
                return answer
        return None

    def good(self, case: Case) -> list[LaunchResult]:
        """The cell's launches that ended well, in their order."""
        return self._good(case, range(self.launches))

    def confirmation(self, case: Case) -> list[LaunchResult]:
        """Those of its confirmation that did."""
        return self._good(case, range(self.launches, 2 * self.launches))

    def _good(self, case: Case, launches: range) -> list[LaunchResult]:
        answers = sorted(self.answers.get(case.id, {}).items())
        return [
            answer
            for launch, answer in answers
            if launch in launches and isinstance(answer, LaunchResult)
        ]

    def _gave_up(self, block: Sequence[Case]) -> bool:
        """Whether a launch of its confirmation failed: then there is nothing to compare with."""
        answers = [self.answers.get(case.id, {}) for case in block]
        return any(
            isinstance(answer, Failure) and launch >= self.launches
            for of_case in answers
            for launch, answer in of_case.items()
        )

    @property
    def complete(self) -> bool:
        """Whether every cell has all its launches, or a failure."""
        return all(
            self.failure(case) is not None or len(self.good(case)) == self.launches
            for case in self.cells
        ) and all(
            self._gave_up(block)
            or all(len(self.confirmation(case)) == self.launches for case in block)
            for block in self.confirming
        )

    def seconds_left(self) -> float | None:
        """An estimate from the cells measured so far; None before the first."""
        if not self._measured or self.interrupt.asked:
            return None
        done, total = self.progress()
        return (total - done) * self._spent_s / self._measured

    def progress(self) -> tuple[int, int]:
        """How many launches of cells are done with, and of how many. What is left of a cell that
        failed is done with."""
        done = 0
        for case in self.cells:
            launches = [n for n in self.answers.get(case.id, {}) if n < self.launches]
            done += self.launches if self.failure(case) is not None else len(launches)
        for block in self.confirming:
            for case in block:
                gave_up = self._gave_up(block)
                done += self.launches if gave_up else len(self.confirmation(case))
        total = (len(self.cells) + sum(map(len, self.confirming))) * self.launches
        return done, total

    def _measure(self, block: Sequence[Case], launch: int) -> dict[str, Answer] | None:
        """What came of those cells of the block that have no answer yet, by id; None where it was
        interrupted, and then nothing of it is kept."""
        wanted = [
            case
            for case in block
            if self.failure(case) is None and launch not in self.answers.get(case.id, {})
        ]
        if not wanted or (launch >= self.launches and self._gave_up(block)):
            return {}
        started = self.clock()
        try:
            with self.showing(wanted, launch), self.interrupt.measuring():
                answers = self._take_turns(wanted, launch)
        except KeyboardInterrupt:
            self.interrupt.asked = True
            self.controller.stop()
            return None
        for case in wanted:
            self.journal.append(case, launch, answers[case.id], self.definitions.get(case.model))
            self.answers.setdefault(case.id, {})[launch] = answers[case.id]
        self._measured += len(wanted)
        self._spent_s += self.clock() - started
        return answers

    def _take_turns(self, block: Sequence[Case], launch: int) -> dict[str, Answer]:
        turns = in_turns(block, self.children, f"{self.order_seed} {launch} {_cell(block[0]).id}")
        ranks = max(cell.processes for cell in self.cells if cell.launcher == block[0].launcher)
        failed: dict[str, Failure] = {}
        if len(block) > 1:
            failed |= self.controller.ready(turns[: len(block)], launch, ranks)
        children: dict[str, list[LaunchResult]] = {case.id: [] for case in block}
        for case in turns:
            if case.id in failed:
                continue
            answer = self.controller.run(case, launch, ranks, len(children[case.id]))
            if isinstance(answer, Failure):
                failed[case.id] = answer
            else:
                children[case.id].append(answer)
        return {case.id: failed.get(case.id) or of_children(children[case.id]) for case in block}


def _cell(case: Case) -> Case:
    """A case whatever its interpreter."""
    return case.replace(torch="")


def blocks(cells: Iterable[Case]) -> list[list[Case]]:
    """The same cell of all interpreters together, in the order of the cells."""
    found: dict[Case, list[Case]] = {}
    for case in cells:
        found.setdefault(_cell(case), []).append(case)
    return list(found.values())


def whole_blocks_only(
    answers: Mapping[str, dict[int, LaunchResult]], cells: Iterable[Case]
) -> None:
    """Takes out launches that not every interpreter has: what is measured later is no pair of
    theirs."""
    for block in blocks(cells):
        of_block = [answers.get(case.id, {}) for case in block]
        in_all = set.intersection(*(set(launches) for launches in of_block))
        for launches in of_block:
            for launch in launches.keys() - in_all:
                del launches[launch]


def in_turns(block: Sequence[Case], children: int, seed: str) -> list[Case]:
    """Every case as often as there are children: each in every round, in random order."""
    # A str seeds the same way in every process, which a hash would not.
    drawn = random.Random(seed)
    return [case for _ in range(children) for case in drawn.sample(block, len(block))]


def in_launch_order(
    wanted: Sequence[Sequence[Case]], launch: int, launches: int
) -> list[Sequence[Case]]:
    """The blocks of a launch: each launch begins at another one, so that no cell is always first
    or always last. Blocks that share ranks stay together."""
    sharing: dict[str, list[Sequence[Case]]] = {}
    for block in wanted:
        sharing.setdefault(block[0].launcher, []).append(block)
    order: list[Sequence[Case]] = []
    for together in sharing.values():
        # The last launch is pytest's own and begins at the first cell.
        first = len(together) * ((launch + 1) % launches) // launches
        order += together[first:] + together[:first]
    return order
