"""Ranks that speak the protocol over real sockets and know no torch."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.deadlines import Limits
from bench.group import Group
from bench.result import Failure
from bench.wire import Connection, Message, WireError, connect

Behaviour = Callable[[int, Connection, Message], None]
#: What gloo says on the ranks that did not cause it.
CLOSED = "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242"


@dataclass
class FakeRanks:
    """Stands in for torchrun: every rank is a thread with a connection of its own."""

    behave: Behaviour
    silent: tuple[int, ...] = ()
    host: str = field(default_factory=socket.gethostname)
    local_ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()  # of each rank, where they are on several
    twins: bool = False  # every process says it is rank 0
    #: What each says it has when it is asked, by host.
    abouts: dict[str, dict[str, Any]] = field(default_factory=dict)
    restarted: list[int] = field(default_factory=list)
    watched: list[int] = field(default_factory=list)
    stopped: list[list[int]] = field(default_factory=list)
    told_to_stop: list[int] = field(default_factory=list)
    jobs: list[tuple[int, Message]] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    deaf: bool = False  # to controller_ask and controller_abort
    stuck: dict[int, dict[str, Any]] = field(default_factory=dict)  # what each says when asked
    ended: str | None = None  # what problem() says
    states: dict[int, str] = field(default_factory=dict)
    world_size_said: int | None = None
    all_told: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __call__(self, world_size: int, address: tuple[str, int], token: str) -> FakeRanks:
        for rank in range(world_size):
            if rank not in self.silent:
                threading.Thread(
                    target=self._serve, args=(rank, world_size, address, token), daemon=True
                ).start()
        return self

    def _serve(self, rank: int, world_size: int, address: tuple[str, int], token: str) -> None:
        try:
            connection = connect(*address, token)
        except OSError:  # there is no controller any more
            return
        host = self.hosts[rank] if self.hosts else self.host
        try:
            connection.send(
                {
                    "type": "rank_ready",
                    "rank": 0 if self.twins else rank,
                    "local_rank": self.local_ranks[rank] if self.local_ranks else rank,
                    "world_size": self.world_size_said or world_size,
                    "host": host,
                    "pid": 100 + rank,
                    "address": f"10.0.0.{1 + self.hosts.index(host)}"
                    if self.hosts
                    else "127.0.0.1",
                }
            )
            while True:
                message = connection.receive()
                if message["type"] == "controller_run":
                    self.jobs.append((rank, message["job"]))
                    self.behave(rank, connection, message["job"])
                elif message["type"] == "controller_ask":
                    if not self.deaf:
                        nothing = {"state": None, "stacks": "", "step": None, "collectives": None}
                        said = {**nothing, **self.stuck.get(rank, {})}
                        connection.send({"type": "rank_stuck", **said})
                elif message["type"] == "controller_abort":
                    self.aborted.append(rank)
                    if not self.deaf:
                        ended(connection, exit_code=None, signal="SIGKILL")
                elif message["type"] == "controller_probe":
                    about = self.abouts[host] | {"asked": message["models"]}
                    connection.send({"type": "rank_probed", "about": about, "problem": None})
                elif message["type"] == "controller_restart":
                    self.restarted.append(rank)
                    self._serve(rank, world_size, address, token)
                    return
                else:
                    assert message["type"] == "controller_stop"
                    self.told_to_stop.append(rank)
                    self.all_told.release()
                    return
        except WireError:
            return

    def problem(self) -> str | None:
        return self.ended

    def watch(self, pid: int) -> None:
        self.watched.append(pid)

    def state_of(self, pid: int) -> str | None:
        return self.states.get(pid)

    def output_tail(self) -> str:
        return "what the ranks printed"

    def stop(self) -> None:
        self.stopped.append(sorted(self.watched))


def ended(connection: Connection, **how: Any) -> None:
    connection.send({"type": "rank_child_ended", "exit_code": 0, "signal": None, **how})


def rendezvous(rank: int, connection: Connection) -> None:
    connection.send({"type": "rank_forked", "pid": 200 + rank})
    if rank == 0:
        connection.send({"type": "rank_rendezvous", "port": 4242})


def well(rank: int, connection: Connection, job: Message) -> None:
    rendezvous(rank, connection)
    connection.send({"type": "rank_done", "record": {"rank": rank, "port": job["port"]}})
    ended(connection)


def measured(rank: int, connection: Connection, job: Message) -> None:
    rendezvous(rank, connection)
    times = [0.1 + rank, 0.3 - rank / 10]
    record = {"rank": rank, "host": "h", "timed_step_s": times, "job": {"parameters": 67}}
    connection.send({"type": "rank_done", "record": record})
    ended(connection)


def failing(rank: int, connection: Connection, phase: str, type_: str, message: str) -> None:
    connection.send({"type": "rank_phase", "phase": phase})
    failure = {"rank": rank, "phase": phase, "type": type_, "message": message, "step": 3}
    connection.send({"type": "rank_failed", "failure": failure})
    ended(connection, exit_code=1)


def run_on(
    ranks: FakeRanks, world_size: int = 2, case_s: float = 5.0, **job: Any
) -> tuple[Group, list[Message] | Failure]:
    """Start these ranks and run one case on them."""
    group = Group(ranks, world_size, timeout_s=10)
    return group, group.run({"world_size": world_size, "port": None, **job}, Limits(case_s))
