"""The ranks of one launch: accept them, run cases on them, stop them for certain."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from bench.case_run import CaseRun, Rank
from bench.deadlines import Limits
from bench.launch import Launched, LaunchError
from bench.meeting_place import meet
from bench.placement import order
from bench.probing import PROBE_TIMEOUT_S, last_line
from bench.result import Failure
from bench.wire import Connection, Listener, Message, WireError, ready

Start = Callable[[int, tuple[str, int], str], Launched]


class Group:
    """The ranks of one launch, ready for cases."""

    def __init__(
        self,
        start: Start,
        world_size: int | None,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        listener: Listener | None = None,
        own_hosts: Collection[str] | None = None,
        farewell: str = "controller_stop",
    ) -> None:
        """Starts the ranks and waits for them. Raises LaunchError, with nothing left running.

        ``world_size`` None is what the first rank says. ``listener``: one that outlives the group;
        otherwise it has one of its own. ``own_hosts``: names of this machine, whose processes can
        be seen and ended from here. ``farewell``: what ranks are told that came when others did
        not.
        """
        self._clock = clock
        self._own_hosts = own_hosts if own_hosts is not None else (socket.gethostname(),)
        self.ranks: dict[int, Rank] = {}
        self.broken = False
        #: Connections that were turned away while the ranks were awaited, by reason.
        self.dropped: Counter[str] = Counter()
        listening = listener or Listener(secrets.token_hex(32), clock=clock)
        self._waiting: list[Connection] = []  # said the token, not yet who they are
        self._expected = world_size
        before = Counter(listening.dropped)
        try:
            self._launched = start(world_size or 0, listening.address, listening.token)
        except BaseException:
            if listener is None:
                listening.close()
            raise
        try:
            self._accept(listening, clock() + timeout_s, timeout_s)
            self._check_hosts()
        except BaseException:
            self.stop(farewell)
            raise
        finally:
            for connection in self._waiting:
                connection.close()
            self.dropped += listening.dropped - before
            if listener is None:
                listening.close()

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    def _accept(self, listener: Listener, deadline: float, timeout_s: float) -> None:
        while self._expected is None or len(self.ranks) < self._expected:
            problem = self._launched.problem()
            if problem:
                raise LaunchError(problem)
            left_s = deadline - self._clock()
            if left_s <= 0:
                turned_away = ", ".join(f"{n} {why}" for why, n in listener.dropped.items())
                raise LaunchError(
                    f"{self._silent()} did not connect within {timeout_s:g} s: "
                    f"{last_line(self._launched.output_tail())}"
                    + (f" (connections turned away: {turned_away})" if turned_away else "")
                )
            # Woken at least every second, to notice a launcher that ended without a rank.
            for source in ready([*listener.sources(), *self._waiting], min(1.0, left_s)):
                if not isinstance(source, Connection):
                    connection = listener.admit(source)
                    if connection is not None:
                        self._waiting.append(connection)
                    continue
                try:
                    source.read_some()
                    hello = source.buffered()
                    if hello is not None:
                        self._greet(hello, source)
                        self._waiting.remove(source)
                except (WireError, KeyError, TypeError, ValueError) as error:
                    self._waiting.remove(source)
                    source.close()
                    self.dropped[f"said the token and then no sense ({error})"] += 1

    def _silent(self) -> str:
        if self._expected is None:
            return "ranks"
        silent = [rank for rank in range(self._expected) if rank not in self.ranks]
        return f"ranks {silent}"

    def _greet(self, hello: Message, connection: Connection) -> None:
        rank = Rank(
            int(hello["rank"]),
            int(hello["local_rank"]),
            str(hello["host"]),
            int(hello["pid"]),
            connection,
            str(hello["address"]),
        )
        world_size = int(hello["world_size"])
        if self._expected is None:
            self._expected = world_size
        if world_size != self._expected or not 0 <= rank.rank < world_size:
            raise LaunchError(
                f"{self._expected} ranks were asked for, but a process on {rank.host} says it is "
                f"rank {rank.rank} of {world_size}: look at the launcher's own options"
            )
        other = self.ranks.get(rank.rank)
        if other is not None:
            if (other.host, other.pid) != (rank.host, rank.pid) and not ready(
                [other.connection], 0
            ):  # neither become new, nor gone and come again
                raise LaunchError(
                    f"two processes say they are rank {rank.rank}: {other.pid} on {other.host} "
                    f"and {rank.pid} on {rank.host}: look at the launcher's own options"
                )
            other.connection.close()
        self.ranks[rank.rank] = rank
        if rank.host in self._own_hosts:  # a pid of another host names a stranger here
            self._launched.watch(rank.pid)

    def _check_hosts(self) -> None:
        """A host is known by its name, and a place on it by the local rank."""
        places = Counter((rank.host, rank.local_rank) for rank in self.ranks.values())
        (host, local_rank), number = places.most_common(1)[0]
        if number > 1:
            raise LaunchError(
                f"{number} ranks say they are local rank {local_rank} of {host}: hosts need names "
                "of their own, and the launcher has to say local ranks (LOCAL_RANK, SLURM_LOCALID)"
            )

    def problem(self) -> str | None:
        """Why no case can run on these ranks any more; None while they wait for one."""
        if self.broken:
            return "a rank is gone or does not answer"
        connections = {rank.connection: rank.rank for rank in self.ranks.values()}
        lost = sorted(connections[source] for source in ready(list(connections), 0))
        if lost:  # an idle rank says nothing: what can be read is the end of its stream
            return f"rank {lost[0]} ended while it was idle"
        return self._launched.problem()

    def placed(self, placement: str) -> list[Rank]:
        """All ranks, in the order in which cases take them."""
        ranks = [self.ranks[number] for number in sorted(self.ranks)]
        return [
            ranks[n] for n in order([(each.host, each.local_rank) for each in ranks], placement)
        ]

    def run(self, job: dict[str, Any], limits: Limits) -> list[dict[str, Any]] | Failure:
        """The records of the ``job["world_size"]`` ranks that come first by its placement, in the
        order of the ranks of the case, or the failure."""
        placed = self.placed(job.get("case", {}).get("placement", "packed"))
        refused = meet(job, placed[: int(job["world_size"])])
        if refused is not None:
            return refused
        run = CaseRun(
            dict(enumerate(placed)), self._launched, self._own_hosts, job, limits, self._clock
        )
        try:
            return run.result()
        finally:
            self.broken = self.broken or run.broken

    def ask(self, ranks: Sequence[Rank], models: Sequence[str]) -> list[dict[str, Any]]:
        """What the interpreter of each has, on its host (see bench/worker/probe.py): all at once,
        for a probe imports torch. Raises LaunchError."""
        found: dict[int, dict[str, Any]] = {}
        waiting = {rank.connection: rank for rank in ranks}
        deadline = self._clock() + PROBE_TIMEOUT_S + 10
        rank = ranks[0]
        try:
            for rank in ranks:
                rank.connection.send({"type": "controller_probe", "models": list(models)})
            while waiting:
                said = ready(list(waiting), deadline - self._clock())
                rank = waiting[said[0] if said else next(iter(waiting))]
                if not said:
                    raise WireError("it does not answer")
                rank.connection.read_some()
                message = rank.connection.buffered()
                if message is None:
                    continue
                if message["type"] != "rank_probed" or message["problem"] is not None:
                    raise WireError(str(message.get("problem")))
                found[rank.rank] = dict(message["about"])
                del waiting[rank.connection]
        except (WireError, KeyError, TypeError) as error:
            self.broken = True
            raise LaunchError(
                f"rank {rank.rank} on {rank.host} could not say what it has: {error}"
            ) from None
        return [found[rank.rank] for rank in ranks]

    def stop(self, word: str = "controller_stop") -> None:
        """End all ranks, their children and the launcher, for certain. ``controller_restart``:
        ranks of somebody else's become new processes instead."""
        for rank in self.ranks.values():
            with contextlib.suppress(WireError):
                rank.connection.send({"type": word})
            rank.connection.close()
        self._launched.stop()
