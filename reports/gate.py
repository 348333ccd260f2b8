"""What a comparison comes to: an exit status, and one sentence that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench import paired
from reports import words
from reports.comparison import CONFIRMED, FLAGGED, NOT_CONFIRMED, UNCONFIRMED, Comparison
from reports.frames import Row, rows
from reports.pairing import FAILED, NEW

NO_REGRESSION, REGRESSION, BAD_INPUT, INCONCLUSIVE = 0, 1, 2, 3


@dataclass(frozen=True)
class Conclusion:
    """``headline``: the shortest true answer; ``counts``: how many cases were compared, and with
    which verdicts; ``reason``: why the status is what it is."""

    status: int
    headline: str
    counts: str
    reason: str

    @property
    def sentence(self) -> str:
        return f"{self.headline}. {self.counts}. Exit status {self.status}: {self.reason}."


def conclude(comparison: Comparison, strict: bool = False) -> Conclusion:
    """Nothing that was compared, or that could be judged, is never 0.

    ``strict``: a case that is inconclusive, or has a number on one side only, is not let pass.
    """
    judged = gate_rows(comparison)
    rest = rows(comparison.uncompared)
    status, headline, reason = _status(comparison, judged, rest, strict)
    only_new = sum(row["kind"] == NEW for row in rest)
    total = len(judged) + len(rest) - only_new
    counted = f"{len(judged)} of {words.plural(total, 'case')} compared"
    if only_new:
        counted += f", {only_new} without a baseline"
    parts = _counts(judged)
    if parts:
        counted += f": {'; '.join(parts)}"
    return Conclusion(status, headline, counted, reason)


def gate_rows(comparison: Comparison) -> list[Row]:
    return [row for row in rows(comparison.rows) if row["gate"]]


def _status(
    comparison: Comparison, judged: Sequence[Row], rest: Sequence[Row], strict: bool
) -> tuple[int, str, str]:
    worse = [row for row in judged if row["regression"]]
    broken = [row for row in rest if row["kind"] == FAILED]
    title, said = comparison.gate.title, comparison.gate.worse
    if worse:
        headline = f"{_capital(said)} in {title}: {words.some([row['case'] for row in worse])}"
        reason = f"{words.plural(len(worse), 'case')} {_sure(worse)}"
        if broken:
            reason += f", and {_broken(broken)}"
        return REGRESSION, headline, reason
    if broken:
        return BAD_INPUT, f"Failed: {words.some([row['case'] for row in broken])}", _broken(broken)
    if not judged:
        return BAD_INPUT, "Nothing was compared", "the two sides have no case in common"
    if all(row["verdict"] == paired.SMOKE for row in judged):
        return (
            BAD_INPUT,
            "Insufficient samples, no verdict",
            f"no case has the {paired.FEWEST_PAIRS} {_noun(comparison)} that a verdict takes",
        )
    unsure = [row for row in judged if row["inconclusive"]]
    if comparison.too_few and unsure:
        # However much slower they were, nothing would have been said.
        return (
            BAD_INPUT,
            "Insufficient samples, no verdict",
            f"{words.plural(len(unsure), 'case')} could not have been called {said} with so few "
            f"{_noun(comparison)}",
        )
    flagged = [row for row in judged if row["said"].endswith(FLAGGED)]
    open_ends = []
    if flagged:
        open_ends.append(f"{words.plural(len(flagged), 'case')} flagged but not measured again")
    if len(unsure) > len(flagged):
        open_ends.append(f"{words.plural(len(unsure) - len(flagged), 'case')} inconclusive")
    if rest:
        open_ends.append(f"{len(rest)} not compared")
    if strict and open_ends:
        return INCONCLUSIVE, "Inconclusive", f"--strict, and {words.joined(open_ends)}"
    reason = f"no regression in {title} was {'confirmed' if flagged else 'found'}"
    if open_ends:
        reason += f", with {words.joined(open_ends)}"
    headline = "No confirmed regression" if flagged else "No regression found"
    return NO_REGRESSION, headline, reason


def _sure(worse: Sequence[Row]) -> str:
    ways = {
        "fresh pairs": "confirmed in fresh launches",
        "pairs": "flagged; the run did not measure flagged cases again",
        "separate runs": "flagged; separate runs are not confirmed",
    }
    said = list(dict.fromkeys(ways[row["judged_on"]] for row in worse))
    return f"{'is' if len(worse) == 1 else 'are'} {worse[0]['said'].partition(',')[0]}, " + (
        words.joined(said)
    )


def _broken(broken: Sequence[Row]) -> str:
    news = words.joined(list(dict.fromkeys(row["new"] for row in broken)))
    return f"{words.plural(len(broken), 'case')} that ran before failed under {news}"


def _counts(judged: Sequence[Row]) -> list[str]:
    """How many rows have each verdict, the gravest first."""
    found: dict[str, int] = {}
    for row in judged:
        found[row["said"]] = found.get(row["said"], 0) + 1
    return [f"{n} {said}" for said, n in sorted(found.items(), key=lambda item: _gravity(item[0]))]


def _gravity(said: str) -> int:
    order = (
        *(f", {CONFIRMED}", f", {UNCONFIRMED}", FLAGGED, NOT_CONFIRMED),
        *(paired.INCONCLUSIVE, paired.SMOKE),
    )
    return next((n for n, end in enumerate(order) if said.endswith(end)), len(order))


def _noun(comparison: Comparison) -> str:
    return "pairs of launches" if comparison.sides.paired else "launches on each side"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
