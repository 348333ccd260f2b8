"""One profiled step on all ranks, moment by moment: what the record keeps so that it can be drawn.

The step is the one of median length (of an even number the shorter of the middle two), where a
step is as long as on the rank on which it took longest. Times are seconds from the moment at which
the first rank began it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.rank_trace import Collective, RankTrace, Step, in_bucket_order
from bench.ranks import AcrossRanks

#: More is left out, and said: a record must stay small at any world size. Of more ranks those that
#: matter are kept, each with a word on why.
MOST_RANKS = 16
MOST_COLLECTIVES = 64


def timeline(traces: Sequence[RankTrace], across: AcrossRanks) -> dict[str, Any]:
    """The record `timeline`; `across` is what `match_collectives` says of the same traces.

    `ranks` is empty where nothing can be drawn, and `reason` says why. A collective's `wait_s` is
    None where it was not matched across ranks. A rank's `why` says for what it was chosen, where
    not all are there. `left_out` counts ranks, and collectives of a rank: the shortest.
    """
    if across.doubt is not None:
        return no_timeline(f"the ranks' times cannot be compared: {across.doubt}")
    number, lengths_ns = _median_step(traces, across.steps)
    if number is None:
        return no_timeline("no profiled step is whole and of known length on all ranks")
    steps = [_step(trace, number) for trace in traces]
    begun_ns = [
        _begun_ns(step) - offset_ns
        for step, offset_ns in zip(steps, across.offsets_ns, strict=True)
    ]
    shown = _shown(across, number)
    waits = {
        (position, part): wait_ns
        for item in across.collectives
        if item.step == number
        for position, part, wait_ns in zip(item.members, item.parts, item.wait_ns, strict=True)
        if position in shown
    }
    columns = [
        in_bucket_order([part for part in trace.collectives if part.step == number])
        for trace in traces
    ]
    kept = _longest(columns)
    first_ns = min(begun_ns)

    def of_rank(position: int) -> dict[str, Any]:
        trace, step, by_ns = traces[position], steps[position], across.offsets_ns[position]
        parts = [part.earlier(by_ns) for part in columns[position]]
        return {
            "rank": across.ranks[position],
            "why": shown[position],
            "start_s": _seconds(begun_ns[position] - first_ns),
            "end_s": _seconds(begun_ns[position] - first_ns + (step.step_ns or 0)),
            "phases": [
                {
                    "name": phase.name,
                    "start_s": _seconds(phase.start_ns - by_ns - first_ns),
                    "end_s": _seconds(phase.end_ns - by_ns - first_ns),
                }
                for phase in trace.phases
                if phase.step == number
            ],
            "collectives": [
                {
                    "kind": part.kind,
                    "bytes": part.bytes,
                    "start_s": _seconds(part.start_ns - first_ns),
                    "end_s": _seconds(part.end_ns - first_ns),
                    "wait_s": _seconds(waits.get((position, part))),
                }
                for place, part in enumerate(parts)
                if place in kept[position]
            ],
        }

    return {
        "step": number,
        "steps": len(lengths_ns),
        "step_s": _seconds(lengths_ns[number]),
        "aligned": across.aligned,
        "ends_within_s": _seconds(across.ends_within_ns),
        "left_out": {
            "ranks": len(traces) - len(shown),
            "collectives": max(
                (len(column) - len(places) for column, places in zip(columns, kept, strict=True)),
                default=0,
            ),
        },
        "ranks": [of_rank(position) for position in shown],
        "reason": None,
    }


def no_timeline(reason: str) -> dict[str, Any]:
    """The record `timeline` where there is nothing to draw."""
    return {"ranks": [], "reason": reason}


def _median_step(
    traces: Sequence[RankTrace], common: Sequence[int]
) -> tuple[int | None, dict[int, int]]:
    """(the step, the length of every step that all ranks know, nanoseconds)"""
    lengths_ns: dict[int, int] = {}
    for number in common:
        own = [_step(trace, number).step_ns for trace in traces]
        known = [length for length in own if length is not None]
        if len(known) == len(own):
            lengths_ns[number] = max(known)
    if not lengths_ns:
        return None, {}
    median = statistics.median_low(lengths_ns.values())
    return next(number for number, length in lengths_ns.items() if length == median), lengths_ns


def _step(trace: RankTrace, number: int) -> Step:
    return next(step for step in trace.steps if step.number == number)


def _begun_ns(step: Step) -> int:
    return step.start_ns if step.from_ns is None else step.from_ns


def _longest(columns: Sequence[Sequence[Collective]]) -> list[set[int]]:
    """Which collectives of each rank are kept, by place: on all ranks the same where they have as
    many, those that last longest on some rank."""
    if len({len(column) for column in columns}) == 1:
        longest_ns = [max(part.duration_ns for part in same) for same in zip(*columns, strict=True)]
        return [_largest(longest_ns)] * len(columns)
    return [_largest([part.duration_ns for part in column]) for column in columns]


def _largest(values: Sequence[int]) -> set[int]:
    by_size = sorted(range(len(values)), key=lambda place: -values[place])
    return set(by_size[:MOST_COLLECTIVES])


def _shown(across: AcrossRanks, number: int) -> dict[int, str | None]:
    """Positions and, where they are chosen from many, why: by how long they wait in the step."""
    every = range(len(across.ranks))
    if len(every) <= MOST_RANKS:
        return dict.fromkeys(every)
    waits_ns = [0] * len(every)
    for item in across.collectives:
        if item.step == number:
            for position, wait_ns in zip(item.members, item.wait_ns, strict=True):
                waits_ns[position] += wait_ns
    if not any(waits_ns):
        return dict.fromkeys(every[:MOST_RANKS], "one of the first")
    in_order = sorted(every, key=lambda position: waits_ns[position])
    chosen = [
        (0, "the first rank"),
        (in_order[0], "waits least"),
        (in_order[len(every) // 2], "waits as long as most"),
        (in_order[-1], "waits longest"),
    ]
    waited_for = across.waited_for()
    if waited_for is not None:
        chosen.append((across.ranks.index(waited_for[0]), "the one waited for"))
    why: dict[int, str | None] = {}
    for position, reason in sorted(chosen, key=lambda one: one[0]):
        why[position] = f"{why[position]}, {reason}" if position in why else reason
    return why


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9
