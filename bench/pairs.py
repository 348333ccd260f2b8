"""Every two ranks of a case, from what each has recorded of its exchanges with the others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
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
