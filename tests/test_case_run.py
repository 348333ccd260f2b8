"""One case in flight, on fakes: whose failure it is, when it is given up, what is left."""

from __future__ import annotations

import socket
import threading

import pytest

from bench import case_run
from bench.deadlines import Limits
from bench.result import Failure
from bench.wire import Connection, Message
from tests.fake_ranks import CLOSED, FakeRanks, ended, failing, rendezvous, run_on, well


def test_records_come_in_the_order_of_ranks_and_rank_0_goes_first() -> None:
    ranks = FakeRanks(well)
    group, answer = run_on(ranks, 3)
    assert [record["rank"] for record in answer] == [0, 1, 2]
    # The others were told the port at which rank 0 listens.
    assert [record["port"] for record in answer] == [None, 4242, 4242]
    assert ranks.jobs[0][0] == 0
    group.stop()
    assert ranks.stopped == [[100, 101, 102, 200, 201, 202]]
    assert all(ranks.all_told.acquire(timeout=5) for _ in range(3))
    assert sorted(ranks.told_to_stop) == [0, 1, 2]


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

    group, answer = run_on(FakeRanks(behave), 3)
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
    group, answer = run_on(ranks)
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

    group, answer = run_on(FakeRanks(behave))
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank, answer.phase) == ("crashed", 1, "build")
    assert "SIGSEGV" in answer.message
    assert not group.broken
    group.stop()


def test_a_lost_rank_breaks_the_group() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        if rank == 1:
            connection.close()
        else:
            well(rank, connection, job)

    group, answer = run_on(FakeRanks(behave))
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank) == ("crashed", 1)
    assert group.broken
    group.stop()


def test_a_case_has_until_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the others' time after a failure is no limit where none has failed."""
    monkeypatch.setattr(case_run, "GRACE_S", 0.0)

    def behave(rank: int, connection: Connection, job: Message) -> None:
        threading.Timer(0.1, well, (rank, connection, job)).start()

    group, answer = run_on(FakeRanks(behave), case_s=10)
    assert isinstance(answer, list)
    group.stop()


def waits(rank: int, connection: Connection, job: Message) -> None:
    """Begins, and is never heard of again."""
    rendezvous(rank, connection)
    connection.send({"type": "rank_phase", "phase": "warm-up" if rank else "timed"})


def test_a_time_out_names_the_silent_ranks_and_ends_their_children() -> None:
    ranks = FakeRanks(waits)
    group, answer = run_on(ranks, case_s=0.3)
    assert isinstance(answer, Failure)
    # Of several silent ranks the one that is furthest behind.
    assert (answer.outcome, answer.rank, answer.phase) == ("timed out", 1, "warm-up")
    assert answer.message == (
        "the case did not end within 0.3 s: rank 0 in timed; rank 1 in warm-up"
    )
    assert sorted(ranks.aborted) == [0, 1]
    assert not group.broken  # the ranks ended their children and can go on
    ranks.behave = well
    assert isinstance(group.run({"world_size": 2, "port": None}, Limits(5)), list)
    group.stop()


def test_only_the_silent_ranks_are_named_and_aborted() -> None:
    ranks = FakeRanks(lambda *args: (waits if args[0] == 1 else well)(*args))
    group, answer = run_on(ranks, 3, case_s=0.3)
    assert isinstance(answer, Failure)
    assert answer.message == "the case did not end within 0.3 s: rank 1 in warm-up"
    assert ranks.aborted == [1]
    group.stop()


def test_a_rank_0_that_never_listens() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        connection.send({"type": "rank_forked", "pid": 1})

    ranks = FakeRanks(behave)
    group, answer = run_on(ranks, case_s=0.2)
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank, answer.phase) == ("timed out", 0, "launch")
    assert [rank for rank, _ in ranks.jobs] == [0]
    assert ranks.aborted == [0]
    group.stop()


def test_a_rank_deaf_to_the_abort_breaks_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_run, "GRACE_S", 0.1)
    monkeypatch.setattr(case_run, "_ANSWER_S", 0.1)
    ranks = FakeRanks(waits, deaf=True, states={100: "stopped"})
    group, answer = run_on(ranks, case_s=0.1)
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank) == ("timed out", 0)
    assert "rank 0 in timed, does not answer (stopped)" in answer.message
    assert "rank 1 in warm-up, does not answer (state unknown)" in answer.message
    assert group.broken
    group.stop()


