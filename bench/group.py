"""The ranks of one launch: accept them, run cases on them, stop them for certain."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.case_run import CaseRun, Rank
from bench.deadlines import Limits
from bench.launch import Launched, LaunchError, last_line
from bench.open_files import TooFewFiles, make_room
from bench.result import Failure
from bench.wire import Connection, Listener, Message, WireError, ready

Start = Callable[[int, tuple[str, int], str], Launched]


class Group:
    """The ranks of one launch, ready for cases."""

    def __init__(
        self,
        start: Start,
        world_size: int,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts the ranks and waits for them. Raises LaunchError, with nothing left running."""
        self._clock = clock
        self._own_host = socket.gethostname()
        self.ranks: dict[int, Rank] = {}
        self.broken = False
        #: Connections that were turned away while the ranks were awaited, by reason.
        self.dropped: Counter[str] = Counter()
        token = secrets.token_hex(32)
        try:
            make_room(world_size)
        except TooFewFiles as error:
            raise LaunchError(str(error)) from None
        listener = Listener(token, clock=clock, expected=world_size)
        try:
            self._launched = start(world_size, listener.address, token)
        except BaseException:
            listener.close()
            raise
        try:
            self._accept(listener, world_size, clock() + timeout_s, timeout_s)
        except BaseException:
            self.stop()
            raise
        finally:
            self.dropped += listener.dropped
            listener.close()

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    def _accept(
        self, listener: Listener, world_size: int, deadline: float, timeout_s: float
    ) -> None:
        waiting: list[Connection] = []  # said the token, not yet who they are
        while len(self.ranks) < world_size:
            problem = self._launched.problem()
            if problem:
                raise LaunchError(problem)
            left_s = deadline - self._clock()
            if left_s <= 0:
                silent = [rank for rank in range(world_size) if rank not in self.ranks]
                raise LaunchError(
                    f"ranks {silent} did not connect within {timeout_s:g} s: "
                    f"{last_line(self._launched.output_tail())}"
                )
            # Woken at least every second, to notice a launcher that ended without a rank.
            for source in ready([*listener.sources(), *waiting], min(1.0, left_s)):
                if not isinstance(source, Connection):
                    connection = listener.admit(source)
                    if connection is not None:
                        waiting.append(connection)
                    continue
                try:
                    source.read_some()
                    hello = source.buffered()
                    if hello is not None:
                        self._greet(hello, source, world_size)
                        waiting.remove(source)
                except (WireError, KeyError, TypeError, ValueError) as error:
                    waiting.remove(source)
                    source.close()
                    self.dropped[f"said the token and then no sense ({error})"] += 1

    def _greet(self, hello: Message, connection: Connection, world_size: int) -> None:
        rank = Rank(
            int(hello["rank"]),
            int(hello["local_rank"]),
            str(hello["host"]),
            int(hello["pid"]),
            connection,
        )
        if int(hello["world_size"]) != world_size or not 0 <= rank.rank < world_size:
            raise LaunchError(
                f"{world_size} ranks were asked for, but a process says it is rank {rank.rank} "
                f"of {hello['world_size']}: look at the launcher's own options"
            )
        if rank.rank in self.ranks:
            raise LaunchError(
                f"two processes say they are rank {rank.rank}: look at the launcher's own options"
            )
        self.ranks[rank.rank] = rank
        if rank.host == self._own_host:  # a pid of another host names a stranger here
            self._launched.watch(rank.pid)

    def problem(self) -> str | None:
        """Why no case can run on these ranks any more; None while they wait for one."""
        if self.broken:
            return "a rank is gone or does not answer"
        connections = {rank.connection: rank.rank for rank in self.ranks.values()}
        lost = sorted(connections[source] for source in ready(list(connections), 0))
        if lost:  # an idle rank says nothing: what can be read is the end of its stream
            return f"rank {lost[0]} ended while it was idle"
        return self._launched.problem()

    def run(self, job: dict[str, Any], limits: Limits) -> list[dict[str, Any]] | Failure:
        """The records of the first ``job["world_size"]`` ranks, in rank order, or the failure."""
        run = CaseRun(self.ranks, self._launched, self._own_host, job, limits, self._clock)
        try:
            return run.result()
        finally:
            self.broken = self.broken or run.broken

    def stop(self) -> None:
        """End all ranks, their children and the launcher, for certain."""
        for rank in self.ranks.values():
            with contextlib.suppress(WireError):
                rank.connection.send({"type": "controller_stop"})
            rank.connection.close()
        self._launched.stop()
