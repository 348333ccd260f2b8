"""A group of ranks, with fakes in their place."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from bench import group as group_module
from bench.group import Group, _cause, _Part
from bench.launch import LaunchError
from bench.result import Failure
from bench.wire import Connection, Message, connect
from tests.fake_ranks import CLOSED, FakeRanks, ended, failing, rendezvous, well


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
    monkeypatch.setattr(group_module, "_GRACE_S", 0.0)

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
    monkeypatch.setattr(group_module, "_GRACE_S", 0.1)
    group, answer = run(FakeRanks(waits, deaf=True), timeout_s=0.1)
    assert isinstance(answer, Failure)
    assert answer.outcome == "timed out"
    assert group.broken
    group.stop()


def test_when_one_rank_fails_the_others_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that hangs in a collective would never report on its own."""
    monkeypatch.setattr(group_module, "_GRACE_S", 0.1)

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
