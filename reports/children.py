"""The children of one launch: what a launch's values are made of.

A launch measures a case in one or more forked children, one after another. A launch's value is the
median over its children; passes other than the timed one, and everything that is known by rank,
are those of the child that ran first.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from reports.frames import Row
from reports.source import number, positive, table, tables


def of_launch(record: dict[str, Any]) -> Row:
    """Columns of a launch: seconds and bytes, each blank where it is not known of every child.

    ``first_child_step_s``: the median step of the child whose ranks the record has.
    """
    own = tables(record.get("children"))
    first = {"first_child_step_s": first_child_step_s(record)}
    if not own:
        return {"children": None, **first, **_of_ranks(tables(record.get("ranks")))}
    return {
        "children": len(own),
        **first,
        "first_step_s": _median(own, "first_step_s"),
        "init_s": _median(own, "init_s"),
        "peak_bytes": _median(own, "peak_bytes"),
    }


def first_child_step_s(record: dict[str, Any]) -> float | None:
    own = tables(record.get("children"))
    return positive((own[0] if own else record).get("median_step_s"))


def _median(children: list[dict[str, Any]], name: str) -> float | None:
    values = [positive(child.get(name)) for child in children]
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def _of_ranks(ranks: list[dict[str, Any]]) -> Row:
    """Of a record without children, which older files have: the maximum over ranks."""
    return {
        "first_step_s": _largest(ranks, lambda rank: rank.get("first_step_s")),
        "init_s": _largest(ranks, lambda rank: table(rank.get("lifecycle")).get("init_s")),
        "peak_bytes": _largest(ranks, lambda rank: table(rank.get("memory")).get("peak_bytes")),
    }


def _largest(ranks: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> float | None:
    """None unless every rank has a value: the rank that has none may be the largest."""
    values = [number(read(rank)) for rank in ranks]
    known = [value for value in values if value is not None and value > 0]
    return max(known) if known and len(known) == len(values) else None
