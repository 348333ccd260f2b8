"""The hosts of a sweep: how many, what they have, and how many ranks each of them has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.case import Case
from bench.group import Group
from bench.launch import LaunchError
from bench.matrix import Facts
from bench.placement import evenly, hosts_in_order
from bench.settings import Settings

#: What two hosts may not differ in, or a case across them measures neither.
_SAME = ("torch", "cuda", "hip", "nccl")


@dataclass(frozen=True)
class Topology:
    """``cores``: of every host, in order. ``one_machine``: the hosts are emulated, or containers;
    then those are the same cores. ``ranks_of_hosts``: empty where ranks are started on one host,
    as many as are asked for. ``connected``: ranks, where nobody starts more. ``started_by``: who
    starts the ranks where it is not a torchrun here, in words."""

    cores: tuple[int, ...]
    one_machine: bool = False
    ranks_of_hosts: tuple[int, ...] = ()
    connected: int | None = None
    started_by: str = ""

    @classmethod
    def of_settings(cls, settings: Settings, cores: int) -> Topology:
        """Of ranks that are going to be started, with ``cores`` on every host."""
        if settings.emulate is not None:
            return cls((cores,) * settings.emulate.hosts, one_machine=True, started_by="--emulate")
        if settings.launcher is not None:
            return cls((cores,) * settings.nodes, started_by="--launcher")
        return cls((cores,))

    @classmethod
    def of_ranks(cls, hosts: Sequence[Mapping[str, Any]]) -> Topology:
        """Of ranks that are there: the hosts as ``hosts_of`` has found them."""
        boots = {host["boot_id"] for host in hosts}
        return cls(
            tuple(host["cores"] for host in hosts),
            one_machine=len(hosts) > 1 and len(boots) == 1 and None not in boots,
            ranks_of_hosts=tuple(len(host["ranks"]) for host in hosts),
            connected=sum(len(host["ranks"]) for host in hosts),
            started_by="--ranks external",
        )

    @property
    def all_cores(self) -> int:
        return self.cores[0] if self.one_machine else sum(self.cores)

    def known_to(self, facts: Facts) -> Facts:
        """The facts of one interpreter on one host, with what the hosts add to them."""
        emulated = self.one_machine and self.connected is None
        return dataclasses.replace(
            facts,
            # Emulated hosts would all take the same GPUs for their own.
            gpus=0 if emulated else facts.gpus,
            nodes=1 if self.one_machine else len(self.cores),
            ranks_of_hosts=self.ranks_of_hosts,
            connected=self.connected,
            started_by=self.started_by,
        )

    def settled(self, cases: Iterable[Case]) -> Topology:
        """With as many ranks on every host as the largest of these cases needs."""
        if self.connected is not None or not self.started_by:
            return self
        return dataclasses.replace(self, ranks_of_hosts=evenly(_largest(cases), len(self.cores)))

    def threads_per_rank(self, cases: Iterable[Case]) -> int:
        """The equal share of the cores: the same at every world size, so that one rank has no
        more hardware than one of many. On several hosts that of the fullest. At least 1."""
        largest = _largest(cases)
        if self.one_machine or not self.ranks_of_hosts:
            return max(1, self.cores[0] // largest)
        shares = [
            cores // min(ranks, largest)
            for cores, ranks in zip(self.cores, self.ranks_of_hosts, strict=True)
        ]
        return max(1, min(shares))


def _largest(cases: Iterable[Case]) -> int:
    return max((case.processes for case in cases), default=1)


def hosts_of(group: Group, models: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The hosts of a group's ranks, in the order of their first rank, and what each has: asked of
    that rank. ``about`` is what bench/worker/probe.py says.

    Raises LaunchError for hosts that do not have the same torch.
    """
    ranks = [group.ranks[number] for number in sorted(group.ranks)]
    names = hosts_in_order([rank.host for rank in ranks])
    of_hosts = [[rank for rank in ranks if rank.host == host] for host in names]
    abouts = group.ask([of_host[0] for of_host in of_hosts], models)
    found = []
    for host, of_host, about in zip(names, of_hosts, abouts, strict=True):
        found.append(
            {
                "host": host,
                "address": of_host[0].address,
                "ranks": [rank.rank for rank in of_host],
                "cores": about["cores"],
                "gpus": about["gpus"],
                "torch": about["torch"],
                "boot_id": about["boot_id"],
                "about": about,
            }
        )
    first = found[0]
    for other in found[1:]:
        for name in _SAME:
            if other["about"][name] != first["about"][name]:
                raise LaunchError(
                    f"{first['host']} has {name} {first['about'][name]}, {other['host']} has "
                    f"{other['about'][name]}: a case across them would measure neither"
                )
        for model, known in other["about"]["models"].items():
            if known["sha256"] != first["about"]["models"][model]["sha256"]:
                raise LaunchError(
                    f"model {model} is not the same file on {first['host']} and {other['host']}"
                )
    return found


def recorded(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As the record keeps them."""
    kept = ("host", "address", "ranks", "cores", "gpus", "torch")
    return [{name: host[name] for name in kept} for host in hosts]
