"""One real ``pytest bench`` as a user starts it, watched from outside while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.faults.kinds import CASE_TIMEOUT_S, MIN_STEPS, WARM_UP_STEPS
from tests.faults.model import FOLDER, MARK

ROOT = Path(__file__).resolve().parent.parent.parent
#: Through every pass, but short.
SHORT = (
    *("--launches", "1", "--max-seconds", "0.2", "--min-steps", str(MIN_STEPS)),
    *("--warm-up-steps", str(WARM_UP_STEPS), "--case-timeout", str(CASE_TIMEOUT_S)),
)
#: What belongs to a case must be gone this long after the case is over.
GONE_WITHIN_S = 5.0
#: What was killed before pytest ended may be on its way out of the kernel for so long.
SETTLED_S = 0.5
LOOK_EVERY_S = 0.05

Cell = dict[str, Any]


def cell(model: str, strategy: str = "ddp", world_size: int = 2, seed: int = 0) -> Cell:
    """One cell of a matrix. Healthy cells differ by ``seed`` alone, which changes no number of
    steps and no kind of work."""
    return {
        "model": model,
        "strategy": strategy,
        "world_size": world_size,
        "seed": seed,
        "batch_size": 6,
        "device": "cpu",
        "backend": "gloo",
    }


def matrix(cells: Iterable[Cell]) -> str:
    """A matrix file with these cells, in this order. JSON's texts and numbers are TOML's."""
    tables = [
        "[[scaling]]\n" + "\n".join(f"{name} = [{json.dumps(v)}]" for name, v in each.items())
        for each in cells
    ]
    return "\n\n".join(tables) + "\n"


@dataclass
class Journal:
    """The journal as it grows: its entries, and when each was first seen."""

    path: Path
    entries: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _read: int = 0

    def more(self) -> list[dict[str, Any]]:
        """The entries that have come since the last call."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        new = []
        for line in whole.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            if isinstance(entry, dict):
                new.append(entry)
            else:
                self.problems.append(f"a line of the journal is no JSON object: {line[:200]!r}")
        self.entries += new
        return new

    @property
    def begun(self) -> bool:
        return any(entry.get("type") == "header" for entry in self.entries)

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [e for e in self.entries if e.get("type") in ("launch_result", "failure")]

    def torn(self) -> bytes:
        """What follows the last whole line: an entry that was cut off."""
        self.more()
        try:
            return self.path.read_bytes()[self._read :]
        except OSError:
            return b""


@dataclass(frozen=True)
class Left:
    """A process that should be gone."""

    pid: int
    words: str


class Sweep:
    """A running ``pytest bench``, its files, and all its processes."""

    def __init__(
        self,
        folder: Path,
        cells: Iterable[Cell],
        *arguments: str,
        results: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        """``results``: where the JSON file goes; the folder's own ``results`` if None."""
        self.folder = folder
        self.cells = list(cells)
        self.notes = folder / "notes"
        self.json_path = results or folder / "results" / "run.json"
        self.journal = Journal(self.json_path.with_suffix(".journal.jsonl"))
        self.output_path = folder / "output.txt"
        self.mark = uuid.uuid4().hex
        for needed in (self.notes, folder / "temporary"):
            needed.mkdir(parents=True, exist_ok=True)
        (folder / "matrix.toml").write_text(matrix(self.cells))
        self._output_before = self.output_path.stat().st_size if self.output_path.exists() else 0
        clean = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        ours = {
            "TMPDIR": str(folder / "temporary"),
            MARK: self.mark,
            FOLDER: str(self.notes),
            **(environment or {}),
        }
        with open(self.output_path, "ab") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pytest", "bench"),
                    *(f"--benchmark-json={self.json_path}", "-p", "no:cacheprovider"),
                    *("--matrix", str(folder / "matrix.toml"), *SHORT, *arguments),
                ],
                cwd=ROOT,
                env=clean | ours,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that a Ctrl-C can be sent to it and not to us
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def status(self) -> int | None:
        return self.process.poll()

    @property
    def output(self) -> str:
        return self.output_path.read_bytes()[self._output_before :].decode(errors="replace")

    def document(self) -> dict[str, Any] | None:
        """The final JSON; None where there is none that can be read."""
        try:
            found = json.loads(self.json_path.read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def watch(self, done: Callable[[], bool], seconds: float) -> bool:
        """Read the journal until ``done``; False if that did not come in time."""
        deadline = time.monotonic() + seconds
        while True:
            self.journal.more()
            if done():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_EVERY_S)

    def wait(self, seconds: float) -> bool:
        return self.watch(lambda: self.ended, seconds)

    def signal_group(self, number: signal.Signals) -> None:
        """As the terminal does at Ctrl-C: to the whole foreground group."""
        os.killpg(self.process.pid, number)

    def processes(self) -> list[psutil.Process]:
        """All that the sweep has started and that lives, found by what each inherits: its
        environment. A process that has ended and is only not yet waited for is none."""
        return [
            process
            for process in psutil.process_iter(["environ", "status"])
            if (process.info["environ"] or {}).get(MARK) == self.mark
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def left_over(self, seconds: float) -> tuple[list[Left], float]:
        """(what still lives after so many seconds, how long the rest took to go)."""
        started = time.monotonic()
        while (left := self.processes()) and time.monotonic() - started < seconds:
            time.sleep(LOOK_EVERY_S)
        return [Left(each.pid, _words(each)) for each in left], time.monotonic() - started

    def close(self) -> None:
        """Kill whatever is left. Every process of the mark is one that this sweep started."""
        left = self.processes()
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=5)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _words(process: psutil.Process) -> str:
    try:
        words = " ".join(process.cmdline()) or process.name()
        return f"{process.pid} ({process.status()}, parent {process.ppid()}): {words[:160]}"
    except psutil.NoSuchProcess:
        return f"{process.pid} (gone by now)"


