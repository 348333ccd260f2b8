"""The controller against ranks that speak the protocol and know no torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from bench.controller import Group
from bench.launch import LaunchError
from bench.result import Failure
from bench.wire import Connection, Message, WireError, connect

Behaviour = Callable[[int, Connection, Message], None]


@dataclass
class FakeRanks:
    """Stands in for torchrun: every rank is a thread with a connection of its own."""

    behave: Behaviour
    silent: tuple[int, ...] = ()
    stopped: list[list[int]] = field(default_factory=list)
    jobs: list[tuple[int, Message]] = field(default_factory=list)

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
            {"type": "rank_ready", "rank": rank, "local_rank": rank, "host": "h", "pid": 100 + rank}
        )
        try:
            while True:
                message = connection.receive()
                if message["type"] == "controller_run":
                    self.jobs.append((rank, message["job"]))
                    self.behave(rank, connection, message["job"])
                elif message["type"] == "controller_abort":
                    ended(connection, signal="SIGKILL")
                else:
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
            failing(rank, connection, "timed", "ValueError", "bad sample")
        else:
            message = "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]"
            failing(rank, connection, "timed", "RuntimeError", message)
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
        failing(rank, connection, "rendezvous", "OSError", "no port")

    ranks = FakeRanks(behave)
    group, answer = run(ranks)
    assert isinstance(answer, Failure)
    assert answer.message == "no port"
    assert [rank for rank, _ in ranks.jobs] == [0]
    group.stop()


def test_a_child_that_a_signal_ended_has_crashed() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
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


def test_a_time_out_names_the_silent_ranks_and_ends_their_children() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        connection.send({"type": "rank_phase", "phase": "warm-up" if rank else "timed"})

    group, answer = run(FakeRanks(behave), timeout_s=0.3)
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank, answer.phase) == ("timed out", 1, "warm-up")
    assert "not finished after 0.3 s: rank 0 in timed, rank 1 in warm-up" in answer.message
    assert not group.broken  # the ranks ended their children and can go on
    group.stop()


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
