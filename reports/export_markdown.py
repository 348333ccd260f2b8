"""All cases as a Markdown table, for a job's summary or a pull request."""

from __future__ import annotations

from reports import markdown, words
from reports.frames import Row, groups, rows
from reports.stats import FROM_ONE_LAUNCH
from reports.tables import Tables

HEADINGS = (
    *("case", "step time", "95 % interval", "samples/s", "efficiency over one process"),
    *("efficiency over its own 1 rank", "launches", "notes"),
)


def cases(tables: Tables) -> str:
    """A table for each file, and a line for each case that was skipped or failed."""
    scaling: dict[int, Row] = {}
    for row in rows(tables.scaling):
        scaling.setdefault(row["cell"], row)
    cells = groups(rows(tables.cells), "file")
    outcomes = groups(rows(tables.records.outcomes), "file")
    files = [row["file"] for row in rows(tables.records.files)]
    lines: list[str] = []
    for file in files:
        if len(files) > 1:
            lines += [f"### {markdown.escaped(file)}", ""]
        own = [_cells(cell, scaling.get(cell["cell"], {})) for cell in cells.get((file,), [])]
        if own:
            lines += [markdown.table(HEADINGS, own, text=("notes",)), ""]
        bad = [row for row in outcomes.get((file,), []) if row["outcome"] != "ok"]
        lines += [f"- {markdown.escaped(ended(row))}" for row in bad] + [""] * bool(bad)
    return "\n".join(lines).rstrip() + "\n"


def _cells(cell: Row, of_scaling: Row) -> list[str]:
    return [
        cell["id"],
        words.seconds(cell["step_s"]),
        words.between(cell["step_low_s"], cell["step_high_s"], words.seconds) or words.BLANK,
        words.plain(cell["throughput_samples_per_s"]),
        *(efficiency(of_scaling, base) for base in ("single", "same")),
        words.whole_number(cell["launch_count"]),
        " ".join(_notes(cell)),
    ]


def efficiency(row: Row, base: str) -> str:
    """Of a row of the scaling table, over "single" or the "same" strategy, with its interval."""
    value, low, high = (row.get(f"{base}_{end}ratio") for end in ("", "low_", "high_"))
    around = words.between(low, high, words.percent)
    return f"{words.percent(value)} ({around})" if around else words.percent(value)


def _notes(cell: Row) -> list[str]:
    found = list(cell["failed_checks"] or [])
    if cell["conflict"]:
        found.append("Another entry for the same case has a different result.")
    if cell["label"]:
        found.append(f"{cell['label']}.")
    if cell["oversubscribed"]:
        found.append("More threads than cores: no evidence about scaling.")
    if cell["throughput_note"]:
        found.append(f"Throughput: {cell['throughput_note']}.")
    if cell["interval_from"] == FROM_ONE_LAUNCH:
        found.append("One launch: restart noise is not in the interval.")
    return found


def ended(row: Row) -> str:
    """How a cell without a number ended, and why."""
    return f"{row['id']}: {row['outcome']}" + (f": {row['reason']}" if row["reason"] else "")
