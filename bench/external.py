"""Ranks that somebody else starts and that come to us: ``--ranks external``.

One listener serves the whole sweep. What a launch is elsewhere, a set of new processes, is here a
word to the ranks to become new ones; whoever has started them need not start them again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from bench.group import Group
from bench.launch import LaunchError
from bench.rank_sources import Wanted, listen, reachable
from bench.topology import hosts_of


class NotOurs:
    """Stands where a launcher of ours would: it is not, so nothing of it is ours to end."""

    def __init__(self, words: str) -> None:
        self._words = words

    def problem(self) -> str | None:
        return None

    def watch(self, pid: int) -> None:
        pass

    def state_of(self, pid: int) -> str | None:
        return None

    def stop(self) -> None:
        pass

    def output_tail(self) -> str:
        return self._words


class ExternalRanks:
    """``bind``: where ranks find the controller."""

    def __init__(self, bind: tuple[str, int], token: str, token_file: str | None = None) -> None:
        """``token_file``: where the token is, as others are told. Raises LaunchError where it
        cannot listen there."""
        self._token_file = token_file
        self._listener = listen(bind, token)
        #: See bench/topology.py.
        self.hosts: list[dict[str, Any]] = []
        self._world_size: int | None = None
        self._unused: Group | None = None  # has run nothing yet
        self._left: Group | None = None  # has run something, and waits to hear what next

    @property
    def command(self) -> str:
        """With which ranks are started, as far as it can be said here."""
        host, port = reachable(self._listener.address)
        file = f" --token-file {shlex.quote(self._token_file)}" if self._token_file else ""
        return f"torchrun ... -m bench.worker --controller {host}:{port}{file} --stay 600"

    def gather(self, models: Sequence[str], timeout_s: float) -> list[dict[str, Any]]:
        """Wait for the ranks, however many there are, which the next ``group`` uses: their hosts
        and what each has (see bench/topology.py). Raises LaunchError."""
        self._unused = self._new(timeout_s)
        self.hosts = hosts_of(self._unused, models)
        return self.hosts

    def group(self, wanted: Wanted) -> Group:
        unused, self._unused = self._unused, None
        if unused is not None and unused.problem() is None:
            return unused
        self._left = self._left or unused
        return self._new(wanted.timeout_s)

    def part(self, group: Group) -> None:
        self._left = group

    def close(self) -> None:
        for group in (self._left, self._unused):
            if group is not None:
                group.stop()
        self._left = self._unused = None
        self._listener.close()

    def _new(self, timeout_s: float) -> Group:
        left, self._left = self._left, None
        if left is not None:
            left.stop("controller_restart")
        launched = NotOurs(f"start them with {self.command}")
        try:
            group = Group(
                lambda *_: launched,
                self._world_size,
                timeout_s,
                listener=self._listener,
                farewell="controller_restart",  # those that came may come again
            )
        except LaunchError as error:
            raise LaunchError(f"--ranks external: {error}") from None
        self._world_size = group.world_size
        return group
