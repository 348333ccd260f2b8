"""Aligning the clocks of a job's ranks by the ends of its collectives.

No rank can leave an all-reduce before all have joined it, and all leave it within microseconds. So
the ends of one collective are one moment, whatever the clocks say: the median difference of a
rank's ends to the first rank's is the difference of their clocks, and what is left of the
differences bounds the error.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
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
    differences: list[list[int]] = [[] for _ in range(ranks)]
    for members, parts in groups:
        if 0 in members:
            first_ns = parts[members.index(0)].end_ns
            for position, part in zip(members, parts, strict=True):
                differences[position].append(part.end_ns - first_ns)
    if any(len(own) < FEWEST_COLLECTIVES for own in differences[1:]):
        return None
    offsets = (0, *(round(statistics.median(own)) for own in differences[1:]))
    error_ns = _ends_within_ns(
        [part.end_ns - offsets[position] for position, part in zip(members, parts, strict=True)]
        for members, parts in groups
    )
    usual_ns = statistics.median(max(part.duration_ns for part in parts) for _, parts in groups)
    if error_ns is None or error_ns > _LARGEST_ERROR * usual_ns:
        return None
    return Alignment(offsets, error_ns, len(groups))


def shifted(
    members: tuple[int, ...], parts: tuple[Collective, ...], alignment: Alignment
) -> tuple[Collective, ...]:
    """The parts on the first rank's clock."""
    return tuple(
        part.earlier(alignment.offsets_ns[position])
        for position, part in zip(members, parts, strict=True)
    )


def ends_within_ns(groups: Sequence[Group]) -> int | None:
    """The longest time between two ranks' ends of one collective; None without any."""
    return _ends_within_ns([part.end_ns for part in parts] for _, parts in groups)


def _ends_within_ns(ends_ns: Iterable[list[int]]) -> int | None:
    return max((max(ends) - min(ends) for ends in ends_ns), default=None)
