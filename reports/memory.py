"""Peak memory per case, bytes: of the rank that has most of it, and of the one that has least.

    peak    median over launches of the largest rank's peak
    least   the same of the smallest rank's

A peak is of the resident memory of the process ("rss") or of what was allocated on the device
("device"); the two are never compared.
"""

from __future__ import annotations

import statistics

import pandas as pd

from reports import words
from reports.frames import Row, columns, frame, groups, rows

COLUMNS = columns(
    string="file model id strategy peak_kind",
    Int64="cell world_size",
    Float64="peak_bytes least_bytes low_bytes high_bytes",
)
#: The kinds in words.
KINDS = {"rss": "resident memory of the process", "device": "memory of the device"}


def memory_table(cells: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """One row per cell and kind of memory of which a peak is known; ``COLUMNS``.

    ``low_bytes`` and ``high_bytes``: the largest rank's peak in the launch where it was lowest and
    where it was highest.
    """
    of_rank = groups(rows(ranks), "cell")
    found: list[Row] = []
    for cell in rows(cells):
        known = [one for one in of_rank.get((cell["cell"],), []) if (one["peak_bytes"] or 0) > 0]
        for (kind,), own in groups(known, "peak_kind").items():
            by_launch = [
                [rank["peak_bytes"] for rank in launch] for launch in groups(own, "launch").values()
            ]
            largest = [max(peaks) for peaks in by_launch]
            row: Row = {name: cell[name] for name in ("file", "id", "strategy", "cell")}
            row |= {"world_size": cell["world_size"], "model": words.model(cell)}
            row |= {
                "peak_kind": kind,
                "peak_bytes": statistics.median(largest),
                "least_bytes": statistics.median(min(peaks) for peaks in by_launch),
                "low_bytes": min(largest),
                "high_bytes": max(largest),
            }
            found.append(row)
    return frame(found, COLUMNS)
