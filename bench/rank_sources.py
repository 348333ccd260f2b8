"""How the ranks of a launch come to be: by torchrun here, by a user's launcher, on emulated hosts.

(Those that somebody else has started: bench/external.py.)
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench import launcher
from bench.group import Group, Start
from bench.hosts import Hosts
from bench.launch import (
    Launched,
    LaunchError,
    start_ranks,
    start_together,
    torchrun_options,
    worker_arguments,
)
from bench.topology import hosts_of
from bench.wire import Listener

#: Where the torchruns of a launch on emulated hosts meet: below the ports that a system gives.
_FIRST_PORT, _PORTS = 29400, 1000


@dataclass(frozen=True)
class Wanted:
    """The ranks of one launch of one interpreter."""

    python: str
    launcher: str
    world_size: int
    threads: int
    log: Path
    timeout_s: float


class RankSource(Protocol):
    #: The hosts, as bench/topology.py finds them; empty as long as they are not known, and where
    #: this machine is the only one.
    hosts: list[dict[str, Any]]

    def group(self, wanted: Wanted) -> Group:
        """New ranks. Raises LaunchError."""

    def part(self, group: Group) -> None:
        """These ranks are not needed any more."""

    def close(self) -> None:
        """No more ranks are needed."""


class LocalRanks:
    """Ranks of this machine, by torchrun or torch.multiprocessing."""

    def __init__(self) -> None:
        self.hosts: list[dict[str, Any]] = []

    def group(self, wanted: Wanted) -> Group:
        def start(world_size: int, address: tuple[str, int], token: str) -> Launched:
            return start_ranks(
                wanted.python,
                wanted.launcher,
                world_size,
                address,
                token,
                wanted.threads,
                wanted.log,
            )

        return Group(start, wanted.world_size, wanted.timeout_s)

    def part(self, group: Group) -> None:
        group.stop()

    def close(self) -> None:
        pass


class LauncherRanks(LocalRanks):
    """Ranks that a user's command starts, on as many hosts as it likes."""

    def __init__(
        self, template: str, ranks_of_hosts: Sequence[int], bind: tuple[str, int], token_file: str
    ) -> None:
        super().__init__()
        self._template = template
        self._ranks_of_hosts = ranks_of_hosts
        self._bind = bind
        self._token_file = token_file
        self._token = Path(token_file).read_text().strip()

    def group(self, wanted: Wanted) -> Group:
        def start(world_size: int, address: tuple[str, int], token: str) -> Launched:
            worker = worker_arguments(reachable(address))
            values = {
                "python": wanted.python,
                "controller": worker[-1],
                "token_file": self._token_file,
                "world_size": str(world_size),
                "nodes": str(len(self._ranks_of_hosts)),
                "ranks_per_node": str(max(self._ranks_of_hosts)),
            }
            command = launcher.fill(
                self._template, values, [*worker, "--token-file", self._token_file]
            )
            return start_together([command], token, wanted.threads, wanted.log)

        group = _listening(
            self._bind, self._token, start, sum(self._ranks_of_hosts), wanted.timeout_s
        )
        names = {rank.host for rank in group.ranks.values()}
        if not self.hosts and names != {socket.gethostname()}:
            try:
                self.hosts = hosts_of(group)
            except LaunchError:
                group.stop()
                raise
        return group


class EmulatedRanks(LocalRanks):
    """Ranks on emulated hosts, a torchrun on each."""

    def __init__(self, hosts: Hosts, ranks_of_hosts: Sequence[int]) -> None:
        super().__init__()
        self._hosts = hosts
        self._ranks_of_hosts = ranks_of_hosts
        self._ports = itertools.cycle(range(_FIRST_PORT, _FIRST_PORT + _PORTS))

    def group(self, wanted: Wanted) -> Group:
        port = next(self._ports)

        def start(world_size: int, address: tuple[str, int], token: str) -> Launched:
            commands = [
                self._hosts.command(
                    host,
                    [
                        *(wanted.python, "-m", "torch.distributed.run"),
                        *("--nnodes", str(len(self._ranks_of_hosts)), "--node-rank", str(host)),
                        *("--master-addr", self._hosts.addresses[0], "--master-port", str(port)),
                        *torchrun_options(ranks, wanted.log),
                        *worker_arguments(address),
                    ],
                )
                for host, ranks in enumerate(self._ranks_of_hosts)
            ]
            return start_together(commands, token, wanted.threads, wanted.log)

        return _listening(
            (self._hosts.controller_address, 0),
            secrets.token_hex(32),
            start,
            sum(self._ranks_of_hosts),
            wanted.timeout_s,
            own_hosts=(socket.gethostname(), *self._hosts.names),
        )


def reachable(address: tuple[str, int]) -> tuple[str, int]:
    """An address for others: whoever listens everywhere is reached by the name of its host, or
    where that means itself there (as on Debian) by the address that packets leave with."""
    host, port = address
    if host not in ("0.0.0.0", "::"):
        return address
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        if not socket.gethostbyname(name).startswith("127."):
            return name, port
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent,
    ):
        unsent.connect(("192.0.2.1", 9))  # for documentation: nobody is there, nothing is sent
        return str(unsent.getsockname()[0]), port
    return name, port


def _listening(
    bind: tuple[str, int],
    token: str,
    start: Start,
    world_size: int,
    timeout_s: float,
    own_hosts: Collection[str] | None = None,
) -> Group:
    listener = listen(bind, token)
    try:
        return Group(start, world_size, timeout_s, listener=listener, own_hosts=own_hosts)
    finally:
        listener.close()


def listen(bind: tuple[str, int], token: str) -> Listener:
    """Raises LaunchError, in one line."""
    host, port = bind
    try:
        return Listener(token, host, port=port)
    except OSError as error:
        raise LaunchError(f"cannot listen on {host}:{port}: {error.strerror}") from None
