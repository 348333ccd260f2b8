"""The hosts of a sweep: who has how many ranks, cores and threads."""

from __future__ import annotations

from bench.case import Case
from bench.topology import Topology


def test_threads_are_the_share_of_the_largest_job() -> None:
    jobs = [Case(world_size=1), Case(world_size=4)]
    assert Topology((16,)).threads_per_rank(jobs) == 4
    assert Topology((2,)).threads_per_rank(jobs) == 1
    replicas = Case(strategy="dp", device="cuda", world_size=8)
    assert Topology((16,)).threads_per_rank([replicas]) == 16
    assert Topology((16,)).threads_per_rank([]) == 16
