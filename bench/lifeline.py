"""A child must not outlive its parent, nor what it has started outlive the child."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends (Linux; elsewhere no effect).

    The parent may have ended before the call took effect: then this process ends itself.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """From here on a descendant whose parent ends becomes a child of this process (Linux)."""
    if sys.platform.startswith("linux"):
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_children() -> None:
    """Kill and bury every child of this process and, after ``adopt_orphans``, what those leave
    (Linux)."""
    while sys.platform.startswith("linux"):
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid:
                continue
            for child in _children():
                os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)
        except (ChildProcessError, ProcessLookupError, PermissionError):
            return  # none is left, or one that is no longer this user's


def _children() -> list[int]:
    own = os.getpid()
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in brackets may hold anything, brackets too.
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == own:
            found.append(int(stat.parent.name))
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
