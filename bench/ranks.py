"""Collectives matched across the ranks of a job: how long data moved, how long a rank waited.

A collective cannot end on any rank before the last rank has joined it. So a rank that comes early
spends the difference waiting, though its trace shows one long collective:

- transfer of one collective = its last end - its last start, over ranks;
- a rank's wait = its own duration - transfer, not below 0.

That needs one clock for all ranks. Clocks that differ are aligned by the ends of collectives
(bench/clocks.py). Where that cannot be done, the transfer is estimated by the shortest duration
over ranks, which is that of the rank that came last.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench import clocks
from bench.bandwidth import busbw_bytes_per_s
from bench.intervals import Range, subtraction, total_ns, union
from bench.rank_trace import Collective, RankTrace

# A rank that leaves a collective this long before another joins it has another clock.
LARGEST_SKEW_NS = 1_000_000
# Kinds that no rank can leave before every rank has joined. (The root of a broadcast can.)
_SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")

_Key = tuple[object, ...]


@dataclass(frozen=True)
class MatchedCollective:
    """One collective on several ranks.

    `members` are positions in `AcrossRanks.ranks`; `parts` the collective on each of them, in that
    order. `last` is the position of the rank that started last (by an estimate: that took the
    shortest time); None if two did.
    """

    kind: str
    step: int | None
    members: tuple[int, ...]
    parts: tuple[Collective, ...]
    transfer_ns: int
    last: int | None

    @functools.cached_property
    def wait_ns(self) -> tuple[int, ...]:
        """How long each member waited for the others, in the order of `members`."""
        return tuple(max(0, part.end_ns - part.start_ns - self.transfer_ns) for part in self.parts)


@dataclass(frozen=True)
class AcrossRanks:
    """What the collectives of a job cost, seen from all its ranks.

    `ranks` are in the order given: the rank's number, or its position where no file names it.
    `steps` are the steps that all ranks have; empty where traces have none, and then the
    collectives of the whole files are matched. `skew_ns` is the longest time by which a rank seems
    to have left a synchronising collective before another joined (0: never), so a lower bound of
    the clocks' error. `ends_within_ns` is the longest time between two ranks' ends of one
    synchronising collective: clocks and the spread of the ends together err by no more. `aligned`
    says that the clocks were aligned by those ends, `estimate` that they could not be compared, and
    `doubt` why. `offsets_ns`, by position: what a rank's clock was found ahead of the first one's.
    """

    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    collectives: tuple[MatchedCollective, ...]
    estimate: bool
    skew_ns: int | None
    notes: tuple[str, ...]
    aligned: bool = False
    ends_within_ns: int | None = None
    #: Of the job, where a trace tells it.
    world_size: int | None = None
    doubt: str | None = None
    offsets_ns: tuple[int, ...] = ()

    def of_kind(self, kind: str | None) -> tuple[MatchedCollective, ...]:
        """The matched collectives of one kind (None: all)."""
        return tuple(item for item in self.collectives if kind is None or item.kind == kind)

    def transfer_ns(self, kind: str | None = None) -> int:
        """The sum of the transfers, one by one; those that overlap count each."""
        return sum(item.transfer_ns for item in self.of_kind(kind))

    def per_step(self, kind: str | None = None) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """For every step the time of transfer and each rank's time of waiting, nanoseconds.

        Collectives that overlap in time count once, and time in which one collective waits while
        another moves data is transfer. Where nothing overlaps these are plain sums.
        """
        of_step: dict[int | None, list[MatchedCollective]] = defaultdict(list)
        for item in self.of_kind(kind):
            of_step[item.step].append(item)
        return tuple(self._step(of_step[step]) for step in self.steps)

    def waited_for(self, kind: str | None = None) -> tuple[int, float] | None:
        """The rank the others waited for longest, and its share of all time spent waiting.

        A collective's waits are put down to the rank that started it last. By time and not by
        count: of four collectives in a row only the first may wait for a slow rank, and who is
        last by a microsecond in the others says nothing. None where nobody waited for one rank.
        """
        caused_ns: Counter[int] = Counter()
        for item in self.of_kind(kind):
            if item.last is not None:
                caused_ns[item.last] += sum(item.wait_ns)
        total = sum(caused_ns.values())
        if not total:
            return None
        rank = min(caused_ns, key=lambda position: (-caused_ns[position], position))
        return self.ranks[rank], caused_ns[rank] / total

    def to_json(self, kind: str | None = "all_reduce") -> dict[str, Any]:
        """The record `across_ranks`: means per step, in seconds.

        Times are None where there are no steps or no collective of this kind was matched.
        """
        matched = self.of_kind(kind)
        steps = self.per_step(kind) if matched else ()
        waited_for = self.waited_for(kind)
        count = len(steps)
        return {
            "collectives": len(matched),
            "transfer_s": sum(transfer for transfer, _ in steps) / count / 1e9 if count else None,
            "wait_s": [
                sum(waits[position] for _, waits in steps) / count / 1e9 if count else None
                for position in range(len(self.ranks))
            ],
            "waited_for": waited_for[0] if waited_for else None,
            "waited_for_share": waited_for[1] if waited_for else None,
            "calls": self._calls(kind),
            "estimate": self.estimate,
            "aligned": self.aligned,
            "ends_within_s": None if self.ends_within_ns is None else self.ends_within_ns / 1e9,
            "note": "; ".join(self.notes) or None,
        }

    def _calls(self, kind: str | None) -> list[dict[str, Any]]:
        """The collectives of a step one by one, in order: mean transfer over the steps and its bus
        bandwidth. Empty where the steps do not have the same ones."""
        of_step: dict[int | None, list[MatchedCollective]] = defaultdict(list)
        for item in self.of_kind(kind):
            of_step[item.step].append(item)
        columns = [of_step[step] for step in self.steps]
        if not columns or len({len(column) for column in columns}) != 1:
            return []
        found = []
        for same in zip(*columns, strict=True):
            first = same[0]
            if len({(item.kind, item.parts[0].bytes) for item in same}) != 1:
                return []
            transfer_s = sum(item.transfer_ns for item in same) / len(same) / 1e9
            size = first.parts[0].bytes
            found.append(
                {
                    "kind": first.kind,
                    "bytes": size,
                    "transfer_s": transfer_s,
                    "busbw_bytes_per_s": busbw_bytes_per_s(
                        first.kind, size, transfer_s, self._ranks_of(first)
                    ),
                }
            )
        return found

    def _ranks_of(self, item: MatchedCollective) -> int:
        """How many ranks took part: traces of some of them do not make the job smaller."""
        size = item.parts[0].group_size
        if size is None and len(item.members) == len(self.ranks):
            size = self.world_size
        return size or len(item.members)

    def _step(self, matched: Sequence[MatchedCollective]) -> tuple[int, tuple[int, ...]]:
        moving_of: list[list[Range]] = [[] for _ in self.ranks]
        waiting_of: list[list[Range]] = [[] for _ in self.ranks]
        for item in matched:
            last_end_ns = max(part.end_ns for part in item.parts)
            for position, part, wait_ns in zip(item.members, item.parts, item.wait_ns, strict=True):
                # Without a common clock each rank's own end is the only one to go by.
                end_ns = part.end_ns if self.estimate else last_end_ns
                moving_of[position].append((end_ns - item.transfer_ns, end_ns))
                waiting_of[position].append((part.start_ns, part.start_ns + wait_ns))
        moving = [union(ranges) for ranges in moving_of]
        waits = tuple(
            total_ns(subtraction(union(waiting_of[position]), moving[position]))
            for position in range(len(self.ranks))
        )
        if not self.estimate:
            return total_ns(union(r for ranges in moving_of for r in ranges)), waits
        return min((total_ns(ranges) for ranges in moving if ranges), default=0), waits


def match_collectives(ranks: Sequence[RankTrace], same_clock: bool) -> AcrossRanks:
    """Match the collectives of one job's ranks by group, kind and order within a step.

    `same_clock` says that the ranks' times can be compared (one host, or synchronised hosts). It is
    checked: if ranks seem to have left a collective before others joined it by more than
    `LARGEST_SKEW_NS`, the result is an estimate all the same. Collectives that not every rank
    shows alike are left out with a note.
    """
    notes: list[str] = []
    steps = _common_steps(ranks, notes)
    groups, unmatched = _matches(ranks, steps)
    if unmatched:
        notes.append(f"collectives that the ranks do not show alike, left out: {unmatched}")
    skew_ns = _skew_ns(parts for _, parts in groups) if groups else None
    doubt = _doubt(ranks, same_clock, skew_ns)
    alignment = clocks.by_ends(_synchronising(groups), len(ranks)) if doubt is not None else None
    if alignment is not None:
        groups = [(members, clocks.shifted(members, parts, alignment)) for members, parts in groups]
        notes.append(
            f"{doubt}; aligned by the ends of {alignment.collectives} collectives, which then "
            f"agree within {alignment.error_ns / 1e3:.1f} us"
        )
        skew_ns, doubt = _skew_ns(parts for _, parts in groups), None
    estimate = doubt is not None
    if groups and estimate:
        notes.append(f"transfer is estimated by the shortest duration over ranks: {doubt}")
    if not groups:
        notes.append("no collective found on two ranks or more")
    return AcrossRanks(
        ranks=tuple(
            position if trace.rank is None else trace.rank for position, trace in enumerate(ranks)
        ),
        steps=steps,
        collectives=tuple(
            _matched(members, parts, estimate)
            for members, parts in sorted(groups, key=lambda group: group[1][0].start_ns)
        ),
        estimate=estimate,
        skew_ns=skew_ns,
        notes=tuple(notes),
        aligned=alignment is not None,
        ends_within_ns=None if estimate else clocks.ends_within_ns(_synchronising(groups)),
        world_size=max((trace.world_size or 0 for trace in ranks), default=0) or None,
        doubt=doubt,
        offsets_ns=(0,) * len(ranks) if alignment is None else alignment.offsets_ns,
    )


def _doubt(ranks: Sequence[RankTrace], same_clock: bool, skew_ns: int | None) -> str | None:
    """Why the ranks' times cannot be compared; None where they can."""
    if not same_clock:
        return "the ranks have different clocks"
    if skew_ns is None and len({trace.base_ns for trace in ranks}) > 1:
        return "the traces have different time bases and nothing to check them by"
    if skew_ns is not None and skew_ns > LARGEST_SKEW_NS:
        return f"a rank seems to leave a collective {skew_ns / 1e6:.3f} ms before another joins it"
    return None


