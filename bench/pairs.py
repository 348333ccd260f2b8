"""Every two ranks of a case, from what each has recorded of its exchanges with the others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

Pair = tuple[int, int]


def pair_seconds(launches: Sequence[Mapping[str, Any]]) -> dict[Pair, float]:
    """By pair (the lower rank first) the time of an exchange, seconds: of a launch the longer of
    what its two ranks measured, of launches the geometric mean. ``launches``: their records."""
    found: dict[Pair, list[float]] = {}
    for launch in launches:
        longest: dict[Pair, float] = {}
        for rank in launch.get("ranks") or ():
            for other, seconds in (rank.get("pair_s") or {}).items():
                pair = (min(rank["rank"], int(other)), max(rank["rank"], int(other)))
                longest[pair] = max(seconds, longest.get(pair, 0.0))
        for pair, seconds in longest.items():
            found.setdefault(pair, []).append(seconds)
    return {
        pair: math.exp(statistics.fmean(map(math.log, times)))
        for pair, times in sorted(found.items())
    }


def common_rank(slow: Collection[Pair], others: Collection[Pair]) -> int | None:
    """The rank that is in every slow pair and in no other: its own link is slow, not one between
    two. None where there is none, or a single slow pair, whose two ranks are alike in it."""
    if len(slow) < 2:
        return None
    shared = set.intersection(*map(set, slow)) - {rank for pair in others for rank in pair}
    return shared.pop() if len(shared) == 1 else None
