"""Aligning the clocks of a job's ranks by the ends of its collectives.

No rank can leave an all-reduce before all have joined it, and all leave it within microseconds. So
the ends of one collective are one moment, whatever the clocks say: the median difference of a
rank's ends to the first rank's is the difference of their clocks, and what is left of the
differences bounds the error.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.rank_trace import Collective

#: The positions of the ranks that took part in a collective, and their parts of it.
Group = tuple[tuple[int, ...], tuple[Collective, ...]]
#: One collective would always agree with itself.
FEWEST_COLLECTIVES = 3
#: An error beyond this share of a collective's own time would make up transfer and waiting.
_LARGEST_ERROR = 0.25


@dataclass(frozen=True)
class Alignment:
    """`offsets_ns`, by position: what a rank's clock is ahead of the first one's. After taking it
    off, the ends of `collectives` collectives agree within `error_ns`."""

    offsets_ns: tuple[int, ...]
    error_ns: int
    collectives: int


def by_ends(groups: Sequence[Group], ranks: int) -> Alignment | None:
    """The alignment of clocks by synchronising collectives; None where there are too few, or where
    the ends agree too badly to tell transfer from waiting (clocks that drift, kinds that do not
    synchronise)."""
    offsets = [0]
    for position in range(1, ranks):
        differences = [
            parts[members.index(position)].end_ns - parts[members.index(0)].end_ns
            for members, parts in groups
            if position in members and 0 in members
        ]
        if len(differences) < FEWEST_COLLECTIVES:
            return None
        offsets.append(round(statistics.median(differences)))
    found = Alignment(tuple(offsets), 0, len(groups))
    aligned = [(members, shifted(members, parts, found)) for members, parts in groups]
    error_ns = ends_within_ns(aligned)
    usual_ns = statistics.median(max(part.duration_ns for part in parts) for _, parts in groups)
    if error_ns is None or error_ns > _LARGEST_ERROR * usual_ns:
        return None
    return dataclasses.replace(found, error_ns=error_ns)


def shifted(
    members: tuple[int, ...], parts: tuple[Collective, ...], alignment: Alignment
) -> tuple[Collective, ...]:
    """The parts on the first rank's clock."""
    moved = []
    for position, part in zip(members, parts, strict=True):
        by_ns = alignment.offsets_ns[position]
        moved.append(
            dataclasses.replace(part, start_ns=part.start_ns - by_ns, end_ns=part.end_ns - by_ns)
        )
    return tuple(moved)


def ends_within_ns(groups: Sequence[Group]) -> int | None:
    """The longest time between two ranks' ends of one collective; None without any."""
    spreads = [
        max(part.end_ns for part in parts) - min(part.end_ns for part in parts)
        for _, parts in groups
    ]
    return max(spreads) if spreads else None
