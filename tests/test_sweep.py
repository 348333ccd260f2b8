from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bench.case import Case
from bench.journal import Journal
from bench.result import Failure, LaunchResult
from bench.sweep import Sweep, in_launch_order

CELLS = [Case(seed=seed) for seed in range(6)]


@dataclass
class FakeController:
    """Answers every case at once and remembers what it was asked."""

    fails: set[tuple[int, int]] = field(default_factory=set)
    asked: list[tuple[int, int, int]] = field(default_factory=list)

    def run(self, case: Case, launch: int, world_size: int) -> LaunchResult | Failure:
        self.asked.append((case.seed, launch, world_size))
        if (case.seed, launch) in self.fails:
            return Failure(phase="timed", message="no")
        return LaunchResult(launch, (0.1, 0.2), {"median_step_s": 0.15})

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
        lambda case, launch, answer: (reports if reports is not None else []).append(launch),
        clock=lambda: next(ticks),
    )


def test_every_launch_goes_over_the_whole_matrix() -> None:
    controller, reports = FakeController(), list[int]()
    made = sweep(controller, CELLS, 3, reports)
    made.earlier_launches()
    assert [launch for _, launch, _ in controller.asked] == [0] * 6 + [1] * 6
    assert reports == [0] * 6 + [1] * 6
    for case in CELLS:
        answer = made.last_launch(case)
        assert isinstance(answer, list)
        assert [result.launch for result in answer] == [0, 1, 2]


def test_no_cell_is_always_first() -> None:
    firsts = {in_launch_order(CELLS, launch, 3)[0].seed for launch in range(3)}
    assert firsts == {0, 2, 4}
    assert in_launch_order(CELLS, 2, 3) == CELLS  # the last launch is pytest's own order
    for launch in range(3):
        assert sorted(case.seed for case in in_launch_order(CELLS, launch, 3)) == list(range(6))


def test_cells_that_share_ranks_stay_together() -> None:
    mixed = [Case(seed=s, launcher=("torchrun", "spawn")[s // 3]) for s in range(6)]
    for launch in range(4):
        launchers = [case.launcher for case in in_launch_order(mixed, launch, 4)]
        assert launchers == ["torchrun"] * 3 + ["spawn"] * 3


def test_a_cell_that_failed_is_not_tried_again() -> None:
    controller = FakeController(fails={(2, 0)})
    made = sweep(controller, CELLS, 3)
    made.earlier_launches()
    answer = made.last_launch(CELLS[2])
    assert isinstance(answer, Failure)
    assert [launch for seed, launch, _ in controller.asked if seed == 2] == [0]
    assert isinstance(made.last_launch(CELLS[3]), list)


def test_enough_ranks_are_started_for_the_largest_cell() -> None:
    controller = FakeController()
    cells = [Case(world_size=1), Case(world_size=4), Case(world_size=8, launcher="spawn")]
    made = sweep(controller, cells, 1)
    for case in cells:
        made.last_launch(case)
    assert [world_size for _, _, world_size in controller.asked] == [4, 4, 8]


def test_the_time_left_is_that_of_the_cells_measured_so_far() -> None:
    made = sweep(FakeController(), CELLS, 2)
    assert made.seconds_left() is None
    made.earlier_launches()  # each measurement takes one tick of ten seconds
    assert made.seconds_left() == 60
    made.last_launch(CELLS[0])
    assert made.seconds_left() == 50


def test_the_journal_has_every_launch_of_every_cell(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.jsonl"
    made = sweep(FakeController(fails={(1, 0)}), CELLS[:2], 2)
    made.journal = Journal(path)
    made.earlier_launches()
    made.last_launch(CELLS[0])
    made.last_launch(CELLS[1])
    kinds = [line.split('"type": "')[1].split('"')[0] for line in path.read_text().splitlines()]
    assert sorted(kinds) == ["failure", "launch_result", "launch_result"]


def test_what_was_measured_before_is_not_measured_again() -> None:
    controller = FakeController()
    made = sweep(controller, CELLS[:3], 3)
    before = {launch: LaunchResult(launch, (9.0,), {}) for launch in range(3)}
    made.answers = {CELLS[0].id: dict(before), CELLS[1].id: {1: before[1]}}
    assert not made.complete
    made.earlier_launches()
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
        def run(self, case: Case, launch: int, world_size: int) -> LaunchResult | Failure:
            if len(self.asked) == 4:
                raise KeyboardInterrupt
            return super().run(case, launch, world_size)

        def stop(self) -> None:
            self.asked.append((-1, -1, -1))  # by which the test sees it

    controller = Interrupted()
    made = sweep(controller, CELLS[:3], 3)
    made.earlier_launches()
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
