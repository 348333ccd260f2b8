"""Which of a launch's ranks take part in a case, and in which order: pure functions.

A launch may have ranks on several hosts, in whatever order its launcher numbered them. A case
takes the first ``world_size`` of an order of ours: *packed* fills one host after another, *spread*
takes a rank of every host in turn. The k-th of them is the case's rank k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def hosts_in_order(host_of_rank: Sequence[str]) -> list[str]:
    """Every host once, in the order of its first rank."""
    return list(dict.fromkeys(host_of_rank))


def order(places: Sequence[tuple[str, int]], placement: str) -> list[int]:
    """The launched ranks, which stand at (host, local rank), in the order in which cases take
    them."""
    hosts = hosts_in_order([host for host, _ in places])
    of_host: dict[str, list[int]] = {host: [] for host in hosts}
    for rank in sorted(range(len(places)), key=lambda rank: (places[rank][1], rank)):
        of_host[places[rank][0]].append(rank)
    if placement == "packed":
        return [rank for host in hosts for rank in of_host[host]]
    return _in_turn([of_host[host] for host in hosts])


def hosts_of(ranks_of_hosts: Sequence[int], placement: str, world_size: int) -> list[int]:
    """For every rank of a case the number of its host, where the hosts have so many ranks."""
    every = [[host] * ranks for host, ranks in enumerate(ranks_of_hosts)]
    if placement == "packed":
        return [host for ranks in every for host in ranks][:world_size]
    return _in_turn(every)[:world_size]


def evenly(world_size: int, hosts: int) -> tuple[int, ...]:
    """Ranks of every host for a launch that has room for ``world_size``: equally many."""
    return (-(-world_size // hosts),) * hosts


def _in_turn(queues: Iterable[Sequence[int]]) -> list[int]:
    """The first of each, then the second of each that has one …"""
    waiting = [list(queue) for queue in queues]
    found = []
    while any(waiting):
        found += [queue.pop(0) for queue in waiting if queue]
    return found
