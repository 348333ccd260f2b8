"""The check on real GPUs: skipped as a whole, with the reason, where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.case import Case
from bench.controller import Controller
from bench.launch import LaunchError, probe
from bench.machine import usable_cores
from bench.result import Failure, LaunchResult
from bench.settings import Settings

Measure = Callable[[Case], LaunchResult]
ROWS: list[tuple[str, ...]] = []


@pytest.fixture(scope="session")
def facts() -> dict[str, Any]:
    try:
        found = probe(sys.executable)
    except LaunchError as error:
        pytest.skip(str(error))
    if not found["gpus"]:
        pytest.skip(f"needs a GPU, found 0 (torch {found['torch']})")
    return found


@pytest.fixture(scope="session")
def gpus(facts: dict[str, Any]) -> int:
    return len(facts["gpus"])


@pytest.fixture(scope="session")
def measure(facts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measure]:
    """Run a case on ranks that all cases of this check share; a failure fails the test."""
    settings = Settings(launches=1, min_steps=30, warm_up_steps=10, max_seconds=1.0)
    folder: Path = tmp_path_factory.mktemp("ranks")
    controller = Controller(settings, {"": sys.executable}, max(1, usable_cores() // 8), folder)

    def run(case: Case) -> LaunchResult:
        answer = controller.run(case, 0, max(2, len(facts["gpus"])))
        if isinstance(answer, Failure):
            pytest.fail(answer.sentence(case.id) + "\n" + answer.traceback, pytrace=False)
        note(case, answer)
        return answer

    yield run
    controller.stop()


def note(case: Case, result: LaunchResult) -> None:
    communication = result.fields["ranks"][0]["communication"] or {}
    calls, union_s = communication.get("calls_per_step"), communication.get("all_reduce_s")
    overlap = communication.get("overlap_ratio")
    ROWS.append(
        (
            case.id,
            f"{result.fields['median_step_s'] * 1e3:.3f} ms",
            "-" if calls is None else f"{calls:g} calls",
            "-" if union_s is None else f"{union_s * 1e3:.3f} ms",
            "-" if overlap is None else f"{overlap:.0%} hidden",
            f"{(result.fields['ranks'][0]['memory']['peak_bytes'] or 0) / 1e6:.0f} MB",
        )
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not ROWS:
        return
    terminalreporter.section("on this machine's GPUs")
    widths = [max(len(row[column]) for row in ROWS) for column in range(len(ROWS[0]))]
    for row in ROWS:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        terminalreporter.write_line("  ".join(cells))
