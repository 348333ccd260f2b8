"""Waiting for a moment, exactly."""

from __future__ import annotations

import time
from collections.abc import Callable

# time.sleep comes back 0.1 to 0.2 ms late on an ordinary kernel; the rest is waited awake.
AWAKE_S = 0.0003


def wait_until(
    deadline_s: float,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when `clock` has reached the deadline: never before it, and as little after it as
    the machine allows."""
    rest_s = deadline_s - clock()
    if rest_s > AWAKE_S:
        sleep(rest_s - AWAKE_S)
    while clock() < deadline_s:
        pass
