"""Sweeps as a user starts them, and what they wrote: real pytest, real torch, real gloo ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.case import Case

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LOCKSTEP_SHARED", ROOT.parent / "shared"))
MODELS = SHARED / "cases" / "models"
needs_shared = pytest.mark.skipif(not MODELS.is_dir(), reason=f"needs {MODELS}")
#: Short, but through every pass.
SHORT = ("--launches", "1", "--max-seconds", "0.5", "--min-steps", "5", "--warm-up-steps", "3")


@dataclass
class Sweep:
    """One run of ``pytest bench``: what it printed and wrote."""

    status: int
    output: str
    document: dict[str, Any]
    json_path: Path

    @property
    def journal(self) -> list[dict[str, Any]]:
        """The lines of the journal, the header first."""
        lines = self.json_path.with_suffix(".journal.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def entry(self, case_id: str) -> dict[str, Any]:
        for entry in self.document["benchmarks"]:
            if entry["extra_info"]["id"] == case_id:
                return dict(entry)
        raise AssertionError(f"no {case_id} in\n{self.output[-4000:]}")

    def launch(self, case_id: str) -> dict[str, Any]:
        return dict(self.entry(case_id)["extra_info"]["result"]["launches"][0])

    def outcome(self, case_id: str) -> dict[str, Any]:
        outcomes = self.document["lockstep"]["outcomes"]
        return dict(next(each for each in outcomes if each["id"] == case_id))


@dataclass
class Running:
    """A sweep that has been started."""

    process: subprocess.Popen[str]
    json_path: Path
    mark: str
    temporary: Path

    @property
    def journal_lines(self) -> int:
        journal = self.json_path.with_suffix(".journal.jsonl")
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    def processes(self) -> list[list[str]]:
        return processes_of(self.mark)

    def end(self, clean: bool = True, timeout_s: float = 300) -> Sweep:
        """Wait for it; ``clean``: nothing of it may be left, no process and no file."""
        output, _ = self.process.communicate(timeout=timeout_s)
        if clean:
            assert not self.processes(), f"processes outlived the run: {self.processes()}"
            files = [*self.temporary.glob("lockstep*"), *self.temporary.glob("torchelastic*")]
            assert not files, f"temporary files outlived the run: {files}"
        document = json.loads(self.json_path.read_text()) if self.json_path.exists() else {}
        return Sweep(self.process.returncode, output, document, self.json_path)


def start_sweep(folder: Path, *arguments: str, **environment: str) -> Running:
    out = folder / "results" / "run.json"
    clean = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    mark = uuid.uuid4().hex
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "bench", f"--benchmark-json={out}"),
            *("-p", "no:cacheprovider", *arguments),
        ],
        cwd=ROOT,
        env={**clean, "TMPDIR": str(temporary), "LOCKSTEP_TEST": mark, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Running(process, out, mark, temporary)


def sweep(folder: Path, *arguments: str, **environment: str) -> Sweep:
    return start_sweep(folder, *arguments, **environment).end()


def processes_of(mark: str) -> list[list[str]]:
    """Command lines of what a run has started and left. Found by their environment, which
    launchers and ranks of every kind inherit: another sweep on this machine is not meant."""
    return [
        process.info["cmdline"]
        for process in psutil.process_iter(["environ", "cmdline", "status"])
        if (process.info["environ"] or {}).get("LOCKSTEP_TEST") == mark
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def results(ran: Sweep, **fields: Any) -> list[tuple[Case, dict[str, Any]]]:
    """(case, its only launch) of every cell with these fields."""
    found = [
        (Case.from_dict(entry["params"]), entry["extra_info"]["result"]["launches"][0])
        for entry in ran.document["benchmarks"]
    ]
    return [
        (case, launch)
        for case, launch in found
        if all(getattr(case, name) == value for name, value in fields.items())
    ]


def models_of(ran: Sweep) -> list[str]:
    return [case.model for case, _ in results(ran)]
