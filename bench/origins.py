"""Where the ranks of a sweep come from, as its settings say."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import interpreters, machine
from bench.environment import kept
from bench.external import ExternalRanks
from bench.hosts import Hosts
from bench.launch import LaunchError
from bench.namespaces import HostsError
from bench.rank_sources import EmulatedRanks, LauncherRanks, LocalRanks, RankSource
from bench.settings import Settings
from bench.token_file import made_token, read_token
from bench.topology import Topology, recorded
from bench.wire import TOKEN_VARIABLE


@dataclass(frozen=True)
class Found:
    """What ranks have: by interpreter (see bench/worker/probe.py), on which hosts, and which
    variables that may change a number."""

    interpreters: dict[str, dict[str, Any]]
    topology: Topology
    environment: dict[str, str]


class Origin:
    """What was opened for the ranks is closed by ``close``, whatever has happened."""

    def __init__(self, settings: Settings) -> None:
        """Listens for ranks of somebody else's. Raises ValueError, in one line."""
        self._settings = settings
        self._emulated: Hosts | None = None
        self._source: RankSource | None = None
        self._external: ExternalRanks | None = None
        if settings.ranks == "external":
            token = _known_token(settings)
            try:
                self._external = ExternalRanks(settings.bind, token, settings.token_file)
            except LaunchError as error:
                raise ValueError(str(error)) from None

    def ask(self, models: Sequence[str], say: Callable[[str], None]) -> Found:
        """``models``: those of the user's own, which must be there too. Waits for ranks that
        somebody else starts. Raises ValueError, in one line."""
        settings = self._settings
        if self._external is None:
            found = interpreters.ask(settings.pythons, models)
            topology = Topology.of_settings(settings, machine.usable_cores())
            return Found(found, topology, kept(os.environ))
        say(f"waiting for ranks: {self._external.command}")
        try:
            hosts = self._external.gather(models, settings.launch_timeout_s)
        except LaunchError as error:
            raise ValueError(str(error)) from None
        about = hosts[0]["about"]
        interpreters.check(about, f"{hosts[0]['host']}: ", about["executable"])
        return Found({"": about}, Topology.of_ranks(hosts), about["environment"])

    def set_up(self) -> None:
        """Make the hosts that are emulated. Raises ValueError, in one line."""
        wanted = self._settings.emulate
        if wanted is not None:
            try:
                self._emulated = Hosts.up(wanted.hosts, wanted.rate_bits_per_s)
            except HostsError as error:
                raise ValueError(f"--emulate: {error}") from None

    def source(self, ranks_of_hosts: Sequence[int], folder: Path) -> RankSource:
        """``folder``: the sweep's own."""
        self._source = self._external or self._started(ranks_of_hosts, folder)
        return self._source

    def _started(self, ranks_of_hosts: Sequence[int], folder: Path) -> RankSource:
        settings = self._settings
        if self._emulated is not None:
            return EmulatedRanks(self._emulated, ranks_of_hosts)
        if settings.launcher is None:
            return LocalRanks()
        file = settings.token_file
        if file is not None:
            made_token(file)
        else:
            file = str(folder / "token")
            Path(file).touch(0o600)
            Path(file).write_text(secrets.token_hex(32))
        return LauncherRanks(settings.launcher, ranks_of_hosts, settings.bind, file)

    def close(self) -> None:
        """No more ranks: those that wait are told so, emulated hosts are taken down."""
        try:
            for source in (self._source, self._external):
                if source is not None:
                    source.close()
        finally:
            if self._emulated is not None:
                self._emulated.down()

    def hosts(
        self,
        topology: Topology,
        own: Mapping[str, Any],
        abouts: Mapping[str, Mapping[str, Any]],
        largest_world_size: int,
    ) -> list[dict[str, Any]]:
        """The hosts that ranks are on, for the record. ``own``: this machine (see
        bench/machine.py); ``abouts``: its interpreters."""
        source = self._source or self._external
        if source is not None and source.hosts:
            return recorded(source.hosts)
        places = [(own["host"], "127.0.0.1", largest_world_size)]
        if self._emulated is not None:
            names, addresses = self._emulated.names, self._emulated.addresses
            places = list(zip(names, addresses, topology.ranks_of_hosts, strict=True))
        torch = ", ".join(sorted({str(about["torch"]) for about in abouts.values()}))
        found, first = [], 0
        for name, address, ranks in places:
            host = {"host": name, "address": address, "ranks": list(range(first, first + ranks))}
            gpus = [] if self._emulated is not None else own["gpus"]
            found.append(host | {"cores": topology.cores[0], "gpus": gpus, "torch": torch})
            first += ranks
        return found

    def summary(self) -> list[str] | None:
        """What a run that goes on must find again of ranks that were not started for it; of
        others the settings say all."""
        if self._external is None:
            return None
        return [f"{host['host']}: ranks {host['ranks']}" for host in self._external.hosts]


def _known_token(settings: Settings) -> str:
    """That which ranks of somebody else's know too. Raises ValueError, in one line."""
    if settings.token_file is not None:
        return made_token(settings.token_file)
    if not os.environ.get(TOKEN_VARIABLE):
        raise ValueError(
            "--ranks external needs a token that the ranks have too: --token-file FILE on both "
            f"sides (it is made here), or {TOKEN_VARIABLE} in both environments"
        )
    return read_token(None, os.environ)
