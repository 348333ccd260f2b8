"""One case in flight on the ranks of a group: told, listened to, ended before its limits.

Waits in ``poll``. What a rank says, and that it is gone, are messages; a limit that is reached
ends the children, and every rank's place and stacks go into the failure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bench import culprit
from bench.culprit import Part
from bench.deadlines import Limits
from bench.result import PHASES, Failure
from bench.wire import Connection, Message, WireError, ready

#: After one rank failed the others get this long to say what they saw, before they are killed.
GRACE_S = 3.0
#: A child that hangs has a second to say what it is at.
_ANSWER_S = 2.0
#: A launcher that takes its ranks with it ends this long after them, at most.
_LAUNCHER_S = 2.0


@dataclass
class Rank:
    """A rank that has said it is ready."""

    rank: int
    local_rank: int
    host: str
    pid: int
    connection: Connection
    #: By which its host can be reached from where the controller is.
    address: str = "127.0.0.1"


class Launch(Protocol):
    """What a case in flight asks of the launch it runs on."""

    def problem(self) -> str | None: ...

    def output_tail(self) -> str: ...

    def watch(self, pid: int) -> None: ...

    def state_of(self, pid: int) -> str | None: ...


class CaseRun:
    """Runs one case, once."""

    def __init__(
        self,
        ranks: Mapping[int, Rank],
        launched: Launch,
        own_hosts: Collection[str],
        job: dict[str, Any],
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ranks = ranks
        self._launched = launched
        self._own_hosts = own_hosts
        self._job = job
        self._limits = limits
        self._clock = clock
        self._parts = {rank: Part(rank, ranks[rank].host) for rank in range(int(job["world_size"]))}
        self._phase = "launch"  # the job's: that of its last rank
        self._since_s = self._began_s = clock()
        self._warm_up_s: float | None = None
        #: The ranks are of no more use: one is gone, or does not answer.
        self.broken = False

    def result(self) -> list[dict[str, Any]] | Failure:
        """The records of all ranks, in rank order, or the failure."""
        self._tell(0)
        first = self._parts[0]
        if len(self._parts) > 1:
            # The others start when rank 0 listens, so that none has to try again.
            self._until(lambda: first.listens or first.ended)
            for rank, part in self._parts.items():
                if rank > 0 and (self._any_failed() or not first.listens):
                    part.ended = True  # it never began
                elif rank > 0:
                    self._tell(rank)
            self._follow()
        self._until(lambda: self._all_ended() or self._any_failed())
        if self._any_failed():
            self._until(self._all_ended, min(self._deadline(), self._clock() + GRACE_S))
        if self._any_failed():
            self._abort()
            return self._launcher_ended() or culprit.cause(self._parts)
        if not self._all_ended():
            limit = self._limit_reached()
            self._ask()
            self._abort()
            return culprit.time_out(self._parts, limit, self._hint())
        return [part.record for part in self._parts.values() if part.record is not None]

    # Waiting.

    def _until(self, done: Callable[[], bool], deadline: float | None = None) -> None:
        """Handle messages until ``done``, or ``deadline``, or a limit of the case."""
        while not done():
            live = {
                self._ranks[rank].connection: rank
                for rank, part in self._parts.items()
                if not part.ended
            }
            until = self._deadline() if deadline is None else deadline
            left_s = until - self._clock()
            if left_s <= 0 or not live:
                return
            for connection in ready(list(live), left_s):
                self._hear(live[connection])

    def _deadline(self) -> float:
        return min(
            self._began_s + self._limits.case_s,
            self._since_s + self._limits.phase_s(self._phase, self._warm_up_s),
        )

    def _limit_reached(self) -> str:
        """In words, which limit the case has reached."""
        if self._clock() >= self._began_s + self._limits.case_s:
            return f"the case did not end within {self._limits.case_s:g} s"
        seconds = self._limits.phase_s(self._phase, self._warm_up_s)
        return f"{self._phase} did not end within {seconds:.3g} s"

    def _follow(self) -> None:
        """Note when the job, which is where its last rank is, enters another phase."""
        places = [PHASES.index(part.phase) for part in self._parts.values() if not part.ended]
        phase = PHASES[min(places, default=PHASES.index(self._phase))]
        if phase != self._phase:
            now = self._clock()
            if self._phase == "warm-up":
                self._warm_up_s = now - self._since_s
            self._phase, self._since_s = phase, now

    # Talking to ranks.

    def _tell(self, rank: int) -> None:
        job = {**self._job, "rank": rank, "local_rank": self._ranks[rank].local_rank}
        self._send(rank, {"type": "controller_run", "job": job})

    def _send(self, rank: int, message: Message) -> None:
        try:
            self._ranks[rank].connection.send(message)
        except WireError as error:
            self._lost(rank, error)

    def _ask(self) -> None:
        """What every child is at, before the end of one changes it for the others."""
        for rank, part in self._parts.items():
            if not part.ended:
                part.aborted = True  # what it says from now on is no cause
                self._send(rank, {"type": "controller_ask"})
        self._until(
            lambda: all(part.asked or part.ended for part in self._parts.values()),
            self._clock() + _ANSWER_S,
        )

    def _abort(self) -> None:
        for rank, part in self._parts.items():
            if not part.ended:
                part.aborted = True
                self._send(rank, {"type": "controller_abort"})
        self._until(self._all_ended, self._clock() + GRACE_S)
        for rank, part in self._parts.items():
            if not part.ended:
                self.broken = part.silent = True
                if part.host in self._own_hosts:
                    part.state = self._launched.state_of(self._ranks[rank].pid)

    # Hearing them.

    def _hear(self, rank: int) -> None:
        connection = self._ranks[rank].connection
        try:
            connection.read_some()
            while (message := connection.buffered()) is not None:
                self._handle(self._parts[rank], message)
        except WireError as error:
            self._lost(rank, error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._lost(rank, WireError(f"what it said makes no sense: {error!r}"))
        self._follow()

    def _handle(self, part: Part, message: Message) -> None:
        kind = message["type"]
        if kind == "rank_forked":
            part.child = int(message["pid"])
            if part.host in self._own_hosts:
                self._launched.watch(part.child)
        elif kind == "rank_rendezvous":
            part.phase = "rendezvous"
            part.listens = True
            self._job["port"] = message.get("port")
        elif kind == "rank_phase":
            if message["phase"] not in PHASES:
                raise ValueError(f"unknown phase {message['phase']!r}")
            part.phase = message["phase"]
        elif kind == "rank_done":
            part.record = dict(message["record"])
        elif kind == "rank_failed":
            part.collectives = message["failure"].get("collectives")
            part.step = message["failure"].get("step")
            self._failed(part, Failure.from_dict(message["failure"]))
        elif kind == "rank_stuck":
            part.asked = True
            part.state = message["state"]
            part.stacks = str(message["stacks"])
            part.step = message["step"]
            part.collectives = message["collectives"]
        elif kind == "rank_child_ended":
            part.ended = True
            part.step = message.get("step") if part.step is None else part.step
            if part.record is None and part.failure is None and not part.aborted:
                self._child_crashed(part, message)
        else:
            raise ValueError(f"unknown message {kind!r}")

    def _child_crashed(self, part: Part, message: Message) -> None:
        how = message["signal"] or f"exit code {message['exit_code']}"
        if message.get("out_of_memory"):
            words = "killed by the kernel for want of memory"
            self._crashed(part, words, str(message.get("output", "")), "out of memory")
        else:
            output = str(message.get("output", ""))
            self._crashed(part, f"the process ended with {how}{_thrown(output)}", output)

    def _lost(self, rank: int, error: WireError) -> None:
        """The rank itself is gone: its group is of no more use."""
        self.broken = True
        part = self._parts[rank]
        part.ended = part.lost = True
        if part.record is None and not part.aborted:
            self._crashed(part, f"the rank is gone ({error})", self._launched.output_tail())

    def _crashed(self, part: Part, message: str, output: str, outcome: str = "crashed") -> None:
        failure = Failure(
            phase=part.phase,
            message=message,
            type="Crash",
            outcome=outcome,
            rank=part.rank,
            host=part.host,
            step=part.failure_step,
            traceback=output,
        )
        self._failed(part, failure)

    def _failed(self, part: Part, failure: Failure) -> None:
        if part.failure is None and not part.aborted:
            part.failure = failure
            part.failed_at_s = self._clock()

    # Judging.

    def _any_failed(self) -> bool:
        return any(part.failure is not None for part in self._parts.values())

    def _all_ended(self) -> bool:
        return all(part.ended for part in self._parts.values())

    def _launcher_ended(self) -> Failure | None:
        """Where all ranks went at once, the launcher took them with it: that is the cause."""
        if not any(part.lost for part in self._parts.values()):
            return None
        others = [
            rank.connection
            for number, rank in self._ranks.items()
            if number not in self._parts or not self._parts[number].lost
        ]
        deadline = time.monotonic() + _LAUNCHER_S
        # An idle rank says nothing: what can be read is the end of its stream.
        while (problem := self._launched.problem()) is None or len(ready(others, 0)) < len(others):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
        return Failure(
            phase=self._phase,
            message=f"{problem}; its ranks are gone",
            type="Crash",
            outcome="crashed",
            traceback=self._launched.output_tail(),
        )

    def _hint(self) -> str:
        case = self._job.get("case", {})
        if case.get("backend") == "nccl" and case.get("device") == "cuda":
            return (
                ". If the GPUs cannot reach each other directly, NCCL_P2P_DISABLE=1 lets it run; "
                "NCCL_DEBUG=INFO says more"
            )
        if self._phase in ("rendezvous", "init") and "host" in self._job:
            return f" (meeting at {self._job['host']}:{self._job.get('port') or 'any port'})"
        return ""


def _thrown(output: str) -> str:
    """What C++ said of the exception that ended the process."""
    found = re.search(r"^\s*what\(\):\s*(.+)$", output, re.MULTILINE)
    return f": {found.group(1)}" if found else ""
