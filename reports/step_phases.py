"""What the step of the slowest rank is made of, seconds per step.

Of every launch the rank with the longest median step is taken, with the medians of its phases; a
case has the means over launches. Medians of phases need not add up to the median of the step, which
stands beside them.
"""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.communication import mean
from reports.frames import Row, columns, frame, groups, rows

#: In the order of a step. ``step_fn`` stands for forward and backward where a model's own step
#: function does both; ``communication`` is that of gradients reduced by hand.
PHASES = ("data", "forward", "backward", "step_fn", "communication", "optimizer")
COLUMNS = columns(
    string="file model id strategy",
    Int64="cell world_size",
    Float64=" ".join(f"{name}_s" for name in ("step", *PHASES)),
)


def step_phase_table(cells: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """One row per cell of which a phase is known; ``COLUMNS``."""
    of_rank = groups(rows(ranks), "cell")
    found = []
    for cell in rows(cells):
        slowest = [
            max(known, key=lambda rank: rank["median_step_s"])
            for own in groups(of_rank.get((cell["cell"],), []), "launch").values()
            if (known := [rank for rank in own if rank["median_step_s"] is not None])
        ]
        times = {f"{name}_s": mean(rank[f"{name}_s"] for rank in slowest) for name in PHASES}
        if not any(times.values()):
            continue
        row: Row = {name: cell[name] for name in ("file", "id", "strategy", "cell", "world_size")}
        row |= {"model": words.model(cell), "step_s": mean(r["median_step_s"] for r in slowest)}
        found.append(row | times)
    return frame(found, COLUMNS)
