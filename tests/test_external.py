"""Ranks that somebody else has started, with fakes in their place."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.case import Case
from bench.controller import Controller
from bench.external import ExternalRanks
from bench.launch import LaunchError
from bench.result import LaunchResult
from bench.settings import Settings
from bench.topology import Topology, recorded
from bench.wire import connect
from tests.fake_ranks import FakeRanks, measured, well

TOKEN = "t" * 32


def about(**changes: Any) -> dict[str, Any]:
    said = {"torch": "2.9.1", "cuda": None, "hip": None, "nccl": None, "models": {}}
    return {**said, "cores": 8, "gpus": [], "boot_id": None, **changes}


@pytest.fixture
def external() -> Iterator[ExternalRanks]:
    made = ExternalRanks(("127.0.0.1", 0), TOKEN)
    yield made
    made.close()


def come(external: ExternalRanks, ranks: FakeRanks, world_size: int = 2) -> FakeRanks:
    return ranks(world_size, external._listener.address, TOKEN)


def two_hosts(**changes: Any) -> FakeRanks:
    return FakeRanks(well, hosts=("a", "b"), abouts={"a": about(), "b": about(**changes)})


def test_as_many_ranks_as_there_are_say_what_they_have(external: ExternalRanks) -> None:
    ranks = come(external, two_hosts(cores=4))
    hosts = external.gather(["mine.py"], 10)
    assert recorded(hosts) == [
        {
            "host": "a",
            "address": "10.0.0.1",
            "ranks": [0],
            "cores": 8,
            "gpus": [],
            "torch": "2.9.1",
        },
        {
            "host": "b",
            "address": "10.0.0.2",
            "ranks": [1],
            "cores": 4,
            "gpus": [],
            "torch": "2.9.1",
        },
    ]
    assert hosts[0]["about"]["asked"] == ["mine.py"]
    topology = Topology.of_ranks(hosts)
    assert (topology.connected, topology.ranks_of_hosts, topology.all_cores) == (2, (1, 1), 12)
    external.close()
    assert all(ranks.all_told.acquire(timeout=5) for _ in range(2))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"torch": "2.14.0"}, "a has torch 2.9.1, b has 2.14.0: a case across them would measure"),
        ({"nccl": "2.27"}, "a has nccl None, b has 2.27"),
    ],
)
def test_hosts_with_different_software_are_refused(
    external: ExternalRanks, changes: dict[str, Any], words: str
) -> None:
    come(external, two_hosts(**changes))
    with pytest.raises(LaunchError, match=words):
        external.gather([], 10)


def test_a_model_that_is_another_file_there_is_refused(external: ExternalRanks) -> None:
    models = [{"m.py": {"sha256": digest}} for digest in ("1", "2")]
    abouts = {"a": about(models=models[0]), "b": about(models=models[1])}
    come(external, FakeRanks(well, hosts=("a", "b"), abouts=abouts))
    with pytest.raises(LaunchError, match=r"model m\.py is not the same file on a and b"):
        external.gather(["m.py"], 10)


def test_a_launch_is_new_processes_of_the_same_ranks(
    external: ExternalRanks, tmp_path: Path
) -> None:
    ranks = come(
        external, FakeRanks(measured, hosts=("a", "b"), abouts=dict.fromkeys("ab", about()))
    )
    external.gather([], 10)
    made = Controller(Settings(), {"": "/py"}, 1, tmp_path, external)
    for launch in range(3):
        for seed in range(2):
            answer = made.run(Case(world_size=2, seed=seed), launch, 2)
            assert isinstance(answer, LaunchResult)
        # The first launch is theirs; for each other they become new once.
        assert sorted(ranks.restarted) == sorted([0, 1] * launch)
    made.stop()
    assert not ranks.told_to_stop  # they wait to hear what next
    external.close()
    assert all(ranks.all_told.acquire(timeout=5) for _ in range(2))


def test_after_a_lost_rank_they_become_new_and_it_comes_back(
    external: ExternalRanks, tmp_path: Path
) -> None:
    ranks = come(
        external, FakeRanks(measured, hosts=("a", "b"), abouts=dict.fromkeys("ab", about()))
    )
    external.gather([], 10)
    made = Controller(Settings(), {"": "/py"}, 1, tmp_path, external)
    assert external._unused is not None
    external._unused.ranks[1].connection._socket.shutdown(socket.SHUT_RDWR)  # as a dead host's
    come_again = FakeRanks(measured, hosts=("a", "b"), silent=(0,))
    come(external, come_again)
    answer = made.run(Case(world_size=2), 0, 2)
    assert isinstance(answer, LaunchResult)
    assert ranks.restarted == [0]
    made.stop()


def test_ranks_that_came_when_another_did_not_may_come_again(external: ExternalRanks) -> None:
    hosts, abouts = ("a", "b"), dict.fromkeys("ab", about())
    ranks = come(external, FakeRanks(well, hosts=hosts, abouts=abouts, silent=(1,)))
    with pytest.raises(LaunchError, match="rank 1 did not connect within 0"):
        external.gather([], 0.3)
    come(external, FakeRanks(well, hosts=hosts, abouts=abouts, silent=(0,)))
    assert len(external.gather([], 10)) == 2
    assert ranks.restarted == [0]
    assert not ranks.told_to_stop


def test_ranks_that_do_not_come_are_told_of_with_what_starts_them() -> None:
    external = ExternalRanks(("127.0.0.1", 0), TOKEN, "/home/me/token")
    with pytest.raises(
        LaunchError,
        match=r"ranks did not connect within 0.2 s: start them with torchrun \.\.\. -m ",
    ) as refused:
        external.gather([], 0.2)
    assert "--token-file /home/me/token" in str(refused.value)
    assert TOKEN not in str(refused.value)
    external.close()


def test_the_ranks_of_a_second_job_are_refused(external: ExternalRanks) -> None:
    come(external, FakeRanks(well, hosts=("a", "b"), silent=(1,)))
    come(external, FakeRanks(well, hosts=("c", "d"), silent=(1,)))
    with pytest.raises(LaunchError, match=r"two processes say they are rank 0: 100 on [ac] and"):
        external.gather([], 10)


def test_the_ranks_of_a_larger_job_are_refused(external: ExternalRanks) -> None:
    come(external, FakeRanks(well, hosts=("a", "b"), silent=(1,)))
    larger = FakeRanks(well, hosts=("c", "d", "e"), silent=(0, 2))
    come(external, larger, world_size=3)
    with pytest.raises(LaunchError, match=r"(2|3) ranks were asked for, but a process on [ad] say"):
        external.gather([], 10)


def test_a_port_that_is_taken_is_said_in_a_line(external: ExternalRanks) -> None:
    host, port = external._listener.address
    with pytest.raises(
        LaunchError, match=f"cannot listen on {host}:{port}: Address already in use"
    ):
        ExternalRanks((host, port), TOKEN)


def test_a_stranger_is_not_a_rank(external: ExternalRanks) -> None:
    connect(*external._listener.address, "guess")
    come(external, FakeRanks(well, hosts=("a",), abouts={"a": about()}), world_size=1)
    assert len(external.gather([], 10)) == 1
