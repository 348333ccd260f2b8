"""The figures of one rank's trace as plain records: seconds, bytes, None for what is not known.

`to_json` of a record has the record's field names; they are the schema of `python -m reports trace
--json`, which `reports.trace_files` documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.classify import UNKNOWN
from bench.rank_trace import RankTrace, StepFigures
from reports import words

#: Steps listed one by one for a rank; means are over all.
MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Communication:
    """The collectives of one kind, or of all kinds.

    `union_s` counts overlapping ones once, `summed_s` each. `exposed_s` is the part of the union
    during which this rank computes nothing; `overlap_ratio` is 1 - exposed / union.
    """

    calls: float | None = None
    bytes: float | None = None
    union_s: float | None = None
    summed_s: float | None = None
    exposed_s: float | None = None
    overlap_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """One whole step, or (`step` None) the mean over all whole steps; times as in `bench.trace`."""

    step: int | None
    step_s: float | None
    communication: Communication
    kinds: Mapping[str, Communication]
    compute_s: float
    copies_s: float
    idle_s: float | None
    unknown_s: float | None


@dataclass(frozen=True, slots=True)
class WholeFile:
    """Everything in the file, within steps and outside; fields as in `bench.rank_trace.Totals`."""

    communication: Communication
    kinds: Mapping[str, Communication]
    compute_s: float
    busy_s: float
    span_s: float
    kernels: int


@dataclass(frozen=True)
class RankFigures:
    """One file. `label` is what the rank is called, `calls` as `RankTrace.calls(None)` has them.

    `problem` is set where several ranks are known to take part and yet no collective was found:
    then all communication is None. `steps` are the first `MOST_STEPS` of `whole_steps`.
    """

    file: str
    rank: int | None
    label: str
    world_size: int | None
    backend: str | None
    device: str
    whole_steps: int
    dropped_steps: int
    problem: str | None
    mean: StepRow | None
    steps: tuple[StepRow, ...]
    calls: tuple[Mapping[str, Any], ...]
    whole_file: WholeFile
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class _Steps:
    """The steps of one kind, or of all: their means, and the first of them one by one."""

    def __init__(self, steps: Sequence[StepFigures]) -> None:
        self.first = steps[:MOST_STEPS]
        self.mean = _of_steps(steps) if steps else Communication()
        self._step_s = _mean_s([step.step_ns for step in steps])
        self._compute_s = _mean_s([step.compute_ns for step in steps])
        self._copies_s = _mean_s([step.memory_ns for step in steps])
        self._idle_s = _mean_s([step.idle_ns for step in steps])
        self._unknown_s = _mean_s([step.unknown_ns for step in steps])

    def mean_row(self, of_kind: Mapping[str, _Steps], missing: bool) -> StepRow:
        return StepRow(
            step=None,
            step_s=self._step_s,
            communication=Communication() if missing else self.mean,
            kinds={kind: steps.mean for kind, steps in of_kind.items()},
            compute_s=self._compute_s or 0.0,
            copies_s=self._copies_s or 0.0,
            idle_s=self._idle_s,
            unknown_s=None if missing else self._unknown_s,
        )


def _steps_by_kind(trace: RankTrace) -> tuple[_Steps, dict[str, _Steps]]:
    """One kind after another: the figures of all steps take memory."""
    together = _Steps(trace.per_step(None))
    kinds = trace.kinds()
    if len(kinds) == 1:
        return together, {kinds[0]: together}
    return together, {kind: _Steps(trace.per_step(kind)) for kind in kinds}


def rank_figures(trace: RankTrace, file: str, label: str) -> RankFigures:
    """What one trace says about its own rank; `file` and `label` name it."""
    together, of_kind = _steps_by_kind(trace)
    missing = trace.missing_communication
    notes = [note for note in trace.notes if not note.startswith("no communication found")]
    if len(trace.steps) > MOST_STEPS:
        notes.append(f"only the first {MOST_STEPS} of {len(trace.steps)} steps are listed")
    if any(step.step_ns is None for step in trace.steps):
        notes.append("the time of a step on a GPU lasts to the next one: blank where none follows")
    if not trace.collectives and trace.world_size is None:
        notes.append("no communication found, and the file does not state a world size")
    return RankFigures(
        file=file,
        rank=trace.rank,
        label=label,
        world_size=trace.world_size,
        backend=None if trace.backend is None else words.clean(trace.backend),
        device=trace.device,
        whole_steps=len(trace.steps),
        dropped_steps=trace.dropped_steps,
        problem=_problem(trace) if missing else None,
        mean=together.mean_row(of_kind, missing) if trace.steps else None,
        steps=tuple(
            _step_row(step, {kind: steps.first[i] for kind, steps in of_kind.items()}, missing)
            for i, step in enumerate(together.first)
        ),
        calls=tuple(map(_clean, trace.calls(None))),
        whole_file=_whole_file(trace, missing),
        notes=tuple(notes),
    )


def _problem(trace: RankTrace) -> str:
    found = f"no communication found, though the world size is {trace.world_size}"
    if not any(item.compute or item.memory for item in trace.work):
        return f"{found}: nothing at all ran while this was recorded"
    if trace.device == "gpu":
        return f"{found}: its communication is blank, not zero"
    if trace.backend not in (None, "gloo"):
        return (
            f"{found}: its communication is blank, not zero; the trace has no GPU kernels, was it "
            "recorded without ProfilerActivity.CUDA?"
        )
    return f"{found}: its communication is blank, not zero; the trace has no gloo ranges"


def _step_row(step: StepFigures, of_kind: Mapping[str, StepFigures], missing: bool) -> StepRow:
    return StepRow(
        step=step.step,
        step_s=_seconds(step.step_ns),
        communication=Communication() if missing else _of_steps([step]),
        kinds={kind: _of_steps([figures]) for kind, figures in of_kind.items()},
        compute_s=step.compute_ns / 1e9,
        copies_s=step.memory_ns / 1e9,
        idle_s=_seconds(step.idle_ns),
        unknown_s=None if missing else step.unknown_ns / 1e9,
    )


def _of_steps(steps: Sequence[StepFigures]) -> Communication:
    """The mean over steps; the share hidden is that of their sums."""
    count = len(steps)
    union_ns = sum(step.union_ns for step in steps)
    exposed_ns = sum(step.exposed_ns for step in steps)
    sizes = [step.bytes for step in steps if step.bytes is not None]
    return Communication(
        calls=_whole(sum(step.calls for step in steps), count),
        bytes=_whole(sum(sizes), count) if len(sizes) == count else None,
        union_s=union_ns / count / 1e9,
        summed_s=sum(step.summed_ns for step in steps) / count / 1e9,
        exposed_s=exposed_ns / count / 1e9,
        overlap_ratio=1 - exposed_ns / union_ns if union_ns else None,
    )


def _whole_file(trace: RankTrace, missing: bool) -> WholeFile:
    everything = trace.totals()
    return WholeFile(
        communication=Communication() if missing else _of_file(trace, None),
        kinds={kind: _of_file(trace, kind) for kind in trace.kinds()},
        compute_s=everything.compute_ns / 1e9,
        busy_s=everything.busy_ns / 1e9,
        span_s=everything.span_ns / 1e9,
        kernels=everything.kernels,
    )


def _of_file(trace: RankTrace, kind: str | None) -> Communication:
    totals = trace.totals(kind)
    return Communication(
        calls=totals.calls,
        bytes=totals.bytes,
        union_s=totals.union_ns / 1e9,
        summed_s=totals.summed_ns / 1e9,
        exposed_s=totals.exposed_ns / 1e9,
        overlap_ratio=totals.overlap_ratio,
    )


def _clean(call: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: words.clean(value) if isinstance(value, str) else value
        for name, value in call.items()
    }


def has_unknown_kind(rank: RankFigures) -> bool:
    """Whether there is communication of which no witness says what kind it is."""
    return UNKNOWN in rank.whole_file.kinds


def _whole(total: int, count: int) -> float:
    """The mean; a whole number where it is one, as of a single step."""
    return total // count if total % count == 0 else total / count


def _mean_s(nanoseconds: Sequence[int | None]) -> float | None:
    known = [value for value in nanoseconds if value is not None]
    return sum(known) / len(known) / 1e9 if known else None


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9
