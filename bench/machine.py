"""What the machine is, what state it is in, and what to warn about."""

from __future__ import annotations

import os
import platform
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench.cores import usable_of
from bench.environment import kept

#: About 10 ms of work, and how often it is done.
_CALIBRATION_SIZE = 200_000
_CALIBRATIONS = 5


def usable_cores() -> int:
    """Physical cores this process may use: by count, by affinity and by the container's quota."""
    return usable_of(psutil.cpu_count(logical=False) or psutil.cpu_count() or 1)


def describe() -> dict[str, Any]:
    """The machine as the record keeps it. Holds no version of torch."""
    memory = psutil.virtual_memory()
    return {
        "host": socket.gethostname(),
        "cpu": _cpu_name(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": memory.total,
        "os": platform.platform(),
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "environment": kept(os.environ),
    }


def state(clock: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """How busy the machine is now. A value that cannot be read is None.

    ``cpu_s`` and ``steal_s`` count since the machine started: what lies between two states is what
    happened meanwhile. ``calibration_s`` is the time of a fixed piece of work, the fastest of some.
    """
    times = psutil.cpu_times()
    total = sum(times)
    steal = getattr(times, "steal", None)
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError, RuntimeError):
        frequency = None
    return {
        "load_1min": psutil.getloadavg()[0],
        "cpu_s": total,
        "steal_s": steal,
        "steal_ratio": steal / total if steal is not None and total else None,
        "cpu_mhz": frequency.current if frequency else None,
        "memory_available_bytes": psutil.virtual_memory().available,
        "pressure": {name: _pressure(name) for name in ("cpu", "memory", "io")},
        "calibration_s": min(_calibration(clock) for _ in range(_CALIBRATIONS)),
    }


def _calibration(clock: Callable[[], float]) -> float:
    started = clock()
    sum(number * number for number in range(_CALIBRATION_SIZE))
    return clock() - started


def _pressure(name: str) -> float | None:
    """The share of the last ten seconds in which some task waited for it (Linux PSI)."""
    found = re.search(r"^some avg10=([0-9.]+)", _read(f"/proc/pressure/{name}") or "", re.MULTILINE)
    return float(found.group(1)) / 100 if found else None


def warnings(
    machine: dict[str, Any],
    before: dict[str, Any],
    *,
    gpus: int,
    launches: int,
    largest_world_size: int,
    threads_per_rank: int,
    cores: int,
) -> list[str]:
    """What a reader must know before believing a number of this run, one sentence each.

    ``cores``: of all hosts together.
    """
    found = []
    own_cores = machine["usable_cores"]
    load = before.get("load_1min")
    if load is not None and load > 0.5 * own_cores:
        found.append(
            f"the machine was busy before the sweep began: load {load:.1f} on {own_cores} cores"
        )
    if largest_world_size * threads_per_rank > cores:
        found.append(
            f"oversubscribed: {largest_world_size} ranks of {threads_per_rank} thread(s) on "
            f"{cores} core(s); those points are no evidence about scaling"
        )
    if gpus == 0:
        found.append("no GPU: nothing here is evidence about NCCL")
    if launches == 1:
        found.append("one launch: restart noise is not in the intervals")
    return found


def _cpu_name() -> str:
    text = _read("/proc/cpuinfo") or ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None
