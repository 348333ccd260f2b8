"""The controller against ranks that speak the protocol and know no torch."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench import controller
from bench.case import Case
from bench.controller import Controller, Group, _cause, _Part
from bench.launch import LaunchError
from bench.result import Failure, LaunchResult
from bench.settings import Settings
from bench.wire import Connection, Message, WireError, connect

Behaviour = Callable[[int, Connection, Message], None]
#: What gloo says on the ranks that did not cause it.
CLOSED = "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242"


@dataclass
class FakeRanks:
    """Stands in for torchrun: every rank is a thread with a connection of its own."""

    behave: Behaviour
    silent: tuple[int, ...] = ()
    host: str = field(default_factory=socket.gethostname)
    twins: bool = False  # every process says it is rank 0
    stopped: list[list[int]] = field(default_factory=list)
    told_to_stop: list[int] = field(default_factory=list)
    jobs: list[tuple[int, Message]] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    deaf: bool = False  # to controller_abort
    all_told: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __call__(self, world_size: int, address: tuple[str, int], token: str) -> FakeRanks:
        for rank in range(world_size):
            if rank not in self.silent:
                threading.Thread(
                    target=self._serve, args=(rank, address, token), daemon=True
                ).start()
        return self

    def _serve(self, rank: int, address: tuple[str, int], token: str) -> None:
        connection = connect(*address, token)
        connection.send(
            {
                "type": "rank_ready",
                "rank": 0 if self.twins else rank,
                "local_rank": rank,
                "host": self.host,
                "pid": 100 + rank,
            }
        )
        try:
            while True:
                message = connection.receive()
                if message["type"] == "controller_run":
                    self.jobs.append((rank, message["job"]))
                    self.behave(rank, connection, message["job"])
                elif message["type"] == "controller_abort":
                    self.aborted.append(rank)
                    if not self.deaf:
                        ended(connection, exit_code=None, signal="SIGKILL")
                else:
                    assert message["type"] == "controller_stop"
                    self.told_to_stop.append(rank)
                    self.all_told.release()
                    return
        except WireError:
            return

    def problem(self) -> str | None:
        return None

    def output_tail(self) -> str:
        return "what the ranks printed"

    def stop(self, pids: Iterable[int]) -> None:
        self.stopped.append(sorted(pids))


def ended(connection: Connection, **how: Any) -> None:
    connection.send({"type": "rank_child_ended", "exit_code": 0, "signal": None, **how})


def rendezvous(rank: int, connection: Connection) -> None:
    connection.send({"type": "rank_forked", "pid": 1})
    if rank == 0:
        connection.send({"type": "rank_rendezvous", "port": 4242})


def well(rank: int, connection: Connection, job: Message) -> None:
    rendezvous(rank, connection)
    connection.send({"type": "rank_done", "record": {"rank": rank, "port": job["port"]}})
    ended(connection)


def failing(rank: int, connection: Connection, phase: str, type_: str, message: str) -> None:
    connection.send({"type": "rank_phase", "phase": phase})
    failure = {"rank": rank, "phase": phase, "type": type_, "message": message, "step": 3}
    connection.send({"type": "rank_failed", "failure": failure})
    ended(connection, exit_code=1)


def run(ranks: FakeRanks, world_size: int = 2, timeout_s: float = 5.0) -> tuple[Group, Any]:
    group = Group(ranks, world_size, timeout_s=10)
    return group, group.run({"world_size": world_size, "port": None}, timeout_s)


def test_records_come_in_the_order_of_ranks_and_rank_0_goes_first() -> None:
    ranks = FakeRanks(well)
    group, answer = run(ranks, 3)
    assert [record["rank"] for record in answer] == [0, 1, 2]
    # The others were told the port at which rank 0 listens.
    assert [record["port"] for record in answer] == [None, 4242, 4242]
    assert ranks.jobs[0][0] == 0
    group.stop()
    assert ranks.stopped == [[100, 101, 102]]
    assert all(ranks.all_told.acquire(timeout=5) for _ in range(3))
    assert sorted(ranks.told_to_stop) == [0, 1, 2]


def test_one_group_serves_many_cases_and_fewer_ranks() -> None:
    group = Group(FakeRanks(well), 3, timeout_s=10)
    for world_size in (1, 3, 2, 1):
        answer = group.run({"world_size": world_size, "port": None}, 5)
        assert isinstance(answer, list)
        assert len(answer) == world_size
    group.stop()


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_the_cause_is_not_the_rank_that_saw_a_closed_connection(culprit: int) -> None:
    first = threading.Event()
    all_run = threading.Barrier(3)

    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        all_run.wait(5)
        if rank == culprit:
            assert first.wait(5)  # the consequence is reported before the cause
            threading.Event().wait(0.05)  # and alone
            failing(rank, connection, "timed", "ValueError", "bad sample")
        else:
            failing(rank, connection, "timed", "RuntimeError", CLOSED)
            first.set()

    group, answer = run(FakeRanks(behave), 3)
    assert isinstance(answer, Failure)
    assert (answer.rank, answer.type, answer.phase, answer.step) == (
        culprit,
        "ValueError",
        "timed",
        3,
    )
    assert not group.broken
    group.stop()


def test_a_failure_of_rank_0_before_the_others_began() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        # As a child does that gets no port: it has announced neither a phase nor a rendezvous.
        failure = {"rank": rank, "phase": "rendezvous", "type": "OSError", "message": "no port"}
        connection.send({"type": "rank_failed", "failure": failure})
        ended(connection, exit_code=1)

    ranks = FakeRanks(behave)
    group, answer = run(ranks)
    assert isinstance(answer, Failure)
    assert answer.message == "no port"
    assert [rank for rank, _ in ranks.jobs] == [0]
    group.stop()


def test_a_child_that_a_signal_ended_has_crashed() -> None:
    both_run = threading.Barrier(2)

    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        both_run.wait(5)
        connection.send({"type": "rank_phase", "phase": "build"})
        if rank == 1:
            ended(connection, exit_code=None, signal="SIGSEGV")
        else:
            failing(rank, connection, "init", "RuntimeError", "Connection reset by peer")

    group, answer = run(FakeRanks(behave))
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank, answer.phase) == ("crashed", 1, "build")
    assert "SIGSEGV" in answer.message
    assert answer.traceback == "what the ranks printed"
    assert not group.broken
    group.stop()


def test_a_lost_rank_breaks_the_group() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        if rank == 1:
            connection.close()
        else:
            well(rank, connection, job)

    group, answer = run(FakeRanks(behave))
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank) == ("crashed", 1)
    assert group.broken
    group.stop()


def test_a_rank_that_is_lost_between_two_cases() -> None:
    group = Group(FakeRanks(well), 2, timeout_s=10)
    group.ranks[1].connection._socket.shutdown(socket.SHUT_RDWR)
    assert isinstance(group.run({"world_size": 1, "port": None}, 5), list)  # takes no part
    answer = group.run({"world_size": 2, "port": None}, 5)
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank) == ("crashed", 1)
    assert group.broken
    group.stop()


def test_a_case_has_until_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the others' time after a failure is no limit where none has failed."""
    monkeypatch.setattr(controller, "_GRACE_S", 0.0)

    def behave(rank: int, connection: Connection, job: Message) -> None:
        threading.Timer(0.1, well, (rank, connection, job)).start()

    group, answer = run(FakeRanks(behave), timeout_s=10)
    assert isinstance(answer, list)
    group.stop()


