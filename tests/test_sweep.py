from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.case import Case
from bench.journal import Journal
from bench.result import Failure, LaunchResult
from bench.sweep import Sweep, blocks, in_launch_order, in_turns, whole_blocks_only

CELLS = [Case(seed=seed) for seed in range(6)]
#: Three cells, each under two interpreters.
PAIRS = [Case(seed=seed, torch=torch) for seed in range(3) for torch in ("old", "new")]


@dataclass
class FakeController:
    """Answers every case at once and remembers what it was asked."""

    fails: set[tuple[int, int]] = field(default_factory=set)
    asked: list[tuple[int, int, int]] = field(default_factory=list)

    #: (seed, interpreter, launch, child) in the order in which they were asked for.
    turns: list[tuple[int, str, int, int]] = field(default_factory=list)
    readied: list[list[str]] = field(default_factory=list)
    no_ranks: set[str] = field(default_factory=set)

    def run(
        self, case: Case, launch: int, world_size: int, child: int = 0
    ) -> LaunchResult | Failure:
        self.asked.append((case.seed, launch, world_size))
        self.turns.append((case.seed, case.torch, launch, child))
        if (case.seed, launch) in self.fails:
            return Failure(phase="timed", message="no")
        median = 0.1 * (child + 1)
        about = {"median_step_s": median, "steps": 2}
        fields = {"median_step_s": median, "children": [about], "reached_precision": True}
        return LaunchResult(launch, (median - 0.05, median + 0.05), fields)

    def ready(self, cases: Sequence[Case], launch: int, world_size: int) -> dict[str, Failure]:
        self.readied.append([case.torch for case in cases])
        failure = Failure(phase="launch", message="no ranks", type="LaunchError")
        return {case.id: failure for case in cases if case.torch in self.no_ranks}

    def stop(self) -> None: ...


def sweep(
    controller: FakeController, cells: list[Case], launches: int, reports: list[int] | None = None
) -> Sweep:
    ticks = iter(range(0, 10_000, 10))
    return Sweep(
        controller,
        Journal(None),
        launches,
        cells,
        lambda block, launch, answers: (reports if reports is not None else []).append(launch),
        clock=lambda: next(ticks),
    )


def test_every_launch_goes_over_the_whole_matrix() -> None:
    controller, reports = FakeController(), list[int]()
    made = sweep(controller, CELLS, 3, reports)
    made.before_items()
    assert [launch for _, launch, _ in controller.asked] == [0] * 6 + [1] * 6
    assert reports == [0] * 6 + [1] * 6
    for case in CELLS:
        answer = made.last_launch(case)
        assert isinstance(answer, list)
        assert [result.launch for result in answer] == [0, 1, 2]


def test_no_cell_is_always_first() -> None:
    alone = blocks(CELLS)
    firsts = {in_launch_order(alone, launch, 3)[0][0].seed for launch in range(3)}
    assert firsts == {0, 2, 4}
    assert in_launch_order(alone, 2, 3) == alone  # the last launch is pytest's own order
    for launch in range(3):
        seeds = [block[0].seed for block in in_launch_order(alone, launch, 3)]
        assert sorted(seeds) == list(range(6))


