"""The journal: everything that was measured, a line as soon as it was.

A killed run loses the case in flight and nothing else; ``resume`` reads the journal back, so that
only the rest need be measured. When the disk refuses a line, it is kept in memory and tried again
with every later one and at the end: a full disk costs no measurement.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.case import Case
from bench.result import SCHEMA, Failure, LaunchResult

#: A launch of a case takes about 10 to 35 KB here and about three times that in the JSON.
_BYTES_PER_LAUNCH = 128 * 1024
#: Of the header: where they differ, results of the two runs do not belong together.
_COMPARED = ("schema", "version", "settings", "machine", "interpreters", "hosts")
#: Below those: what may differ without changing a number.
_MAY_DIFFER = {
    "machine.boot_id",
    "settings.matrix",
    "settings.min_busbw_bytes_per_s",
    "settings.axes",
    "settings.command",
    "settings.largest_world_size",
    "settings.case_timeout_s",
    "settings.launch_timeout_s",
    "settings.confirm",
}
_SOFTWARE = ("python", "torch", "torchvision", "cuda", "hip", "nccl", "blas")


class Journal:
    """An open journal. Without a path nothing is kept."""

    def __init__(self, path: Path | None, say: Callable[[str], None] = print) -> None:
        self._path = path
        self._say = say
        self._pending: list[bytes] = []

    def begin(self, header: dict[str, Any]) -> None:
        """A new file with a header. An earlier one that was not finished is kept beside it."""
        if self._path is None:
            return
        if self._path.exists() and self._path.stat().st_size and not is_finished(self._path):
            kept = _free_name(self._path)
            self._path.rename(kept)
            self._say(f"the journal of a run that was not finished is kept as {kept}")
        self._path.write_bytes(b"")
        self._write({"type": "header", "schema": SCHEMA, **header})

    def go_on(self, header: dict[str, Any]) -> None:
        """Another run appends to a journal that ``read`` has found sound."""
        self._write({"type": "resumed", "schema": SCHEMA, **header})

    def append(
        self, case: Case, launch: int, answer: LaunchResult | Failure, definition: str | None = None
    ) -> None:
        """``definition``: a digest of the case's model, where that is a file of the user's."""
        kind = "failure" if isinstance(answer, Failure) else "launch_result"
        self._write(
            {
                "type": kind,
                "id": case.id,
                "case": case.to_dict(),
                "definition": definition,
                "launch": launch,
                kind: answer.to_dict(),
            }
        )

    def end(self, complete: bool) -> int:
        """Try once more what the disk has refused; the number of lines that are still not on it.

        ``complete``: every cell was measured, so that there is nothing to resume.
        """
        if self._path is None:
            return 0
        if complete and not self._pending:
            self._write({"type": "end"})
        elif self._pending:
            self._flush()
        return len(self._pending)

    def save_pending(self, path: Path) -> None:
        """Put what the journal's own disk refuses elsewhere. Raises OSError."""
        path.write_bytes(b"".join(self._pending))

    def _write(self, entry: dict[str, Any]) -> None:
        if self._path is None:
            return
        self._pending.append(json.dumps(entry, allow_nan=False).encode() + b"\n")
        before = len(self._pending)
        problem = self._flush()
        if problem and before == 1:
            self._say(f"{self._path}: {problem}; going on in memory, and trying again")
        elif not problem and before > 1:
            self._say(f"{self._path} can be written again; nothing was lost")

    def _flush(self) -> str | None:
        """All pending lines to the disk, or none: half a line would spoil the next."""
        assert self._path is not None
        try:
            # Without a buffer: one would keep what a full disk refused and write it on closing,
            # behind our back and after the cut.
            with self._path.open("ab", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                try:
                    _write_all(file, b"".join(self._pending))
                    os.fsync(file.fileno())
                except OSError:
                    with contextlib.suppress(OSError):
                        os.ftruncate(file.fileno(), size)
                    raise
        except OSError as error:
            return error.strerror or str(error)
        self._pending.clear()
        return None


def _write_all(file: io.FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        # A disk that is nearly full takes a part, and refuses the next.
        left = left[file.write(left) :]


@dataclass(frozen=True)
class Recorded:
    """What a journal holds."""

    header: dict[str, Any]
    answers: dict[tuple[str, int], LaunchResult | Failure]
    cases: dict[str, dict[str, Any]]
    definitions: dict[str, str | None]
    warnings: list[str]


def read(path: Path) -> Recorded:
    """A journal, with a torn last line cut off from the file.

    Raises ValueError, in one line, for a file that is no journal.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    warnings = []
    whole, _, torn = data.rpartition(b"\n")
    if torn:
        os.truncate(path, len(data) - len(torn))
        warnings.append(f"{path}: the last line was torn ({len(torn)} bytes) and is measured again")
    lines = whole.split(b"\n") if whole else []
    entries = [_parse(path, number, line) for number, line in enumerate(lines, 1)]
    if not entries or entries[0].get("type") != "header":
        raise ValueError(f"{path} is no journal: its first line is no header")
    answers: dict[tuple[str, int], LaunchResult | Failure] = {}
    cases: dict[str, dict[str, Any]] = {}
    definitions: dict[str, str | None] = {}
    for number, entry in enumerate(entries, 1):
        try:
            kind = entry["type"]
            if kind not in ("launch_result", "failure"):
                continue
            key = (entry["id"], entry["launch"])
            answers[key] = (
                LaunchResult.from_dict(entry[kind])
                if kind == "launch_result"
                else Failure.from_dict(entry[kind])
            )
            cases[entry["id"]] = entry["case"]
            definitions[entry["id"]] = entry.get("definition")
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: {error!r} is missing or wrong") from None
    return Recorded(entries[0], answers, cases, definitions, warnings)


def usable(
    recorded: Recorded, cases: list[Case], definitions: dict[str, str | None]
) -> tuple[dict[str, dict[int, LaunchResult]], list[str]]:
    """(by case id and launch, the results that are these cases', warnings about the others).

    Failures are not taken over: they are tried again.
    """
    found: dict[str, dict[int, LaunchResult]] = {}
    warnings = []
    for case in cases:
        if case.id not in recorded.cases:
            continue
        same = recorded.cases[case.id] == case.to_dict()
        if not same or recorded.definitions[case.id] != definitions.get(case.model):
            what = "its definition" if not same else f"model {case.model}"
            warnings.append(f"{case.id} is measured anew: {what} has changed since")
            continue
        for (case_id, launch), answer in recorded.answers.items():
            if case_id == case.id and isinstance(answer, LaunchResult):
                found.setdefault(case_id, {})[launch] = answer
    return found, warnings


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Why results under these two headers do not belong in one file, a few words each."""
    found = []
    for name in _COMPARED:
        old, new = _flat(name, then.get(name)), _flat(name, now.get(name))
        for key in sorted(old.keys() | new.keys()):
            if key not in _MAY_DIFFER and old.get(key) != new.get(key):
                found.append(f"{key} was {old.get(key)!r}, is {new.get(key)!r}")
    return found


def rebooted(then: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether the machine was started anew between two headers."""
    boots = [header.get("machine", {}).get("boot_id") for header in (then, now)]
    return None not in boots and boots[0] != boots[1]


def is_finished(path: Path) -> bool:
    """Whether the run that wrote this journal measured all it was asked for."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64))
        return file.read().rstrip().endswith(b'{"type": "end"}')


def claim(path: Path, launches: int) -> None:
    """Raise OSError now, not in an hour, where results of so many launches cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    existed = path.exists()
    with path.open("ab"):
        pass
    if not existed:
        path.unlink()
    require_room(path, launches * _BYTES_PER_LAUNCH)


def require_room(path: Path, size: int) -> None:
    """Raise OSError where the folder of ``path`` has no room for ``size`` bytes."""
    with tempfile.TemporaryFile(dir=path.parent) as file:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number} is not JSON: {error}") from None
    if not isinstance(entry, dict):
        raise ValueError(f"{path}, line {number} is no JSON object")
    return entry


def _flat(name: str, value: Any) -> dict[str, Any]:
    if name == "interpreters" and isinstance(value, dict):
        return {
            f"{software}{f' ({label})' if label else ''}": found.get(software)
            for label, found in value.items()
            for software in _SOFTWARE
        }
    if isinstance(value, dict):
        flat: dict[str, Any] = {}
        for key, inner in value.items():
            flat |= _flat(f"{name}.{key}", inner)
        return flat
    return {name: value}


def _free_name(path: Path) -> Path:
    number = 1
    while (kept := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return kept