def waits(rank: int, connection: Connection, job: Message) -> None:
    """Begins, and is never heard of again."""
    rendezvous(rank, connection)
    connection.send({"type": "rank_phase", "phase": "warm-up" if rank else "timed"})


def test_a_time_out_names_the_silent_ranks_and_ends_their_children() -> None:
    ranks = FakeRanks(waits)
    group, answer = run(ranks, timeout_s=0.3)
    assert isinstance(answer, Failure)
    # Of several silent ranks the one that is furthest behind.
    assert (answer.outcome, answer.rank, answer.phase) == ("timed out", 1, "warm-up")
    assert "not finished after 0.3 s: rank 0 in timed, rank 1 in warm-up" in answer.message
    assert sorted(ranks.aborted) == [0, 1]
    assert not group.broken  # the ranks ended their children and can go on
    ranks.behave = well
    assert isinstance(group.run({"world_size": 2, "port": None}, 5), list)
    group.stop()


def test_only_the_silent_ranks_are_named_and_aborted() -> None:
    ranks = FakeRanks(lambda *args: (waits if args[0] == 1 else well)(*args))
    group, answer = run(ranks, 3, timeout_s=0.3)
    assert isinstance(answer, Failure)
    assert answer.message == "not finished after 0.3 s: rank 1 in warm-up"
    assert ranks.aborted == [1]
    group.stop()


