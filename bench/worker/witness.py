"""What a child that is stuck can still tell: where its threads are, how far it has come.

The child's main thread may sit in a collective for ever. Two things work all the same: a signal
makes faulthandler write the stacks of all threads, from C; and a thread of its own, asleep in a
read until it is asked, counts the collectives that were begun. Neither costs a healthy step
anything. The counts lie in memory that child and rank share, so that they outlive the child.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import re
import signal
import tempfile
import threading
import time
from pathlib import Path

from bench.worker.strategies import collectives_begun

_ASK = signal.SIGUSR1
_UNKNOWN = -(2**62)
#: The letters of /proc for a process that neither runs nor just waits.
_STATES = {"T": "stopped", "t": "stopped by a debugger", "Z": "dead"}
#: The frame of run_case and all that follow it.
_OUTERMOST = re.compile(r"(File \".*run_case\.py\", line \d+ in run_case)\n.*", re.DOTALL)
#: A stack that has not grown for this long is whole.
_QUIET_S = 0.05


class Witness:
    """Made by the rank before it forks; the child fills it, the rank reads it."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 16)
        self._numbers = memoryview(self._shared).cast("q")  # step, collectives
        self._numbers[0] = self._numbers[1] = _UNKNOWN
        self._stacks = tempfile.TemporaryFile()  # noqa: SIM115 - both processes hold it
        self._read_end, self._write_end = os.pipe()

    @property
    def progress(self) -> memoryview:
        """One number: the step the child is in. The child writes it before every step."""
        return self._numbers[:1]

    def testify(self) -> None:
        """In the child: from here on it can be asked."""
        faulthandler.register(_ASK, file=self._stacks, all_threads=True)
        threading.Thread(target=self._answer, name="witness", daemon=True).start()

    def _answer(self) -> None:
        while os.read(self._read_end, 1):
            begun = collectives_begun()
            self._numbers[1] = _UNKNOWN if begun is None else begun

    def ask(self, child: int, timeout_s: float = 1.0) -> dict[str, object]:
        """In the rank: what the child is at, as far as it says so within ``timeout_s``.

        ``state`` is that of its process where it is unusual, ``stacks`` those of its threads.
        """
        state = process_state(child)
        if state is None:
            os.write(self._write_end, b"?")
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, _ASK)
            self._wait_for_stacks(timeout_s)
        self._stacks.seek(0)
        return {
            "state": state,
            "stacks": _of_the_case(self._stacks.read().decode(errors="replace")),
            "step": self.step,
            "collectives": None if self._numbers[1] == _UNKNOWN else self._numbers[1],
        }

    def _wait_for_stacks(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        size = 0
        while time.monotonic() < deadline:
            time.sleep(_QUIET_S)
            before, size = size, os.fstat(self._stacks.fileno()).st_size
            if size == before and size > 0:
                return

    @property
    def step(self) -> int | None:
        return None if self._numbers[0] == _UNKNOWN else self._numbers[0]

    def close(self) -> None:
        self._numbers.release()
        self._shared.close()
        self._stacks.close()
        os.close(self._read_end)
        os.close(self._write_end)


def process_state(pid: int) -> str | None:
    """ "stopped" and the like; None for a process that runs or just sleeps."""
    try:
        # The name in brackets may hold anything, brackets too.
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
    return _STATES.get(letter)


def _of_the_case(stacks: str) -> str:
    """Without the thread that answers, and without the frames that every child has below."""
    sections = [part for part in stacks.split("\n\n") if f'File "{__file__}"' not in part]
    return "\n\n".join(re.sub(_OUTERMOST, r"\1", part) for part in sections).strip()
