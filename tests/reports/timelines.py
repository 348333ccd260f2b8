"""Records of one profiled step on all ranks, of known times."""

from __future__ import annotations

from typing import Any

from tests.reports.builder import case, entry

MS = 1e-3


def timeline(
    ranks: int = 2, calls: int = 2, reason: str | None = None, **changes: Any
) -> dict[str, Any]:
    """Rank r begins r ms late. Forward 10 ms, backward 20 ms, optimizer 2 ms; in backward calls of
    4 ms one after another from 12 ms on, in which all but the last rank wait 1 ms."""
    return {
        "step": 3,
        "steps": 5,
        "step_s": 0.032,
        "aligned": False,
        "ends_within_s": 1e-5,
        "left_out": {"ranks": 0, "collectives": 0},
        "ranks": [
            {
                "rank": r,
                "start_s": r * MS,
                "end_s": r * MS + 0.032,
                "phases": [
                    {"name": name, "start_s": r * MS + start, "end_s": r * MS + end}
                    for name, start, end in (
                        ("forward", 0, 0.010),
                        ("backward", 0.010, 0.030),
                        ("optimizer", 0.030, 0.032),
                    )
                ],
                "collectives": [
                    {
                        "kind": "all_reduce",
                        "bytes": 1_000_000 * (n + 1),
                        "start_s": (12 + 5 * n) * MS,
                        "end_s": (16 + 5 * n) * MS,
                        "wait_s": 0.0 if r == ranks - 1 else MS,
                    }
                    for n in range(calls)
                ],
            }
            for r in range(ranks)
        ],
        "reason": reason,
    } | changes


def with_timeline(made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    of = {"strategy": "ddp", "world_size": 2} | fields
    return entry(case(**of), launch_changes={"timeline": made})
