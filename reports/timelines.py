"""Which timelines are shown: of each model and strategy that of the most ranks.

Of several with as many ranks the first whose settings are nearest to the defaults, weak scaling
before strong.
"""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.frames import Row, columns, frame, groups, rows
from reports.timeline_record import STEP, STRETCH_COLUMNS

COLUMNS = {
    **STRETCH_COLUMNS,
    **columns(
        string="file model id strategy",
        Int64="world_size steps left_out_ranks left_out_collectives",
        Float64="step_s ends_within_s",
        boolean="aligned",
    ),
}
REASON_COLUMNS = columns(string="file model id reason", Int64="cell")


def timeline_table(
    cells: pd.DataFrame, timelines: pd.DataFrame, stretches: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(a row per stretch of the timelines that are shown, ``COLUMNS``; a row per case that would be
    shown and has none, with its reason, ``REASON_COLUMNS``). Cells of which nothing is recorded are
    in neither."""
    recorded = {row["cell"]: row for row in rows(timelines)}
    of_cell = groups(rows(stretches), "cell")
    shown: list[Row] = []
    missing: list[Row] = []
    candidates = [
        cell | {"model": words.model(cell)} for cell in rows(cells) if cell["cell"] in recorded
    ]
    for own in groups(candidates, "file", "model", "torch", "strategy").values():
        cell = min(own, key=_preference)
        about = {name: cell[name] for name in ("file", "model", "id", "strategy", "world_size")}
        record = recorded[cell["cell"]]
        parts = of_cell.get((cell["cell"],), [])
        if len({part["rank"] for part in parts if part["name"] == STEP}) < 2:
            reason = record["reason"] or "the record names no two ranks"
            missing.append(about | {"cell": cell["cell"], "reason": reason})
            continue
        about |= {name: record[name] for name in ("steps", "step_s", "ends_within_s", "aligned")}
        about |= {name: record[name] for name in ("left_out_ranks", "left_out_collectives")}
        shown += [part | about for part in parts]
    return frame(shown, COLUMNS), frame(missing, REASON_COLUMNS)


def _preference(cell: Row) -> tuple[int, int, bool]:
    settings = words.settings(cell | {"torch": None})
    return -(cell["world_size"] or 0), len(settings), cell["scaling"] == "strong"
