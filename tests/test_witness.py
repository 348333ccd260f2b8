"""What a stuck child can still tell, asked of real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from bench.worker.witness import Witness, process_state


@pytest.fixture
def forked() -> Iterator[Callable[[Callable[[int], None]], tuple[Witness, int]]]:
    """Fork a child that testifies and then does something; it is killed in the end."""
    pids: list[int] = []
    witnesses: list[Witness] = []

    def fork(work: Callable[[int], None]) -> tuple[Witness, int]:
        witness = Witness()
        ready, said = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                witness.testify()
                witness.progress[0] = 7
                work(said)
            finally:
                os._exit(0)
        os.close(said)
        os.read(ready, 1)
        os.close(ready)
        pids.append(pid)
        witnesses.append(witness)
        return witness, pid

    yield fork
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for witness in witnesses:
        witness.close()


def sleep_for_ever(ready: int) -> None:
    os.write(ready, b"!")
    time.sleep(600)


def compute_for_ever(ready: int) -> None:
    os.write(ready, b"!")
    while True:
        pass


@pytest.mark.parametrize("work", [sleep_for_ever, compute_for_ever])
def test_a_stuck_child_says_where_it_is(
    forked: Callable[..., tuple[Witness, int]], work: Callable[[int], None]
) -> None:
    witness, pid = forked(work)
    said = witness.ask(pid, timeout_s=5)
    assert f"in {work.__name__}" in str(said["stacks"])
    assert "in _answer" not in str(said["stacks"])  # the thread that answers is not of interest
    assert (said["state"], said["step"], said["collectives"]) == (None, 7, 0)


def test_a_stopped_child_is_called_that_and_not_waited_for(
    forked: Callable[..., tuple[Witness, int]],
) -> None:
    witness, pid = forked(sleep_for_ever)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    said = witness.ask(pid, timeout_s=600)
    assert (said["state"], said["step"], said["collectives"]) == ("stopped", 7, None)
    assert said["stacks"] == ""


def test_the_step_outlives_the_child(forked: Callable[..., tuple[Witness, int]]) -> None:
    witness, pid = forked(sleep_for_ever)
    assert witness.step == 7
    os.kill(pid, signal.SIGKILL)
    assert witness.step == 7


def test_before_the_first_step_there_is_none() -> None:
    witness = Witness()
    assert witness.step is None
    witness.close()


def test_a_running_process_has_no_unusual_state() -> None:
    assert process_state(os.getpid()) is None
    assert process_state(2**30) is None
