"""The section "Versions": what every run of several interpreters says about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from reports import attribution, compare_words, versions_figure
from reports.comparison import FLAGGED, Comparison, Versus
from reports.environment import ENVIRONMENT
from reports.frames import Row, groups, rows
from reports.gate import conclude, gate_rows


def section(comparisons: Sequence[Comparison]) -> str | None:
    """The section's HTML; None where nothing was compared."""
    if not comparisons:
        return None
    return ENVIRONMENT.get_template("versions.html.j2").render(
        parts=[_part(n, one) for n, one in enumerate(comparisons)], compare_words=compare_words
    )


def headlines(comparisons: Sequence[Comparison]) -> list[tuple[str, str, str]]:
    """(what is compared, the shortest true answer, how many cases had which verdict) of each."""
    found = []
    for comparison in comparisons:
        conclusion = conclude(comparison)
        found.append((compare_words.title(comparison), conclusion.headline, conclusion.counts))
    return found


def _part(n: int, comparison: Comparison) -> dict[str, Any]:
    conclusion = conclude(comparison)
    return {
        "title": compare_words.title(comparison),
        "headline": conclusion.headline,
        "counts": conclusion.counts,
        "how": compare_words.how(comparison),
        "care": compare_words.care(comparison),
        "legend": compare_words.legend(comparison, len(gate_rows(comparison))),
        "news": [
            _versus(comparison, versus, f"versions-{n}-{k}")
            for k, versus in enumerate(comparison.news)
        ],
    }


def _versus(comparison: Comparison, versus: Versus, name: str) -> dict[str, Any]:
    own, rest, parts = (
        [row for row in rows(table) if row["new"] == versus.new.name]
        for table in (comparison.rows, comparison.uncompared, comparison.parts)
    )
    table = comparison.rows[comparison.rows["new"] == versus.new.name]
    title = f"{versus.new.name} against {comparison.sides.base.name}"
    svg = versions_figure.versions(table, comparison.delta, title, name)
    return {
        "figure": Markup(svg) if svg else None,
        "a": compare_words.side("A", comparison.sides.base, comparison.base_facts),
        "b": compare_words.side("B", versus.new, versus.facts),
        "differences": versus.differences,
        "gate": [_row(row) for row in own if row["gate"]],
        "others": {
            compare_words.metric_of(listed[0]): [_row(row) for row in listed]
            for listed in groups((row for row in own if not row["gate"]), "metric").values()
        },
        "uncompared": rest,
        "parts": [
            (case, attribution.sentences(of_case), of_case)
            for (case,), of_case in groups(parts, "case").items()
        ],
    }


def _row(row: Row) -> Row:
    """With its texts, and how grave it is: "bad", "care" or nothing."""
    grave = "bad" if row["regression"] else "care" if row["said"].endswith(FLAGGED) else ""
    notes = [note for note in (compare_words.first_time(row), row["note"]) if note]
    return row | {"texts": compare_words.cells(row), "grave": grave, "notes": notes}
