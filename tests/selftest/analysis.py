"""What an A/A run says about the machine it ran on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.case import Case
from bench.paired import ALPHA, BETTER, DELTA, WORSE, Judgement, Samples, judge, pairs_for


@dataclass(frozen=True)
class Noise:
    """One cell under two labels of the same interpreter.

    ``restart``: standard deviation of a launch's step time about its mean, as a ratio; ``pair``:
    that of the difference within a pair, which is what a comparison has to live with. None below
    two pairs.
    """

    cell: str
    restart: float | None
    pair: float | None
    judgement: Judgement

    @property
    def false_alarm(self) -> bool:
        return self.judgement.verdict in (WORSE, BETTER)


def noise(document: dict[str, Any], base: str, new: str) -> list[Noise]:
    """Every cell that the file of a sweep has under both labels."""
    values: dict[Case, dict[str, dict[int, float]]] = {}
    for entry in document["benchmarks"]:
        info = entry["extra_info"]
        case = Case.from_dict(info["case"])
        values.setdefault(case.replace(torch=""), {})[case.torch] = {
            launch["launch"]: launch["median_step_s"] for launch in info["result"]["launches"]
        }
    both = {case: of for case, of in values.items() if base in of and new in of}
    judged = judge([Samples(of[base], of[new], paired=True) for of in both.values()])
    found = []
    for (case, of), judgement in zip(both.items(), judged, strict=True):
        a, b = of[base], of[new]
        differences = [math.log(b[n] / a[n]) for n in sorted(a.keys() & b.keys())]
        several = len(differences) > 1
        restart = statistics.stdev(map(math.log, a.values())) if len(a) > 1 else None
        pair = statistics.stdev(differences) if several else None
        found.append(Noise(case.id, restart, pair, judgement))
    return found


#: Changes of step time whose price is given: how many launches find them four times in five.
CHANGES = (0.1, 0.05, 0.03)


def launches_for(each: Noise, change: float, cells: int) -> int | None:
    """The fewest launches that find such a change in this cell, among so many; None unknown."""
    if each.pair is None:
        return None
    return pairs_for(each.pair, change, cells, delta=delta_for(change))


def delta_for(change: float) -> float:
    """An alarm needs the interval beyond delta, so delta has to lie well below the change."""
    return min(DELTA, change / 2)


def table(found: Sequence[Noise]) -> list[str]:
    """A line per cell, under a heading."""
    heads = "  ".join(f"{f'+{change:.0%}':>5}" for change in CHANGES)
    lines = [
        f"{'':<40}  {'':>5}  {'spread of':^17}  {'':<25}  {'launches that find':>19}",
        f"{'':<40}  pairs  restart  in pairs  {'A/A difference':<25}  {heads}",
    ]
    for each in found:
        judged = each.judgement
        interval = ""
        if judged.effect is not None and judged.low is not None and judged.high is not None:
            interval = f"{judged.effect - 1:+.1%} [{judged.low - 1:+.1%}, {judged.high - 1:+.1%}]"
        needed = [launches_for(each, change, len(found)) for change in CHANGES]
        alarm = "  FALSE ALARM" if each.false_alarm else ""
        lines.append(
            f"{each.cell:<40}  {judged.pairs:>5}  {_percent(each.restart):>7}  "
            f"{_percent(each.pair):>8}  {interval:<25}  "
            + "  ".join(f"{'?' if n is None else n:>5}" for n in needed)
            + alarm
        )
    return lines


def advice(found: Sequence[Noise]) -> list[str]:
    """How many launches show a change of so much in half of these cells, and in all."""
    known = [each for each in found if each.pair is not None]
    if not known:
        return ["Too few pairs to say anything: give it more minutes."]
    lines = []
    for change in CHANGES:
        needed = sorted(launches_for(each, change, len(found)) or 0 for each in known)
        delta = delta_for(change)
        flag = "" if delta == DELTA else f" and reports compare --delta {delta:.1%}"
        lines.append(
            f"A case that is {change:.0%} slower is found four times in five with --launches "
            f"{needed[(len(needed) - 1) // 2]}{flag} in half of these cases, {needed[-1]} in all."
        )
    alarms = sum(each.false_alarm for each in found)
    lines.append(
        f"False alarms: {alarms} of {len(found)} cases; a run with any at all is to be expected at "
        f"most {ALPHA:.0%} of the time."
    )
    return lines


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.1%}"
