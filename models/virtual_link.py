"""A link of known rate and latency under DDP: the known answer for predictions of networks.

DDP's buckets are really reduced, over whatever there is, and are done no sooner than a ring
all-reduce over the virtual link would be:

    2 (W - 1) * latency + 2 (W - 1) / W * bytes / rate

The link carries one bucket at a time, in the order in which they were handed over. Each rank has
one of its own, and all do the same; what a rank waits for others it waits in the real all-reduce.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from models.sleep_options import SleepOptions
from models.waiting import wait_until


class VirtualLink:
    """A communication hook of DDP."""

    def __init__(self, options: SleepOptions) -> None:
        assert options.link_mbit is not None
        self._bytes_per_s = options.link_mbit * 1e6 / 8
        self._latency_s = options.link_us / 1e6
        self._free_s = 0.0
        self._handed: queue.SimpleQueue[_Handed] = queue.SimpleQueue()
        threading.Thread(target=self._deliver, name="virtual link", daemon=True).start()

    def seconds(self, size: int, world_size: int) -> float:
        """What the link takes for a bucket of ``size`` bytes."""
        hops = 2 * (world_size - 1)
        return hops * self._latency_s + hops / world_size * size / self._bytes_per_s

    def __call__(self, bucket: Any) -> torch.futures.Future[Tensor]:
        now_s = time.perf_counter()
        tensor, world_size = bucket.buffer(), dist.get_world_size()
        size = tensor.numel() * tensor.element_size()
        self._free_s = max(now_s, self._free_s) + self.seconds(size, world_size)
        tensor.div_(world_size)
        handed = _Handed(tensor, dist.all_reduce(tensor, async_op=True), self._free_s)
        self._handed.put(handed)
        return handed.done

    def _deliver(self) -> None:
        while True:
            handed = self._handed.get()
            try:
                handed.work.wait()
                wait_until(handed.until_s)
                handed.done.set_result(handed.tensor)
            except RuntimeError as error:  # a rank is gone: whoever waits for the bucket is told
                handed.done.set_exception(error)


class _Handed:
    """A bucket on its way: not there before ``until_s``."""

    def __init__(self, tensor: Tensor, work: Any, until_s: float) -> None:
        self.tensor, self.work, self.until_s = tensor, work, until_s
        self.done: torch.futures.Future[Tensor] = torch.futures.Future()
