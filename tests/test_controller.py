"""The controller: which cases share ranks, what ranks are told, what comes of their records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench import controller
from bench.case import Case
from bench.controller import Controller
from bench.launch import LaunchError
from bench.result import Failure, LaunchResult
from bench.settings import Settings
from bench.wire import Connection, Message
from tests.fake_ranks import Behaviour, FakeRanks, ended, rendezvous


@dataclass
class Launches:
    """Stands in for bench.launch.start_ranks."""

    behave: Behaviour
    asked: list[tuple[str, str, int, int]] = field(default_factory=list)
    groups: list[FakeRanks] = field(default_factory=list)
    problem: str | None = None

    def __call__(
        self,
        python: str,
        launcher: str,
        world_size: int,
        address: tuple[str, int],
        token: str,
        threads: int,
        log: Path,
    ) -> FakeRanks:
        if self.problem is not None:
            raise LaunchError(self.problem)
        self.asked.append((python, launcher, world_size, threads))
        self.groups.append(FakeRanks(self.behave)(world_size, address, token))
        return self.groups[-1]

    @property
    def jobs(self) -> list[Message]:
        return [job for group in self.groups for rank, job in group.jobs if rank == 0]


def measured(rank: int, connection: Connection, job: Message) -> None:
    rendezvous(rank, connection)
    times = [0.1 + rank, 0.3 - rank / 10]
    record = {"rank": rank, "host": "h", "timed_step_s": times, "job": {"parameters": 67}}
    connection.send({"type": "rank_done", "record": record})
    ended(connection)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    made = Launches(measured)
    monkeypatch.setattr(controller, "start_ranks", made)
    return made


def a_controller(folder: Path, **settings: Any) -> Controller:
    return Controller(Settings(**settings), {"": "/py", "old": "/old/py"}, 3, folder)


def test_new_ranks_start_for_another_launch_launcher_or_interpreter(
    launches: Launches, tmp_path: Path
) -> None:
    made = a_controller(tmp_path)
    for case, launch in (
        (Case(world_size=2), 0),
        (Case(world_size=1), 0),
        (Case(world_size=2, model="cifar_cnn"), 0),
        (Case(world_size=2), 1),
        (Case(world_size=2, launcher="spawn"), 1),
        (Case(world_size=2, torch="old"), 1),
    ):
        assert isinstance(made.run(case, launch, 2), LaunchResult)
    made.stop()
    assert launches.asked == [
        ("/py", "torchrun", 2, 3),
        ("/py", "torchrun", 2, 3),
        ("/py", "spawn", 2, 3),
        ("/old/py", "torchrun", 2, 3),
    ]
    assert all(len(group.stopped) == 1 for group in launches.groups)


def test_more_ranks_start_for_a_case_that_needs_them(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(tmp_path)
    made.run(Case(world_size=1), 0, 1)
    made.run(Case(world_size=4), 0, 1)
    made.run(Case(world_size=2), 0, 1)
    made.stop()
    assert [world_size for _, _, world_size, _ in launches.asked] == [1, 4]


def test_isolation_by_launch_starts_ranks_for_every_case(
    launches: Launches, tmp_path: Path
) -> None:
    made = a_controller(tmp_path, isolation="launch")
    for _ in range(3):
        made.run(Case(), 0, 1)
    assert len(launches.asked) == 3
    assert all(len(group.stopped) == 1 for group in launches.groups)


def test_after_a_lost_rank_the_next_case_gets_new_ones(launches: Launches, tmp_path: Path) -> None:
    launches.behave = lambda rank, connection, job: connection.close()
    made = a_controller(tmp_path)
    lost = made.run(Case(), 0, 1)
    assert isinstance(lost, Failure)
    assert lost.outcome == "crashed"
    launches.behave = measured
    assert isinstance(made.run(Case(seed=1), 0, 1), LaunchResult)
    made.stop()
    assert len(launches.asked) == 2


def test_ranks_that_cannot_be_started_are_a_failure(launches: Launches, tmp_path: Path) -> None:
    launches.problem = "cannot start /py: No such file or directory"
    answer = a_controller(tmp_path).run(Case(), 0, 1)
    assert isinstance(answer, Failure)
    assert (answer.phase, answer.type, answer.message) == (
        "launch",
        "LaunchError",
        launches.problem,
    )


def test_what_a_rank_is_told(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(tmp_path, launches=3, max_seconds=6.0, passes=("timed", "check"))
    made.run(Case(world_size=2, threads=None), 0, 2)
    made.run(Case(world_size=2, threads=7), 0, 2)
    made.stop()
    first, second = launches.jobs
    assert Case.from_dict(first["case"]) == Case(world_size=2)
    assert (first["threads"], second["threads"]) == (3, 7)
    assert first["max_seconds"] == 2.0  # a third of what the case has
    assert first["passes"] == ["timed", "check"]
    # A file store is new for every case and gone after it.
    assert first["store_file"] != second["store_file"]
    assert not list(tmp_path.iterdir())


def test_a_step_lasts_as_long_as_its_slowest_rank(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(tmp_path)
    answer = made.run(Case(world_size=2), 5, 2)
    made.stop()
    assert isinstance(answer, LaunchResult)
    assert (answer.launch, answer.step_s) == (5, (1.1, 0.3))
    assert answer.fields["parameters"] == 67
