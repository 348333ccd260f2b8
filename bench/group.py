"""The ranks of one launch: accept them, run a case on them before its deadline, stop them.

A Group waits in ``poll``; every wait has a deadline, and a time-out names the silent ranks. A rank
that is gone is a message like any other, not an exception.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.launch import Launched, LaunchError, last_line
from bench.result import PHASES, Failure
from bench.wire import Connection, Listener, Message, WireError, ready

#: After one rank failed the others get this long to say what they saw, before they are killed.
_GRACE_S = 3.0
#: What a rank sees of another rank's end: never the cause.
_CONSEQUENCE = re.compile(
    r"connection (was )?(closed|reset|refused|lost)|closed by peer|broken pipe|socket (is )?closed"
    r"|timed out|timeout|remote (process|end)|aborted",
    re.IGNORECASE,
)

Start = Callable[[int, tuple[str, int], str], Launched]


@dataclass
class Rank:
    """A rank that has said it is ready."""

    rank: int
    local_rank: int
    host: str
    pid: int
    connection: Connection


@dataclass
class _Part:
    """What one rank has said of the case in flight."""

    phase: str = "launch"
    listens: bool = False
    record: dict[str, Any] | None = None
    failure: Failure | None = None
    failed_at_s: float = 0.0
    ended: bool = False
    aborted: bool = False
    child: int | None = None


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
        self._pids: set[int] = set()
        self.ranks: dict[int, Rank] = {}
        self.broken = False
        token = secrets.token_hex(32)
        listener = Listener(token)
        self._launched = start(world_size, listener.address, token)
        try:
            self._accept(listener, world_size, clock() + timeout_s)
        except BaseException:
            self.stop()
            raise
        finally:
            listener.close()

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    def _accept(self, listener: Listener, world_size: int, deadline: float) -> None:
        waiting: list[Connection] = []  # said the token, not yet who they are
        while len(self.ranks) < world_size:
            problem = self._launched.problem()
            if problem:
                raise LaunchError(problem)
            left_s = deadline - self._clock()
            if left_s <= 0:
                silent = [rank for rank in range(world_size) if rank not in self.ranks]
                raise LaunchError(
                    f"ranks {silent} did not connect in time: "
                    f"{last_line(self._launched.output_tail())}"
                )
            # Woken at least every second, to notice a launcher that ended without a rank.
            for source in ready([listener, *waiting], min(1.0, left_s)):
                if source is listener:
                    source = listener.accept()
                    if source is None:
                        continue
                    waiting.append(source)
                else:
                    try:
                        source.read_some()
                    except WireError:
                        waiting.remove(source)
                        continue
                hello = source.buffered()  # it may have come together with the token
                if hello is not None:
                    waiting.remove(source)
                    self._greet(hello, source)

    def _greet(self, hello: Message, connection: Connection) -> None:
        rank = Rank(
            int(hello["rank"]),
            int(hello["local_rank"]),
            str(hello["host"]),
            int(hello["pid"]),
            connection,
        )
        if rank.rank in self.ranks:
            raise LaunchError(
                f"two processes say they are rank {rank.rank}: look at the launcher's own options"
            )
        self.ranks[rank.rank] = rank
        if rank.host == socket.gethostname():  # a pid of another host names a stranger here
            self._pids.add(rank.pid)

    def run(self, job: dict[str, Any], timeout_s: float) -> list[dict[str, Any]] | Failure:
        """The records of the first ``job["world_size"]`` ranks, in rank order, or the failure."""
        return _Run(self, job, timeout_s).result()

    def stop(self) -> None:
        """End all ranks, their children and the launcher, for certain."""
        for rank in self.ranks.values():
            with contextlib.suppress(WireError):
                rank.connection.send({"type": "controller_stop"})
            rank.connection.close()
        self._launched.stop(self._pids)

    # For _Run alone.
    def now(self) -> float:
        return self._clock()

    def output_tail(self) -> str:
        return self._launched.output_tail()


@dataclass
class _Run:
    """One case in flight."""

    group: Group
    job: dict[str, Any]
    timeout_s: float
    parts: dict[int, _Part] = field(default_factory=dict)

    def result(self) -> list[dict[str, Any]] | Failure:
        world_size: int = self.job["world_size"]
        self.parts = {rank: _Part() for rank in range(world_size)}
        deadline = self.group.now() + self.timeout_s
        self._send(0, self._job_of(0))
        if world_size > 1:
            # The others start when rank 0 listens, so that none has to try again.
            self._until(lambda: self.parts[0].listens or self.parts[0].ended, deadline)
            for rank in range(1, world_size):
                if self._any_failed() or not self.parts[0].listens:
                    self.parts[rank].ended = True  # it never began
                else:
                    self._send(rank, self._job_of(rank))
        self._until(lambda: self._all_ended() or self._any_failed(), deadline)
        if not self._all_ended():
            self._until(self._all_ended, min(deadline, self.group.now() + _GRACE_S))
        timed_out = None if self._all_ended() or self._any_failed() else self._time_out()
        if not self._all_ended():
            self._abort()
        if timed_out is not None:
            return timed_out
        failures = [part.failure for part in self.parts.values() if part.failure is not None]
        if failures:
            return _cause(self.parts)
        return [part.record for part in self.parts.values() if part.record is not None]

    def _job_of(self, rank: int) -> Message:
        local_rank = self.group.ranks[rank].local_rank
        return {**self.job, "rank": rank, "local_rank": local_rank}

    def _send(self, rank: int, job: Message) -> None:
        try:
            self.group.ranks[rank].connection.send({"type": "controller_run", "job": job})
        except WireError as error:
            self._lost(rank, error)

    def _until(self, done: Callable[[], bool], deadline: float) -> None:
        """Handle messages until ``done`` or the deadline."""
        while not done():
            live = {
                self.group.ranks[rank].connection: rank
                for rank, part in self.parts.items()
                if not part.ended
            }
            left_s = deadline - self.group.now()
            if left_s <= 0 or not live:
                return
            for connection in ready(list(live), left_s):
                rank = live[connection]
                try:
                    connection.read_some()
                    while (message := connection.buffered()) is not None:
                        self._handle(rank, message)
                except WireError as error:
                    self._lost(rank, error)

    def _handle(self, rank: int, message: Message) -> None:
        part = self.parts[rank]
        kind = message["type"]
        if kind == "rank_forked":
            part.child = message["pid"]
        elif kind == "rank_rendezvous":
            part.phase = "rendezvous"
            part.listens = True
            self.job["port"] = message.get("port")
        elif kind == "rank_phase":
            part.phase = message["phase"]
        elif kind == "rank_done":
            part.record = message["record"]
        elif kind == "rank_failed":
            self._failed(part, Failure.from_dict(message["failure"]))
        elif kind == "rank_child_ended":
            part.ended = True
            if part.record is None and part.failure is None and not part.aborted:
                how = message["signal"] or f"exit code {message['exit_code']}"
                self._crashed(rank, f"the process ended with {how}")

    def _lost(self, rank: int, error: WireError) -> None:
        """The rank itself is gone: this group is of no more use."""
        self.group.broken = True
        self.parts[rank].ended = True
        if self.parts[rank].record is None and not self.parts[rank].aborted:
            self._crashed(rank, f"the rank is gone ({error})")

    def _crashed(self, rank: int, message: str) -> None:
        part = self.parts[rank]
        tail = self.group.output_tail()
        failure = Failure(
            phase=part.phase,
            message=message,
            type="Crash",
            outcome="crashed",
            rank=rank,
            host=self.group.ranks[rank].host,
            traceback=tail,
        )
        self._failed(part, failure)

    def _failed(self, part: _Part, failure: Failure) -> None:
        if part.failure is None:
            part.failure = failure
            part.failed_at_s = self.group.now()

    def _any_failed(self) -> bool:
        return any(part.failure is not None for part in self.parts.values())

    def _all_ended(self) -> bool:
        return all(part.ended for part in self.parts.values())

    def _time_out(self) -> Failure:
        unfinished = {rank: part.phase for rank, part in self.parts.items() if not part.ended}
        rank = min(unfinished, key=lambda r: (PHASES.index(unfinished[r]), r))
        where = ", ".join(f"rank {r} in {phase}" for r, phase in unfinished.items())
        return Failure(
            phase=unfinished[rank],
            message=f"not finished after {self.timeout_s:g} s: {where}",
            type="TimeOut",
            outcome="timed out",
            rank=rank,
            host=self.group.ranks[rank].host,
        )

    def _abort(self) -> None:
        for rank, part in self.parts.items():
            if not part.ended:
                part.aborted = True
                try:
                    self.group.ranks[rank].connection.send({"type": "controller_abort"})
                except WireError as error:
                    self._lost(rank, error)
        self._until(self._all_ended, self.group.now() + _GRACE_S)
        if not self._all_ended():
            self.group.broken = True


def _cause(parts: dict[int, _Part]) -> Failure:
    """The failure that caused the others: not one that only saw a connection close, and of those
    that remain the first."""

    def key(part: _Part) -> tuple[bool, float]:
        assert part.failure is not None
        consequence = part.failure.outcome == "failed" and bool(
            _CONSEQUENCE.search(part.failure.message)
        )
        return consequence, part.failed_at_s

    failed = [part for part in parts.values() if part.failure is not None]
    failure = min(failed, key=key).failure
    assert failure is not None
    return failure
