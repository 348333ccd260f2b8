"""A tidy table: a row per case and launch, and one for a case without numbers.

Columns are named with their unit. Step time is the launch's value; what exists by rank is that of
the slowest rank, blank unless all ranks have it. Launches in which flagged cases were measured
once more have ``confirmation`` true: taken for what the others gave, they are not to be mixed.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from bench.case import FIELD_NAMES
from reports.frames import Row, columns, frame, groups, rows
from reports.load import CELL_COLUMNS, Records
from reports.stats import launch_step_s

_OF_FILE = ("datetime", "host", "cpu", "driver")
_OF_CELL = (
    *("file", "id", *FIELD_NAMES, "other", "label", "torch_version"),
    *("global_batch_size", "threads_per_rank", "oversubscribed", "outcome"),
)
_OF_LAUNCH = (
    *("children", "first_step_s", "init_s", "peak_bytes"),
    *("no_communication_step_s", "profiled_step_s", "transfer_s", "parameters", "gradient_bytes"),
)
_OF_RANKS = ("all_reduce_s", "exposed_s")
COLUMNS = {
    **columns(string=" ".join(_OF_FILE)),
    **{name: CELL_COLUMNS[name].replace("object", "string") for name in _OF_CELL},
    **columns(
        string="reason",
        Int64="launch children parameters gradient_bytes",
        boolean="confirmation",
        Float64=(
            "step_s throughput_samples_per_s all_reduce_s exposed_s peak_bytes first_step_s init_s "
            "no_communication_step_s profiled_step_s transfer_s"
        ),
    ),
}


def launch_table(records: Records) -> pd.DataFrame:
    """``COLUMNS``, in the order of the files and of their cases; blank is not known."""
    files = {row["file"]: row for row in rows(records.files)}
    cells = rows(records.cells)
    found = []
    for confirmation, launches, ranks in (
        (False, records.launches, records.ranks),
        (True, records.confirmations, records.confirmation_ranks),
    ):
        of_rank = groups(rows(ranks), "cell", "launch")
        of_cell = groups(rows(launches), "cell")
        for cell in cells:
            for launch in of_cell.get((cell["cell"],), []):
                own = of_rank.get((cell["cell"], launch["launch"]), [])
                found.append(_row(cell, launch, own) | {"confirmation": confirmation})
    measured = {(cell["file"], cell["id"]) for cell in cells}
    found += [
        row
        for row in rows(records.outcomes)
        if row["outcome"] != "ok" and (row["file"], row["id"]) not in measured
    ]
    return frame([{**_named(files[row["file"]], _OF_FILE), **row} for row in found], COLUMNS)


def _row(cell: Row, launch: Row, ranks: Sequence[Row]) -> Row:
    step_s, batch = launch_step_s(launch), cell["global_batch_size"]
    return {
        **_named(cell, _OF_CELL),
        **_named(launch, ("launch", *_OF_LAUNCH)),
        "step_s": step_s,
        "throughput_samples_per_s": None if step_s is None or batch is None else batch / step_s,
        **{name: _slowest(ranks, name) for name in _OF_RANKS},
    }


def _named(row: Row, names: Sequence[str]) -> Row:
    return {name: row[name] for name in names}


def _slowest(ranks: Sequence[Row], name: str) -> float | None:
    values = [rank[name] for rank in ranks]
    return max(values) if values and None not in values else None
