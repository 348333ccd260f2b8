"""Several files side by side: what differs between them, and the cases that more than one holds.

Nothing is joined, averaged or overwritten: a case stands once for every entry it has in every
file. A ratio is given only between two entries of one case that may be compared: one machine, one
kind of build of torch, one label, the same threads and definition. It is of separate runs, so it is
a hint and no verdict.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports import comparable, differences, words
from reports.frames import Row, columns, frame, groups, rows
from reports.load import Records
from reports.sides import Side, labels
from reports.source import table
from reports.stats import throughput_ratio
from reports.torch_versions import UNKNOWN, torch_version

#: More files have no column, and more cases no row: the page stays readable, and says so.
MOST_FILES, MOST_CASES, MOST_DIFFERENCES = 4, 50, 30

#: What a second entry of a case is, against the one it is compared with.
COPY, CONFLICT, REPEATED, OTHER_TORCH = "copy", "conflict", "repeated run", "other torch"

COLUMNS = columns(
    string="case file id letter kind against reason",
    Int64="cell launch_count",
    Float64=(
        "step_s step_low_s step_high_s throughput_samples_per_s throughput_low_samples_per_s "
        "throughput_high_samples_per_s ratio low_ratio high_ratio"
    ),
)


@dataclass(frozen=True)
class SideBySide:
    """``files``: a row for each; ``letters`` of those that have a column. ``differences``: what,
    and its text in each of these. ``cases``: a row for each entry of a case in several of them,
    ``COLUMNS``; ``ratio``: its throughput over that of the entry in file ``against``. ``alone``: by
    letter how many cases no other file holds; ``other_labels``: how many of those are in several
    files, but under interpreters of other labels."""

    files: list[Row]
    letters: list[str]
    differences: list[tuple[str, list[str]]]
    more_differences: int
    apart: list[str]
    doubts: list[str]
    cases: pd.DataFrame
    more_cases: int
    alone: dict[str, int]
    other_labels: int


def side_by_side(records: Records, cells: pd.DataFrame) -> SideBySide | None:
    """``cells`` with their estimates; None for a single file."""
    files = rows(records.files)
    if len(files) < 2:
        return None
    of_file = groups(rows(cells), "file")
    listed = []
    for n, file in enumerate(files):
        own = of_file.get((file["file"],), [])
        listed.append(file | {"letter": _letter(n)} | _about(file, own))
    shown = listed[:MOST_FILES]
    named = {file["file"]: file for file in shown}
    own_cells = [cell for name in named for cell in of_file.get((name,), [])]
    shared, alone, other_labels = _shared(own_cells, named)
    pairs = _Pairs(named, records)
    made = [
        row
        for name, entries in list(shared.items())[:MOST_CASES]
        for row in pairs.of(name, entries)
    ]
    facts = [
        _facts(file, labels(records, file["file"]), of_file.get((file["file"],), []))
        for file in shown
    ]
    differ = differences.differing(facts)
    return SideBySide(
        files=listed,
        letters=[file["letter"] for file in shown],
        differences=differ[:MOST_DIFFERENCES],
        more_differences=max(0, len(differ) - MOST_DIFFERENCES),
        apart=pairs.apart(),
        doubts=pairs.doubts(),
        cases=frame(made, COLUMNS),
        more_cases=max(0, len(shared) - MOST_CASES),
        alone=alone,
        other_labels=other_labels,
    )


def _letter(n: int) -> str:
    return string.ascii_uppercase[n] if n < 26 else f"file {n + 1}"


def _about(file: Row, cells: Sequence[Row]) -> Row:
    launches = sorted({cell["launch_count"] for cell in cells if cell["launch_count"]})
    return {
        "torch": list(dict.fromkeys(c["torch_version"] for c in cells if c["torch_version"])),
        "launches": list(dict.fromkeys((*launches[:1], *launches[-1:]))),
        "cases": len(cells),
    }


def _shared(
    cells: Sequence[Row], files: dict[str, Row]
) -> tuple[dict[str, list[Row]], dict[str, int], int]:
    """(entries of the cases that several files hold, how many cases each file holds alone, and how
    many of these another holds under another label)"""
    named = (cell | {"interpreter": cell["torch"] or ""} for cell in cells)
    of_case = groups(named, "pair_key", "interpreter")
    shared: dict[str, list[Row]] = {}
    holders_of_key: dict[str, set[str]] = {}
    alone = dict.fromkeys((file["letter"] for file in files.values()), 0)
    for n, entries in enumerate(of_case.values()):
        holders = {entry["file"] for entry in entries}
        if len(holders) > 1:
            name = entries[0]["id"]
            # Two cases of another suite can have one name and other params.
            shared[name if name not in shared else f"{name} ({n + 1})"] = entries
        else:
            alone[files[entries[0]["file"]]["letter"]] += 1
            holders_of_key.setdefault(entries[0]["pair_key"], set()).update(holders)
    other_labels = sum(len(holders) > 1 for holders in holders_of_key.values())
    return shared, {letter: n for letter, n in alone.items() if n}, other_labels


def _facts(file: Row, known: Sequence[str], cells: Sequence[Row]) -> dict[str, Any]:
    """What is known of a file's machine, interpreters and settings, by name."""
    found: dict[str, Any] = {
        "host": file["host"],
        "CPU": file["cpu"],
        "cores": file["cores"],
        "usable cores": file["usable_cores"],
        "memory": words.size(file["memory_bytes"]) if file["memory_bytes"] else None,
    }
    of_labels = {
        label: differences.facts(
            file,
            Side(file["file"], label, label),
            [cell for cell in cells if (cell["torch"] or "") == label],
        )
        for label in known or [""]
    }
    for name in dict.fromkeys(name for one in of_labels.values() for name in one):
        values = {label: one.get(name) for label, one in of_labels.items()}
        first = next(iter(values.values()))
        alike = all(value == first for value in values.values())
        found[name] = first if alike else [f"{label}: {value}" for label, value in values.items()]
    found["gpus"] = found.get("gpus") or file["gpus"]
    found |= {f"setting {name}": value for name, value in file["settings"].items()}
    found.pop("setting command", None)
    return found | dict(file["environment"])


