from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.launch import (
    LaunchedProcess,
    LaunchError,
    clean_environment,
    last_line,
    probe,
)


def test_the_users_place_in_another_job_does_not_reach_our_ranks() -> None:
    misleading = {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "3",
        "RANK": "7",
        "LOCAL_RANK": "7",
        "WORLD_SIZE": "64",
        "MASTER_ADDR": "elsewhere",
        "MASTER_PORT": "1",
        "TORCHELASTIC_RUN_ID": "x",
        "SLURM_PROCID": "3",
        "OMPI_COMM_WORLD_RANK": "3",
    }
    wanted = {
        "NCCL_DEBUG": "INFO",
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "HOME": "/home/x",
        "SLURM_JOB_ID": "5",
    }
    clean = clean_environment({**misleading, **wanted, "PYTHONPATH": "/mine"}, 4)
    assert not set(misleading) & set(clean)
    assert wanted.items() <= clean.items()
    assert clean["OMP_NUM_THREADS"] == "4"
    assert clean["PYTHONPATH"].endswith(":/mine")


def test_a_users_own_omp_num_threads_stays() -> None:
    assert clean_environment({"OMP_NUM_THREADS": "3"}, 4)["OMP_NUM_THREADS"] == "3"


TREE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
pid = subprocess.Popen([sys.executable, "-c", child], start_new_session=True).pid
open(sys.argv[1] + ".part", "w").write(str(pid))
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


def test_stop_ends_a_tree_whatever_it_does(tmp_path: Path) -> None:
    """A launcher and a worker in a session of its own, both deaf to SIGTERM."""
    note = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", TREE, str(note)], start_new_session=True)
    deadline = time.monotonic() + 30
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    worker = psutil.Process(int(note.read_text()))
    launched = LaunchedProcess(process, tmp_path / "log")
    assert launched.problem() is None
    launched.stop([worker.pid])
    assert process.poll() is not None
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_a_launcher_that_ended_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback\nValueError: no such thing\n-----\n")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()
    launched = LaunchedProcess(process, log)
    assert launched.problem() == (
        "the launcher ended with exit status 3: ValueError: no such thing"
    )
    launched.stop([])


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(LaunchError, match="cannot start /nowhere/python: No such file"):
        probe("/nowhere/python")


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho I am no Python >&2\nexit 4\n")
    fake.chmod(0o755)
    with pytest.raises(LaunchError, match=r"exit status 4\): I am no Python"):
        probe(str(fake))


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    """-I and -S in one: this interpreter sees the standard library and Lockstep alone."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    found = probe(str(wrapper))
    assert found["torch"] is None
    assert found["problem"].startswith("torch cannot be imported: No module named")


def test_the_last_line_that_says_something() -> None:
    assert last_line("a\nb\n\n====\n") == "b"
    assert last_line("") == "it printed nothing"
