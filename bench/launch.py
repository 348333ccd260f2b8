"""Interpreter, world, launcher -> processes; a clean environment; stopped for certain."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from bench.lifeline import die_with_parent
from bench.probing import PROBE_TIMEOUT_S, ProbeError, last_line, run_probe
from bench.wire import TOKEN_VARIABLE

ROOT = Path(__file__).resolve().parent.parent

#: A launcher's or a scheduler's word on a process's place in *its* job; in ours it would mislead.
_PLACE_VARIABLES = re.compile(
    r"^(PET_|TORCHELASTIC_|RANK$|LOCAL_RANK$|WORLD_SIZE$|LOCAL_WORLD_SIZE$|GROUP_RANK$"
    r"|GROUP_WORLD_SIZE$|ROLE_|MASTER_|SLURM_(PROCID|LOCALID|NODEID|NTASKS|NPROCS|STEP|TASK)"
    r"|OMPI_COMM_|PMI_|PMIX_)"
)
#: How often torchrun looks after its workers. We see a dead rank by its connection, at once; a
#: launcher that polls ten times a second would only take time from what is measured.
_MONITOR_INTERVAL_S = 30
#: What is told to end gets this long, before it is killed.
_GRACE_S = 3.0
#: Holds, in every process of a launch, which launch that is.
MARK_VARIABLE = "LOCKSTEP_LAUNCH"


class LaunchError(Exception):
    """An interpreter or a launcher that cannot be started, in one line."""


class Launched(Protocol):
    """Ranks that have been started: what the controller needs of them."""

    def problem(self) -> str | None:
        """Why they will not come, once the launcher has ended; None while it runs."""

    def watch(self, pid: int) -> None:
        """A process of this launch, of this host: to be gone after ``stop``."""

    def state_of(self, pid: int) -> str | None:
        """In a word what a process of this host is doing; None when that is not known."""

    def stop(self) -> None:
        """End the launcher, all its descendants and what was watched, for certain."""

    def output_tail(self) -> str:
        """The last lines that launcher and ranks printed."""


@dataclass
class LaunchedProcesses:
    """The processes of a launcher (one of every host that is on this machine) and the file that
    takes what they and their ranks print."""

    processes: Sequence[subprocess.Popen[bytes]]
    log: Path
    #: In the environment of every process of this launch, whoever its parent is by now.
    mark: str = ""
    # A pid is only a number: psutil remembers since when the process has had it.
    _watched: dict[int, psutil.Process] = field(default_factory=dict)

    def problem(self) -> str | None:
        for process in self.processes:
            code = process.poll()
            if code is not None:
                how = f"with exit status {code}"
                how = how if code >= 0 else f"by {signal.Signals(-code).name}"
                return f"the launcher ended {how}: {last_line(self.output_tail())}"
        return None

    def output_tail(self, most_bytes: int = 20_000) -> str:
        try:
            with open(self.log, "rb") as file:
                file.seek(max(0, self.log.stat().st_size - most_bytes))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def watch(self, pid: int) -> None:
        with contextlib.suppress(psutil.Error):
            self._watched[pid] = psutil.Process(pid)

    def state_of(self, pid: int) -> str | None:
        try:
            return str(self._watched[pid].status())
        except (KeyError, psutil.Error):
            return None

    def stop(self) -> None:
        ours = {each for launcher in self.processes for each in _with_descendants(launcher.pid)}
        for watched in self._watched.values():
            if watched.is_running():  # and not another process that got the same pid
                ours |= set(_with_descendants(watched.pid))
        for launcher in self.processes:  # all at once: each may wait for the others to end
            if launcher.poll() is None:
                launcher.terminate()
        # torchrun's workers sit in sessions of their own: killing its group would miss them.
        _, alive = psutil.wait_procs(ours, timeout=_GRACE_S)
        # What was orphaned on the way has no parent of ours any more, but still the mark.
        alive += [process for process in _marked(self.mark) if process not in alive]
        for process in alive:
            _kill(process)
        psutil.wait_procs(alive, timeout=5)
        for launcher in self.processes:
            launcher.wait()


def probe(
    python: str, models: Iterable[str] = (), timeout_s: float = PROBE_TIMEOUT_S
) -> dict[str, Any]:
    """What an interpreter has (see bench/worker/probe.py). Raises LaunchError in one line."""
    try:
        return run_probe(python, models, clean_environment(os.environ, None), timeout_s)
    except ProbeError as error:
        raise LaunchError(str(error)) from None


def start_ranks(
    python: str,
    launcher: str,
    world_size: int,
    address: tuple[str, int],
    token: str,
    threads: int,
    log: Path,
) -> LaunchedProcesses:
    """Start ``world_size`` ranks that connect back to ``address``. Raises LaunchError."""
    worker = worker_arguments(address)
    if launcher == "torchrun":
        command = [
            *(python, "-m", "torch.distributed.run", "--standalone"),
            *torchrun_options(world_size, log),
            *worker,
        ]
    else:
        command = [python, *worker, "--spawn", str(world_size)]
    return start_together([command], token, threads, log)


def worker_arguments(address: tuple[str, int]) -> list[str]:
    """What makes an interpreter a rank that connects to ``address``."""
    host, port = address
    return [
        "-m",
        "bench.worker",
        "--controller",
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
    ]


def torchrun_options(ranks: int, log: Path) -> list[str]:
    """For ``ranks`` ranks on this host."""
    return [
        *("--nproc-per-node", str(ranks), "--max-restarts", "0"),
        *("--monitor-interval", str(_MONITOR_INTERVAL_S)),
        *("--log-dir", str(log.parent)),  # or every launch would leave a folder in /tmp
    ]


def start_together(
    commands: Sequence[Sequence[str]], token: str, threads: int, log: Path
) -> LaunchedProcesses:
    """Start these launchers of one launch. Raises LaunchError, with none of them running."""
    mark = secrets.token_hex(8)
    environment = clean_environment(os.environ, threads)
    environment |= {TOKEN_VARIABLE: token, MARK_VARIABLE: mark}
    started: list[subprocess.Popen[bytes]] = []
    with open(log, "ab") as output:
        for command in commands:
            try:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a Ctrl-C is ours to pass on
                    preexec_fn=die_with_parent if sys.platform.startswith("linux") else None,
                )
            except OSError as error:
                LaunchedProcesses(started, log, mark).stop()
                raise LaunchError(f"cannot start {command[0]}: {error.strerror}") from None
            started.append(process)
    return LaunchedProcesses(started, log, mark)


def clean_environment(environment: Mapping[str, str], threads: int | None) -> dict[str, str]:
    """The user's environment without what would misplace our ranks, and with our packages.

    The number of threads is set here as well as in each case, since torchrun would otherwise
    give one process all cores and several one each. A user's own OMP_NUM_THREADS stays.
    """
    clean = {name: value for name, value in environment.items() if not _PLACE_VARIABLES.match(name)}
    clean["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    )
    clean["PYTHONSAFEPATH"] = "1"  # a folder "models" where the user stands must not hide ours
    if threads is not None:
        clean.setdefault("OMP_NUM_THREADS", str(threads))
    return clean


def _marked(mark: str) -> list[psutil.Process]:
    """Processes of this user, on this host, with this mark in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if mark and process.environ().get(MARK_VARIABLE) == mark:
                found.append(process)
    return found


def _with_descendants(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