class _Pairs:
    """Which entries of the files may be compared; what two files differ in is asked once."""

    def __init__(self, files: dict[str, Row], records: Records) -> None:
        self._files = files
        self._refused: dict[tuple[str, str], list[str]] = {}
        self._used: dict[tuple[str, str], None] = {}
        self._launches = groups(rows(records.launches[["cell", "parameters"]]), "cell")

    def of(self, name: str, entries: Sequence[Row]) -> list[Row]:
        """The rows of one case, in the order of the files."""
        of_file = Counter(str(entry["file"]) for entry in entries)
        single = [entry for entry in entries if of_file[entry["file"]] == 1]
        found: list[Row] = []
        for entry in entries:
            row = {column: entry.get(column) for column in COLUMNS} | {"case": name}
            row["letter"] = letter = self._letter(entry["file"])
            number = of_file[entry["file"]]
            if number > 1:
                row["reason"] = f"{number} entries in {letter}, and which one counts is not known"
            elif entry["file"] != entries[0]["file"]:
                earlier = [one for one in single if self._before(one, entry)]
                first = self._letter(entries[0]["file"])
                row |= (
                    self._against(entry, earlier)
                    if earlier
                    else {"reason": f"several entries in {first}"}
                )
            found.append(row)
        return found

    def apart(self) -> list[str]:
        """For every two files that are not compared, the sentence that says why."""
        return [
            f"{self._letter(new)} is not compared with {self._letter(base)}: {'; '.join(why)}."
            for (base, new), why in self._refused.items()
            if why
        ]

    def doubts(self) -> list[str]:
        """What weakens the ratios that there are."""
        found: dict[str, list[str]] = {}
        for base, new in self._used:
            for sentence in comparable.warnings(self._files[base], self._files[new]):
                pair = f"{self._letter(new)} against {self._letter(base)}"
                found.setdefault(sentence, []).append(pair)
        return [f"{words.joined(pairs)}: {sentence}" for sentence, pairs in found.items()]

    def _letter(self, file: str) -> str:
        return str(self._files[file]["letter"])

    def _before(self, one: Row, other: Row) -> bool:
        order = list(self._files)
        return order.index(one["file"]) < order.index(other["file"])

    def _against(self, entry: Row, earlier: Sequence[Row]) -> Row:
        """What the entry is, against the first earlier one with which it can be compared."""
        reasons = []
        for base in earlier:
            reason = self._why_not(base, entry)
            if reason is None:
                return self._compared(base, entry)
            reasons.append(reason)
        return {"reason": reasons[0]}

    def _why_not(self, base: Row, entry: Row) -> str | None:
        a, b = self._files[base["file"]], self._files[entry["file"]]
        key = (a["file"], b["file"])
        if key not in self._refused:
            self._refused[key] = comparable.of_files(a, b) + _models(a, b, entry["torch"] or "")
        if self._refused[key]:
            return f"not comparable with {a['letter']}, see above"
        for one in (base, entry):
            if one["failed_checks"]:
                return f"a check of the result failed in {self._letter(one['file'])}"
            if one["conflict"]:
                return f"two results in {self._letter(one['file'])}"
            if one["throughput_samples_per_s"] is None:
                return f"no throughput in {self._letter(one['file'])}"
        differing = [_builds(a, base, b, entry), *comparable.of_cases([(base, entry)])]
        if comparable.parameters_differ(
            [(base, entry)], {cell: own for (cell,), own in self._of(base, entry).items()}
        ):
            differing.append("another number of parameters")
        return "; ".join(filter(None, differing)) or None

    def _of(self, *cells: Row) -> dict[tuple[Any, ...], list[Row]]:
        keys = [(cell["cell"],) for cell in cells]
        return {key: self._launches.get(key, []) for key in keys}

    def _compared(self, base: Row, entry: Row) -> Row:
        self._used[base["file"], entry["file"]] = None
        against = {"against": self._letter(base["file"])}
        if _numbers(base) == _numbers(entry):
            return against | {"kind": COPY}
        dates = {self._files[one["file"]]["datetime"] for one in (base, entry)}
        if len(dates) == 1 and dates != {None}:
            return against | {"kind": CONFLICT, "reason": "one run, and other numbers"}
        ratio = throughput_ratio(entry, base, one_run=False)
        assert ratio is not None  # both have a throughput
        same = base["torch_version"] == entry["torch_version"]
        return against | {
            "kind": REPEATED if same and base["torch_version"] else OTHER_TORCH,
            "ratio": ratio.value,
            "low_ratio": ratio.low,
            "high_ratio": ratio.high,
        }


def _models(a: Row, b: Row, label: str) -> list[str]:
    facts = [table(file["interpreters"].get(label)) for file in (a, b)]
    return comparable.models_differ(facts[0], facts[1])


def _builds(a: Row, base: Row, b: Row, entry: Row) -> str | None:
    """Why two builds of torch are no version of each other; None where they are."""
    if base["torch_version"] and base["torch_version"] == entry["torch_version"]:
        return None
    kinds = []
    for file, cell in ((a, base), (b, entry)):
        kind = torch_version(cell["torch_version"]).family
        known = table(file["interpreters"].get(cell["torch"] or ""))
        kinds.append((differences.build(known) or UNKNOWN) if kind == UNKNOWN else kind)
        if kinds[-1] == UNKNOWN:
            return f"which build of torch {file['letter']} is of is not known"
    return None if kinds[0] == kinds[1] else f"other builds of torch, {kinds[0]} and {kinds[1]}"


def _numbers(cell: Row) -> tuple[Any, ...]:
    """What two entries share only if one is a copy of the other."""
    medians = cell["launch_medians_s"] or {}
    return (
        cell["step_s"],
        cell["mean_s"],
        cell["rounds"],
        cell["throughput_samples_per_s"],
        tuple(medians.values()),
    )
