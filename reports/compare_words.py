"""A comparison in words, the same for the terminal, for Markdown and for the page."""

from __future__ import annotations

from typing import Any

from bench import paired
from reports import words
from reports.comparison import Comparison, Versus
from reports.frames import Row
from reports.metrics import METRICS, Metric
from reports.sides import Side

#: Over the parts of a step: ± is half the 95 % interval of the growth over launches.
PARTS_HEADING = "ms a step"
#: Over the texts of a row.
HEADINGS = ("pairs", "A", "B", "effect", "95 % interval", "p Holm", "detects")
#: The same for the other metrics, which are listed only.
LISTED_HEADINGS = tuple("p BH" if name == "p Holm" else name for name in HEADINGS)


def title(comparison: Comparison) -> str:
    sides = comparison.sides
    news = words.joined([new.name for new in sides.news])
    where = f" in {sides.base.file}" if sides.paired else ""
    return f"{news} against {sides.base.name}{where}"


def side(letter: str, one: Side, facts: dict[str, Any]) -> str:
    """'A: old, torch 2.9.1+cpu, Python 3.11.7'"""
    parts = [one.name, f"torch {facts.get('torch') or words.BLANK}"]
    if facts.get("python"):
        parts.append(f"Python {facts['python']}")
    return f"{letter}: {', '.join(parts)}"


def how(comparison: Comparison) -> str:
    metric = comparison.gate
    way = (
        "launches in pairs, measured side by side in one run"
        if comparison.sides.paired
        else "separate runs, so launches are no pairs, intervals are wider and what changes from "
        "run to run is in the difference"
    )
    return (
        f"{_capital(metric.title)} ({metric.direction}); {way}; changes within "
        f"±{words.percent(comparison.delta)} are no change."
    )


def legend(comparison: Comparison, cases: int) -> str:
    test = "sign-flip" if comparison.sides.paired else "permutation"
    share = f"{paired.POWER * 100:.0f}{words.SPACE}%"
    return (
        f"effect: B over A. p: {test} test over launches, Holm's correction over "
        f"{words.plural(cases, 'case')}. detects: the smallest true change that would be called "
        f"{comparison.gate.worse} in {share} of such runs."
    )


def care(comparison: Comparison) -> list[str]:
    """What a reader must know before any number, the gravest first."""
    found = list(comparison.warnings)
    if comparison.forced:
        found.insert(
            0, f"Compared by --force although these differ: {'; '.join(comparison.forced)}."
        )
    if comparison.too_few:
        found.append(comparison.too_few)
    return found


def cells(row: Row) -> list[str]:
    """The row's texts, under ``HEADINGS``."""
    say = metric_of(row).say
    fresh = row["judged_on"] == "fresh pairs"
    return [
        f"{row['pairs']} fresh" if fresh else str(row["pairs"]),
        say(row["a"]),
        say(row["b"]),
        words.change(row["effect"]),
        words.between(row["low"], row["high"], words.change) or words.BLANK,
        p(row["p_holm"] if row["gate"] else row["p_bh"]),
        words.BLANK if row["detectable"] is None else words.percent(abs(row["detectable"])),
    ]


def first_time(row: Row) -> str | None:
    """What a row that was measured again looked like before."""
    if row["first_pairs"] is None:
        return None
    interval = words.between(row["first_low"], row["first_high"], words.change)
    return (
        f"flagged at {words.change(row['first_effect'])} ({interval}, p {p(row['first_p_holm'])}) "
        f"in the first {row['first_pairs']} pairs"
    )


def p(value: float | None) -> str:
    if value is None:
        return words.BLANK
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def metric_of(row: Row) -> Metric:
    return next(one for one in METRICS if one.name == row["metric"])


def part_cells(row: Row) -> tuple[str, str, str, str]:
    """A, B, growth and ±, ms, of a row of reports/attribution.py."""
    a, b, half = (
        words.milliseconds(row[name]).replace("-", "−") for name in ("a_s", "b_s", "half_width_s")
    )
    return a, b, words.signed_milliseconds(row["growth_s"]), half


def also_differ(versus: Versus) -> str:
    """One line: what else differs between the two, which may be the cause."""
    if not versus.differences:
        return "Besides torch nothing that is known differs between A and B."
    listed = [f"{row['what']} {row['a']} → {row['b']}" for row in versus.differences]
    return f"Besides torch A and B differ in: {'; '.join(listed)}."


def listed(rows_: list[Row]) -> list[Row]:
    """Of the rows of other metrics those that say something: a change beyond noise, or another
    suite's own throughput. Ours restates the step time."""
    changed = (paired.WORSE, paired.BETTER)
    return [
        row
        for row in rows_
        if not row["gate"]
        and (
            row["throughput_is_stated"]
            if row["metric"] == "throughput"
            else row["verdict"] in changed
        )
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
