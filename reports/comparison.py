"""B against A: cells paired by name, launches by number, and a verdict for each.

The gate is on one metric; the others are judged by the same arithmetic and listed. What was
flagged as worse in a run that measures flagged cases again is judged on those fresh launches
alone: a case that looked worst of many looks worse than it is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bench import paired
from bench.paired import Judgement, Samples
from reports import comparable, differences, words
from reports.attribution import attribution
from reports.frames import Row, columns, frame, groups, rows
from reports.load import Records
from reports.metrics import CONFIRMED_BY_RUNS, METRICS, STEP_TIME, Metric
from reports.pairing import UNCOMPARED_COLUMNS, Paired, pair
from reports.sides import NotComparable, Side, Sides, of_side
from reports.values import Values

#: How sure a verdict is: measured again, measured once, or to be measured again.
CONFIRMED, UNCONFIRMED = "confirmed", "unconfirmed"
FLAGGED, NOT_CONFIRMED = "flagged, confirmation missing", "not confirmed"

ROW_COLUMNS = columns(
    string=(
        "case new metric unit direction verdict said judged_on note a_id b_id "
        "first_verdict confirmation_verdict"
    ),
    Int64="a_cell b_cell pairs first_pairs",
    Float64=(
        "a b effect low high p p_holm p_bh detectable "
        "first_effect first_low first_high first_p_holm"
    ),
    boolean="lower_is_better gate regression inconclusive forced throughput_is_stated",
)


@dataclass(frozen=True)
class Versus:
    """One new side against the base: what differs between them besides torch, and where."""

    new: Side
    facts: dict[str, Any]
    differences: list[Row]


@dataclass(frozen=True)
class Comparison:
    """``rows``: one per case, new side and metric, ``ROW_COLUMNS``; ``uncompared``: one per case
    that has no number on both sides, ``UNCOMPARED_COLUMNS``; ``parts``: where the time of worse
    cases went (reports/attribution.py)."""

    sides: Sides
    base_facts: dict[str, Any]
    news: list[Versus]
    gate: Metric
    delta: float
    rows: pd.DataFrame
    uncompared: pd.DataFrame
    parts: pd.DataFrame
    #: Differences for which the comparison would have been refused, were it not forced.
    forced: list[str]
    warnings: list[str]
    #: Why no case can get a verdict, before one looks at any; None where they can.
    too_few: str | None


def compare(
    records: Records,
    cells: pd.DataFrame,
    waterfall: pd.DataFrame,
    sides: Sides,
    *,
    gate: Metric = STEP_TIME,
    delta: float = paired.DELTA,
    force: bool = False,
) -> Comparison:
    """``cells`` with their estimates (reports/stats.py). Raises NotComparable for files of which
    the numbers are not of the same thing, unless ``force``."""
    files = {row["file"]: row for row in rows(records.files)}
    measured, ended = rows(cells), rows(records.outcomes)
    of_base, ended_base = of_side(measured, sides.base), of_side(ended, sides.base)
    pairs: list[Paired] = []
    uncompared: list[Row] = []
    for new in sides.news:
        own, rest = pair(
            sides.base, new, of_base, of_side(measured, new), ended_base, of_side(ended, new)
        )
        pairs += own
        uncompared += rest
    base_facts = differences.facts(files[sides.base.file], sides.base, of_base)
    news = [
        Versus(new, facts, differences.differences(base_facts, facts))
        for new in sides.news
        for facts in [differences.facts(files[new.file], new, of_side(measured, new))]
    ]
    of_cell = {cell: own for (cell,), own in groups(rows(records.launches), "cell").items()}
    forced, warnings = _conditions(files, sides, pairs, of_cell)
    forced += [each for one in news for each in comparable.models_differ(base_facts, one.facts)]
    if forced and not force:
        raise NotComparable(_refusal(sides, forced))
    for versus in news:
        said = comparable.build_warning(base_facts, versus.facts)
        warnings += [said] if said else []
    warnings += _doubts(pairs)
    values = Values(records)
    judged = _gate_rows(pairs, values, sides, gate, delta, _runs_confirm(files, sides, gate))
    for metric in METRICS:
        if metric.name != gate.name:
            judged += _listed_rows(pairs, values, sides, metric, delta)
    for row in judged:
        row["forced"] = bool(forced)
        row["said"] = f"forced: {row['said']}" if forced else row["said"]
    table = frame(judged, ROW_COLUMNS)
    worse = [
        one
        for one, row in zip(pairs, judged, strict=False)
        if row["regression"] or row["said"].endswith(FLAGGED)
    ]
    return Comparison(
        sides=sides,
        base_facts=base_facts,
        news=news,
        gate=gate,
        delta=delta,
        rows=table,
        uncompared=frame(uncompared, UNCOMPARED_COLUMNS),
        parts=attribution(worse, records, waterfall, sides.paired),
        forced=forced,
        warnings=warnings,
        too_few=_too_few(judged[: len(pairs)], sides.paired),
    )


def _conditions(
    files: dict[str, Row],
    sides: Sides,
    pairs: Sequence[Paired],
    launches: dict[int, list[Row]],
) -> tuple[list[str], list[str]]:
    """(for which differences a comparison is refused, warnings)"""
    cells = [(one.a, one.b) for one in pairs]
    models = comparable.parameters_differ(cells, launches)
    if sides.paired:
        warnings = []
        if models:
            warnings.append(
                f"The model of {words.some(models)} has not as many parameters on both sides."
            )
        return [], warnings
    base, new = files[sides.base.file], files[sides.news[0].file]
    refused = comparable.refusals(base, new, cells)
    if models:
        refused.append(f"the number of parameters of {words.some(models)}")
    return refused, comparable.warnings(base, new)


def _refusal(sides: Sides, differing: list[str]) -> str:
    return (
        f"{sides.base.file} and {sides.news[0].file} were not measured under the same conditions: "
        f"{'; '.join(differing)}. Measure both on one machine in one run (pytest bench --torch), "
        "or compare all the same with --force"
    )


def _doubts(pairs: Sequence[Paired]) -> list[str]:
    found = []
    failed = [one.name for one in pairs if one.a["failed_checks"] or one.b["failed_checks"]]
    if failed:
        found.append(f"A check of the result failed in {words.some(failed)}.")
    if not all(one.a["own"] and one.b["own"] for one in pairs):
        found.append(
            "A file of another suite counts as one launch, however many rounds it has: rounds of "
            "one process do not tell how the next would differ."
        )
    return found


def _runs_confirm(files: dict[str, Row], sides: Sides, gate: Metric) -> bool:
    """Whether flagged cases of this metric were to be measured again in the run itself."""
    settings = files[sides.base.file]["settings"]
    return sides.paired and settings.get("confirm") is True and gate.name in CONFIRMED_BY_RUNS


def _gate_rows(
    pairs: Sequence[Paired],
    values: Values,
    sides: Sides,
    gate: Metric,
    delta: float,
    runs_confirm: bool,
) -> list[Row]:
    made = [_Made(one, gate, sides.paired, values) for one in pairs]
    judged = paired.judge([one.samples for one in made], delta)
    flagged = [n for n, one in enumerate(judged) if one.verdict == paired.WORSE]
    fresh = {n: made[n].again() for n in flagged} if sides.paired else {}
    complete = {n: samples for n, samples in fresh.items() if samples is not None}
    second = dict(zip(complete, paired.judge(list(complete.values()), delta), strict=True))
    found = []
    for n, (one, first) in enumerate(zip(made, judged, strict=True)):
        row = one.row(first) | {"gate": True}
        if n in second:
            row |= _first(first) | one.figures(second[n], complete[n])
            row["judged_on"] = "fresh pairs"
            row["confirmation_verdict"] = second[n].verdict
            if second[n].verdict == paired.WORSE:
                row |= {"said": f"{gate.worse}, {CONFIRMED}", "regression": True}
            else:
                # Measured again, it is no worse, or not for certain.
                row |= {"said": NOT_CONFIRMED, "regression": False}
                row["inconclusive"] = second[n].verdict in (paired.INCONCLUSIVE, paired.SMOKE)
        elif n in flagged and runs_confirm:
            row |= {"said": FLAGGED, "regression": False, "inconclusive": True}
        elif n in flagged:
            row |= {"said": f"{gate.worse}, {UNCONFIRMED}", "regression": True}
        found.append(row)
    return found


def _listed_rows(
    pairs: Sequence[Paired], values: Values, sides: Sides, metric: Metric, delta: float
) -> list[Row]:
    made = [_Made(one, metric, sides.paired, values) for one in pairs]
    judged = paired.judge([one.samples for one in made], delta)
    return [one.row(first) | {"gate": False} for one, first in zip(made, judged, strict=True)]


class _Made:
    """The launches' values of one pair of cells for one metric."""

    def __init__(self, one: Paired, metric: Metric, is_paired: bool, values: Values) -> None:
        self._pair, self._metric, self._paired, self._values = one, metric, is_paired, values
        self._notes: list[str] = []
        a, b = values.first(metric, one.a), values.first(metric, one.b)
        if metric.name == "peak_memory" and values.kinds(one.a) != values.kinds(one.b):
            a = b = {}
            self._notes.append("peak memory of two kinds")
        self.samples = self._samples(a, b)
        self._describe(a, b)

    def again(self) -> Samples | None:
        a, b = (self._values.again(self._metric, cell) for cell in (self._pair.a, self._pair.b))
        return self._samples(a, b) if a and b else None

    def row(self, judgement: Judgement) -> Row:
        metric = self._metric
        words_of = {paired.WORSE: metric.worse, paired.BETTER: metric.better}
        verdict = judgement.verdict
        return self.figures(judgement, self.samples) | {
            "case": self._pair.name,
            "new": self._pair.new.name,
            "a_id": self._pair.a["id"],
            "b_id": self._pair.b["id"],
            "a_cell": self._pair.a["cell"],
            "b_cell": self._pair.b["cell"],
            "metric": metric.name,
            "unit": metric.unit,
            "direction": metric.direction,
            "throughput_is_stated": self._pair.b["throughput_is_stated"],
            "lower_is_better": metric.lower_is_better,
            "first_verdict": verdict,
            "said": words_of.get(verdict, verdict),
            "judged_on": "pairs" if self._paired else "separate runs",
            "regression": False,
            "inconclusive": verdict in (paired.INCONCLUSIVE, paired.SMOKE),
            "note": "; ".join(self._notes) or None,
        }

    def figures(self, judgement: Judgement, samples: Samples) -> Row:
        names = ("pairs", "effect", "low", "high", "p", "p_holm", "p_bh", "detectable", "verdict")
        found = {name: getattr(judgement, name) for name in names}
        if self._paired:
            shared = samples.a.keys() & samples.b.keys()
            sides = [[side[n] for n in shared] for side in (samples.a, samples.b)]
        else:
            sides = [list(side.values()) for side in (samples.a, samples.b)]
        return found | {"a": _middle(sides[0]), "b": _middle(sides[1])}

    def _samples(self, a: Mapping[int, float], b: Mapping[int, float]) -> Samples:
        above = [{n: value for n, value in side.items() if value > 0} for side in (a, b)]
        return Samples(above[0], above[1], self._paired, self._metric.lower_is_better)

    def _describe(self, a: Mapping[int, float], b: Mapping[int, float]) -> None:
        title = self._metric.title
        if not self._notes and not (a and b):
            sides = [name for name, side in (("A", a), ("B", b)) if not side]
            self._notes.append(f"{title} is not known of {words.joined(sides)}")
        zeros = sum(value <= 0 for side in (a, b) for value in side.values())
        if zeros:
            self._notes.append(f"{title} is 0 in {zeros} launches, which has no ratio")
        lone = [len(side.keys() - other.keys()) for side, other in ((a, b), (b, a))]
        if self._paired and a and b and any(lone):
            self._notes.append(
                f"{lone[0]} launches of A and {lone[1]} of B have no partner and do not count"
            )


def _first(judgement: Judgement) -> Row:
    """What was seen before the second measurement."""
    names = ("pairs", "effect", "low", "high", "p_holm")
    return {f"first_{name}": getattr(judgement, name) for name in names}


def _middle(values: Sequence[float]) -> float | None:
    """The geometric mean: the ratio of two is the effect."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def _too_few(judged: Sequence[Row], is_paired: bool) -> str | None:
    """Where even the clearest difference could not be significant."""
    if not judged:
        return None
    cases, most = len(judged), max(row["pairs"] for row in judged)
    needed = paired.pairs_needed(cases) if is_paired else paired.launches_needed_unpaired(cases)
    if most >= needed:
        return None
    noun = "pairs of launches" if is_paired else "launches on each side"
    return (
        f"Insufficient samples: with {words.plural(cases, 'case')} it takes {needed} {noun} to "
        f"call anything worse or better (p < {paired.ALPHA:g} after Holm's correction), and there "
        f"{'is' if most == 1 else 'are'} {most}. Measure with --launches {needed} or more."
    )
