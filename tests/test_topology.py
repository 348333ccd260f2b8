"""The hosts of a sweep: who has how many ranks, cores and threads."""

from __future__ import annotations

from bench.case import Case
from bench.hosts import Emulation
from bench.matrix import Facts
from bench.settings import Settings
from bench.topology import Topology


def test_threads_are_the_share_of_the_largest_job() -> None:
    jobs = [Case(world_size=1), Case(world_size=4)]
    assert Topology((16,)).threads_per_rank(jobs) == 4
    assert Topology((2,)).threads_per_rank(jobs) == 1
    replicas = Case(strategy="dp", device="cuda", world_size=8)
    assert Topology((16,)).threads_per_rank([replicas]) == 16
    assert Topology((16,)).threads_per_rank([]) == 16


def test_emulated_hosts_share_the_cores_and_have_no_gpus() -> None:
    settings = Settings(emulate=Emulation(2, 1e9))
    topology = Topology.of_settings(settings, 8)
    jobs = [Case(world_size=1), Case(world_size=4)]
    assert topology.settled(jobs).ranks_of_hosts == (2, 2)
    assert topology.settled(jobs).threads_per_rank(jobs) == 2
    assert topology.all_cores == 8
    facts = topology.known_to(Facts(cores=8, gpus=4))
    assert (facts.gpus, facts.world_sizes) == (0, [1, 2, 4, 8])


def test_the_hosts_of_a_launcher_have_cores_of_their_own() -> None:
    topology = Topology.of_settings(Settings(launcher="srun {python}", nodes=2), 8)
    jobs = [Case(world_size=4)]
    settled = topology.settled(jobs)
    assert settled.ranks_of_hosts == (2, 2)
    assert settled.threads_per_rank(jobs) == 4
    assert settled.all_cores == 16
    assert settled.known_to(Facts(cores=8, gpus=4)).world_sizes == [1, 2, 4, 8]


def test_of_ranks_that_are_there_the_fullest_host_counts() -> None:
    hosts = [
        {"cores": 8, "ranks": [0, 1, 2, 3], "boot_id": "a"},
        {"cores": 4, "ranks": [4], "boot_id": "b"},
    ]
    topology = Topology.of_ranks(hosts)
    assert topology.threads_per_rank([Case(world_size=5)]) == 2
    assert topology.threads_per_rank([Case(world_size=2)]) == 4
    assert topology.all_cores == 12
    assert topology.settled([Case(world_size=64)]) == topology


def test_containers_of_one_machine_share_its_cores() -> None:
    hosts = [{"cores": 8, "ranks": [n], "boot_id": "a"} for n in range(2)]
    topology = Topology.of_ranks(hosts)
    assert topology.one_machine
    assert topology.all_cores == 8
    assert topology.threads_per_rank([Case(world_size=2)]) == 4
    unknown = Topology.of_ranks([host | {"boot_id": None} for host in hosts])
    assert not unknown.one_machine
