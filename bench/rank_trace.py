"""One rank's trace as records, and the figures that follow from them.

Intervals of whole nanoseconds, no events: `bench.trace.analyse` makes these of a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.bandwidth import busbw_bytes_per_s
from bench.classify import UNKNOWN
from bench.intervals import Intervals, Range, clip, intersection, subtraction, total_ns, union


@dataclass(frozen=True, slots=True)
class Collective:
    """One communication kernel or gloo range.

    Times are nanoseconds on the trace's own clock, `baseTimeNanoseconds` added where the file has
    it. `step` is None where the collective belongs to no whole step; `bytes` as in `Message`.
    """

    kind: str
    start_ns: int
    end_ns: int
    step: int | None
    bytes: int | None
    dtype: str | None
    group: str | None
    group_size: int | None

    @property
    def duration_ns(self) -> int:
        """From start to end, waiting for the other ranks included."""
        return self.end_ns - self.start_ns

    def earlier(self, by_ns: int) -> Collective:
        """The same, so much earlier."""
        return Collective(
            *(self.kind, self.start_ns - by_ns, self.end_ns - by_ns, self.step),
            *(self.bytes, self.dtype, self.group, self.group_size),
        )


@dataclass(frozen=True)
class Step:
    """A whole ProfilerStep.

    `step_ns` is its length where work runs on the CPU. On a GPU it is the period from the first
    compute kernel launched in this step to the first one launched in the next, since the CPU runs
    ahead; None for the last step, which has no next.
    """

    start_ns: int
    end_ns: int
    number: int
    step_ns: int | None
    #: Where those `step_ns` begin: on a GPU with the first compute kernel, later than on the CPU.
    from_ns: int | None = None

    @property
    def window(self) -> Range | None:
        """From where to where those `step_ns` go; None where they are not known."""
        if self.step_ns is None or self.from_ns is None:
            return None
        return self.from_ns, self.from_ns + self.step_ns


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a whole step that was marked as such; on a GPU what was launched in it, from the
    first start to the last end."""

    name: str
    step: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class StepWork:
    """What ran for one step (`step` None: for no whole step) besides the collectives.

    `kernels` counts GPU kernels, communication kernels, copies and memory fills.
    """

    step: int | None
    kernels: int
    compute: Intervals
    memory: Intervals


@dataclass(frozen=True)
class Totals:
    """Sums over several steps or a whole trace, in nanoseconds.

    `union_ns` counts overlapping collectives once, `summed_ns` each. `exposed_ns` is the part of
    the union during which this rank computed nothing, `overlap_ns` the rest. `busy_ns` is the union
    of communication, compute and copies, and `span_ns` goes from their first start to last end.
    """

    calls: int
    bytes: int | None
    union_ns: int
    summed_ns: int
    exposed_ns: int
    overlap_ns: int
    compute_ns: int
    busy_ns: int
    span_ns: int
    kernels: int

    @property
    def overlap_ratio(self) -> float | None:
        """1 - exposed / union; None without communication."""
        return 1 - self.exposed_ns / self.union_ns if self.union_ns else None


@dataclass(frozen=True)
class StepFigures:
    """The communication of one kind in one step; fields as in `Totals`, `step_ns` as in `Step`.

    `compute_ns` and `memory_ns` are of the work launched in this step; `idle_ns` is the part of the
    step's own time in which this rank ran nothing at all, for this step or for another.
    `unknown_ns` is communication of which no witness says what kind it is.
    """

    step: int
    step_ns: int | None
    calls: int
    bytes: int | None
    union_ns: int
    summed_ns: int
    exposed_ns: int
    compute_ns: int
    memory_ns: int
    idle_ns: int | None
    unknown_ns: int

    def to_json(self) -> dict[str, Any]:
        """One entry of `per_step` in the record; times in seconds."""
        return {
            "step": self.step,
            "step_s": _seconds(self.step_ns),
            "calls": self.calls,
            "bytes": self.bytes,
            "union_s": self.union_ns / 1e9,
            "summed_s": self.summed_ns / 1e9,
            "exposed_s": self.exposed_ns / 1e9,
            "compute_s": self.compute_ns / 1e9,
            "memory_s": self.memory_ns / 1e9,
            "idle_s": _seconds(self.idle_ns),
            "unknown_s": self.unknown_ns / 1e9,
        }


