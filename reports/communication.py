"""All-reduce time and how much of it was hidden, per case, with the ranks kept visible.

A rank that arrives early waits inside its all-reduce, so ranks report very different times for
the same transfer. Figures are means over launches for each rank, then the range over ranks; the
ranks are never averaged. Times are seconds per step of the profiled pass.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable

import pandas as pd

from reports import words
from reports.frames import Row, columns, frame, groups, rows

#: Up to this many ranks each gets a bar; above it only the shortest and longest all-reduce.
MOST_BARS = 4

COLUMNS = columns(
    string="file id model case",
    Int64="cell world_size waited_for",
    Float64=(
        "step_s no_communication_step_s calls_per_step bytes_per_step "
        "all_reduce_low_s all_reduce_high_s exposed_low_s exposed_high_s "
        "hidden_low_ratio hidden_high_ratio wait_low_s wait_high_s transfer_s "
        "profiler_slow_down_ratio"
    ),
    boolean="transfer_is_estimate",
)
BAR_COLUMNS = columns(
    string="file model id", Int64="cell rank", Float64="hidden_s exposed_s transfer_s wait_s"
)


def all_reduce_table(
    cells: pd.DataFrame, launches: pd.DataFrame, ranks: pd.DataFrame
) -> pd.DataFrame:
    """One row per cell in which the profiler saw communication; ``COLUMNS``."""
    of_launch, of_rank = groups(rows(launches), "cell"), groups(rows(ranks), "cell")
    found = []
    for cell in rows(cells):
        by_rank = _rank_means(of_rank.get((cell["cell"],), []))
        if by_rank:
            found.append(_row(cell, of_launch.get((cell["cell"],), []), by_rank))
    return frame(found, COLUMNS)


def all_reduce_bars(cells: pd.DataFrame, table: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """Hidden and exposed, waiting and transfer of the ranks that are drawn, seconds a step;
    ``BAR_COLUMNS``. No lone ranks."""
    of_rank = groups(rows(ranks), "cell")
    found: list[Row] = []
    for row in rows(table):
        if row["world_size"] == 1:
            continue  # nothing is exchanged: what is left is the call itself
        by_rank = _rank_means(of_rank.get((row["cell"],), []))
        if len(by_rank) > MOST_BARS:
            by_rank.sort(key=lambda rank: rank["all_reduce_s"])
            by_rank = [by_rank[0], by_rank[-1]]
        for rank in by_rank:
            exposed = rank["exposed_s"]
            hidden = None if exposed is None else max(0.0, rank["all_reduce_s"] - exposed)
            found.append(row | rank | {"hidden_s": hidden, "exposed_s": exposed})
    return frame(found, BAR_COLUMNS)


def _rank_means(records: list[Row]) -> list[Row]:
    """Means over launches for every rank that communicated."""
    found = []
    for (rank,), own in groups(records, "rank").items():
        row: Row = {"rank": rank}
        for name in ("all_reduce_s", "exposed_s", "wait_s", "calls_per_step", "bytes_per_step"):
            row[name] = mean(record[name] for record in own)
        if row["all_reduce_s"]:
            found.append(row)
    return found


def _row(cell: Row, launches: list[Row], by_rank: list[Row]) -> Row:
    row: Row = {name: cell.get(name) for name in ("file", "cell", "id", "world_size", "step_s")}
    row |= {"model": words.model(cell), "case": words.case(cell)}
    for name in ("all_reduce_s", "exposed_s", "wait_s"):
        known = [rank[name] for rank in by_rank if rank[name] is not None]
        if known:
            base = name.removesuffix("_s")
            row[f"{base}_low_s"], row[f"{base}_high_s"] = min(known), max(known)
    hidden = [
        1 - rank["exposed_s"] / rank["all_reduce_s"]
        for rank in by_rank
        if rank["exposed_s"] is not None
    ]
    if hidden:
        row["hidden_low_ratio"], row["hidden_high_ratio"] = min(hidden), max(hidden)
    row["calls_per_step"] = mean(rank["calls_per_step"] for rank in by_rank)
    row["bytes_per_step"] = mean(rank["bytes_per_step"] for rank in by_rank)
    row["transfer_s"] = mean(launch["transfer_s"] for launch in launches)
    estimates = [launch["transfer_is_estimate"] for launch in launches]
    row["transfer_is_estimate"] = True in estimates if row["transfer_s"] is not None else None
    row["no_communication_step_s"] = mean(launch["no_communication_step_s"] for launch in launches)
    row["profiler_slow_down_ratio"] = profiler_slow_down_ratio(launches)
    row["waited_for"] = _most_often(launch["waited_for"] for launch in launches)
    return row


def profiler_slow_down_ratio(launches: list[Row]) -> float | None:
    """Step time of the profiled pass over that of the timed one, both of the same child, mean over
    launches."""
    return mean(
        launch["profiled_step_s"] / launch["first_child_step_s"]
        for launch in launches
        if launch["profiled_step_s"] is not None and launch["first_child_step_s"] is not None
    )


def exposed_mean_s(ranks: list[Row]) -> float | None:
    """Exposed communication per step of a mean rank, s: over launches, then over all ranks.

    None unless every rank has a value, for ranks differ much.
    """
    by_rank = [mean(one["exposed_s"] for one in own) for own in groups(ranks, "rank").values()]
    return None if None in by_rank else mean(by_rank)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _most_often(values: Iterable[int | None]) -> int | None:
    """The value most launches agree on; None without a majority."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    value, times = Counter(known).most_common(1)[0]
    return value if times * 2 > len(known) else None
