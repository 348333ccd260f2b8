"""How the step times of each launch are spread, seconds.

Percentiles are order statistics (nearest rank) of a launch's steps, of all its children together;
launches are never pooled.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import pandas as pd

from reports import words
from reports.frames import Row, columns, frame, groups, rows

#: Column -> the share of steps that take no longer.
LEVELS = {"p10_s": 0.1, "p25_s": 0.25, "p75_s": 0.75, "p90_s": 0.9}
#: Fewer steps have no distribution.
FEWEST_STEPS = 5
COLUMNS = columns(
    string="file model id strategy",
    Int64="cell world_size launch steps",
    Float64=" ".join(("shortest_s", *LEVELS, "median_s", "longest_s")),
)


def step_time_table(cells: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """One row per launch of which the file has the single steps; ``COLUMNS``."""
    of_cell = groups(rows(launches), "cell")
    found: list[Row] = []
    for cell in rows(cells):
        about = {name: cell[name] for name in ("file", "id", "strategy", "cell", "world_size")}
        about["model"] = words.model(cell)
        for launch in of_cell.get((cell["cell"],), []):
            steps_s = sorted(launch["step_s"] or [])
            if len(steps_s) >= FEWEST_STEPS:
                found.append(
                    about | {"launch": launch["launch"]} | {"steps": len(steps_s)} | spread(steps_s)
                )
    return frame(found, COLUMNS)


def spread(in_order_s: Sequence[float]) -> Row:
    """Of times in ascending order: shortest, percentiles, median and longest."""
    n = len(in_order_s)
    at = {name: in_order_s[math.ceil(n * level - 1e-9) - 1] for name, level in LEVELS.items()}
    return at | {
        "shortest_s": in_order_s[0],
        "median_s": statistics.median(in_order_s),
        "longest_s": in_order_s[-1],
    }
