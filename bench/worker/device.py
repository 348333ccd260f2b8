"""The seam between a case and the device it runs on: time, memory, placement.

Everything that differs between a CPU and a GPU is here. A clock marks moments and tells, after
the window, the seconds between two of them; marking never waits for the device.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import torch

from bench.worker.data import to_device


class Clock(Protocol):
    def start(self) -> None:
        """Forget all marks."""

    def mark(self) -> None:
        """Remember this moment of the device's time line."""

    def finish(self) -> None:
        """Wait until the device has reached the last mark; after it ``seconds`` may be asked."""

    def seconds(self, first: int, second: int) -> float:
        """Seconds from mark number ``first`` to mark number ``second``, counted from 0."""


class CpuClock:
    """Wall-clock marks: on a CPU an operation is over when its call returns."""

    def __init__(self) -> None:
        self._marks: list[float] = []
        self._append = self._marks.append

    def start(self) -> None:
        self._marks.clear()

    def mark(self) -> None:
        self._append(perf_counter())

    def finish(self) -> None:
        pass

    def seconds(self, first: int, second: int) -> float:
        return self._marks[second] - self._marks[first]


class CudaClock:
    """CUDA events on the current stream: the CPU may run ahead, as it does in training.

    Events are kept and used again, so that a timed window creates none.
    """

    def __init__(self, cuda: Any = torch.cuda) -> None:
        self._cuda = cuda
        self._events: list[Any] = []
        self._used = 0

    def start(self) -> None:
        self._used = 0

    def mark(self) -> None:
        if self._used == len(self._events):
            self._events.append(self._cuda.Event(enable_timing=True))
        self._events[self._used].record()
        self._used += 1

    def finish(self) -> None:
        self._cuda.synchronize()

    def seconds(self, first: int, second: int) -> float:
        return float(self._events[first].elapsed_time(self._events[second])) / 1000.0


class Device(Protocol):
    name: str  # "cpu", "cuda:0"
    kind: str  # "cpu", "cuda"
    memory_kind: str  # "rss", "device"
    clock: Clock

    def place(self, value: Any) -> Any:
        """A module or a (nested) batch of tensors, on this device."""

    def synchronize(self) -> None: ...

    def start_memory(self) -> None:
        """From here on the peak is counted: after the first step."""

    def peak_memory_bytes(self) -> int | None: ...

    def describe(self) -> str | None:
        """The device's product name."""


class CpuDevice:
    name = "cpu"
    kind = "cpu"
    memory_kind = "rss"

    def __init__(self) -> None:
        self.clock: Clock = CpuClock()

    def place(self, value: Any) -> Any:
        return value

    def synchronize(self) -> None:
        pass

    def start_memory(self) -> None:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak resident size

    def peak_memory_bytes(self) -> int | None:
        """Peak resident size since ``start_memory``; pages shared with the rank are in it."""
        try:
            status = Path("/proc/self/status").read_text()
        except OSError:
            return _resident_bytes()
        match = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
        return int(match.group(1)) * 1024 if match else _resident_bytes()

    def describe(self) -> str | None:
        return None


class CudaDevice:
    kind = "cuda"
    memory_kind = "device"

    def __init__(self, index: int) -> None:
        self.name = f"cuda:{index}"
        self._device = torch.device(self.name)
        torch.cuda.set_device(self._device)
        self.clock: Clock = CudaClock()

    def place(self, value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return value.to(self._device)
        return to_device(value, self._device)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def start_memory(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak_memory_bytes(self) -> int | None:
        return int(torch.cuda.max_memory_allocated(self._device))

    def describe(self) -> str | None:
        return str(torch.cuda.get_device_name(self._device))


def device_for(kind: str, local_rank: int, backend: str) -> CpuDevice | CudaDevice:
    """The rank's device. gloo ranks may share a GPU; nccl ranks each need their own.

    Raises ValueError where there is no such device.
    """
    if kind == "cpu":
        return CpuDevice()
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found == 0:
        raise ValueError("device=cuda needs a GPU, found 0")
    if backend == "nccl" and local_rank >= found:
        raise ValueError(f"nccl needs one GPU per rank: local rank {local_rank}, found {found}")
    return CudaDevice(local_rank % found)


def _resident_bytes() -> int | None:
    try:
        import psutil
    except ImportError:
        return None
    return int(psutil.Process().memory_info().rss)