def test_cells_that_share_ranks_stay_together() -> None:
    mixed = [Case(seed=s, launcher=("torchrun", "spawn")[s // 3]) for s in range(6)]
    for launch in range(4):
        order = in_launch_order(blocks(mixed), launch, 4)
        launchers = [block[0].launcher for block in order]
        assert launchers == ["torchrun"] * 3 + ["spawn"] * 3


def test_a_cell_that_failed_is_not_tried_again() -> None:
    controller = FakeController(fails={(2, 0)})
    made = sweep(controller, CELLS, 3)
    made.before_items()
    answer = made.last_launch(CELLS[2])
    assert isinstance(answer, Failure)
    assert [launch for seed, launch, _ in controller.asked if seed == 2] == [0]
    assert isinstance(made.last_launch(CELLS[3]), list)


def test_enough_ranks_are_started_for_the_largest_cell() -> None:
    controller = FakeController()
    cells = [Case(), Case(world_size=4), Case(world_size=8, launcher="spawn")]
    made = sweep(controller, cells, 1)
    for case in cells:
        made.last_launch(case)
    assert [world_size for _, _, world_size in controller.asked] == [4, 4, 8]


def test_the_time_left_is_that_of_the_cells_measured_so_far() -> None:
    made = sweep(FakeController(), CELLS, 2)
    assert made.seconds_left() is None
    made.before_items()  # each measurement takes one tick of ten seconds
    assert made.seconds_left() == 60
    made.last_launch(CELLS[0])
    assert made.seconds_left() == 50


def test_what_is_left_of_a_cell_that_failed_is_done_with() -> None:
    made = sweep(FakeController(fails={(2, 0)}), CELLS, 3)
    assert made.progress() == (0, 18)
    made.before_items()
    # Two launches of five cells, and all three of the one that failed in the first.
    assert made.progress() == (13, 18)
    assert made.seconds_left() == 50
    for case in CELLS:
        made.last_launch(case)
    assert made.progress() == (18, 18)
    assert made.seconds_left() == 0


def test_what_is_measured_is_shown_while_it_is() -> None:
    controller = FakeController()
    made = sweep(controller, PAIRS, 2)
    seen: list[tuple[int, int, int]] = []

    @contextlib.contextmanager
    def showing(block: Sequence[Case], launch: int) -> Iterator[None]:
        before = len(controller.turns)
        done, _ = made.progress()
        yield
        # Nothing was asked for outside, and the block's interpreters were all asked for inside.
        assert len(controller.turns) - before == len(block) == 2
        seen.append((block[0].seed, launch, done))

    made.showing = showing
    made.before_items()
    # The second launch begins at the first block again, being pytest's own order of two.
    assert [(launch, done) for _, launch, done in seen] == [
        *((0, 0), (0, 2), (0, 4), (1, 6), (1, 8), (1, 10))
    ]
    assert sorted(seed for seed, _, _ in seen) == [0, 0, 1, 1, 2, 2]
    for case in PAIRS:
        made.last_launch(case)
    assert len(seen) == 6  # nothing was left to measure, and nothing was shown


def test_the_journal_has_every_launch_of_every_cell(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.jsonl"
    made = sweep(FakeController(fails={(1, 0)}), CELLS[:2], 2)
    made.journal = Journal(path)
    made.before_items()
    made.last_launch(CELLS[0])
    made.last_launch(CELLS[1])
    kinds = [line.split('"type": "')[1].split('"')[0] for line in path.read_text().splitlines()]
    assert sorted(kinds) == ["failure", "launch_result", "launch_result"]


def test_what_was_measured_before_is_not_measured_again() -> None:
    controller = FakeController()
    made = sweep(controller, CELLS[:3], 3)
    before: dict[int, LaunchResult | Failure] = {
        launch: LaunchResult(launch, (9.0,), {}) for launch in range(3)
    }
    made.answers = {CELLS[0].id: dict(before), CELLS[1].id: {1: before[1]}}
    assert not made.complete
    made.before_items()
    assert made.last_launch(CELLS[0]) == list(before.values())
    for case in CELLS[1:3]:
        answer = made.last_launch(case)
        assert isinstance(answer, list)
        assert [result.launch for result in answer] == [0, 1, 2]
    assert sorted((seed, launch) for seed, launch, _ in controller.asked) == [
        *((1, 0), (1, 2)),
        *((2, 0), (2, 1), (2, 2)),
    ]
    assert made.complete


def test_after_an_interruption_what_there_is_is_handed_over() -> None:
    class Interrupted(FakeController):
        def run(
            self, case: Case, launch: int, world_size: int, child: int = 0
        ) -> LaunchResult | Failure:
            if len(self.asked) == 4:
                raise KeyboardInterrupt
            return super().run(case, launch, world_size, child)

        def stop(self) -> None:
            self.asked.append((-1, -1, -1))  # by which the test sees it

    controller = Interrupted()
    made = sweep(controller, CELLS[:3], 3)
    made.before_items()
    stopped = (-1, -1, -1)
    assert controller.asked[4:] == [stopped]
    handed = [made.last_launch(case) for case in CELLS[:3]]
    assert [len(answer) for answer in handed if isinstance(answer, list)] == [1, 1, 2]
    assert set(controller.asked[4:]) == {stopped}  # and nothing more was measured
    assert made.seconds_left() is None
    assert not made.complete


def test_a_cell_that_was_not_reached_hands_over_nothing() -> None:
    made = sweep(FakeController(), CELLS, 1)
    made.interrupt.asked = True
    assert made.last_launch(CELLS[0]) == []


def test_interpreters_take_turns_within_a_cell() -> None:
    controller, reports = FakeController(), list[int]()
    made = sweep(controller, PAIRS, 2, reports)
    made.children = 3
    made.before_items()
    assert reports == [0] * 3 + [1] * 3  # every launch of a pair runs before the items
    for number in range(6):
        turns = controller.turns[6 * number : 6 * number + 6]
        assert len({(seed, launch) for seed, _, launch, _ in turns}) == 1  # one cell, one launch
        for round_of in range(3):
            both = turns[2 * round_of : 2 * round_of + 2]
            assert sorted(torch for _, torch, _, _ in both) == ["new", "old"]
            assert {child for _, _, _, child in both} == {round_of}
    assert {tuple(order) for order in controller.readied} == {("old", "new"), ("new", "old")}
    answer = made.last_launch(PAIRS[0])
    assert isinstance(answer, list)
    assert len(controller.turns) == 36  # nothing was left for the item
    # Children of 0.1, 0.2 and 0.3 s: the median of their medians, and all their steps.
    assert [launch.fields["median_step_s"] for launch in answer] == [0.2, 0.2]
    assert [len(launch.step_s) for launch in answer] == [6, 6]
    assert [len(launch.fields["children"]) for launch in answer] == [3, 3]


def test_who_goes_first_is_drawn_and_can_be_drawn_again() -> None:
    pair = PAIRS[:2]
    drawn = [in_turns(pair, 3, f"0 {launch} cell") for launch in range(200)]
    assert drawn == [in_turns(pair, 3, f"0 {launch} cell") for launch in range(200)]
    first = Counter(turns[0].torch for turns in drawn)
    # 200 tosses of a coin: outside 70 to 130 once in 40,000.
    assert 70 < first["old"] < 130
    other = [in_turns(pair, 3, f"1 {launch} cell") for launch in range(200)]
    assert other != drawn


def test_where_one_interpreter_fails_the_other_still_gets_its_numbers() -> None:
    controller = FakeController(no_ranks={"new"})
    made = sweep(controller, PAIRS, 2)
    made.before_items()
    for case in PAIRS:
        answer = made.last_launch(case)
        assert isinstance(answer, Failure if case.torch == "new" else list)
    assert {torch for _, torch, _, _ in controller.turns} == {"old"}


def test_what_looks_slower_is_measured_once_more_in_fresh_launches(tmp_path: Path) -> None:
    controller, reports = FakeController(), list[int]()
    made = sweep(controller, PAIRS, 2, reports)
    made.before_items()
    assert made.complete
    made.confirm([PAIRS[2:4]])
    assert {(seed, launch) for seed, _, launch, _ in controller.turns if launch > 1} == {
        (1, 2),
        (1, 3),
    }
    assert reports == [0] * 3 + [1] * 3 + [2, 3]
    for case in PAIRS[2:4]:
        assert [launch.launch for launch in made.good(case)] == [0, 1]
        assert [launch.launch for launch in made.confirmation(case)] == [2, 3]
    assert made.confirmation(PAIRS[0]) == []
    assert made.complete
    assert made.seconds_left() == 0


def test_a_confirmation_that_fails_is_given_up_and_takes_nothing_back() -> None:
    controller = FakeController(fails={(1, 2)})
    made = sweep(controller, PAIRS, 2)
    made.before_items()
    made.confirm([PAIRS[2:4]])
    assert [launch for seed, _, launch, _ in controller.turns if seed == 1 and launch > 1] == [2, 2]
    assert made.failure(PAIRS[2]) is None
    assert isinstance(made.last_launch(PAIRS[2]), list)
    assert made.confirmation(PAIRS[2]) == []
    assert made.complete  # there is nothing to resume
    assert made.progress() == (16, 16)


def test_what_failed_is_not_waited_for_in_the_confirmation() -> None:
    controller = FakeController(no_ranks={"third"})
    cells = [Case(torch=torch) for torch in ("old", "new", "third")]
    made = sweep(controller, cells, 2)
    made.before_items()
    made.confirm([cells])
    assert made.confirming == [cells[:2]]
    assert [launch.launch for launch in made.confirmation(cells[1])] == [2, 3]
    assert made.complete
    assert made.progress() == (10, 10)  # 3 cells and 2 once more, in 2 launches


def test_an_interrupted_confirmation_is_not_complete() -> None:
    made = sweep(FakeController(), PAIRS, 2)
    made.before_items()
    made.interrupt.asked = True
    made.confirm([PAIRS[2:4]])
    assert not made.complete


def test_of_a_resumed_run_only_whole_pairs_are_taken() -> None:
    result = {launch: LaunchResult(launch, (1.0,), {}) for launch in range(3)}
    answers = {
        PAIRS[0].id: {0: result[0], 1: result[1]},
        PAIRS[1].id: {0: result[0], 2: result[2]},
        PAIRS[2].id: {0: result[0]},
    }
    whole_blocks_only(answers, PAIRS)
    assert answers == {PAIRS[0].id: {0: result[0]}, PAIRS[1].id: {0: result[0]}, PAIRS[2].id: {}}
    alone = {CELLS[0].id: {0: result[0], 2: result[2]}}
    whole_blocks_only(alone, CELLS)
    assert alone == {CELLS[0].id: {0: result[0], 2: result[2]}}
