"""The controller: which cases share ranks, what ranks are told, what comes of their records."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench import rank_sources
from bench.case import Case
from bench.controller import Controller
from bench.launch import LaunchError
from bench.result import Failure, LaunchResult
from bench.settings import Settings
from bench.wire import Connection, Message
from tests.fake_ranks import Behaviour, FakeRanks, ended, measured, rendezvous


@dataclass
class Launches:
    """Stands in for bench.launch.start_ranks."""

    behave: Behaviour
    asked: list[tuple[str, str, int, int]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
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
        self.logs.append(log)
        self.groups.append(FakeRanks(self.behave)(world_size, address, token))
        return self.groups[-1]

    @property
    def jobs(self) -> list[Message]:
        return [job for group in self.groups for rank, job in group.jobs if rank == 0]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    made = Launches(measured)
    monkeypatch.setattr(rank_sources, "start_ranks", made)
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


def test_ranks_of_several_interpreters_are_alive_side_by_side(
    launches: Launches, tmp_path: Path
) -> None:
    made = a_controller(tmp_path)
    pair = [Case(world_size=2), Case(world_size=2, torch="old")]
    for launch in range(2):
        assert made.ready(pair, launch, 2) == {}
        assert len(launches.asked) == 2 * launch + 2  # both, before the first is measured
        for child in range(3):
            for case in pair:
                assert isinstance(made.run(case, launch, 2, child), LaunchResult)
        assert len(launches.asked) == 2 * launch + 2
        alive = [group for group in launches.groups if not group.stopped]
        assert len(alive) == 2
    made.stop()
    assert [python for python, *_ in launches.asked] == ["/py", "/old/py"] * 2
    # What one prints is never taken for the words of the other.
    assert len(set(launches.logs)) == 2
    assert all(len(group.stopped) == 1 for group in launches.groups)


def test_a_lost_interpreter_leaves_the_others_ranks_alone(
    launches: Launches, tmp_path: Path
) -> None:
    made = a_controller(tmp_path)
    assert isinstance(made.run(Case(torch="old"), 0, 1), LaunchResult)
    launches.behave = lambda rank, connection, job: connection.close()
    assert isinstance(made.run(Case(), 0, 1), Failure)
    assert [len(group.stopped) for group in launches.groups] == [0, 1]
    launches.groups[0].behave = measured
    assert isinstance(made.run(Case(torch="old"), 0, 1), LaunchResult)
    made.stop()
    assert len(launches.asked) == 2


def test_who_cannot_start_is_named_before_anything_is_measured(
    launches: Launches, tmp_path: Path
) -> None:
    launches.problem = "no torch"
    made = a_controller(tmp_path)
    found = made.ready([Case(), Case(torch="old")], 0, 1)
    assert {case: failure.message for case, failure in found.items()} == {
        "ddp-mlp-w1": "no torch",
        "ddp-mlp-w1-torch_old": "no torch",
    }


def test_only_the_first_child_goes_through_all_passes(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(
        tmp_path,
        launches=2,
        children=3,
        max_seconds=6.0,
        save_traces=True,
        json_path=tmp_path / "run.json",
    )
    for child in range(3):
        made.run(Case(), 0, 1, child)
    made.stop()
    jobs = launches.jobs
    assert [job["passes"] == ["timed"] for job in jobs] == [False, True, True]
    assert [job["save_trace"] is None for job in jobs] == [False, True, True]
    assert [job["max_seconds"] for job in jobs] == [1.0, 1.0, 1.0]  # a sixth of what the case has


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


def test_a_rank_lost_while_idle_is_no_fault_of_the_next_case(
    launches: Launches, tmp_path: Path
) -> None:
    made = a_controller(tmp_path)
    made.run(Case(), 0, 1)
    _, group = made._groups[""]
    group.ranks[0].connection._socket.shutdown(socket.SHUT_RDWR)
    assert isinstance(made.run(Case(seed=1), 0, 1), LaunchResult)
    made.stop()
    assert len(launches.asked) == 2


def test_launches_that_fail_are_not_tried_for_every_cell(
    launches: Launches, tmp_path: Path
) -> None:
    launches.problem = "no torch"
    made = a_controller(tmp_path)
    answers = [made.run(Case(seed=seed), 0, 1) for seed in range(4)]
    assert [isinstance(answer, Failure) and answer.message for answer in answers] == [
        *("no torch", "no torch"),
        *("not tried again after 2 launches failed: no torch",) * 2,
    ]
    launches.problem = None
    other = made.run(Case(launcher="spawn"), 0, 1)  # another launcher may do
    assert isinstance(other, LaunchResult)
    made.stop()


def test_records_that_do_not_fit_are_a_failure(launches: Launches, tmp_path: Path) -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        times = [0.1] * (2 + rank)  # A20: ranks that ran different numbers of steps
        record = {"rank": rank, "host": "h", "timed_step_s": times, "job": {}}
        connection.send({"type": "rank_done", "record": record})
        ended(connection)

    launches.behave = behave
    made = a_controller(tmp_path)
    answer = made.run(Case(world_size=2), 0, 2)
    assert isinstance(answer, Failure)
    assert "ranks ran different numbers of steps: [2, 3]" in answer.message
    launches.behave = lambda rank, connection, job: (
        rendezvous(rank, connection),
        connection.send({"type": "rank_done", "record": {"odd": rank}}),
        ended(connection),
    )
    odd = made.run(Case(world_size=2, seed=1), 0, 2)
    assert isinstance(odd, Failure)
    assert "do not fit together" in odd.message
    launches.behave = measured
    assert isinstance(made.run(Case(seed=2), 0, 1), LaunchResult)
    made.stop()


def test_an_interruption_leaves_no_ranks(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(tmp_path)
    made.run(Case(), 0, 1)
    _, group = made._groups[""]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    group.run = interrupted  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        made.run(Case(seed=1), 0, 1)
    assert len(launches.groups[0].stopped) == 1


def test_the_sweeps_own_folder_may_vanish(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(tmp_path / "gone")
    answer = made.run(Case(), 0, 1)
    made.stop()
    assert isinstance(answer, Failure)
    assert str(tmp_path / "gone") in answer.message


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
    assert first["folder"] != second["folder"]
    assert not list(tmp_path.iterdir())


def test_traces_are_kept_where_they_are_asked_for(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(tmp_path, save_traces=True, json_path=tmp_path / "re{s}" / "run.json")
    made.run(Case(model="sleep:layers=2", world_size=2), 1, 2)
    plain = a_controller(tmp_path)
    plain.run(Case(), 0, 1)
    made.stop()
    plain.stop()
    kept, none = launches.jobs
    name = "ddp-sleep_layers=2-w2.launch1.rank3.json.gz"
    assert kept["save_trace"].format(rank=3) == str(tmp_path / "re{s}" / "run.traces" / name)
    assert none["save_trace"] is None


def test_a_step_lasts_as_long_as_its_slowest_rank(launches: Launches, tmp_path: Path) -> None:
    made = a_controller(tmp_path)
    answer = made.run(Case(world_size=2), 5, 2)
    made.stop()
    assert isinstance(answer, LaunchResult)
    assert (answer.launch, answer.step_s) == (5, (1.1, 0.3))
    assert answer.fields["parameters"] == 67
