"""One case's child: fork it, pass on what it says, keep the end of what it prints, see it end.

The child is a process group of its own, so that what it leaves behind goes with it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from bench.lifeline import die_with_parent, end_children
from bench.wire import Connection, ready
from bench.worker.witness import Witness

#: Of what a child prints the last this many bytes are kept, for a failure's record.
_OUTPUT_KEPT = 64 * 1024
_CHUNK = 1 << 20


class Child:
    """A forked process and the pipes to it."""

    def __init__(self, controller: Connection, job: dict[str, Any]) -> None:
        words, say = os.pipe()
        output, printed = os.pipe()
        self.witness = Witness()
        self._oom_kills = oom_kills()
        forked_s = time.perf_counter()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(words)
            os.close(output)
            _be_child(controller, job, say, printed, self.witness, forked_s)
        os.close(say)
        os.close(printed)
        with contextlib.suppress(OSError):  # the child does so too: whoever is first
            os.setpgid(self.pid, self.pid)
        self.words = Words(words)
        self.output = Output(output)
        self.exit = _Exit(self.pid) if hasattr(os, "pidfd_open") else None
        self._buried = False

    def sources(self) -> list[Words | Output | _Exit]:
        """What to wait for. A grandchild may hold the pipes open, so their end is not the
        child's: where the system tells of a child's end, that is what counts."""
        pipes = [pipe for pipe in (self.words, self.output) if pipe.open]
        return [*pipes, self.exit] if self.exit is not None else [*pipes]

    @property
    def talking(self) -> bool:
        return self.exit.pending if self.exit is not None else self.words.open

    def kill(self) -> None:
        """The child and what it has started and not moved to another process group."""
        if self._buried:
            return  # its number may be another process's by now
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def bury(self, controller: Connection) -> dict[str, Any]:
        """Take the last words and the exit status; nothing of the child is left after it."""
        if hasattr(os, "waitid"):
            # It has ended and is not yet buried: its number is still its own, and its group's.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.kill()
        _, status = os.waitpid(self.pid, 0)
        self._buried = True
        while self.words.open and ready([self.words], 0):
            self.words.take(controller)
        while self.output.open and ready([self.output], 0):
            self.output.take()
        code = os.waitstatus_to_exitcode(status)
        wanted_memory = code == -signal.SIGKILL and oom_kills() > self._oom_kills
        return {
            "exit_code": code if code >= 0 else None,
            "signal": signal.Signals(-code).name if code < 0 else None,
            "step": self.witness.step,
            "output": self.output.text(),
            "out_of_memory": wanted_memory,
        }

    def close(self) -> None:
        # Its own end does not end the processes it has started, in whatever session they are.
        end_children()
        self.words.close()
        self.output.close()
        if self.exit is not None:
            self.exit.close()
        self.witness.close()


class _Pipe:
    def __init__(self, read_end: int) -> None:
        self._read_end = read_end
        self.open = True

    def fileno(self) -> int:
        return self._read_end

    def _read(self) -> bytes:
        data = os.read(self._read_end, _CHUNK)
        self.open = bool(data)
        return data

    def close(self) -> None:
        os.close(self._read_end)


class Words(_Pipe):
    """What the child says: whole JSON lines, passed on as they are. A torn last one is dropped."""

    def __init__(self, read_end: int) -> None:
        super().__init__(read_end)
        self._partial = b""

    def take(self, controller: Connection) -> None:
        lines, newline, rest = (self._partial + self._read()).rpartition(b"\n")
        self._partial = rest
        if newline:
            controller.send_line(lines + newline)


class Output(_Pipe):
    """What the child prints: the last of it is kept, however much it is."""

    def __init__(self, read_end: int) -> None:
        super().__init__(read_end)
        self._tail = b""

    def take(self) -> None:
        self._tail = (self._tail + self._read())[-_OUTPUT_KEPT:]

    def text(self) -> str:
        return self._tail.decode(errors="replace")


class _Exit:
    """Becomes ready when the child has ended."""

    def __init__(self, pid: int) -> None:
        self._pidfd = os.pidfd_open(pid)
        self.pending = True

    def fileno(self) -> int:
        return self._pidfd

    def close(self) -> None:
        os.close(self._pidfd)


def oom_kills(path: str = "/proc/vmstat") -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it
    does not say."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path(path).read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


def _be_child(
    controller: Connection,
    job: dict[str, Any],
    say_end: int,
    printed: int,
    witness: Witness,
    forked_s: float,
) -> None:
    """The child: run the case, say how it went, and leave without any clean-up of the rank's."""
    code = 1
    try:
        die_with_parent()
        os.setpgid(0, 0)
        controller.close()
        for stream in (1, 2):
            os.dup2(printed, stream)
        os.close(printed)
        faulthandler.enable()  # a segmentation fault's stack goes to what is printed
        witness.testify()
        with open(say_end, "w", buffering=1) as pipe:

            def say(type: str, **fields: Any) -> None:
                pipe.write(json.dumps({"type": type, **fields}, allow_nan=False) + "\n")

            from bench.worker.run_case import run_case

            code = run_case(job, say, forked_s, witness)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
