"""What the page says first: the best case of each model and the efficiency at the largest size."""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.frames import Row, columns, frame, groups, rows
from reports.stats import Estimate, throughput_ratio

BEST_COLUMNS = columns(
    string="file model id case interval_from",
    Int64="cell candidates world_size left_out unknown",
    Float64="throughput_samples_per_s throughput_low_samples_per_s throughput_high_samples_per_s",
    object="tied",
    boolean="oversubscribed",
)


def best_table(cells: pd.DataFrame) -> pd.DataFrame:
    """The case with the highest throughput for each file, model and label; ``BEST_COLUMNS``.

    ``tied``: ids of the cases it cannot be told apart from; ``unknown``: how many cases have no
    interval to tell by. Cases in conflict or that failed a check are no candidates (``left_out``
    counts them).
    """
    by_file = groups(rows(cells), "file")
    found = []
    for file, name, own in (
        (file, name, own)
        for (file,), of_file in by_file.items()
        for name, own in groups_of_model(of_file).items()
    ):
        valued = [cell for cell in own if cell["throughput_samples_per_s"] is not None]
        sound = [cell for cell in valued if not cell["conflict"] and not cell["failed_checks"]]
        if not sound:
            continue
        best = max(sound, key=lambda cell: cell["throughput_samples_per_s"])
        ratios = [(cell["id"], throughput_ratio(cell, best)) for cell in sound if cell is not best]
        row = {name: best.get(name) for name in BEST_COLUMNS}
        row |= {"file": file, "model": name, "case": words.case(best), "candidates": len(sound)}
        row["left_out"] = len(valued) - len(sound)
        row["unknown"] = sum(ratio is None or ratio.includes_one is None for _, ratio in ratios)
        row["tied"] = [id for id, ratio in ratios if ratio and _alike(ratio)]
        found.append(row)
    return frame(found, BEST_COLUMNS)


def groups_of_model(cells: list[Row]) -> dict[str, list[Row]]:
    """Cells by model and, where a file has several, by the label of the interpreter."""
    found: dict[str, list[Row]] = {}
    for cell in cells:
        found.setdefault(words.model_and_label(cell), []).append(cell)
    return found


def _alike(ratio: Estimate) -> bool:
    return bool(ratio.includes_one) or ratio.value == 1.0


def largest_table(scaling: pd.DataFrame) -> pd.DataFrame:
    """The rows of the scaling table that the verdict quotes.

    For each file, model, label and kind: at the largest world size with a parallel case, the one
    with the highest throughput among those with most of the two efficiencies.
    """
    found: list[Row] = []
    for own in groups(rows(scaling), "file", "model", "torch", "kind").values():
        usable = [
            row
            for row in own
            if row["world_size"] > 1
            and row["throughput_samples_per_s"] is not None
            and not row["conflict"]
            and not row["not_parallel"]
        ]
        if not usable:
            continue
        size = max(row["world_size"] for row in usable)
        at_size = [row for row in usable if row["world_size"] == size]
        found.append(max(at_size, key=_preference))
    return frame(found, {str(name): str(kind) for name, kind in scaling.dtypes.items()})


def _preference(row: Row) -> tuple[int, float]:
    known = [row["single_ratio"] is not None, row["same_ratio"] is not None]
    return sum(known), row["throughput_samples_per_s"]
