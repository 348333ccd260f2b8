"""Runs that say when gradients are ready."""

from __future__ import annotations

from typing import Any

from tests.reports.builder import case, document, entry, rank

MIB = 2**20
#: Four gradients of 1 MiB, ready each 10 ms from 30 ms on.
READY = {
    "reason": None,
    "steps": 20,
    "parameters": 4,
    "order": [3, 2, 1, 0],
    "ready_s": [0.03, 0.04, 0.05, 0.06],
    "bytes": [MIB] * 4,
    "dtypes": ["float32"],
    "forward_s": 0.02,
    "backward_s": 0.041,
    "optimizer_s": 0.004,
    "step_s": 0.065,
}


def measured(world_size: int, cap: float | None, step_s: float, **ready: Any) -> dict[str, Any]:
    fields = case(strategy="ddp", model="mlp", world_size=world_size, bucket_cap_mb=cap)
    ranks = [rank(n, step_s, silent_step_s=[0.064, 0.065, 0.067]) for n in range(world_size)]
    changes = {"gradient_ready": READY | ready, "ranks": ranks}
    return entry(fields, step_s, launch_changes=changes)


def run(*entries: dict[str, Any], bits_per_s: float | None = 1e9) -> dict[str, Any]:
    """1 Gbit/s gives 4 MiB about 35.5 ms between two ranks."""
    made = document(list(entries))
    emulated = None if bits_per_s is None else {"hosts": 2, "rate_bits_per_s": bits_per_s}
    made["lockstep"]["settings"]["emulate"] = emulated
    return made


ONE_BUCKET = 0.06 + 4 * MIB / (0.945 * 125e6) + 0.001 + 0.004
