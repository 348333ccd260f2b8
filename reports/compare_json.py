"""A comparison as JSON: only finite numbers and null, every metric with its unit and direction."""

from __future__ import annotations

from typing import Any

from bench.paired import ALPHA
from reports import attribution
from reports.comparison import Comparison
from reports.frames import Row, groups, rows
from reports.gate import Conclusion
from reports.metrics import METRICS
from reports.sides import Side

SCHEMA = 1
_NOT_SHOWN = ("a_cell", "b_cell", "throughput_is_stated")


def document(comparison: Comparison, conclusion: Conclusion) -> dict[str, Any]:
    """Effects and intervals are ratios B/A; ``detectable`` is B/A - 1; times are seconds."""
    return {
        "schema": SCHEMA,
        "status": conclusion.status,
        "headline": conclusion.headline,
        "sentence": conclusion.sentence,
        "paired": comparison.sides.paired,
        "gate": comparison.gate.name,
        "delta": comparison.delta,
        "alpha": ALPHA,
        "forced": comparison.forced,
        "warnings": comparison.warnings,
        "too_few": comparison.too_few,
        "metrics": {
            one.name: {
                "title": one.title,
                "unit": one.unit,
                "direction": one.direction,
                "lower_is_better": one.lower_is_better,
            }
            for one in METRICS
        },
        "base": _side(comparison.sides.base, comparison.base_facts),
        "new": [
            _side(one.new, one.facts) | {"differences": one.differences} for one in comparison.news
        ],
        "rows": [_shown(row) for row in rows(comparison.rows)],
        "uncompared": rows(comparison.uncompared),
        "attribution": [
            {
                "case": case,
                "new": new,
                "sentences": attribution.sentences(parts),
                "parts": [_without(part, "case", "new") for part in parts],
            }
            for (case, new), parts in groups(rows(comparison.parts), "case", "new").items()
        ],
    }


def _side(side: Side, facts: dict[str, Any]) -> dict[str, Any]:
    return {"file": side.file, "label": side.label, "name": side.name, "interpreter": facts}


def _shown(row: Row) -> Row:
    return _without(row, *_NOT_SHOWN)


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}
