"""The section "Files side by side"."""

from __future__ import annotations

import shlex

from reports import words
from reports.environment import ENVIRONMENT
from reports.frames import Row, groups, rows
from reports.side_by_side import (
    CONFLICT,
    COPY,
    MOST_CASES,
    MOST_FILES,
    OTHER_TORCH,
    REPEATED,
    SideBySide,
)

#: Files in the list before it says how many more there are; entries of a case in one file.
MOST_LISTED, MOST_ENTRIES = 12, 3
_KINDS = {
    COPY: "copy of {}, no second run",
    CONFLICT: "conflict with {}: one run, and other numbers",
    REPEATED: "repeated run of {}",
    OTHER_TORCH: "against {}",
}


def section(beside: SideBySide | None) -> str | None:
    """The section's HTML; None for a single file."""
    if beside is None:
        return None
    of_case = groups(rows(beside.cases), "case")
    cases = [
        (case, [[_entry(row) for row in own if row["letter"] == one] for one in beside.letters])
        for (case,), own in of_case.items()
    ]
    return ENVIRONMENT.get_template("files.html.j2").render(
        beside=beside,
        files=beside.files[:MOST_LISTED],
        more_files=max(0, len(beside.files) - MOST_LISTED),
        without_column=max(0, len(beside.files) - MOST_FILES),
        cases=cases,
        most_cases=MOST_CASES,
        most_entries=MOST_ENTRIES,
        alone=words.joined([f"{n} in {letter}" for letter, n in beside.alone.items()]),
        commands=_commands(beside),
    )


def _entry(row: Row) -> Row:
    """With the words for what it is, and how grave that is."""
    kind = row["kind"]
    said = _KINDS[kind].format(row["against"]) if kind else row["reason"] or ""
    return row | {"said": said, "grave": "bad" if kind == CONFLICT else ""}


def _commands(beside: SideBySide) -> list[str]:
    """What gives a verdict where this section gives none."""
    names = [file["file"] for file in beside.files]
    if len(names) == 2:
        return [f"python -m reports compare {shlex.join(names)}"]
    return ["python -m reports compare BASE.json NEW.json", "python -m reports history FILES"]