def _matched(
    members: tuple[int, ...], parts: tuple[Collective, ...], estimate: bool
) -> MatchedCollective:
    # Joining last is starting last or, without a common clock, staying for the shortest time.
    if estimate:
        lateness = [-part.duration_ns for part in parts]
        transfer_ns = min(part.duration_ns for part in parts)
    else:
        lateness = [part.start_ns for part in parts]
        transfer_ns = max(part.end_ns for part in parts) - max(lateness)
    latest = max(lateness)
    alone = lateness.count(latest) == 1
    return MatchedCollective(
        kind=parts[0].kind,
        step=parts[0].step,
        members=members,
        parts=parts,
        transfer_ns=transfer_ns,
        last=members[lateness.index(latest)] if alone else None,
    )


def _common_steps(ranks: Sequence[RankTrace], notes: list[str]) -> tuple[int, ...]:
    if not ranks:
        return ()
    numbers = [{step.number for step in trace.steps} for trace in ranks]
    common = set.intersection(*numbers)
    every = set.union(*numbers)
    if every and len(common) < len(every):
        notes.append(f"steps that only some ranks have, left out: {len(every) - len(common)}")
    if not every:
        notes.append("no steps in the traces: collectives matched by their order in the files")
    return tuple(sorted(common))


def _matches(
    ranks: Sequence[RankTrace], steps: tuple[int, ...]
) -> tuple[list[tuple[tuple[int, ...], tuple[Collective, ...]]], int]:
    """The parts of every matched collective with the positions of their ranks; how many are not."""
    have_steps = any(trace.steps for trace in ranks)
    chosen = set(steps)
    of_key: dict[_Key, dict[int, list[Collective]]] = defaultdict(lambda: defaultdict(list))
    for position, trace in enumerate(ranks):
        for collective in trace.collectives:
            if not have_steps or collective.step in chosen:
                key = (collective.step, collective.group, collective.kind)
                of_key[key][position].append(collective)
    groups: list[tuple[tuple[int, ...], tuple[Collective, ...]]] = []
    unmatched = 0
    for by_rank in of_key.values():
        members = tuple(by_rank)
        columns = _in_common_order(list(by_rank.values()))
        if len(members) < _least_members(columns, len(ranks)) or not _alike(columns):
            unmatched += max(len(column) for column in columns)
        else:
            groups += [(members, parts) for parts in zip(*columns, strict=True)]
    return groups, unmatched


