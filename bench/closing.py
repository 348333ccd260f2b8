"""What a sweep says at its end: the verdict, how many cells ended how, and what to do next."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: How a cell can end, in the order in which it is told.
OUTCOMES = ("ok", "failed", "out of memory", "timed out", "crashed", "skipped")
#: Cells that broke are named up to this many.
MOST_NAMED = 10
#: For reading the results: they are small, and a large sweep's are read in some seconds.
VERDICT_TIMEOUT_S = 60.0
_LONGEST_REASON = 100
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Written:
    """Where a sweep has put what it measured; None is nowhere."""

    results: Path | None = None
    journal: Path | None = None
    traces: Path | None = None
    #: The folder of pytest-benchmark's own storage, where the run was saved.
    storage: str | None = None


def counts(outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """'18 ok, 1 timed out, 1 skipped'"""
    found = Counter(str(each["outcome"]) for each in outcomes.values())
    order = [*OUTCOMES, *sorted(found.keys() - set(OUTCOMES))]
    return ", ".join(f"{found[name]} {name}" for name in order if found[name])


def broken(outcomes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Two lines for every cell that broke: why, and how to run it again."""
    bad = [each for each in outcomes.values() if each["outcome"] not in ("ok", "skipped")]
    lines = []
    for each in bad[:MOST_NAMED]:
        reason = (str(each["reason"] or "").strip().splitlines() or ["no message"])[0]
        if len(reason) > _LONGEST_REASON:
            reason = f"{reason[: _LONGEST_REASON - 3]}..."
        lines += [f"{each['outcome']}: {each['id']}: {reason}", f"    {each['rerun']}"]
    if len(bad) > MOST_NAMED:
        lines.append(f"{len(bad) - MOST_NAMED} more broke; all are in the results and on the page")
    return lines


def places(written: Written, *, comparing: bool) -> list[str]:
    """Where everything is, and the commands that make something of it."""
    found: list[tuple[str, str]] = []
    results = written.results
    if results is not None:
        found.append(("results", str(results)))
    if written.journal is not None:
        found.append(("journal", str(written.journal)))
    if written.traces is not None:
        number = len(list(written.traces.glob("*.json.gz")))
        found.append(("traces", f"{written.traces} ({number} file{'s' * (number != 1)})"))
    if results is not None:
        page = results.with_suffix(".html")
        found.append(("page", _command("html", results, "-o", page)))
        if comparing:
            found.append(("compare", _command("compare", results)))
    if written.storage is not None:
        found.append(("saved", f"in {written.storage}"))
        found.append(("history", _command("history", written.storage)))
    if results is None and written.storage is None:
        return [
            "nothing was written: --benchmark-json=FILE keeps the results and makes a page of it"
        ]
    width = max(len(name) for name, _ in found)
    return [f"{name + ':':<{width + 1}} {what}" for name, what in found]


def verdict(results: Path, width: int, timeout_s: float = VERDICT_TIMEOUT_S) -> list[str]:
    """What the page of ``results`` says first, from a process of its own: whatever becomes of it
    costs these lines and nothing else."""
    command = [sys.executable, "-m", "reports", "verdict", "--short", str(results.absolute())]
    environment = os.environ | {"COLUMNS": str(width), "PYTHONIOENCODING": "utf-8"}
    environment.pop("FORCE_COLOR", None)
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=timeout_s,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=True,
        )
    except (OSError, subprocess.SubprocessError, KeyboardInterrupt):
        return []
    return done.stdout.rstrip().splitlines()


def _command(name: str, *arguments: object) -> str:
    words: Sequence[str] = ["python", "-m", "reports", name, *map(str, arguments)]
    return shlex.join(words)
