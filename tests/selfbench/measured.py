"""Runs a command and prints its wall time and peak memory: ``python -IS measured.py COMMAND …``.

Linux counts as a process's peak also what its parent held when it was started, so the parent must
be small: this file imports next to nothing. The peak is that of the largest process, not a sum, of
the command and the processes it started itself. Prints one line of JSON; the command's own output
goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time


def main(command: list[str]) -> int:
    started = time.perf_counter()
    pid = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)]
    )
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - started
    peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cpu_s = usage.ru_utime + usage.ru_stime
    print(f'{{"wall_s": {wall_s!r}, "cpu_s": {cpu_s!r}, "peak_bytes": {peak_bytes}}}')
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) != 0)
