"""How many processors a process may use: by their number, its affinity and a container's quota."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = "/sys/fs/cgroup/cpu.max"


def usable_of(physical: int) -> int:
    """Of so many physical cores those that this process may use; at least 1."""
    limits = [physical]
    if hasattr(os, "sched_getaffinity"):
        limits.append(len(os.sched_getaffinity(0)))
    quota = _quota()
    if quota is not None:
        limits.append(max(1, int(quota)))
    return max(1, min(limits))


def _quota() -> float | None:
    try:
        quota, _, period = Path(_QUOTA).read_text().strip().partition(" ")
        return int(quota) / int(period)
    except (OSError, ValueError):  # "max": no limit
        return None
