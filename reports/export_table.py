"""A tidy table: a row per case and launch, and one for a case without numbers.

Columns are named with their unit, and metrics are as they are compared (metrics.py). Launches in
which flagged cases were measured once more have ``confirmation`` true: taken for what the others
gave, they are not to be mixed with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from bench.case import FIELD_NAMES
from reports.frames import Row, columns, frame, groups, rows
from reports.load import CELL_COLUMNS, LAUNCH_COLUMNS, Records
from reports.metrics import metric

_OF_FILE = ("datetime", "host", "cpu", "driver")
_OF_CELL = (
    *("file", "id", *FIELD_NAMES, "other", "label", "torch_version"),
    *("global_batch_size", "threads_per_rank", "oversubscribed", "outcome"),
)
_OF_LAUNCH = (
    *("launch", "children", "parameters", "gradient_bytes"),
    *("no_communication_step_s", "profiled_step_s", "transfer_s"),
)
#: What is compared, under the names that its units give it.
_METRICS = {
    "step_s": "step_time",
    "throughput_samples_per_s": "throughput",
    "all_reduce_s": "all_reduce_time",
    "exposed_s": "exposed_communication",
    "peak_bytes": "peak_memory",
    "first_step_s": "first_step",
    "init_s": "init",
}
COLUMNS = {
    **columns(string=" ".join(_OF_FILE)),
    **{name: CELL_COLUMNS[name].replace("object", "string") for name in _OF_CELL},
    **columns(
        string="reason",
        boolean="confirmation",
        Float64=" ".join(_METRICS),
    ),
    **{name: LAUNCH_COLUMNS[name] for name in _OF_LAUNCH},
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
    # A failure has a host too, where it is not the controller's: that of one rank.
    return frame([{**row, **_named(files[row["file"]], _OF_FILE)} for row in found], COLUMNS)


def _row(cell: Row, launch: Row, ranks: Sequence[Row]) -> Row:
    values = {name: metric(of).read(cell, launch, ranks) for name, of in _METRICS.items()}
    return {**_named(cell, _OF_CELL), **_named(launch, _OF_LAUNCH), **values}


def _named(row: Row, names: Sequence[str]) -> Row:
    return {name: row[name] for name in names}
