"""A terminal for tests: a real pseudo-terminal, and what someone before it sees at the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
#: Titles and progress that a terminal's frame shows, not its screen.
_OF_THE_FRAME = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CODE = re.compile(r"\x1b\[2K|\r|\n|[^\x1b\r\n]+|\x1b.?.?.?")


def run_in_terminal(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, columns: int
) -> tuple[int, str]:
    """(exit status, everything written to a terminal of so many columns), stderr too."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"TERM": "xterm-256color", **environment},
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        close_fds=True,
    )
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # Linux says so when the last process has closed the other end
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    return process.wait(timeout=60), b"".join(parts).decode()


def screen(written: str) -> list[str]:
    """The lines that remain. Knows what a sweep may use and nothing else: colours, going back to
    the first column, wiping a line."""
    text = _OF_THE_FRAME.sub("", _COLOR.sub("", written))
    lines, column = [""], 0
    for code in _CODE.findall(text):
        if code == "\n":
            lines.append("")
        elif code == "\r":
            column = 0
        elif code == "\x1b[2K":
            lines[-1] = ""
        else:
            assert not code.startswith("\x1b"), f"unknown code {code!r}"
            line = f"{lines[-1]:<{column}}"
            lines[-1] = line[:column] + code + line[column + len(code) :]
            column += len(code)
    return [line.rstrip() for line in lines]
