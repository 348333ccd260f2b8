"""What an A/A run says about the machine it ran on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.case import Case
from bench.paired import ALPHA, BETTER, WORSE, Judgement, Samples, judge, pairs_for


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


def table(found: Sequence[Noise]) -> list[str]:
    """A line per cell, under a heading."""
    lines = [f"{'':<40}  pairs  restart  in pairs   A/A difference            detectable"]
    for each in found:
        judged = each.judgement
        interval = ""
        if judged.effect is not None and judged.low is not None and judged.high is not None:
            interval = f"{judged.effect - 1:+.1%} [{judged.low - 1:+.1%}, {judged.high - 1:+.1%}]"
        alarm = "  FALSE ALARM" if each.false_alarm else ""
        lines.append(
            f"{each.cell:<40}  {judged.pairs:>5}  {_percent(each.restart):>7}  "
            f"{_percent(each.pair):>8}   {interval:<25}  {_percent(judged.detectable):>6}{alarm}"
        )
    return lines


def advice(found: Sequence[Noise], changes: Sequence[float] = (0.1, 0.05, 0.03)) -> list[str]:
    """How many launches show a change of so much in the noisiest of these cells."""
    spreads = [each.pair for each in found if each.pair is not None]
    if not spreads:
        return ["Too few pairs to say anything: give it more minutes."]
    worst = max(spreads)
    lines = []
    for change in changes:
        # An alarm needs the interval beyond delta, so delta has to lie well below the change.
        delta = min(0.03, change / 2)
        pairs = pairs_for(worst, change, len(found), delta=delta)
        lines.append(
            f"a case that is {change:.0%} slower is found four times in five with "
            f"--launches {pairs} (and --delta {delta:.1%}) among {len(found)} cases as noisy as "
            f"the noisiest here ({worst:.1%} in pairs)"
        )
    alarms = sum(each.false_alarm for each in found)
    lines.append(
        f"false alarms: {alarms} of {len(found)} cells; a run with any at all is expected at most "
        f"{ALPHA:.0%} of the time"
    )
    return lines


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.1%}"
