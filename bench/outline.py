"""What matching needs of a rank's trace, small enough to be sent by each of a thousand ranks.

Collectives and phases go as columns; times count from the rank's first step, and a column whose
values are all the same goes as that value alone.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.rank_trace import Collective, Phase, RankTrace, Step

#: At most this many collectives of a rank, and of all ranks together, are matched across ranks.
MOST_OF_A_RANK = 2_000
MOST_OF_ALL = 150_000

_EVERY = "every"


def most_collectives(ranks: int) -> int:
    """How many collectives each of so many ranks may send."""
    return min(MOST_OF_A_RANK, MOST_OF_ALL // max(1, ranks))


def outline(trace: RankTrace, most: int) -> dict[str, Any]:
    """The trace's first steps, whole, up to so many collectives, as JSON. ``too_many``: where not
    even the first has so few, how many it has."""
    in_step = Counter(item.step for item in trace.collectives)
    steps: list[Step] = []
    left = most
    for step in trace.steps:
        left -= in_step[step.number]
        if left < 0:
            break
        steps.append(step)
    kept = {step.number for step in steps}
    zero_ns = steps[0].start_ns if steps else 0
    first = trace.steps[0].number if trace.steps else None
    return {
        "rank": trace.rank,
        "world_size": trace.world_size,
        "base_ns": trace.base_ns,
        "zero_ns": zero_ns,
        "steps": _columns(steps, Step, zero_ns),
        "collectives": _columns(
            [item for item in trace.collectives if item.step in kept], Collective, zero_ns
        ),
        "phases": _columns([item for item in trace.phases if item.step in kept], Phase, zero_ns),
        "too_many": None if steps else in_step[first] or None,
    }


def from_outline(fields: dict[str, Any]) -> RankTrace:
    """The trace that `match_collectives` takes, from an outline."""
    zero_ns = fields["zero_ns"]
    return RankTrace(
        source=f"rank {fields['rank']}",
        rank=fields["rank"],
        world_size=fields["world_size"],
        backend=None,
        base_ns=fields["base_ns"],
        device="",
        steps=tuple(_items(fields["steps"], Step, zero_ns)),
        dropped_steps=0,
        collectives=tuple(_items(fields["collectives"], Collective, zero_ns)),
        work=(),
        notes=(),
        phases=tuple(_items(fields["phases"], Phase, zero_ns)),
    )


def _columns(items: Sequence[Any], kind: type, zero_ns: int) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        values = [getattr(item, field.name) for item in items]
        if _is_moment(field.name):
            values = [None if value is None else value - zero_ns for value in values]
        same = len(values) > 1 and all(value == values[0] for value in values)
        columns[field.name] = {_EVERY: values[0], "count": len(values)} if same else values
    return columns


def _items(columns: dict[str, Any], kind: Any, zero_ns: int) -> list[Any]:
    whole = []
    for field in dataclasses.fields(kind):
        values = columns[field.name]
        if isinstance(values, dict):
            values = [values[_EVERY]] * int(values["count"])
        if _is_moment(field.name):
            values = [None if value is None else value + zero_ns for value in values]
        whole.append(values)
    return [kind(*values) for values in zip(*whole, strict=True)]


def _is_moment(name: str) -> bool:
    return name in ("start_ns", "end_ns", "from_ns")
