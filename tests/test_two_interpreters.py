"""Two interpreters in one sweep, from the command line to what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.sweeps import ROOT, Sweep, start_sweep
from tests.test_interruptions import interrupted

#: A model whose step waits, longer where the interpreter has been told so.
WAITS = """
import os, time
import torch
from torch import nn

class Waits(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        time.sleep(0.006 if os.environ.get("LOCKSTEP_TEST_SLOWER") else 0.004)
        return self.layer(x)

def build():
    return Waits()

def batch(n, rank, step):
    return (torch.ones(n, 4),), torch.zeros(n, 4)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""
LAUNCHES = 7  # the fewest that can show one of two cells to be slower


def arguments(folder: Path) -> list[str]:
    """One model that is slower under "new", and one that is not; cheap ones, without gloo."""
    model, python = folder / "waits.py", folder / "slower-python"
    model.write_text(WAITS)
    # Stands for another build: the same interpreter, told to be slower.
    python.write_text(f'#!/bin/sh\nLOCKSTEP_TEST_SLOWER=1 exec {sys.executable} "$@"\n')
    os.chmod(python, 0o755)
    steady = "sleep:layers=1:forward_ms=4:backward_ms=0"
    return [
        *("--torch", f"old={sys.executable}", "--torch", f"new={python}"),
        *("--axis", f"model={model},{steady}", "--axis", "strategy=single"),
        *("--axis", "launcher=spawn", "--axis", "batch_size=4", "-k", "test_scaling"),
        *("--launches", str(LAUNCHES), "--children", "2", "--max-seconds", "0.1"),
        *("--min-steps", "5", "--warm-up-steps", "3"),
    ]


def cells(ran: Sweep) -> dict[tuple[bool, str], dict[str, Any]]:
    """The result of (is the model that waits, interpreter)."""
    return {
        (entry["params"]["model"].endswith("waits.py"), entry["params"]["torch"]): entry[
            "extra_info"
        ]["result"]
        for entry in ran.document["benchmarks"]
    }


def test_a_slower_interpreter_is_found_and_confirmed_also_after_a_kill(tmp_path: Path) -> None:
    asked = arguments(tmp_path)
    running = start_sweep(tmp_path, *asked)
    interrupted(running, 8, signal.SIGKILL)  # the header, and 7 of the 8 results of two launches
    running.end(clean=False)
    # Ranks are started 26 times, each with an import of torch: a busy machine takes minutes.
    ran = start_sweep(tmp_path, *asked, "--resume").end(timeout_s=900)
    assert ran.status == 0, ran.output
    assert "launches of 4 cells were taken from" in ran.output

    found = cells(ran)
    assert found.keys() == {(slow, label) for slow in (False, True) for label in ("old", "new")}
    for (slow, _), result in found.items():
        launches = result["launches"]
        assert [launch["launch"] for launch in launches] == list(range(LAUNCHES))
        assert [len(launch["children"]) for launch in launches] == [2] * LAUNCHES
        assert set(result["child_of_round"]) == {0, 1}
        # Only what looks slower was measured once more.
        assert ("confirmation" in result) == slow
    for label in ("old", "new"):
        fresh = found[True, label]["confirmation"]
        assert fresh["complete"]
        assert [each["launch"] for each in fresh["launches"]] == list(range(LAUNCHES, 2 * LAUNCHES))

    # Within a launch the children of the two take turns: one of each before the second of any.
    for slow in (False, True):
        for launch in range(LAUNCHES):
            began = {
                label: [
                    child["started_unix_s"]
                    for child in found[slow, label]["launches"][launch]["children"]
                ]
                for label in ("old", "new")
            }
            assert max(times[0] for times in began.values()) < min(
                times[1] for times in began.values()
            )

    assert [entry["type"] for entry in ran.journal][-1] == "end"
    interpreters = ran.document["lockstep"]["interpreters"]
    assert list(interpreters) == ["old", "new"]
    assert all(about["torch"] and about["cpu_capability"] for about in interpreters.values())
    settings = ran.document["lockstep"]["settings"]
    assert (settings["children"], settings["order_seed"], settings["confirm"]) == (2, 0, True)
    assert "1 looks slower: measured once more, in 7 fresh pairs" in ran.output

    compared = subprocess.run(
        [sys.executable, "-m", "reports", "compare", str(ran.json_path), "--json", "-"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert compared.returncode == 1, compared.stderr
    gate = [row for row in json.loads(compared.stdout)["rows"] if row["gate"]]
    assert {"waits" in row["case"]: row["said"] for row in gate}[True] == "slower, confirmed"
    assert [row["regression"] for row in gate].count(True) == 1
