"""What a real sweep prints: on a terminal, in a pipe, for CI, without Unicode."""

from __future__ import annotations

import os
import re
import sys
import uuid
from pathlib import Path

import pytest

from tests.sweeps import ROOT, processes_of, sweep
from tests.terminals import run_in_terminal, screen

#: A model that is built, and one that is not.
GOOD = """
from torch import nn
import torch

def build():
    return nn.Linear(4, 4)

def batch(n, rank, step):
    return (torch.ones(n, 4),), torch.zeros(n, 4)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""
BAD = (
    GOOD
    + """
def build():
    raise ValueError("no such layer")
"""
)


def arguments(folder: Path) -> list[str]:
    """Four cells with numbers, one that is skipped, one that fails."""
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(BAD)
    return [
        *("--axis", f"model={folder / 'good.py'},{folder / 'bad.py'}", "--axis", "batch_size=4"),
        *("--axis", "strategy=single,ddp,dp", "--axis", "world_size=1,2"),
        *("--axis", "scaling=weak", "--axis", "launcher=spawn", "--launches", "2"),
        *("--max-seconds", "0.2", "--min-steps", "5", "--warm-up-steps", "3"),
        *("-k", "test_scaling and (good or single)"),
    ]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """As a user has it, and without what says that this is no terminal."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "TMPDIR": str(folder), **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("screen")


@pytest.fixture(scope="module")
def on_terminal(folder: Path) -> str:
    """Everything that a sweep has written to a terminal of 80 columns."""
    mark = uuid.uuid4().hex
    status, written = run_in_terminal(
        [
            *(sys.executable, "-m", "pytest", "bench", "-p", "no:cacheprovider"),
            *(f"--benchmark-json={folder / 'results' / 'run.json'}", *arguments(folder)),
        ],
        environment(folder, LOCKSTEP_TEST=mark),
        ROOT,
        80,
    )
    assert status == 1, written
    assert not processes_of(mark)
    return written


def test_a_bar_stands_under_the_lines_and_nothing_of_it_remains(on_terminal: str) -> None:
    assert re.search(r"━\S*  \d+/\d+  launch 1/2  \S+", on_terminal)
    assert re.search(r"━\S*  \d+/\d+  [\d min]+ s left  launch 2/2  \S+", on_terminal)
    assert "reading the results" in on_terminal
    lines = screen(on_terminal)
    assert not [line for line in lines if "━" in line or "reading the results" in line]
    assert "\x1b[?25" not in on_terminal
    assert not [line for line in lines if " left" in line]  # the bar has it


def test_the_lines_of_a_terminal_are_as_wide_as_it(on_terminal: str) -> None:
    lines = screen(on_terminal)
    heading = next(line for line in lines if line.startswith("case "))
    assert heading.split() == ["case", "step", "±", "samples/s", "ideal", "all-reduce", "hidden"]
    numbers = [line for line in lines if re.search(r" m?s +± ?\S+ +[\d.]+", line)]
    assert len(numbers) == 4  # one rank each of single, dp and ddp, and two of ddp
    assert all(len(line) <= 80 for line in numbers)
    # Each under the heading's own end.
    end = heading.index("samples/s") + len("samples/s")
    assert all(re.match(r".*[\d.]$", line[:end]) for line in numbers)
    assert {line[end : end + 1] for line in numbers} <= {"", " "}


def test_the_closing_says_how_it_went_and_what_to_do_next(on_terminal: str, folder: Path) -> None:
    lines = screen(on_terminal)
    start = next(n for n, line in enumerate(lines) if re.match(r"-+ Lockstep -+$", line))
    closing = lines[start:]
    said = "\n".join(closing)
    assert "samples/s at best" in said  # the verdict
    assert "How sure is this?" in said
    counts = next(line for line in closing if re.match(r"\d+ ok", line))
    assert counts == "4 ok, 1 failed, 1 skipped"
    failed = next(n for n, line in enumerate(closing) if line.startswith("failed: single-"))
    assert "no such layer" in said
    assert "pytest" in "".join(closing[failed : failed + 4]) and "test_scaling[" in said
    assert any(line.startswith("FAILED bench/test_scaling.py::") for line in closing)
    results = folder / "results" / "run.json"
    # A terminal breaks what is longer than a line; people copy it in one piece.
    whole = said.replace("\n", "")
    assert f"results: {results}" in whole
    assert f"journal: {results.with_suffix('.journal.jsonl')}" in whole
    assert f"page:    python -m reports html {results} -o {results.with_suffix('.html')}" in whole


def test_pytest_benchmarks_own_table_is_left_out(on_terminal: str) -> None:
    assert "Name (time in" not in on_terminal
    assert "Wrote benchmark data" not in on_terminal


def test_in_a_pipe_without_unicode_lines_are_plain(tmp_path: Path) -> None:
    """And -v, and pytest-benchmark's table for whoever asks for it."""
    ran = sweep(
        tmp_path,
        *arguments(tmp_path),
        *("-v", "--benchmark-columns=min,median"),
        LC_ALL="C",
        PYTHONIOENCODING="ascii",
        CI="true",
        NO_COLOR="",
        FORCE_COLOR="",
    )
    assert ran.status == 1
    assert ran.output.isascii()
    assert "\x1b" not in ran.output and "\r" not in ran.output
    good = [line for line in ran.output.splitlines() if " samples/s" in line and "good" in line]
    lines = [line for line in good if "at best" not in line and "interval" not in line]
    assert len(lines) == 4
    assert all("+-" in line for line in lines)
    assert len({line.index(" samples/s") for line in lines}) == 1
    assert "Name (time in" in ran.output
    assert "Traceback (most recent call last)" in ran.output  # of the case that failed, with -v
    assert ran.output.index("Name (time in") < ran.output.index("-- Lockstep --")
    assert "4 ok, 1 failed, 1 skipped" in ran.output


def test_quiet_leaves_the_closing_and_no_json_is_said(tmp_path: Path) -> None:
    """With -s as well: nothing is captured, and nothing changes."""
    (tmp_path / "good.py").write_text(GOOD)
    quick = [
        *("--axis", f"model={tmp_path / 'good.py'}", "--axis", "strategy=single"),
        *("--axis", "batch_size=4", "--axis", "launcher=spawn", "-k", "test_scaling"),
        *("--launches", "1", "--max-seconds", "0.1", "--min-steps", "5", "-q", "-s"),
    ]
    ran = sweep(tmp_path, *quick)
    assert ran.status == 0, ran.output
    assert "samples/s  " not in ran.output and " left" not in ran.output
    assert "samples/s at best" in ran.output
    assert "1 ok" in ran.output