def test_a_rank_0_that_never_listens() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        connection.send({"type": "rank_forked", "pid": 1})

    ranks = FakeRanks(behave)
    group, answer = run(ranks, timeout_s=0.2)
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank, answer.phase) == ("timed out", 0, "launch")
    assert [rank for rank, _ in ranks.jobs] == [0]
    assert ranks.aborted == [0]
    group.stop()


def test_a_rank_deaf_to_the_abort_breaks_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_GRACE_S", 0.1)
    group, answer = run(FakeRanks(waits, deaf=True), timeout_s=0.1)
    assert isinstance(answer, Failure)
    assert answer.outcome == "timed out"
    assert group.broken
    group.stop()


def test_when_one_rank_fails_the_others_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that hangs in a collective would never report on its own."""
    monkeypatch.setattr(controller, "_GRACE_S", 0.1)

    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        if rank == 1:
            failing(rank, connection, "build", "ValueError", "bad sample")

    ranks = FakeRanks(behave)
    group, answer = run(ranks, timeout_s=600)
    assert isinstance(answer, Failure)
    assert (answer.rank, answer.message) == (1, "bad sample")
    assert ranks.aborted == [0]
    assert not group.broken
    group.stop()


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        # (message, outcome, when) of ranks 0, 1, ...
        ([("bad sample", "failed", 2.0), ("bad sample", "failed", 1.0)], 1),
        ([("bad sample", "failed", 1.0), ("bad sample", "failed", 2.0)], 0),
        ([(CLOSED, "failed", 1.0), ("bad sample", "failed", 2.0)], 1),
        ([(CLOSED, "failed", 1.0), ("the process ended with SIGKILL", "crashed", 2.0)], 1),
        ([("Timed out waiting 600000ms", "failed", 1.0), ("out of it", "out of memory", 2.0)], 1),
        ([("Connection reset by peer", "failed", 2.0), (CLOSED, "failed", 1.0)], 1),
        ([(CLOSED, "failed", 1.0), ("the rank is gone (connection closed)", "crashed", 9.0)], 1),
    ],
)
def test_the_cause_of_several_failures(said: list[tuple[str, str, float]], cause: int) -> None:
    parts = {}
    for rank, (message, outcome, when) in enumerate(said):
        failure = Failure(phase="timed", message=message, outcome=outcome, rank=rank)
        parts[rank] = _Part(failure=failure, failed_at_s=when)
    parts[len(said)] = _Part(record={})  # a rank that was done before
    assert _cause(parts).rank == cause


def test_ranks_that_never_come_are_named() -> None:
    ranks = FakeRanks(well, silent=(1,))
    with pytest.raises(LaunchError, match=r"ranks \[1\] did not connect in time"):
        Group(ranks, 2, timeout_s=0.5)
    assert ranks.stopped == [[100]]


def test_a_launcher_that_ends_is_noticed() -> None:
    class Dead(FakeRanks):
        def problem(self) -> str | None:
            return "the launcher ended with exit status 1: no torch"

    with pytest.raises(LaunchError, match="no torch"):
        Group(Dead(well, silent=(0,)), 1, timeout_s=10)


def test_a_stranger_at_the_door_does_not_stop_the_launch() -> None:
    class WithStrangers(FakeRanks):
        def __call__(self, world_size: int, address: tuple[str, int], token: str) -> FakeRanks:
            for hello in (b'{"token": "guess"}\n', b"GET / HTTP/1.0\r\n", b""):
                with socket.create_connection(address) as sock:
                    sock.sendall(hello)
            connect(*address, token).close()  # knows the token, and is gone again
            return super().__call__(world_size, address, token)

    group, answer = run(WithStrangers(well))
    assert len(answer) == 2
    group.stop()


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


def test_two_processes_with_one_rank_are_refused() -> None:
    ranks = FakeRanks(well, twins=True)
    with pytest.raises(LaunchError, match="two processes say they are rank 0"):
        Group(ranks, 2, timeout_s=10)
    assert len(ranks.stopped) == 1


def test_a_pid_of_another_host_is_never_killed_here() -> None:
    ranks = FakeRanks(well, host="elsewhere")
    Group(ranks, 2, timeout_s=10).stop()
    assert ranks.stopped == [[]]


def test_the_others_start_only_when_rank_0_listens() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        connection.send({"type": "rank_phase", "phase": "init"})  # a phase is no address

    ranks = FakeRanks(behave)
    group, answer = run(ranks, timeout_s=0.3)
    assert isinstance(answer, Failure)
    assert answer.outcome == "timed out"
    assert [rank for rank, _ in ranks.jobs] == [0]
    group.stop()
