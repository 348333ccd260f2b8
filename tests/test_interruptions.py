"""Sweeps that end before they are done: by Ctrl-C, by a kill, on a bad disk; and going on."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sweeps import Running, Sweep, start_sweep, sweep

QUICK, SLOW = "ddp-mlp-w2", "ddp-sleep:layers=1:forward_ms=40:backward_ms=0-w2"
TWO_CELLS = (
    *("--launches", "2", "--max-seconds", "2", "--min-steps", "5", "--warm-up-steps", "3"),
    *("--axis", "model=mlp,sleep:layers=1:forward_ms=40:backward_ms=0", "--axis", "strategy=ddp"),
    *("--axis", "world_size=2", "--axis", "scaling=weak", "--axis", "batch_size=32"),
    *("-k", "test_scaling", "--passes", "timed"),
)


def wait_until(true: Callable[[], bool], seconds: float = 90) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def interrupted(running: Running, lines: int, number: signal.Signals) -> None:
    """Send a signal when the journal has so many lines."""
    assert wait_until(lambda: running.journal_lines >= lines), running.process.poll()
    running.process.send_signal(number)


def steps_of(ran: Sweep, case_id: str) -> dict[int, list[float]]:
    """By launch, the step times in the JSON."""
    entry = ran.entry(case_id)
    found: dict[int, list[float]] = {}
    of_round = entry["extra_info"]["result"]["launch_of_round"]
    for launch, step_s in zip(of_round, entry["stats"]["data"], strict=True):
        found.setdefault(launch, []).append(step_s)
    return found


def test_what_was_measured_is_kept_and_gone_on_from(tmp_path: Path) -> None:
    # A Ctrl-C in the first launch, after one cell: it is in the JSON all the same.
    running = start_sweep(tmp_path, *TWO_CELLS)
    interrupted(running, 2, signal.SIGINT)
    first = running.end()
    assert first.status == 2  # pytest's own for an interruption
    assert "--resume goes on with it" in first.output
    (measured,) = (entry["extra_info"]["id"] for entry in first.document["benchmarks"])
    assert measured == SLOW  # every launch begins at another cell
    assert steps_of(first, SLOW).keys() == {0}
    warnings = first.entry(SLOW)["extra_info"]["result"]["warnings"]
    assert "only 1 of 2 launches: the sweep was interrupted" in warnings
    assert first.outcome(SLOW)["outcome"] == "ok"
    assert first.outcome(QUICK)["outcome"] == "skipped"
    assert "interrupted" in first.outcome(QUICK)["reason"]

    # Going on, and killed without a word: ranks see the connection close, whatever they do.
    running = start_sweep(tmp_path, *TWO_CELLS, "--resume")
    interrupted(running, 5, signal.SIGKILL)  # header, cell, resumed, cell, cell
    assert wait_until(lambda: not running.processes(), 20), running.processes()
    running.end(clean=False)
    with first.json_path.with_suffix(".journal.jsonl").open("ab") as journal:
        journal.write(b'{"type": "launch_result", "id": "ddp-ml')  # a line the kill has torn
    before = {
        (entry["id"], entry["launch"]): entry["launch_result"]["step_s"]
        for entry in map(json.loads, journal_lines(first)[:-1])
        if entry["type"] == "launch_result"
    }
    assert len(before) == 3

    # To the end: what was there before is in it bit for bit, the rest was measured.
    last = sweep(tmp_path, *TWO_CELLS, "--resume")
    assert last.status == 0, last.output
    assert "3 launches of 2 cells were taken from" in last.output
    assert "the last line was torn" in last.output
    assert {outcome["outcome"] for outcome in last.document["lockstep"]["outcomes"]} == {"ok"}
    for (case_id, launch), step_s in before.items():
        assert steps_of(last, case_id)[launch] == step_s
    assert steps_of(last, QUICK).keys() == steps_of(last, SLOW).keys() == {0, 1}
    assert steps_of(last, SLOW)[0] == steps_of(first, SLOW)[0]

    # Once more: nothing is left to measure, and the same comes out.
    again = sweep(tmp_path, *TWO_CELLS, "--resume")
    assert again.status == 0
    for entry in last.document["benchmarks"]:
        same = again.entry(entry["extra_info"]["id"])
        assert same["extra_info"] == entry["extra_info"]
        assert same["stats"] == entry["stats"]

    # Under other conditions it is not mixed in.
    refused = sweep(tmp_path, *TWO_CELLS, "--resume", "--min-steps", "6")
    assert refused.status == 4
    assert "settings.min_steps was 5, is 6" in refused.output
    assert "Traceback" not in refused.output


def journal_lines(ran: Sweep) -> list[bytes]:
    return ran.json_path.with_suffix(".journal.jsonl").read_bytes().split(b"\n")


@pytest.mark.parametrize(
    ("blocked", "message"),
    [
        ("results", "results"),  # a file where the folder should be
        ("results/run.json/", "Is a directory"),
        ("results/run.journal.jsonl/", "Is a directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_found_before_the_sweep(
    tmp_path: Path, blocked: str, message: str
) -> None:
    if blocked.endswith("/"):
        (tmp_path / blocked).mkdir(parents=True)
    else:
        (tmp_path / blocked).write_text("in the way")
    running = start_sweep(tmp_path, *TWO_CELLS)
    output, _ = running.process.communicate(timeout=60)
    assert running.process.returncode == 4
    (error,) = (line for line in output.splitlines() if line.startswith("ERROR"))
    assert message in error
    assert "Traceback" not in output
    assert not running.processes()


def test_a_journal_that_is_none_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "run.journal.jsonl").write_text("rubbish\nmore\n")
    ran = sweep(tmp_path, *TWO_CELLS, "--resume")
    assert ran.status == 4
    assert "line 1 is not JSON" in ran.output
    assert "Traceback" not in ran.output
