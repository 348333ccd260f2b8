"""What a cell's test ends with, whatever pytest does after the ranks have measured."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweeps import ROOT, SHORT, sweep

#: A plugin of the user's own: the first case fails after it was measured and replayed.
FAILS_AFTERWARDS = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    result = yield
    if "w1" in pyfuncitem.name:
        assert False, "budget exceeded"
    return result
"""


def test_a_case_that_fails_after_it_was_timed_is_no_good_result(tmp_path: Path) -> None:
    """D03: pytest-benchmark alone would keep its numbers without a mark."""
    (tmp_path / "fails_afterwards.py").write_text(FAILS_AFTERWARDS)
    ran = sweep(
        tmp_path,
        *SHORT,
        *("-p", "fails_afterwards", "--axis", "model=mlp", "--axis", "strategy=ddp"),
        *("--axis", "world_size=1,2", "--axis", "batch_size=4", "--axis", "scaling=weak"),
        *("-k", "test_scaling"),
        PYTHONPATH=str(tmp_path),
    )
    assert ran.status == 1
    assert [each["extra_info"]["id"] for each in ran.document["benchmarks"]] == ["ddp-mlp-w2-b4"]
    outcome = ran.outcome("ddp-mlp-w1-b4")
    assert outcome["outcome"] == "failed"
    assert "budget exceeded" in outcome["reason"]
    assert ran.outcome("ddp-mlp-w2-b4")["outcome"] == "ok"


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_a_sweep_in_which_nothing_can_run_still_says_why(tmp_path: Path) -> None:
    ran = sweep(
        tmp_path,
        *("--axis", "backend=nccl", "--axis", "device=cuda", "--axis", "strategy=ddp"),
        *("--axis", "model=mlp", "--axis", "world_size=2", "--axis", "batch_size=4"),
        *("--axis", "scaling=weak", "-k", "test_scaling"),
    )
    assert ran.status == 0, ran.output
    assert ran.document["benchmarks"] == []
    outcome = ran.outcome("ddp-mlp-w2-b4-nccl-cuda")
    assert (outcome["outcome"], outcome["reason"]) == ("skipped", "needs 2 GPUs, found 0")
    page = tmp_path / "page.html"
    subprocess.run(
        [sys.executable, "-m", "reports", "html", tmp_path / "results" / "run.json", "-o", page],
        cwd=ROOT,
        check=True,
    )
    assert "needs 2 GPUs, found 0" in page.read_text()


def test_new_ranks_for_every_case(tmp_path: Path) -> None:
    """--isolation launch, for platforms where a fork is not safe."""
    ran = sweep(
        tmp_path,
        *SHORT,
        *("--isolation", "launch", "--axis", "model=mlp", "--axis", "strategy=ddp"),
        *("--axis", "world_size=1,2", "--axis", "batch_size=4", "--axis", "scaling=weak"),
        *("-k", "test_scaling"),
    )
    assert ran.status == 0, ran.output
    assert len(ran.document["benchmarks"]) == 2


def test_parallel_pytest_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """Without pytest-xdist itself: its option as it would stand on the command line."""
    (tmp_path / "like_xdist.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--dist', default='no')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "bench", "-p", "like_xdist", "--dist", "load"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4
    assert "one case at a time: run it without pytest-xdist" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