def lives(noted: dict[str, Any]) -> bool:
    """Whether the process of a note is still there: the same one, not a later one of its number."""
    try:
        process = psutil.Process(noted["pid"])
        same = abs(process.create_time() - noted["create_time"]) < 0.1
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def outcomes_by(document: dict[str, Any] | None, name: str) -> dict[Any, dict[str, Any]]:
    """The document's outcomes, by a field of their cases."""
    if document is None:
        return {}
    outcomes = document.get("lockstep", {}).get("outcomes", [])
    return {outcome["case"][name]: outcome for outcome in outcomes}


def disagreements(journal: Journal, document: dict[str, Any] | None) -> list[str]:
    """Where the final JSON does not say what the journal says: times, records and outcomes of
    every cell that was measured or failed."""
    if document is None:
        return ["there is no readable final JSON"]
    found = []
    outcomes = {each["id"]: each for each in document.get("lockstep", {}).get("outcomes", [])}
    entries = {each["extra_info"].get("id"): each for each in document.get("benchmarks", [])}
    results: dict[str, list[dict[str, Any]]] = {}
    failures: dict[str, dict[str, Any]] = {}
    for entry in journal.answers:
        if entry["type"] == "failure":
            failures[entry["id"]] = entry["failure"]
        else:
            of_case = results.setdefault(entry["id"], [])
            # A resumed sweep may repeat what it has taken over.
            if entry["launch_result"] not in of_case:
                of_case.append(entry["launch_result"])
    for case_id, failure in failures.items():
        outcome = outcomes.get(case_id, {})
        if outcome.get("failure") != failure or outcome.get("outcome") != failure["outcome"]:
            found.append(f"{case_id}: the journal's failure is not the outcome in the final JSON")
    for case_id, launches in results.items():
        if case_id in failures:
            continue
        if outcomes.get(case_id, {}).get("outcome") != "ok":
            said = outcomes.get(case_id, {}).get("outcome")
            found.append(f"{case_id}: measured according to the journal, {said!r} in the JSON")
        benchmark = entries.get(case_id)
        if benchmark is None:
            found.append(f"{case_id}: measured according to the journal, no benchmark in the JSON")
            continue
        times = [time for launch in launches for time in launch["step_s"]]
        if benchmark["stats"].get("data") != times:
            found.append(f"{case_id}: stats.data is not what the journal holds")
        if benchmark["extra_info"]["result"]["launches"] != [each["fields"] for each in launches]:
            found.append(f"{case_id}: extra_info is not what the journal holds")
    for case_id in entries:
        if case_id not in results:
            found.append(f"{case_id}: a benchmark in the JSON that the journal does not have")
    return found
