"""From a torch.profiler trace to communication figures of one rank.

`analyse` reads Chrome/Kineto JSON and keeps intervals in whole nanoseconds, no events. What counts:

- communication: NCCL, RCCL and MSCCL kernels on a GPU, `gloo:…` ranges on gloo's worker threads;
  the CPU ranges that hand a collective over (`c10d::allreduce_`, `nccl:all_reduce`) are not;
- compute: the other GPU kernels (copies and memory fills are neither), or, in a trace without GPU
  kernels, the operators on threads that do not serve gloo, less their `c10d::` parts;
- step: the `ProfilerStep#N` during which the work was launched, not the one during which it ran.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.classify import count_of
from bench.garbage import collector_paused
from bench.intervals import shifted, union
from bench.rank_trace import Collective, Phase, RankTrace, Step, StepFigures, StepWork, Totals
from bench.trace_events import Scan, base_time_ns
from bench.trace_json import TraceError, TraceFile
from bench.trace_steps import Placement

__all__ = [
    "Collective",
    "RankTrace",
    "Step",
    "StepFigures",
    "StepWork",
    "Totals",
    "TraceError",
    "analyse",
    "rank_in_name",
]

_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|r)[-_]?([0-9]{1,9})(?![0-9])", re.IGNORECASE)


def analyse(
    trace: str | Path | bytes | dict[str, Any] | list[Any],
    *,
    rank: int | None = None,
    name: str | None = None,
) -> RankTrace:
    """The figures of one rank's trace.

    `trace` is a path, the bytes of a file (gzip or not), or the parsed JSON: an object with
    `traceEvents`, or the bare list of events. The rank is the one given, else the file's
    `distributedInfo`, else a `rank3` or `r3` in the name; `name` is used in messages.
    Raises `TraceError` where the input is unreadable, cut, or no trace.
    """
    source = name or (str(trace) if isinstance(trace, str | Path) else "trace in memory")
    notes: list[str] = []
    scan = Scan()
    header: dict[str, Any]
    with collector_paused():
        if isinstance(trace, str | Path | bytes):
            file = TraceFile(trace, source, notes)
            scan.read(file.events())
            header = file.header
        else:
            header = trace if isinstance(trace, dict) else {}
            events = header.get("traceEvents") if isinstance(trace, dict) else trace
            if not isinstance(events, list):
                raise TraceError(f"{source}: not a profiler trace: it has no list of traceEvents")
            scan.read(events)
        base_ns = base_time_ns(header.get("baseTimeNanoseconds"))
        return _rank_trace(Placement(scan), header, source, rank, base_ns, notes)


def _rank_trace(
    placement: Placement,
    header: dict[str, Any],
    source: str,
    rank: int | None,
    base_ns: int | None,
    notes: list[str],
) -> RankTrace:
    info = header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    if rank is None:
        rank = _rank(header, info, source, alone=not placement.calls)
    world_size = count_of(info.get("world_size")) or None
    backend = info.get("backend")
    whole = placement.whole
    shift_ns = base_ns or 0
    notes = [*notes, *placement.notes]
    if not placement.calls and (world_size or 1) > 1:
        notes.append(
            f"no communication found, though the world size is {world_size}"
            + ("" if placement.on_gpu else ": neither gloo ranges nor GPU kernels in the trace")
        )
    return RankTrace(
        source=source,
        rank=rank,
        world_size=world_size,
        backend=backend if isinstance(backend, str) else None,
        base_ns=base_ns,
        device="gpu" if placement.on_gpu else "cpu",
        steps=tuple(
            Step(
                start_ns + shift_ns,
                end_ns + shift_ns,
                number,
                placement.step_ns(i),
                placement.from_ns(i) + shift_ns,
            )
            for i in whole
            for start_ns, end_ns, number in [placement.windows.kept[i]]
        ),
        dropped_steps=placement.dropped,
        collectives=_collectives(placement, shift_ns),
        work=_work(placement, shift_ns),
        notes=tuple(notes),
        phases=tuple(
            Phase(name, placement.number_of[i], start_ns + shift_ns, end_ns + shift_ns)
            for i in whole
            for start_ns, end_ns, name in placement.phases.get(i, ())
        ),
    )


def _collectives(placement: Placement, shift_ns: int) -> tuple[Collective, ...]:
    """All of them, in order of time; the placement's own list is used up, for it may be long."""
    found = []
    calls = placement.calls
    calls.reverse()
    while calls:
        index, start_ns, end_ns, message = calls.pop()
        found.append(
            Collective(
                kind=message.kind,
                start_ns=start_ns + shift_ns,
                end_ns=end_ns + shift_ns,
                step=placement.number_of.get(index),
                bytes=message.bytes,
                dtype=message.dtype,
                group=message.group,
                group_size=message.group_size,
            )
        )
    return tuple(found)


def _work(placement: Placement, shift_ns: int) -> tuple[StepWork, ...]:
    whole = set(placement.whole)
    outside = [i for i in (None, *range(len(placement.windows.kept))) if i not in whole]
    parts: list[tuple[int | None, list[int | None]]] = [(None, outside)]
    parts += [(placement.number_of[i], [i]) for i in placement.whole]
    return tuple(
        StepWork(
            step=number,
            kernels=sum(placement.kernels[i] for i in positions),
            compute=shifted(
                union(r for i in positions for r in placement.compute.get(i, ())), shift_ns
            ),
            memory=shifted(
                union(r for i in positions for r in placement.memory.get(i, ())), shift_ns
            ),
        )
        for number, positions in parts
    )


def _rank(header: dict[str, Any], info: dict[str, Any], source: str, alone: bool) -> int | None:
    rank = count_of(info.get("rank"))
    if rank is not None:
        return rank
    named = rank_in_name(source)
    if named is not None:
        return named
    # A job that never made a process group has no distributedInfo: it is the only rank.
    return 0 if header and not info and alone else None


def rank_in_name(source: str) -> int | None:
    """The rank that a file is named for: 3 of `rank3.json`, `rank-3.json.gz`, `normal_r3.json`."""
    named = _RANK_IN_NAME.search(Path(source).name)
    return int(named[1]) if named else None
