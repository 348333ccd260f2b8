"""Which measurements stand on the two sides of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from bench.nearest import did_you_mean
from reports import words
from reports.frames import Row, rows
from reports.load import Records


class NotComparable(Exception):
    """One line: what cannot be compared, why, and what to do next."""


@dataclass(frozen=True)
class Side:
    """What one interpreter measured in one file; ``label`` is empty where the file has only one."""

    file: str
    label: str
    name: str


@dataclass(frozen=True)
class Sides:
    """``paired``: measured side by side in one run, so that launch k of one belongs to launch k
    of the others."""

    base: Side
    news: tuple[Side, ...]
    paired: bool


def choose(records: Records, base: str | None = None, new: str | None = None) -> Sides:
    """One file: its first label (or ``base``) against every other (or ``new``). Two files: the
    first against the second. Raises NotComparable."""
    files = [row["file"] for row in rows(records.files)]
    if len(files) == 1:
        return _of_one_run(files[0], labels(records, files[0]), base, new)
    if len(files) > 2:
        raise NotComparable(
            f"{len(files)} files: give one that was measured with several --torch, or two, BASE NEW"
        )
    first = _of_file(records, files[0], base, "--base")
    second = _of_file(records, files[1], new, "--new")
    return Sides(first, (second,), paired=False)


def labels(records: Records, file: str) -> list[str]:
    """The labels under which a file has cells or outcomes, as its interpreters are ordered."""
    measured = {
        row["torch"] or ""
        for table in (records.cells, records.outcomes)
        for row in rows(table[["file", "torch"]])
        if row["file"] == file
    }
    stated = next(row for row in rows(records.files) if row["file"] == file)["interpreters"]
    ordered = [label for label in stated if label in measured]
    return ordered + sorted(measured.difference(ordered))


def comparable_runs(records: Records) -> list[str]:
    """The files that hold a comparison of their own: those of several interpreters."""
    return [row["file"] for row in rows(records.files) if len(labels(records, row["file"])) > 1]


def of_run(records: Records, file: str) -> Sides:
    """The comparison within one file of several interpreters."""
    return _of_one_run(file, labels(records, file), None, None)


def of_side(table: list[Row], side: Side) -> list[Row]:
    """The rows (of cells or of outcomes) that are this side's."""
    return [row for row in table if row["file"] == side.file and (row["torch"] or "") == side.label]


def _of_one_run(file: str, known: list[str], base: str | None, new: str | None) -> Sides:
    if len(known) < 2:
        raise NotComparable(
            f"{file}: was measured under one interpreter, so it holds no comparison; give a second "
            "file to compare it with, or measure both in one run with "
            "pytest bench --torch old=PYTHON --torch new=PYTHON"
        )
    for option, label in (("--base", base), ("--new", new)):
        if label is not None and label not in known:
            raise NotComparable(_no_such_label(file, known, option, label))
    first = known[0] if base is None else base
    if base is None and new == first:
        raise NotComparable(
            f"--new {new}: that is what the others are compared with; choose another with --base"
        )
    if first == new:
        raise NotComparable(f"--base {base} and --new {new} are the same; choose two labels")
    others = [label for label in known if label != first] if new is None else [new]
    return Sides(
        Side(file, first, first), tuple(Side(file, one, one) for one in others), paired=True
    )


def _of_file(records: Records, file: str, label: str | None, option: str) -> Side:
    known = labels(records, file)
    if label is None and len(known) > 1:
        raise NotComparable(
            f"{file}: was measured under several interpreters ({words.joined(known)}); "
            f"choose one with {option} LABEL"
        )
    if label is not None and label not in known:
        raise NotComparable(_no_such_label(file, known, option, label))
    own = label if label is not None else known[0] if known else ""
    return Side(file, own, f"{own} in {file}" if len(known) > 1 else file)


def _no_such_label(file: str, known: list[str], option: str, label: str) -> str:
    named = [one for one in known if one]
    if not named:
        return f"{option} {label}: {file} has one interpreter, without a label; leave {option} out"
    return (
        f"{option} {label}: {file} has no interpreter of that label{did_you_mean(label, named)} "
        f"(choose from {', '.join(named)})"
    )
