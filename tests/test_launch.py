from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.launch import (
    MARK_VARIABLE,
    LaunchedProcesses,
    LaunchError,
    clean_environment,
    probe,
    start_ranks,
)
from bench.probing import last_line
from bench.wire import PROBE_MARK


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


def test_what_the_users_libraries_read_stays() -> None:
    kept = {"OMP_PROC_BIND": "true", "NCCL_IB_DISABLE": "1", "GLOO_DEVICE_TRANSPORT": "TCP"}
    clean = clean_environment(kept, None)
    assert kept.items() <= clean.items()
    assert "OMP_NUM_THREADS" not in clean  # nothing was said about threads


#: A process deaf to SIGTERM that starts the next one of the list in a session of its own.
TREE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
note, *rest = sys.argv[1:]
child = subprocess.Popen([sys.executable, __file__, *rest], start_new_session=True) if rest else 0
with open(note + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(note + ".part", note)
if "leaves" not in note:
    time.sleep(600)
"""


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def grow(folder: Path, *names: str) -> tuple[subprocess.Popen[bytes], dict[str, psutil.Process]]:
    """Processes, each the child of the one before; one named "leaves" ends by itself."""
    (folder / "tree.py").write_text(TREE)
    notes = [folder / name for name in names]
    first = subprocess.Popen([sys.executable, str(folder / "tree.py"), *map(str, notes)])
    for note in notes:
        wait_for(note)
    if "leaves" in names[0]:
        first.wait(30)
    pids = {note.name: int(note.read_text()) for note in notes}
    return first, {name: psutil.Process(pid) for name, pid in pids.items() if "leaves" not in name}


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.launch._GRACE_S", 0.2)


@pytest.mark.usefixtures("impatient")
def test_stop_ends_a_tree_whatever_it_does(tmp_path: Path) -> None:
    """A launcher, its worker in a session of its own and that one's child, all deaf to SIGTERM."""
    process, tree = grow(tmp_path, "launcher", "worker", "child")
    launched = LaunchedProcesses((process,), tmp_path / "log")
    assert launched.problem() is None
    launched.stop()
    assert process.poll() is not None
    assert all(map(is_gone, tree.values())), tree


@pytest.mark.usefixtures("impatient")
def test_stop_ends_ranks_whose_launcher_is_gone(tmp_path: Path) -> None:
    """Nothing ties them to the launcher any more but what they said when they connected."""
    process, tree = grow(tmp_path, "leaves", "worker", "child")
    launched = LaunchedProcesses((process,), tmp_path / "log")
    launched.watch(tree["worker"].pid)
    launched.stop()
    assert all(map(is_gone, tree.values())), tree


@pytest.mark.usefixtures("impatient")
def test_stop_ends_orphans_that_nobody_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their parents are gone; what they have of the launch is its mark in their environment."""
    monkeypatch.setenv(MARK_VARIABLE, "this launch")
    process, tree = grow(tmp_path, "leaves", "orphan")
    monkeypatch.setenv(MARK_VARIABLE, "another launch")
    _, other = grow(tmp_path, "leaves2", "stranger")
    LaunchedProcesses((process,), tmp_path / "log", "this launch").stop()
    assert is_gone(tree["orphan"])
    assert not is_gone(other["stranger"])
    other["stranger"].kill()


def test_a_pid_that_another_process_has_got_by_now_is_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    launched = LaunchedProcesses((process,), tmp_path / "log")
    launched.watch(bystander.pid)
    assert launched.state_of(bystander.pid) in ("sleeping", "running", "disk-sleep")
    # As if the process that was watched had begun at another time.
    launched._watched[bystander.pid]._create_time = 1.0
    launched._watched[bystander.pid]._ident = (bystander.pid, 1.0)
    launched.stop()
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
    assert launched.state_of(1_000_000_000) is None


KIND = """
import signal, sys, time
def end(*_):
    open(sys.argv[1] + "/ended", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
open(sys.argv[1] + "/ready", "w").close()
time.sleep(600)
"""


def test_stop_asks_before_it_kills_and_leaves_others_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    process = subprocess.Popen([sys.executable, "-c", KIND, str(tmp_path)])
    try:
        wait_for(tmp_path / "ready")
        launched = LaunchedProcesses((process,), tmp_path / "log")
        launched.stop()
        launched.stop()  # once more does no harm
        assert process.poll() is not None
        assert (tmp_path / "ended").exists()
        assert bystander.poll() is None
    finally:
        for each in (bystander, process):
            each.kill()
            each.wait()


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        (
            "torchrun",
            "-m torch.distributed.run --standalone --nproc-per-node 2 --max-restarts 0",
        ),
        ("spawn", "-m bench.worker --controller 127.0.0.1:4242 --spawn 2"),
    ],
)
def test_what_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, words: str
) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "command: $@"\nenv\n')
    fake.chmod(0o755)
    monkeypatch.setenv("WORLD_SIZE", "64")
    monkeypatch.setenv("LOCAL_RANK", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    address = ("127.0.0.1", 4242)
    launched = start_ranks(str(fake), launcher, 2, address, "secret", 3, tmp_path / "log")
    assert launched.processes[0].wait(30) == 0
    command, *environment = launched.output_tail().splitlines()
    assert words in command
    assert "-m bench.worker --controller 127.0.0.1:4242" in command
    assert "secret" not in command  # anyone can read a command line
    assert f"{MARK_VARIABLE}={launched.mark}" in environment
    assert {"LOCKSTEP_TOKEN=secret", "OMP_NUM_THREADS=3"} <= set(environment)
    assert not [line for line in environment if line.startswith(("WORLD_SIZE=", "LOCAL_RANK="))]
    assert launched.problem() is not None
    launched.stop()


def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"^cannot start /nowhere/python: No such file"):
        start_ranks("/nowhere/python", "spawn", 1, ("127.0.0.1", 1), "t", 1, tmp_path / "log")


def test_a_launcher_that_ended_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback\nValueError: no such thing\n-----\n")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()
    launched = LaunchedProcesses((process,), log)
    assert launched.problem() == (
        "the launcher ended with exit status 3: ValueError: no such thing"
    )
    launched.stop()


def test_of_a_long_log_the_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", ""])
    launched = LaunchedProcesses((process,), log)
    assert launched.output_tail() == ""  # nothing was written yet
    log.write_bytes(b"x" * 100_000 + b"\xff the end")
    assert launched.output_tail(most_bytes=9) == "\ufffd the end"
    assert len(launched.output_tail()) == 20_000
    launched.stop()


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(LaunchError, match="cannot start /nowhere/python: No such file"):
        probe("/nowhere/python")


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho I am no Python >&2\nexit 4\n")
    fake.chmod(0o755)
    with pytest.raises(LaunchError, match=r"exit status 4\): I am no Python") as refused:
        probe(str(fake))
    assert "\n" not in str(refused.value)


def test_an_interpreter_that_does_not_answer(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    with pytest.raises(LaunchError, match=r"did not say within 0.2 s what it has"):
        probe(str(fake), timeout_s=0.2)


def test_what_an_interpreter_prints_on_import_is_not_its_answer(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\necho '{{}}'\necho '{PROBE_MARK}{{\"torch\": null}}'\n")
    fake.chmod(0o755)
    assert probe(str(fake)) == {"torch": None}


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    """One that sees the standard library and Lockstep alone."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    found = probe(str(wrapper))
    assert found["torch"] is None
    assert found["problem"].startswith("torch cannot be imported: No module named")
    assert "\n" not in found["problem"]


def test_the_last_line_that_says_something() -> None:
    assert last_line("a\nb\n\n====\n") == "b"
    assert last_line("") == "it printed nothing"
