"""Collectives: time, algbw and busbw by size, their cost, and how ranks and pairs differ.

Cells of collectives are in these tables and in no table of training.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from bench.bandwidth import algbw_bytes_per_s, busbw_bytes_per_s
from bench.pairs import pair_seconds
from reports import words
from reports.communication import mean
from reports.cost_fit import Line, fit_cost
from reports.frames import Row, columns, frame, groups, rows

#: What makes one line of sizes: all of it alike.
SERIES = ("collective", "backend", "device", "world_size", "dtype", "placement", "torch")
_CELL = columns(
    string="file id collective backend device dtype placement torch series",
    Int64="cell world_size bytes hosts launch_count",
)
COLUMNS = {
    **_CELL,
    **columns(
        string="slowest_host interval_from",
        Int64="slowest_rank",
        Float64=(
            "step_s step_low_s step_high_s algbw_bytes_per_s busbw_bytes_per_s "
            "busbw_low_bytes_per_s busbw_high_bytes_per_s spread_ratio"
        ),
    ),
}
FIT_COLUMNS = columns(
    string="file collective series regime note",
    Int64="world_size sizes least_bytes most_bytes",
    Float64="alpha_s rate_bytes_per_s rms_relative_residual largest_relative_residual",
)
PAIR_COLUMNS = {
    **_CELL,
    **columns(
        string="first_host second_host",
        Int64="first second",
        Float64="exchange_s rate_bytes_per_s relative_ratio",
    ),
}


def is_collective(cells: pd.DataFrame) -> pd.Series[bool]:
    return cells["strategy"].eq("collective").fillna(False).astype(bool)


def collective_table(cells: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """One row per cell with a time; ``COLUMNS``. ``cells`` with estimates.

    ``spread_ratio``: median of the slowest rank over that of the fastest. In collectives in which
    every rank waits for every other it stays near 1 whoever is slow: then it tells no culprit, and
    the pairs do.
    """
    of_cell = groups(rows(ranks), "cell")
    found = []
    for cell in rows(cells[is_collective(cells)]):
        if cell["collective"] == "pairs" or cell["step_s"] is None:
            continue
        row = {**_about(cell, of_cell.get((cell["cell"],), []))}
        time_s, size = cell["step_s"], cell["bytes"]
        row |= {name: cell[name] for name in ("step_s", "step_low_s", "step_high_s")}
        row |= {"interval_from": cell["interval_from"], "launch_count": cell["launch_count"]}
        row["algbw_bytes_per_s"] = algbw_bytes_per_s(size, time_s)
        for end, seconds in (("", "step_s"), ("low_", "step_high_s"), ("high_", "step_low_s")):
            row[f"busbw_{end}bytes_per_s"] = busbw_bytes_per_s(
                cell["collective"], size, cell[seconds], cell["world_size"]
            )
        found.append(row | _slowest(of_cell.get((cell["cell"],), [])))
    return frame(found, COLUMNS)


def fit_table(table: pd.DataFrame) -> pd.DataFrame:
    """The cost of every series of ``collective_table``: a row for all sizes, and one each for small
    and large ones where these are clearly two; ``FIT_COLUMNS``. A series of one size has a row that
    says why there is no fit."""
    found: list[Row] = []
    for own in groups(rows(table), "file", *SERIES).values():
        about = {name: own[0][name] for name in ("file", "collective", "series", "world_size")}
        fit = fit_cost([row["bytes"] for row in own], [row["step_s"] for row in own])
        if fit is None:
            note = "latency and rate cannot be told apart with one size"
            found.append(about | {"regime": "all sizes", "sizes": 1, "note": note})
            continue
        found.append(about | _of_line(fit, "all sizes"))
        for name, line in zip(("small", "large"), fit.regimes, strict=False):
            found.append(about | _of_line(line, name))
    return frame(found, FIT_COLUMNS)


def pair_table(cells: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """One row per two ranks of a cell of pairs, the slowest first; ``PAIR_COLUMNS``.

    ``relative_ratio``: the rate over the fastest one of the cell; blank where it has one pair.
    """
    of_cell = groups(rows(ranks), "cell")
    found: list[Row] = []
    for cell in rows(cells[is_collective(cells)]):
        own = of_cell.get((cell["cell"],), [])
        seconds = pair_seconds([{"ranks": of} for of in groups(own, "launch").values()])
        if cell["collective"] != "pairs" or not seconds:
            continue
        host = {row["rank"]: row["host"] for row in own}
        rates = {pair: cell["bytes"] / time_s for pair, time_s in seconds.items()}
        fastest = max(rates.values())
        for (first, second), rate in sorted(rates.items(), key=lambda item: item[1]):
            found.append(
                {
                    **_about(cell, own),
                    "first": first,
                    "second": second,
                    "first_host": host.get(first),
                    "second_host": host.get(second),
                    "exchange_s": seconds[first, second],
                    "rate_bytes_per_s": rate,
                    "relative_ratio": rate / fastest if len(rates) > 1 else None,
                }
            )
    return frame(found, PAIR_COLUMNS)


def _about(cell: Row, ranks: Sequence[Row]) -> Row:
    hosts = {row["host"] for row in ranks} - {None}
    row = {name: cell[name] for name in ("file", "id", "cell", "bytes", *SERIES)}
    return row | {"hosts": len(hosts) or None, "series": series(cell)}


def series(row: Row) -> str:
    """What one line of the figure holds: '2 ranks, gloo, float32'."""
    parts = [words.ranks(row["world_size"]), row["backend"] or words.BLANK, str(row["dtype"])]
    parts += [row["device"]] if row["device"] == "cuda" and row["backend"] != "nccl" else []
    parts += [row["placement"]] if row["placement"] not in (None, "packed") else []
    return ", ".join(parts + ([f"torch={row['torch']}"] if row["torch"] else []))


def _slowest(ranks: Sequence[Row]) -> Row:
    """The rank whose median is longest, mean over launches; blank unless every rank has one."""
    of_rank = {
        n: (mean(row["median_step_s"] for row in own), own[0]["host"])
        for (n,), own in groups(ranks, "rank").items()
    }
    times = {n: seconds for n, (seconds, _) in of_rank.items() if seconds is not None}
    if len(times) < 2 or len(times) < len(of_rank):
        return {}
    slowest = max(times, key=lambda n: times[n])
    return {
        "slowest_rank": slowest,
        "slowest_host": of_rank[slowest][1],
        "spread_ratio": times[slowest] / min(times.values()),
    }


def _of_line(line: Line, regime: str) -> Row:
    names = (
        *("alpha_s", "rate_bytes_per_s", "sizes", "least_bytes", "most_bytes", "note"),
        *("rms_relative_residual", "largest_relative_residual"),
    )
    return {"regime": regime} | {name: getattr(line, name) for name in names}
