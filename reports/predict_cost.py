"""What one all-reduce costs over a link: seconds from bytes, ranks, rate and latency.

    ring  2 (W − 1) latencies and 2 (W − 1) / W of the bytes
    tree  2 ⌈log2 W⌉ latencies and as many times the bytes (reduce, then broadcast)

The cheaper of the two is taken, as libraries do: a ring moves fewest bytes, a tree waits for fewest
messages. ``queue_s`` is what each bucket costs beside that, on any network.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from bench.units import parse_rate
from reports import words

_LATENCY = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)", re.IGNORECASE)
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Link:
    """The network between two ranks. ``latency_s`` of one message; None where it is not stated."""

    bits_per_s: float
    latency_s: float | None = None

    @classmethod
    def parse(cls, text: str) -> Link:
        """'25Gbit', '25Gbit,20us', '3GB,5us'. Raises ValueError in words."""
        rate, _, latency = text.strip().partition(",")
        try:
            bits = parse_rate(rate)
        except ValueError as error:
            raise ValueError(f"link {text!r}: {error}, as in 25Gbit,20us") from None
        if not latency.strip():
            return cls(bits)
        found = _LATENCY.fullmatch(latency.strip())
        if found is None:
            raise ValueError(f"link {text!r}: write the latency with its unit, as in 25Gbit,20us")
        return cls(bits, float(found[1]) * _TIMES[found[2].lower()])

    @property
    def name(self) -> str:
        """'25 Gbit/s, 20 µs'"""
        latency = "" if self.latency_s is None else f", {words.seconds(self.latency_s)}"
        return rate(self.bits_per_s) + latency


def rate(bits_per_s: float) -> str:
    """'25 Gbit/s'"""
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits_per_s >= scale:
            return f"{bits_per_s / scale:.3g}{words.SPACE}{unit}"
    return f"{bits_per_s:.3g}{words.SPACE}bit/s"


@dataclass(frozen=True)
class Cost:
    """One all-reduce alone on the link: ``fixed_s`` whatever else goes on, ``transfer_s`` shared
    with others."""

    fixed_s: float
    transfer_s: float
    algorithm: str

    @property
    def seconds(self) -> float:
        return self.fixed_s + self.transfer_s


def all_reduce_cost(
    size: float, world_size: int, bytes_per_s: float, latency_s: float, queue_s: float = 0.0
) -> Cost:
    """``size`` bytes on ``world_size`` ranks; ``bytes_per_s`` is what payload gets of the link."""
    if world_size == 1:
        return Cost(0.0, 0.0, "none")
    hops = 2 * (world_size - 1)
    ring = Cost(queue_s + hops * latency_s, hops / world_size * size / bytes_per_s, "ring")
    levels = 2 * math.ceil(math.log2(world_size))
    tree = Cost(queue_s + levels * latency_s, levels * size / bytes_per_s, "tree")
    return min(ring, tree, key=lambda cost: cost.seconds)