@dataclass(frozen=True)
class RankTrace:
    """The figures of one rank's trace.

    `base_ns` is the file's `baseTimeNanoseconds`, already part of all times here. `device` is
    `gpu` where kernels ran, else `cpu`. `phases` are there where steps were marked, as the profiled
    pass of a sweep does. `dropped_steps` counts ProfilerSteps that were stubs, cut,
    repeated or without a usable time; `notes` say in words what to know before using a figure.
    """

    source: str
    rank: int | None
    world_size: int | None
    backend: str | None
    base_ns: int | None
    device: str
    steps: tuple[Step, ...]
    dropped_steps: int
    collectives: tuple[Collective, ...]
    work: tuple[StepWork, ...]
    notes: tuple[str, ...]
    phases: tuple[Phase, ...] = ()

    @property
    def missing_communication(self) -> bool:
        """Whether several ranks are known to take part and yet no collective was found."""
        return not self.collectives and (self.world_size or 1) > 1

    def kinds(self) -> tuple[str, ...]:
        """The kinds of collective in the trace, in alphabetical order."""
        return tuple(sorted({collective.kind for collective in self.collectives}))

    def totals(self, kind: str | None = None, steps: Collection[int] | None = None) -> Totals:
        """Sums over one kind of collective (None: all) and some steps (None: the whole trace).

        With `steps`, only work launched in those steps counts, on both sides of the overlap.
        """
        steps = None if steps is None else frozenset(steps)
        chosen = [
            collective
            for collective in self.collectives
            if (kind is None or collective.kind == kind)
            and (steps is None or collective.step in steps)
        ]
        work = [item for item in self.work if steps is None or item.step in steps]
        compute = union(r for item in work for r in item.compute)
        memory = [r for item in work for r in item.memory]
        others = [
            (collective.start_ns, collective.end_ns)
            for collective in self.collectives
            if steps is None or collective.step in steps
        ]
        communication = _union_of(chosen)
        busy = union([*compute, *memory, *others])
        overlap_ns = total_ns(intersection(communication, compute))
        union_ns = total_ns(communication)
        return Totals(
            calls=len(chosen),
            bytes=_bytes_of(chosen),
            union_ns=union_ns,
            summed_ns=sum(collective.duration_ns for collective in chosen),
            exposed_ns=union_ns - overlap_ns,
            overlap_ns=overlap_ns,
            compute_ns=total_ns(compute),
            busy_ns=total_ns(busy),
            span_ns=busy[-1][1] - busy[0][0] if busy else 0,
            kernels=sum(item.kernels for item in work),
        )

    def per_step(self, kind: str | None = None) -> tuple[StepFigures, ...]:
        """The figures of every whole step for one kind of collective (None: all).

        Exposed means that the rank computed nothing at all, for this step or for another.
        """
        compute = union(r for item in self.work for r in item.compute)
        memory = [r for item in self.work for r in item.memory]
        busy = union([*compute, *memory, *((c.start_ns, c.end_ns) for c in self.collectives)])
        work_of = {item.step: item for item in self.work}
        of_step: dict[int | None, list[Collective]] = defaultdict(list)
        unknown_of: dict[int | None, list[Collective]] = defaultdict(list)
        for collective in self.collectives:
            if kind is None or collective.kind == kind:
                of_step[collective.step].append(collective)
            if collective.kind == UNKNOWN:
                unknown_of[collective.step].append(collective)
        figures = []
        for step in self.steps:
            chosen = of_step[step.number]
            work = work_of[step.number]
            communication = _union_of(chosen)
            beside = clip(compute, *_extent(communication))
            figures.append(
                StepFigures(
                    step=step.number,
                    step_ns=step.step_ns,
                    calls=len(chosen),
                    bytes=_bytes_of(chosen),
                    union_ns=total_ns(communication),
                    summed_ns=sum(collective.duration_ns for collective in chosen),
                    exposed_ns=total_ns(subtraction(communication, beside)),
                    compute_ns=total_ns(work.compute),
                    memory_ns=total_ns(work.memory),
                    idle_ns=_idle_ns(step, busy),
                    unknown_ns=total_ns(_union_of(unknown_of[step.number])),
                )
            )
        return tuple(figures)

    def to_json(self, kind: str | None = "all_reduce") -> dict[str, Any]:
        """The record `communication`: means over whole steps, in seconds; None without any.

        Other kinds of collective are left out of the figures and named in the notes; `kind=None`
        takes all kinds together.
        """
        figures = self.per_step(kind)
        notes = list(self.notes)
        if kind is not None:
            notes += self._left_out(kind)
        union_ns = sum(step.union_ns for step in figures)
        exposed_ns = sum(step.exposed_ns for step in figures)
        sizes = [step.bytes for step in figures if step.bytes is not None]
        return {
            "steps": len(figures),
            "calls_per_step": _mean([step.calls for step in figures]),
            "bytes_per_step": _mean(sizes) if len(sizes) == len(figures) else None,
            "all_reduce_s": _mean([step.union_ns / 1e9 for step in figures]),
            "summed_s": _mean([step.summed_ns / 1e9 for step in figures]),
            "exposed_s": _mean([step.exposed_ns / 1e9 for step in figures]),
            "overlap_ratio": 1 - exposed_ns / union_ns if union_ns else None,
            "compute_s": _mean([step.compute_ns / 1e9 for step in figures]),
            "memory_s": _mean([step.memory_ns / 1e9 for step in figures]),
            "idle_s": _mean_known([step.idle_ns for step in figures]),
            "unknown_s": _mean([step.unknown_ns / 1e9 for step in figures]),
            "explained_ratio": self._explained_ratio(),
            "calls": self.calls(kind),
            "per_step": [step.to_json() for step in figures],
            "notes": notes,
        }

    def calls(self, kind: str | None = "all_reduce") -> list[dict[str, Any]]:
        """The collectives of a step one by one, in order, where all whole steps have the same ones.

        `duration_s` is the mean over steps and holds this rank's waiting; the bus bandwidth, bytes
        per second, is that of the mean time. Empty where the steps differ.
        """
        of_step: dict[int | None, list[Collective]] = defaultdict(list)
        for collective in self.collectives:
            if kind is None or collective.kind == kind:
                of_step[collective.step].append(collective)
        columns = [of_step[step.number] for step in self.steps]
        if not columns or len({len(column) for column in columns}) != 1:
            return []
        found = []
        for same in zip(*map(in_bucket_order, columns), strict=True):
            first = same[0]
            if len({(c.kind, c.bytes, c.dtype, c.group) for c in same}) != 1:
                return []
            duration_s = sum(c.duration_ns for c in same) / len(same) / 1e9
            ranks = first.group_size or self.world_size
            found.append(
                {
                    "kind": first.kind,
                    "bytes": first.bytes,
                    "dtype": first.dtype,
                    "group": first.group,
                    "duration_s": duration_s,
                    "busbw_bytes_per_s": busbw_bytes_per_s(
                        first.kind, first.bytes, duration_s, ranks
                    ),
                }
            )
        return found

    def _explained_ratio(self) -> float | None:
        """The share of the steps' time in which something of known purpose ran; None without one
        step of known time. The rest is idle, or communication of unknown kind alone."""
        known = union(
            (
                *(r for item in self.work for r in (*item.compute, *item.memory)),
                *((c.start_ns, c.end_ns) for c in self.collectives if c.kind != UNKNOWN),
            )
        )
        windows = [window for step in self.steps if (window := step.window)]
        whole_ns = sum(end_ns - start_ns for start_ns, end_ns in windows)
        if not whole_ns:
            return None
        return sum(total_ns(clip(known, *window)) for window in windows) / whole_ns

    def _left_out(self, kind: str) -> list[str]:
        whole = {step.number for step in self.steps}
        others: dict[str, list[Collective]] = defaultdict(list)
        for collective in self.collectives:
            if collective.kind != kind and (collective.step in whole or not whole):
                others[collective.kind].append(collective)
        return [
            f"not counted as {kind}: {_count(len(calls), f'{other} call')}, "
            f"{total_ns(_union_of(calls)) / 1e6:.3f} ms"
            for other, calls in sorted(others.items())
        ]


def _union_of(collectives: Iterable[Collective]) -> Intervals:
    return union((collective.start_ns, collective.end_ns) for collective in collectives)


def _extent(intervals: Intervals) -> Range:
    return (intervals[0][0], intervals[-1][1]) if intervals else (0, 0)


def _bytes_of(collectives: Sequence[Collective]) -> int | None:
    """The sum of the sizes; None if one of them is unknown."""
    sizes = [collective.bytes for collective in collectives if collective.bytes is not None]
    return sum(sizes) if len(sizes) == len(collectives) else None


def in_bucket_order(collectives: Sequence[Collective]) -> list[Collective]:
    """One step's collectives in the order in which they were begun."""
    return sorted(collectives, key=lambda c: (c.start_ns, c.end_ns))


def _idle_ns(step: Step, busy: Intervals) -> int | None:
    window = step.window
    return window and window[1] - window[0] - total_ns(clip(busy, *window))


def _mean_known(nanoseconds: Sequence[int | None]) -> float | None:
    """The mean of those that are known, in seconds."""
    return _mean([value / 1e9 for value in nanoseconds if value is not None])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9
