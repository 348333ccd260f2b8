"""What gradient_as_bucket_view saves: peak memory with it off and on, against the gradients.

With the view gradients are the buckets' own memory and not copies, so that up to the bytes of the
gradients are saved (PyTorch, DistributedDataParallel, gradient_as_bucket_view).

    peak bytes of a case    median over launches of the largest rank's peak
    saved bytes             peak with the view off - peak with it on; below 0 where it took more
"""

from __future__ import annotations

import statistics

import pandas as pd

from reports.frames import Row, columns, frame, groups, rows

COLUMNS = columns(
    string="file group bucket_cap off_id on_id peak_kind reason",
    Int64="off_cell on_cell gradient_bytes",
    Float64="off_peak_bytes on_peak_bytes saved_bytes saved_ratio",
)


def bucket_memory_table(
    buckets: pd.DataFrame, launches: pd.DataFrame, ranks: pd.DataFrame
) -> pd.DataFrame:
    """One row per pair of cells that differ in the view alone; ``COLUMNS``.

    ``buckets``: the rows of choices.bucket_table. ``saved_ratio`` is over the gradients' bytes.
    What cannot be known is blank, with its ``reason``.
    """
    of_launch, of_rank = groups(rows(launches), "cell"), groups(rows(ranks), "cell")
    measured = [row for row in rows(buckets) if row["cell"] is not None]
    found: list[Row] = []
    for (file, group, cap), own in groups(measured, "file", "group", "bucket_cap").items():
        by_view = groups(own, "gradient_as_bucket_view")
        off, on = by_view.get((False,), []), by_view.get((True,), [])
        if not off or not on:
            continue
        row: Row = {"file": file, "group": group, "bucket_cap": cap}
        row |= {"off_id": off[0]["id"], "off_cell": off[0]["cell"]}
        row |= {"on_id": on[0]["id"], "on_cell": on[0]["cell"]}
        if len(off) > 1 or len(on) > 1:
            found.append(row | {"reason": "more than one entry for one of the two cases"})
            continue
        off_ranks, on_ranks = (of_rank.get((one["cell"],), []) for one in (off[0], on[0]))
        launched = [*of_launch.get((off[0]["cell"],), []), *of_launch.get((on[0]["cell"],), [])]
        found.append(row | _saved(off_ranks, on_ranks, _gradient_bytes(launched)))
    return frame(found, COLUMNS)


def _saved(off: list[Row], on: list[Row], gradient_bytes: int | None) -> Row:
    row: Row = {
        "gradient_bytes": gradient_bytes,
        "off_peak_bytes": _peak_bytes(off),
        "on_peak_bytes": _peak_bytes(on),
    }
    if row["off_peak_bytes"] is None or row["on_peak_bytes"] is None:
        return row | {"reason": "peak memory is not known"}
    kinds = {one["peak_kind"] for one in (*off, *on) if one["peak_bytes"]}
    if len(kinds) != 1:
        return row | {"reason": "peak memory of two kinds"}
    row |= {"peak_kind": kinds.pop(), "saved_bytes": row["off_peak_bytes"] - row["on_peak_bytes"]}
    if gradient_bytes is None:
        return row | {"reason": "the bytes of the gradients are not known"}
    return row | {"saved_ratio": row["saved_bytes"] / gradient_bytes}


def _peak_bytes(ranks: list[Row]) -> float | None:
    """None unless some launch has a peak; no process has a peak of 0 bytes or below."""
    largest = [
        max((one["peak_bytes"] for one in own if (one["peak_bytes"] or 0) > 0), default=None)
        for own in groups(ranks, "launch").values()
    ]
    known = [peak for peak in largest if peak is not None]
    return statistics.median(known) if known else None


def _gradient_bytes(launches: list[Row]) -> int | None:
    """None where the launches do not agree: then these are not the same gradients."""
    sizes: set[int] = {one["gradient_bytes"] for one in launches} - {None}
    return sizes.pop() if len(sizes) == 1 and min(sizes) > 0 else None