def test_when_one_rank_fails_the_others_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that hangs in a collective would never report on its own."""
    monkeypatch.setattr(case_run, "GRACE_S", 0.1)

    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        if rank == 1:
            failing(rank, connection, "build", "ValueError", "bad sample")

    ranks = FakeRanks(behave)
    group, answer = run_on(ranks, case_s=600)
    assert isinstance(answer, Failure)
    assert (answer.rank, answer.message) == (1, "bad sample")
    assert ranks.aborted == [0]
    assert not group.broken
    group.stop()


def test_the_others_start_only_when_rank_0_listens() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        connection.send({"type": "rank_phase", "phase": "init"})  # a phase is no address

    ranks = FakeRanks(behave)
    group, answer = run_on(ranks, case_s=0.3)
    assert isinstance(answer, Failure)
    assert answer.outcome == "timed out"
    assert [rank for rank, _ in ranks.jobs] == [0]
    group.stop()


def test_a_time_out_says_what_every_rank_was_at() -> None:
    """The rank that has begun fewer collectives did not join the one the other waits in."""
    stacks = 'Thread 1 (most recent call first):\n  File "/a/b/{}.py", line 7 in {}'
    told = {
        0: {"step": 4, "collectives": 9, "stacks": stacks.format("comm", "all_reduce")},
        1: {"step": 4, "collectives": 8, "stacks": stacks.format("model", "forward")},
    }

    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        connection.send({"type": "rank_phase", "phase": "timed"})

    group, answer = run_on(FakeRanks(behave, stuck=told), case_s=0.2)
    assert isinstance(answer, Failure)
    assert (answer.rank, answer.phase, answer.step) == (1, "timed", 4)
    assert answer.message == (
        "the case did not end within 0.2 s: rank 0 in timed step 4, all_reduce (b/comm.py:7); "
        "rank 1 in timed step 4, forward (b/model.py:7)"
    )
    assert "--- rank 0, timed step 4 ---" in answer.traceback
    assert "line 7 in forward" in answer.traceback
    group.stop()


class Ticks:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_phase_has_its_own_limit_and_it_is_that_of_the_last_rank() -> None:
    """A rank that waits in wrap for another's long build is not late."""
    ticks = Ticks()
    run = case_run.CaseRun(
        {rank: fake_rank(rank) for rank in (0, 1)},
        FakeRanks(well),
        "here",
        {"world_size": 2},
        Limits(100.0),
        ticks,
    )
    first, second = run._parts.values()

    def enter(part: case_run.Part, phase: str) -> float:
        run._handle(part, {"type": "rank_phase", "phase": phase})
        run._follow()
        return run._deadline() - 1000

    assert run._deadline() - 1000 == 10  # launch: a tenth of the case
    enter(first, "build")
    assert enter(second, "build") == 50
    ticks.now += 30
    assert enter(first, "wrap") == 50  # rank 1 still builds
    assert enter(second, "wrap") == 50  # from now on 20 s
    ticks.now += 1
    enter(first, "warm-up")
    assert enter(second, "warm-up") == 81
    ticks.now += 60
    assert enter(first, "timed") == 81
    assert enter(second, "timed") == 100  # the case's own


def fake_rank(rank: int) -> case_run.Rank:
    left, _ = socket.socketpair()
    return case_run.Rank(rank, rank, "here", 100 + rank, Connection(left))


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"type": "rank_dance"},
        {"type": "rank_phase"},
        {"type": "rank_phase", "phase": "lunch"},
        {"type": "rank_done", "record": 5},
        {"type": "rank_failed", "failure": "bad"},
        {"type": "rank_failed", "failure": {"rank": 1}},
        {"type": "rank_forked", "pid": "me"},
        {"type": "rank_child_ended"},
    ],
)
def test_a_rank_that_makes_no_sense_is_given_up_alone(nonsense: Message) -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        if rank == 1:
            connection.send(nonsense)
        else:
            well(rank, connection, job)

    group, answer = run_on(FakeRanks(behave), case_s=5)
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank) == ("crashed", 1)
    assert "what it said makes no sense" in answer.message
    assert group.broken
    group.stop()


def test_a_launcher_that_takes_its_ranks_with_it_is_the_cause() -> None:
    ranks = FakeRanks(well)

    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        if rank == 1:
            ranks.ended = "the launcher ended with exit status 1: SignalException"
        connection._socket.shutdown(socket.SHUT_RDWR)

    ranks.behave = behave
    group, answer = run_on(ranks)
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank) == ("crashed", None)
    assert answer.message == (
        "the launcher ended with exit status 1: SignalException; its ranks are gone"
    )
    group.stop()


def test_a_child_the_kernel_killed_for_memory_ran_out_of_it() -> None:
    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        connection.send({"type": "rank_phase", "phase": "build"})
        if rank == 1:
            ended(connection, exit_code=None, signal="SIGKILL", out_of_memory=True)

    group, answer = run_on(FakeRanks(behave))
    assert isinstance(answer, Failure)
    assert (answer.outcome, answer.rank, answer.phase) == ("out of memory", 1, "build")
    group.stop()


def test_what_a_crashed_child_printed_and_its_step_are_kept() -> None:
    printed = "terminate called after throwing an instance of 'E'\n  what():  no such buffer\n"

    def behave(rank: int, connection: Connection, job: Message) -> None:
        rendezvous(rank, connection)
        connection.send({"type": "rank_phase", "phase": "timed"})
        if rank == 1:
            ended(connection, exit_code=None, signal="SIGABRT", step=3, output=printed)

    group, answer = run_on(FakeRanks(behave))
    assert isinstance(answer, Failure)
    assert (answer.rank, answer.step, answer.traceback) == (1, 3, printed)
    assert answer.message == "the process ended with SIGABRT: no such buffer"
    group.stop()


def test_a_hang_of_nccl_comes_with_a_hint() -> None:
    """F11: the first all-reduce hangs with the GPUs at 100 %."""
    case = {"backend": "nccl", "device": "cuda"}
    ranks = FakeRanks(waits)
    group, answer = run_on(ranks, case_s=0.1, case=case)
    assert isinstance(answer, Failure)
    assert "NCCL_P2P_DISABLE=1" in answer.message
    ranks.behave = well
    assert isinstance(group.run({"world_size": 2, "port": None}, Limits(5)), list)
    group.stop()
