"""Where a step and a job spend their time and memory, per cell, in seconds and bytes.

The phases are medians over steps on the rank where the phase took longest, averaged over
launches; they do not add up to the step time, which has its own slowest rank.
"""

from __future__ import annotations

import pandas as pd

from reports.communication import mean
from reports.frames import Row, columns, frame, groups, rows

PHASES = ("data_s", "forward_s", "backward_s", "communication_s", "optimizer_s")
JOB = ("first_step_s", "init_s", "wrap_s")
COLUMNS = {
    **columns(
        string="file id peak_kind",
        Int64="cell parameters gradient_bytes peak_bytes",
        Float64="step_s",
        object="rebuilt_bucket_bytes",
    ),
    **dict.fromkeys((*PHASES, *JOB, "checkpoint_s"), "Float64"),
}


def phase_table(cells: pd.DataFrame, launches: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """One row per cell whose ranks recorded anything of this; ``COLUMNS``."""
    of_launch, of_rank = groups(rows(launches), "cell"), groups(rows(ranks), "cell")
    found = []
    for cell in rows(cells):
        own_ranks = of_rank.get((cell["cell"],), [])
        if own_ranks:
            found.append(_row(cell, of_launch.get((cell["cell"],), []), own_ranks))
    return frame(found, COLUMNS)


def _row(cell: Row, launches: list[Row], ranks: list[Row]) -> Row:
    row: Row = {name: cell.get(name) for name in ("file", "cell", "id", "step_s")}
    by_launch = groups(ranks, "launch").values()
    for name in (*PHASES, *JOB):
        slowest = [_largest(own, name) for own in by_launch]
        row[name] = mean(slowest)
    row["checkpoint_s"] = mean(launch["checkpoint_s"] for launch in launches)
    for name in ("parameters", "gradient_bytes", "rebuilt_bucket_bytes"):
        known = [launch[name] for launch in launches if launch[name] is not None]
        row[name] = known[0] if known else None
    row["peak_bytes"] = _largest(ranks, "peak_bytes")
    row["peak_kind"] = next((rank["peak_kind"] for rank in ranks if rank["peak_kind"]), None)
    return row


def _largest(records: list[Row], name: str) -> float | None:
    return max((one[name] for one in records if one[name] is not None), default=None)
