"""What running a case gave: a LaunchResult per launch, or a Failure.

The nested records (ranks, phases, communication, checks) are plain JSON objects: they are written
by the worker, which may run under another interpreter, and only read here.
"""

from __future__ import annotations

import dataclasses
import socket
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
VERSION = "0.1.0"

#: The phases of a job's life, in order. A failure names one of them.
PHASES = (
    "launch",
    "rendezvous",
    "init",
    "build",
    "wrap",
    "warm-up",
    "timed",
    "check",
    "profiled",
    "no-communication",
    "checkpoint",
    "teardown",
)

#: Those in which there are steps, so that a failure may name one.
STEPPING = ("warm-up", "timed", "profiled", "no-communication")

#: Step times of every rank are kept up to this many numbers a launch; above it the slowest rank's
#: times, and every rank's median, remain.
MOST_STEP_TIMES = 20_000


#: Types of failures that are no exception of a rank's: the sentence needs no such word.
OUR_TYPES = ("Error", "Crash", "TimeOut", "LaunchError")


@dataclass(frozen=True)
class Failure:
    """Why a case has no number: the rank that caused it, where, and in which words."""

    phase: str
    message: str
    type: str = "Error"
    outcome: str = "failed"  # failed, crashed, timed out, out of memory
    rank: int | None = None
    host: str | None = None
    step: int | None = None
    traceback: str = ""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Failure:
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in fields.items() if name in known})

    def sentence(self, case_id: str, rerun: str = "") -> str:
        """One line: which rank (and host, where it is another), phase and step of which case, why,
        and what to do next."""
        who = f"rank {self.rank}" if self.rank is not None else "the job"
        if self.rank is not None and self.host not in (None, socket.gethostname()):
            who += f" on {self.host}"
        if self.outcome == "out of memory":
            who += " ran"
        where = f"{self.phase} step {self.step}" if self.step is not None else self.phase
        first_line = (self.message.strip().splitlines() or ["no message"])[0]
        cause = first_line if self.type in OUR_TYPES else f"{self.type}: {first_line}"
        line = f"{who} {self.outcome} in {where} of {case_id}: {cause}"
        return f"{line}; rerun it with {rerun}" if rerun else line


@dataclass(frozen=True)
class LaunchResult:
    """One case measured in one launch: what the ranks sent, gathered.

    ``step_s``: the slowest rank's time of every timed step, in seconds; ``fields``: the rest of
    the record, as JSON.
    """

    launch: int
    step_s: tuple[float, ...]
    fields: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"launch": self.launch, "step_s": list(self.step_s), "fields": self.fields}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> LaunchResult:
        return cls(fields["launch"], tuple(fields["step_s"]), fields["fields"])


def slowest_rank_step_s(step_s_of_ranks: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """For every step the longest time over ranks, seconds. Ranks are never pooled.

    Raises ValueError when the ranks did not run the same number of steps.
    """
    counts = {len(times) for times in step_s_of_ranks}
    if len(counts) != 1:
        raise ValueError(f"ranks ran different numbers of steps: {sorted(counts)}")
    return tuple(max(times) for times in zip(*step_s_of_ranks, strict=True))


def slowest_rank(step_s_of_ranks: Sequence[Sequence[float]]) -> list[int]:
    """For every step which rank took longest; of equals the first."""
    return [times.index(max(times)) for times in zip(*step_s_of_ranks, strict=True)]


def gather(launch: int, started_unix_s: float, ranks: Sequence[dict[str, Any]]) -> LaunchResult:
    """The ranks' own records, in rank order, as one LaunchResult."""
    step_s_of_ranks = [rank.pop("timed_step_s") for rank in ranks]
    slowest = slowest_rank_step_s(step_s_of_ranks)
    shared = ranks[0].pop("job")
    for rank in ranks[1:]:
        rank.pop("job", None)
    keep = sum(map(len, step_s_of_ranks)) <= MOST_STEP_TIMES
    for rank, times in zip(ranks, step_s_of_ranks, strict=True):
        rank["median_step_s"] = statistics.median(times)
        rank["step_s"] = list(times) if keep else None
    return LaunchResult(
        launch,
        slowest,
        {
            "launch": launch,
            "started_unix_s": started_unix_s,
            "median_step_s": statistics.median(slowest),
            "steps": len(slowest),
            "slowest_rank": slowest_rank(step_s_of_ranks) if keep else None,
            "children": [_child(started_unix_s, slowest, ranks)],
            **shared,
            "ranks": list(ranks),
        },
    )


def _child(
    started_unix_s: float, step_s: Sequence[float], ranks: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """What is known of every child of a launch, each the maximum over ranks; None where not every
    rank has said it."""

    def most(*path: str) -> float | None:
        found = [_inside(rank, *path) for rank in ranks]
        known = [value for value in found if value is not None]
        return max(known) if len(known) == len(found) else None

    return {
        "started_unix_s": started_unix_s,
        "median_step_s": statistics.median(step_s),
        "steps": len(step_s),
        "first_step_s": most("first_step_s"),
        "init_s": most("lifecycle", "init_s"),
        "peak_bytes": most("memory", "peak_bytes"),
    }


def _inside(record: Any, *path: str) -> float | None:
    for name in path:
        record = (record or {}).get(name)
    return None if record is None else float(record)


def of_children(children: Sequence[LaunchResult]) -> LaunchResult:
    """One case in one launch, measured in several children one after another.

    The launch's value is the median over children of their median steps. Everything that only one
    child can tell (ranks, phases, communication, memory) is the first one's, which alone runs all
    passes; ``step_s`` holds the steps of all, in the order in which they ran.
    """
    first = children[0]
    if len(children) == 1:
        return first
    reached = [_inside(child.fields, "precision_reached") for child in children]
    known = [value for value in reached if value is not None]
    fields = {
        **first.fields,
        "median_step_s": statistics.median(child.fields["median_step_s"] for child in children),
        "steps": sum(len(child.step_s) for child in children),
        "children": [about for child in children for about in child.fields["children"]],
        "precision_reached": max(known) if len(known) == len(reached) else None,
        "reached_precision": all(child.fields.get("reached_precision") for child in children),
    }
    return LaunchResult(first.launch, tuple(s for child in children for s in child.step_s), fields)
