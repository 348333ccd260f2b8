"""What the traces of several ranks of one job say together, as plain records in seconds.

A rank that comes early to a collective waits in it; see `bench.ranks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.rank_trace import Collective, RankTrace
from bench.ranks import AcrossRanks, match_collectives
from reports.trace_figures import MOST_STEPS

#: Collectives of all ranks together that are matched at most, and of one rank at least.
MOST_COLLECTIVES = 100_000
LEAST_OF_A_RANK = 1000
#: One rank sends to one other: nobody else takes part, so there is nothing to match.
_PAIRS = "send_recv"


@dataclass(frozen=True, slots=True)
class AcrossStep:
    """Time of transfer in one step, and of waiting by position of the rank."""

    step: int
    transfer_s: float
    wait_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AcrossKind:
    """The matched collectives of one kind: sums over all of them, one by one.

    `duration_s` and `wait_s` are by position of the rank; None where a rank has no part in any.
    """

    collectives: int
    transfer_s: float
    duration_s: tuple[float | None, ...]
    wait_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Slowest:
    """The rank the others waited for longest.

    `share` of all waiting that is put down to some rank is put down to it. It was the last to join
    in `last_in` of the `of` collectives that one rank joined last.
    """

    position: int
    share: float
    last_in: int
    of: int


@dataclass(frozen=True)
class AcrossFigures:
    """Matched collectives of a job. Positions are those of the files that could be read.

    `estimate` says that the clocks could not be compared; `clock_error_s` is the least by which
    they disagree, None where nothing tells. `aligned` says that clocks that differ were aligned by
    the ends of collectives; within `ends_within_s` the ranks' ends of one collective agree, and by
    no more do transfer and waiting err. `transfer_s` and `wait_s` are means per step, None
    without steps. `last_in` counts, by position, the collectives that the rank joined last.
    `steps` are the first of `matched_steps`.
    """

    labels: tuple[str, ...]
    collectives: int
    matched_steps: int
    estimate: bool
    clock_error_s: float | None
    aligned: bool
    ends_within_s: float | None
    transfer_s: float | None
    wait_s: tuple[float | None, ...]
    last_in: tuple[int, ...]
    slowest: Slowest | None
    kinds: Mapping[str, AcrossKind]
    steps: tuple[AcrossStep, ...]
    calls: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def for_matching(trace: RankTrace, most: int) -> RankTrace:
    """The trace without its work, and with its first collectives only: those of the first whole
    steps, at least one step; without steps, as many of every kind and group."""
    calls = [collective for collective in trace.collectives if collective.kind != _PAIRS]
    steps = trace.steps
    if len(calls) > most:
        if steps:
            steps = steps[: _steps_within(trace, calls, most)]
            numbers = {step.number for step in steps}
            calls = [collective for collective in calls if collective.step in numbers]
        else:
            calls = _first_of_each(calls, most)
    notes: tuple[str, ...] = ()
    pairs = sum(collective.kind == _PAIRS for collective in trace.collectives)
    if pairs:
        notes += (f"{_PAIRS} is between two ranks: such calls are not matched",)
    if len(steps) < len(trace.steps):
        notes += (f"matched: {len(steps)} of {len(trace.steps)} steps, the first ones",)
    elif len(calls) + pairs < len(trace.collectives):
        notes += ("matched: only the first collectives of each kind",)
    return replace(trace, collectives=tuple(calls), steps=steps, work=(), notes=notes)


def _steps_within(trace: RankTrace, calls: Sequence[Collective], most: int) -> int:
    of_step = Counter(collective.step for collective in calls)
    total = 0
    for count, step in enumerate(trace.steps):
        total += of_step[step.number]
        if count and total > most:
            return count
    return len(trace.steps)


def _first_of_each(calls: Sequence[Collective], most: int) -> list[Collective]:
    share = max(1, most // len({(call.kind, call.group) for call in calls}))
    seen: Counter[tuple[str, str | None]] = Counter()
    kept = []
    for call in calls:
        seen[call.kind, call.group] += 1
        if seen[call.kind, call.group] <= share:
            kept.append(call)
    return kept


def across_figures(
    traces: Sequence[RankTrace], labels: Sequence[str], same_clock: bool
) -> AcrossFigures:
    """The figures of at least two traces of `for_matching`, named by `labels`."""
    # By position: two files may name the same rank, and some may name none.
    positions = [replace(trace, rank=position) for position, trace in enumerate(traces)]
    across = match_collectives(positions, same_clock)
    record = across.to_json(None)
    steps = across.per_step(None)
    last = Counter(item.last for item in across.collectives if item.last is not None)
    waited_for = across.waited_for(None)
    notes = list(dict.fromkeys(note for trace in traces for note in trace.notes))
    return AcrossFigures(
        labels=tuple(labels),
        collectives=len(across.collectives),
        matched_steps=len(across.steps) if across.collectives else 0,
        estimate=across.estimate,
        clock_error_s=None if across.skew_ns is None else across.skew_ns / 1e9,
        aligned=across.aligned,
        ends_within_s=record["ends_within_s"],
        transfer_s=record["transfer_s"],
        wait_s=tuple(record["wait_s"]),
        last_in=tuple(last[position] for position in range(len(traces))),
        slowest=None
        if waited_for is None
        else Slowest(*waited_for, last_in=last[waited_for[0]], of=sum(last.values())),
        kinds={
            kind: _of_kind(across, kind)
            for kind in sorted({item.kind for item in across.collectives})
        },
        steps=tuple(
            AcrossStep(step, transfer_ns / 1e9, tuple(wait_ns / 1e9 for wait_ns in waits_ns))
            for step, (transfer_ns, waits_ns) in zip(across.steps, steps[:MOST_STEPS], strict=False)
        )
        if across.collectives
        else (),
        calls=tuple(record["calls"]),
        notes=(*notes, *across.notes, *_doubts(traces)),
    )


def _of_kind(across: AcrossRanks, kind: str) -> AcrossKind:
    durations: Counter[int] = Counter()
    waits: Counter[int] = Counter()
    matched = across.of_kind(kind)
    for item in matched:
        for position, part, wait_ns in zip(item.members, item.parts, item.wait_ns, strict=True):
            durations[position] += part.duration_ns
            waits[position] += wait_ns
    return AcrossKind(
        collectives=len(matched),
        transfer_s=across.transfer_ns(kind) / 1e9,
        duration_s=_by_position(durations, len(across.ranks)),
        wait_s=_by_position(waits, len(across.ranks)),
    )


def _by_position(nanoseconds: Counter[int], ranks: int) -> tuple[float | None, ...]:
    return tuple(
        nanoseconds[position] / 1e9 if position in nanoseconds else None
        for position in range(ranks)
    )


def _doubts(traces: Sequence[RankTrace]) -> list[str]:
    """What speaks against the files being all ranks of one job."""
    sizes = sorted({trace.world_size for trace in traces if trace.world_size is not None})
    if len(sizes) > 1:
        return [f"the files state different world sizes ({', '.join(map(str, sizes))}): one job?"]
    if sizes and sizes[0] < len(traces):
        return [f"{len(traces)} files, though the world size is {sizes[0]}: one job?"]
    if sizes and sizes[0] > len(traces):
        return [
            f"{len(traces)} of {sizes[0]} ranks are here: the last to join may be another one, "
            "and then the transfer holds waiting for it"
        ]
    return []
