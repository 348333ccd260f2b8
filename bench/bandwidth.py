"""Algorithm and bus bandwidth as nccl-tests define them, in bytes per second.

algbw = bytes / time. busbw = algbw x a factor that makes it comparable with the hardware's own
bandwidth, whatever the number of ranks n. `bytes` is the whole buffer a rank contributes or
receives, whichever is larger.
"""

from __future__ import annotations

from collections.abc import Callable

#: From nccl-tests, doc/PERFORMANCE.md.
_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "send_recv": lambda n: 1.0,
}


def algbw_bytes_per_s(bytes: int | None, seconds: float | None) -> float | None:
    """None where size or time is not known, or is none."""
    return bytes / seconds if bytes and seconds else None


def busbw_bytes_per_s(
    kind: str, bytes: int | None, seconds: float | None, ranks: int | None
) -> float | None:
    """None also at one rank, where nothing moves, and for kinds without a definition."""
    algbw = algbw_bytes_per_s(bytes, seconds)
    if algbw is None or ranks is None or ranks < 2 or kind not in _FACTORS:
        return None
    return algbw * _FACTORS[kind](ranks)