def _least_members(columns: list[list[Collective]], ranks: int) -> int:
    """How many of the ranks must show a collective: all, unless it is known to be of a subgroup."""
    first = columns[0][0]
    if first.group is None or first.group_size is None or first.group_size >= ranks:
        return max(2, ranks)
    return 2


def _alike(columns: list[list[Collective]]) -> bool:
    """Whether the ranks show the same collectives: as many and, of all-reduces, equally large."""
    if len({len(column) for column in columns}) > 1:
        return False
    return columns[0][0].kind != "all_reduce" or all(
        len({part.bytes for part in parts if part.bytes is not None}) < 2
        for parts in zip(*columns, strict=True)
    )


def _in_common_order(columns: list[list[Collective]]) -> list[list[Collective]]:
    """Each rank's collectives of one kind, so that equal places hold the same collective.

    By start. gloo's threads may start two at once, in either order; where the ranks agree on which
    sizes there are, sizes tell such two apart.
    """
    columns = [sorted(column, key=lambda c: (c.start_ns, c.end_ns)) for column in columns]
    sizes = [[c.bytes for c in column] for column in columns]
    if any(size is None for column in sizes for size in column):
        return columns
    if all(column == sizes[0] for column in sizes) or any(
        Counter(column) != Counter(sizes[0]) for column in sizes
    ):
        return columns
    return [sorted(column, key=lambda c: c.bytes or 0) for column in columns]


def _synchronising(groups: Sequence[clocks.Group]) -> list[clocks.Group]:
    return [group for group in groups if group[1][0].kind in _SYNCHRONISING]


def _skew_ns(groups: Iterable[tuple[Collective, ...]]) -> int | None:
    """How long ranks seem to have left a collective before others joined it; None if untold."""
    gaps = [
        max(part.start_ns for part in parts) - min(part.end_ns for part in parts)
        for parts in groups
        if parts[0].kind in _SYNCHRONISING
    ]
    return max(0, *gaps) if gaps else None
