"""Folders and files -> the results in them, each once, and notes on what was left out.

The store is pytest-benchmark's own (`--benchmark-autosave`, `--benchmark-save`, or any folder of
`--benchmark-json` files): every `*.json` below a folder is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from reports import entry as entries
from reports.frames import Row, rows
from reports.load import load
from reports.source import UnreadableFile, items, positive, read_document, table, tables, text
from reports.stats import with_estimates

#: pytest-benchmark asks for the time twice when it writes --benchmark-json and the store.
_SAME_RUN = timedelta(minutes=1)
#: Two files of one run give the same number, up to how they were written.
_SAME_NUMBER = 1e-6
_FIRST_LISTED = 5


@dataclass(frozen=True)
class Store:
    """``results``: a row per cell and file, as `reports.load` and `reports.stats` have it, with

    - ``date`` (datetime with a zone, or None) and ``commit`` of its file,
    - ``host``, ``cpu`` of its file and ``devices``, the accelerators it ran on;

    ``failures``: rows of cells that failed or crashed (columns file, id, torch_version, date,
    reason); ``files``: how many have results; ``notes``: sentences on what was left out.
    """

    results: list[Row]
    failures: list[Row]
    files: int
    notes: list[str]


def read_store(paths: Sequence[Path]) -> Store:
    """Raises UnreadableFile where a path cannot be read, or nothing is found in all of them."""
    found: list[Path] = []
    skipped: list[str] = []
    documents: list[Row] = []
    for path, named in _json_files(paths, skipped):
        try:
            documents.append(_facts(path))
        except UnreadableFile as error:
            if named:
                raise
            skipped.append(str(error).partition(";")[0])
            continue
        found.append(path)
    if not found:
        raise UnreadableFile(_nothing(paths, skipped))
    notes = []
    if skipped:
        listed = "; ".join(skipped[:_FIRST_LISTED])
        more = f"; and {len(skipped) - _FIRST_LISTED} more" if len(skipped) > _FIRST_LISTED else ""
        noun = "file" if len(skipped) == 1 else "files"
        notes.append(f"{len(skipped)} {noun} left out: {listed}{more}")
    results, failures = _results(found, documents)
    results, twice = _once(results)
    return Store(results, failures, len(found), notes + twice)


def _json_files(paths: Sequence[Path], skipped: list[str]) -> list[tuple[Path, bool]]:
    """Every file once, and whether it was named itself (or found in a folder that was)."""
    found: dict[str, tuple[Path, bool]] = {}
    for path in paths:
        if os.path.isdir(path):
            for below in _below(path, skipped):
                found.setdefault(os.path.realpath(below), (below, False))
        else:
            found[os.path.realpath(path)] = (path, True)
    return list(found.values())


def _below(folder: Path, skipped: list[str]) -> list[Path]:
    """The `*.json` files below ``folder``, hidden folders too: the store is `.benchmarks`."""

    def refused(error: OSError) -> None:
        sentence = f"{error.filename or folder}: cannot be read ({error.strerror or error})"
        if error.filename in (None, str(folder)):
            raise UnreadableFile(f"{sentence}; give a folder that can")
        skipped.append(sentence)

    found = []
    for here, folders, names in os.walk(folder, onerror=refused):
        folders.sort()
        found += [Path(here, name) for name in sorted(names) if name.endswith(".json")]
    return found


def _nothing(paths: Sequence[Path], skipped: Sequence[str]) -> str:
    where = ", ".join(map(str, paths[:_FIRST_LISTED])) + (" …" if paths[_FIRST_LISTED:] else "")
    if not skipped:
        return (
            f"{where}: no .json file in it; give a folder that pytest --benchmark-autosave has "
            "written to, as .benchmarks"
        )
    return (
        f"{where}: no pytest-benchmark file of data-parallel cases among {len(skipped)} .json "
        f"files, the first: {skipped[0]}; give a folder that pytest --benchmark-autosave has "
        "written to"
    )


def _facts(path: Path) -> Row:
    """What a file says of itself, and ``starts`` by entry: when its launches began, unix s."""
    try:
        raw = path.read_bytes()
    except OSError:
        raw = b'"benchmarks"'  # read_document says what is wrong
    if raw.strip() and b'"benchmarks"' not in raw:
        # Before it is parsed: a folder may hold large files of any other kind.
        raise UnreadableFile(
            f"{path}: is no pytest-benchmark file; give one written with pytest --benchmark-json"
        )
    document = read_document(path)
    cases = [one for one in tables(document["benchmarks"]) if entries.is_case(one)]
    if not document["benchmarks"]:
        raise UnreadableFile(
            f"{path}: no data, its list of benchmarks is empty; run without --benchmark-disable"
        )
    if not cases:
        raise UnreadableFile(
            f"{path}: has no data-parallel case (none of its {len(document['benchmarks'])} "
            "benchmarks has params named world_size, strategy or wrapper); give one that has"
        )
    return {
        "date": _date(text(document.get("datetime"))),
        "commit": text(table(document.get("commit_info")).get("id")),
        "interpreters": table(table(document.get("lockstep")).get("interpreters")),
        "starts": [_starts(one) for one in cases],
    }


def _starts(entry: dict[str, Any]) -> tuple[float, ...]:
    launches = table(table(entry.get("extra_info")).get("result")).get("launches")
    starts = [positive(one.get("started_unix_s")) for one in map(table, items(launches))]
    return tuple(start for start in starts if start is not None)


def _date(stated: str | None) -> datetime | None:
    """A date without a zone counts as UTC."""
    try:
        date = datetime.fromisoformat((stated or "").replace("Z", "+00:00"))
        date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
        return date.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def _results(paths: list[Path], documents: list[Row]) -> tuple[list[Row], list[Row]]:
    records = load(paths)
    files = {row["file"]: row for row in rows(records.files)}
    facts = dict(zip(files, documents, strict=True))
    devices: dict[int, set[str]] = {}
    for rank in rows(records.ranks[["cell", "device_name"]]):
        if rank["device_name"]:
            devices.setdefault(rank["cell"], set()).add(rank["device_name"])
    seen: dict[str, int] = {}
    results = []
    for cell in rows(with_estimates(records.cells, records.launches)):
        name = cell["file"]
        position = seen[name] = seen.get(name, -1) + 1
        results.append(
            cell
            | {
                "date": facts[name]["date"],
                "commit": facts[name]["commit"],
                "starts": facts[name]["starts"][position],
                "host": files[name]["host"],
                "cpu": files[name]["cpu"],
                "devices": tuple(sorted(devices.get(cell["cell"], ()))),
            }
        )
    failures = [
        {
            "file": row["file"],
            "id": row["id"],
            "date": facts[row["file"]]["date"],
            "reason": row["reason"] or row["outcome"],
            "torch_version": text(
                table(facts[row["file"]]["interpreters"].get(row["torch"] or "")).get("torch")
            ),
        }
        for row in rows(records.outcomes)
        if row["outcome"] not in ("ok", "skipped")
    ]
    return results, failures


def _once(results: list[Row]) -> tuple[list[Row], list[str]]:
    """Without second copies of a measurement; of two copies that with more steps stays.

    A run is in the store and in its --benchmark-json file, a resumed run's file repeats what the
    first part has measured, and folders are copied.
    """
    kept: dict[tuple[object, ...], list[Row]] = {}
    pairs: dict[tuple[str, str], int] = {}
    for row in results:
        key = (row["name"], row["identity"], row["host"], row["cpu"], row["torch_version"])
        same = kept.setdefault(key, [])
        first = next((i for i, one in enumerate(same) if _is_copy(one, row)), None)
        if first is None:
            same.append(row)
            continue
        better, other = same[first], row
        if (row["step_count"] or 0) > (better["step_count"] or 0):
            better, other = row, better
        same[first] = better
        files = better["file"], other["file"]
        pairs[files] = pairs.get(files, 0) + 1
    notes = [
        f"{count} {'result is' if count == 1 else 'results are'} in {one} and again in {other}: "
        "counted once"
        for (one, other), count in pairs.items()
    ]
    more = len(notes) - _FIRST_LISTED
    if more > 0:
        total = sum(list(pairs.values())[_FIRST_LISTED:])
        notes[_FIRST_LISTED:] = [f"{total} results more are in two files: counted once"]
    left = sorted((row for rows_ in kept.values() for row in rows_), key=lambda row: row["cell"])
    return left, notes


def _is_copy(one: Row, other: Row) -> bool:
    """The same number, at the same time: our launches say when they began, else the file does."""
    if one["file"] == other["file"] or not _same_number(one, other):
        return False  # two entries for one case in a file are a conflict, not a copy
    if one["starts"] and other["starts"]:
        return bool(one["starts"] == other["starts"])
    return _same_time(one["date"], other["date"])


def _same_number(one: Row, other: Row) -> bool:
    for name in ("step_s", "throughput_samples_per_s"):
        a, b = one[name], other[name]
        if (a is None) != (b is None) or (a is not None and abs(a - b) > _SAME_NUMBER * a):
            return False
    return True


def _same_time(one: datetime | None, other: datetime | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _SAME_RUN
