"""The table of all cases: every cell with its numbers, and every one that ended without any.

The page holds it twice: as rows to read, and as the exact values that are sorted, filtered and
copied. Both have the columns of ``COLUMNS``. Units are in the names of the values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.case import FIELD_NAMES
from reports import words
from reports.environment import anchor, ended_anchor
from reports.frames import Row, rows
from reports.judged import BAD, LOOK
from reports.tables import Tables


@dataclass(frozen=True)
class Column:
    """``values``: the names of its exact values; the first of them is what is sorted by.

    ``choose``: whether a reader can choose one of its values to see the cases that have it.
    """

    title: str
    under: str
    values: tuple[str, ...]
    number: bool = True
    choose: bool = False


def _text(title: str, *values: str, under: str = "", choose: bool = False) -> Column:
    return Column(title, under, values or (title,), number=False, choose=choose)


def _measured(title: str, under: str, name: str, unit: str) -> Column:
    values = tuple(f"{name}{end}_{unit}" for end in ("", "_low", "_high"))
    return Column(title, under, values)


NOTES = _text("notes")
COLUMNS = (
    _text("case"),
    _text("file", choose=True),
    _text("model", choose=True),
    _text("strategy", "strategy", "backend", under="backend", choose=True),
    _text("settings"),
    Column("world", "size", ("world_size",), choose=True),
    Column("batch", "per rank", ("batch_size",), choose=True),
    _text("outcome", choose=True),
    _measured("step", "ms, median", "step", "s"),
    Column("p90", "p99, ms", ("step_p90_s", "step_p99_s")),
    _measured("throughput", "samples/s, whole job", "throughput", "samples_per_s"),
    Column("throughput", "samples/s, per rank", ("throughput_per_rank_samples_per_s",)),
    _measured("efficiency", "over one process", "single", "ratio"),
    _measured("efficiency", "over its own 1 rank", "same", "ratio"),
    Column("launches", "steps", ("launch_count", "step_count")),
    Column("checks", "bad, to look at", ("bad_checks", "look_checks")),
    Column("hosts", "", ("hosts",), choose=True),
    NOTES,
)
#: A list of more values than this is no longer looked through; searching is quicker.
MOST_CHOICES = 40


def case_rows(tables: Tables) -> list[Row]:
    """One row per cell, then one per case that has no cell, in the order of the files.

    Beside the columns of a cell: ``anchor``; ``efficiency`` (its row of the scaling table, or
    None); ``ended`` (its row of the outcomes where it did not end well, or None);
    ``bad_checks`` and ``look_checks`` (how many of its checks came out so); ``notes`` (what to
    know of it: how grave, and a sentence); ``exact`` (a list of values for each of ``COLUMNS``).
    """
    verdicts = Counter(
        (row["cell"], row["verdict"]) for row in rows(tables.trust[["cell", "verdict"]])
    )
    efficiency: dict[int, Row] = {}
    for row in rows(tables.scaling):
        efficiency.setdefault(row["cell"], row)
    ended = ended_rows(tables)
    of_id = {(row["file"], row["id"]): row for row in ended}
    found = []
    for row in rows(tables.cells):
        own = row | {"efficiency": efficiency.get(row["cell"]), "anchor": anchor(row)}
        own |= {f"{one}_checks": verdicts[row["cell"], one] for one in (BAD, LOOK)}
        found.append(own | {"ended": of_id.get((row["file"], row["id"]))})
    blank = dict.fromkeys(found[0] if found else _NAMES)
    for row in ended:
        if row["cell"] is None:
            found.append({**blank, **row, "ended": row})
    for row in found:
        row["notes"] = _notes(row)
        row["exact"] = _exact(row)
    return found


def ended_rows(tables: Tables) -> list[Row]:
    """The cases that did not end well, with ``cell`` and ``anchor`` in the table of all cases."""
    measured: dict[tuple[str, str], Row] = {}
    for row in rows(tables.cells[["file", "id", "cell"]]):
        measured.setdefault((row["file"], row["id"]), row)
    found = []
    for n, row in enumerate(rows(tables.records.outcomes)):
        if row["outcome"] == "ok":
            continue
        cell = measured.get((row["file"], row["id"]))
        place = anchor(cell) if cell else ended_anchor(n, row["id"])
        found.append(row | {"cell": cell["cell"] if cell else None, "anchor": place})
    return found


def exact_values(table: list[Row], shown: list[Column]) -> Row:
    """What the script of the table reads: the names of each column's values, and the values.

    Notes are text and nothing else: the script takes them from the table.
    """
    places = [None if column == NOTES else COLUMNS.index(column) for column in shown]
    return {
        "columns": [column.values for column in shown],
        "rows": [
            [None if place is None else row["exact"][place] for place in places] for row in table
        ],
    }


def shown_columns(several: bool, on_several_hosts: bool) -> list[Column]:
    """All but the file where there is one only, and the hosts where no case is on several."""
    left_out = [] if several else ["file"]
    left_out += [] if on_several_hosts else ["hosts"]
    return [column for column in COLUMNS if column.title not in left_out]


def choices(table: list[Row], shown: list[Column]) -> list[tuple[int, Column, list[Any]]]:
    """(place among ``shown``, column, its values) for what can be chosen: two values or more."""
    found = []
    for place, column in enumerate(shown):
        if not column.choose:
            continue
        n = COLUMNS.index(column)
        values: set[Any] = {row["exact"][n][0] for row in table} - {None}
        if 1 < len(values) <= MOST_CHOICES:
            found.append((place, column, sorted(values)))
    return found


#: Of a row that has only an outcome, where no cell says which columns there are.
_NAMES = (
    *("cell", "group", "label", "failed_checks", "warnings", "conflict", "oversubscribed"),
    *("throughput_note", "interval_from", "throughput_samples_per_s", "efficiency", *FIELD_NAMES),
    *(name for column in COLUMNS for name in column.values),
)


def _exact(row: Row) -> list[list[Any]]:
    throughput, efficiency = row["throughput_samples_per_s"], row["efficiency"] or {}
    per_rank = None
    if throughput is not None and row["world_size"]:
        per_rank = throughput / row["world_size"]
    values = {
        **row,
        "case": row["id"],
        "model": words.model(row),
        "backend": row["backend"] if row["strategy"] in ("ddp", "all_reduce") else None,
        "settings": "; ".join(words.settings(row)),
        "throughput_per_rank_samples_per_s": per_rank,
        "notes": " ".join(sentence for _, sentence in row["notes"]),
    }
    for base in ("single", "same"):
        for end in ("", "_low", "_high"):
            values[f"{base}{end}_ratio"] = efficiency.get(f"{base}{end}_ratio")
    return [[values[name] for name in column.values] for column in COLUMNS]


def _notes(row: Row) -> list[tuple[str, str]]:
    """(how grave: "bad", "care", "" or "quiet"; a sentence)"""
    ended = row["ended"]
    found = [("bad", sentence) for sentence in row["failed_checks"] or []]
    if ended is not None:
        grave = "" if ended["outcome"] == "skipped" else "bad"
        found.append((grave, ended["reason"] or "No reason recorded."))
    if row["conflict"]:
        sentence = "Conflict: another entry for the same case has a different result."
        found.append(("bad", sentence))
    if row["label"]:
        found.append(("care", row["label"]))
    if row["oversubscribed"]:
        found.append(("care", "More threads than cores: no evidence about scaling."))
    if row["throughput_note"]:
        found.append(("", f"Throughput: {row['throughput_note']}."))
    found += [("", sentence) for sentence in row["warnings"] or []]
    if row["interval_from"] == "one launch":
        found.append(("quiet", "One launch: restart noise is not in the interval."))
    return found
