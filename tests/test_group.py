"""A group of ranks, with fakes in their place: accepting, judging and stopping them."""

from __future__ import annotations

import socket

import pytest

from bench.case import Case
from bench.deadlines import Limits
from bench.group import Group
from bench.launch import LaunchError
from bench.wire import connect
from tests.fake_ranks import FakeRanks, run_on, well


def test_one_group_serves_many_cases_and_fewer_ranks() -> None:
    group = Group(FakeRanks(well), 3, timeout_s=10)
    for world_size in (1, 3, 2, 1):
        answer = group.run({"world_size": world_size, "port": None}, Limits(5))
        assert isinstance(answer, list)
        assert len(answer) == world_size
    group.stop()


def test_ranks_that_never_come_are_named() -> None:
    ranks = FakeRanks(well, silent=(1,))
    with pytest.raises(LaunchError, match=r"ranks \[1\] did not connect within 0.5 s"):
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

    group, answer = run_on(WithStrangers(well))
    assert isinstance(answer, list)
    assert len(answer) == 2
    assert group.dropped["wrong token"] == 2  # and counted
    group.stop()


def test_two_processes_with_one_rank_are_refused() -> None:
    ranks = FakeRanks(well, twins=True)
    with pytest.raises(LaunchError, match="two processes say they are rank 0"):
        Group(ranks, 2, timeout_s=10)
    assert len(ranks.stopped) == 1


def test_a_pid_of_another_host_is_never_killed_here() -> None:
    ranks = FakeRanks(well, host="elsewhere")
    group, _ = run_on(ranks)
    group.stop()
    assert ranks.stopped == [[]]


def test_a_launcher_that_made_another_world_is_refused() -> None:
    """A variable of the user's shell may have told it to."""
    with pytest.raises(
        LaunchError, match=r"2 ranks were asked for, but a process on .* says it is rank"
    ):
        Group(FakeRanks(well, world_size_said=3), 2, timeout_s=10)


def test_what_is_left_of_a_case_is_ended_with_its_ranks() -> None:
    ranks = FakeRanks(well)
    group, _ = run_on(ranks)
    group.stop()
    assert ranks.stopped == [[100, 101, 200, 201]]  # the ranks and the children of the case


def test_an_idle_group_knows_when_it_is_of_no_more_use() -> None:
    ranks = FakeRanks(well)
    group, _ = run_on(ranks)
    assert group.problem() is None
    ranks.ended = "the launcher ended by SIGKILL"
    assert group.problem() == "the launcher ended by SIGKILL"
    ranks.ended = None
    group.ranks[1].connection._socket.shutdown(socket.SHUT_RDWR)
    assert group.problem() == "rank 1 ended while it was idle"
    group.stop()


def test_a_case_takes_its_ranks_by_its_placement() -> None:
    ranks = FakeRanks(well, hosts=("a", "a", "b", "b"))
    group = Group(ranks, 4, timeout_s=10)
    for placement, launched in (("packed", [0, 1]), ("spread", [0, 2])):
        ranks.jobs.clear()
        job = {"world_size": 2, "port": None, "case": Case(placement=placement).to_dict()}
        answer = group.run(job, Limits(5))
        assert isinstance(answer, list)
        # The second of them is rank 1 of the case, whatever number its launcher gave it.
        assert [job["rank"] for _, job in ranks.jobs] == [0, 1]
        assert [rank for rank, _ in ranks.jobs] == launched
        assert {job["host"] for _, job in ranks.jobs} == {
            "127.0.0.1" if placement == "packed" else "10.0.0.1"
        }
    group.stop()


def test_two_hosts_of_one_name_are_refused() -> None:
    ranks = FakeRanks(well, hosts=("localhost",) * 2, local_ranks=(0, 0))
    with pytest.raises(LaunchError, match="2 ranks say they are local rank 0 of localhost"):
        Group(ranks, 2, timeout_s=10)


def test_who_was_turned_away_is_said_when_ranks_do_not_come() -> None:
    class WithAStranger(FakeRanks):
        def __call__(self, world_size: int, address: tuple[str, int], token: str) -> FakeRanks:
            connect(*address, "another token").close()
            return super().__call__(world_size, address, token)

    with pytest.raises(LaunchError, match=r"connections turned away: 1 closed before|1 wrong tok"):
        Group(WithAStranger(well, silent=(0,)), 1, timeout_s=0.5)


@pytest.mark.parametrize(
    "greeting", [{}, {"type": "rank_ready"}, {"rank": "one", "local_rank": 0, "host": 3, "pid": 0}]
)
def test_a_process_that_greets_wrongly_is_turned_away(greeting: dict[str, object]) -> None:
    class WithAFool(FakeRanks):
        def __call__(self, world_size: int, address: tuple[str, int], token: str) -> FakeRanks:
            connect(*address, token).send(greeting)
            return super().__call__(world_size, address, token)

    group, answer = run_on(WithAFool(well))
    assert isinstance(answer, list)
    assert any("said the token and then no sense" in reason for reason in group.dropped)
    group.stop()
