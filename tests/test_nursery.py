"""A rank and the child it forks: real forks, without a process group."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bench.wire import Connection
from bench.worker import nursery
from bench.worker.nursery import Output, Words, oom_kills

ROOT = Path(__file__).resolve().parent.parent
#: A rank of its own process: what its child does is given, in place of a case.
RANK = """
import ctypes, os, signal, socket, subprocess, sys, time, types
doing = types.ModuleType("bench.worker.run_case")
def run_case(job, say, forked_s, witness):
    witness.progress[0] = 3
    exec(job["do"], globals() | locals())
    return 0
doing.run_case = run_case
sys.modules["bench.worker.run_case"] = doing
from bench.wire import Connection
from bench.lifeline import adopt_orphans
from bench.worker.rank import _nurse
adopt_orphans()
controller = Connection(socket.socket(fileno=int(sys.argv[1])))
while True:
    message = controller.receive()
    if message["type"] == "controller_run":
        _nurse(controller, message["job"])
"""


class Rank:
    """The controller's side of one rank."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        there.set_inheritable(True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK, str(there.fileno())],
            cwd=ROOT,
            pass_fds=[there.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        there.close()
        here.settimeout(60)
        self.connection = Connection(here)

    def run(self, do: str) -> list[dict[str, Any]]:
        """All that is said of one child, to its end."""
        self.connection.send({"type": "controller_run", "job": {"do": do}})
        return self.rest()

    def rest(self) -> list[dict[str, Any]]:
        said = [self.connection.receive()]
        while said[-1]["type"] != "rank_child_ended":
            said.append(self.connection.receive())
        return said

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


@pytest.fixture(scope="module")
def rank() -> Any:
    made = Rank()
    yield made
    made.close()


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_child_that_ends_well(rank: Rank) -> None:
    forked, done, ended = rank.run("say('rank_done', record={'step_s': [0.1]}); print('hello')")
    assert forked["type"] == "rank_forked"
    assert done == {"type": "rank_done", "record": {"step_s": [0.1]}}
    assert (ended["exit_code"], ended["signal"], ended["step"]) == (0, None, 3)
    assert ended["output"] == "hello\n"
    assert gone(forked["pid"])


@pytest.mark.parametrize(
    ("do", "exit_code", "number", "printed"),
    [
        ("os._exit(5)", 5, None, ""),
        ("raise KeyError('x')", 1, None, "KeyError"),
        ("os.kill(os.getpid(), signal.SIGKILL)", None, "SIGKILL", ""),
        ("ctypes.string_at(0)", None, "SIGSEGV", "Segmentation fault"),
        ("os.abort()", None, "SIGABRT", "Aborted"),
    ],
)
def test_how_a_child_ended_is_told(
    rank: Rank, do: str, exit_code: int | None, number: str | None, printed: str
) -> None:
    ended = rank.run(do)[-1]
    assert (ended["exit_code"], ended["signal"]) == (exit_code, number)
    assert printed in ended["output"]
    assert ended["out_of_memory"] is False


def test_of_what_a_child_prints_the_end_is_kept(rank: Rank) -> None:
    ended = rank.run("sys.stdout.write('x' * 20_000_000 + 'the end'); os.write(2, b'\\xff')")[-1]
    assert len(ended["output"]) <= 64 * 1024
    assert "the end" in ended["output"]
    assert "\ufffd" in ended["output"]  # what is no UTF-8 spoils nothing


@pytest.mark.parametrize(
    "how",
    [
        "time.sleep(600)",
        "os.setsid(); time.sleep(600)",  # as a daemon does
        "os.setsid(); os.fork(); time.sleep(600)",
        "os.setsid(); os.execlp('sleep', 'sleep', '600')",
    ],
)
def test_a_grandchild_that_holds_the_pipes_keeps_nobody_waiting_and_is_ended(
    rank: Rank, how: str
) -> None:
    do = f"pid = os.fork()\nif pid == 0: {how}\nsay('rank_phase', phase='init', pid=pid)"
    started = time.monotonic()
    said = rank.run(do)
    assert time.monotonic() - started < 60  # and not 600
    assert said[-1]["exit_code"] == 0
    assert gone(said[1]["pid"])


def test_a_child_is_asked_and_then_killed(rank: Rank) -> None:
    rank.connection.send({"type": "controller_run", "job": {"do": "time.sleep(600)"}})
    child = rank.connection.receive()["pid"]
    time.sleep(0.2)
    rank.connection.send({"type": "controller_ask"})
    stuck = rank.connection.receive()
    assert (stuck["type"], stuck["step"], stuck["state"]) == ("rank_stuck", 3, None)
    assert "run_case" in stuck["stacks"]
    rank.connection.send({"type": "controller_abort"})
    assert rank.rest()[-1]["signal"] == "SIGKILL"
    assert gone(child)


@pytest.mark.parametrize("how", ["closed", "killed", "stopped and killed"])
def test_a_child_does_not_outlive_its_rank(how: str) -> None:
    """Also not while it computes: the kernel sees to it when nobody else can."""
    made = Rank()
    made.connection.send({"type": "controller_run", "job": {"do": "\nwhile True: pass"}})
    child = made.connection.receive()["pid"]
    if how == "closed":  # as when the controller was killed
        made.connection.close()
        made.process.wait(20)
    else:
        if how == "stopped and killed":
            made.process.send_signal(signal.SIGSTOP)
        made.process.kill()
    assert gone(child)
    made.close()


def test_a_buried_childs_number_is_never_killed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By then it may be another process's."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    monkeypatch.setattr(os, "killpg", lambda pid, number: killed.append(pid))
    child = nursery.Child.__new__(nursery.Child)
    child.pid, child._buried = 4242, False
    child.kill()
    assert killed == [4242, 4242]
    child._buried = True
    child.kill()
    assert len(killed) == 2


def test_words_are_passed_on_line_by_line() -> None:
    read_end, write_end = os.pipe()
    here, there = socket.socketpair()
    words, controller, rank_side = Words(read_end), Connection(here), Connection(there)
    os.write(write_end, b'{"n": 1}\n{"n"')
    words.take(rank_side)
    os.write(write_end, b': 2}\n{"torn')
    words.take(rank_side)
    os.close(write_end)
    words.take(rank_side)
    assert not words.open
    rank_side.close()
    assert [controller.receive()["n"], controller.receive()["n"]] == [1, 2]
    words.close()
    controller.close()


def test_output_is_bounded_whatever_comes() -> None:
    read_end, write_end = os.pipe()
    output = Output(read_end)

    def fill() -> None:
        with open(write_end, "wb") as pipe:
            pipe.write(b"x" * 3_000_000 + b"end")

    threading.Thread(target=fill).start()
    while output.open:
        output.take()
    assert output.text().endswith("xend")
    assert len(output.text()) == 64 * 1024
    output.close()


def test_how_often_the_kernel_has_killed_for_memory(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 12\noom_kill 3\noom_kill_x 9\n")
    assert oom_kills(str(vmstat)) == 3
    vmstat.write_text("nr_free_pages 12\n")
    assert oom_kills(str(vmstat)) == 0
    assert oom_kills(str(tmp_path / "nowhere")) == 0
