"""Throughput and efficiency against world size, weak and strong apart.

    weak    efficiency(N) = throughput(N) / (N * throughput(1)) at equal batch per rank
    strong  the same formula at equal global batch

Two baselines: ``single``, one process without a wrapper, and ``same``, the same strategy with the
same settings at world size 1. A baseline counts only if everything that changes a step time agrees
with the case; otherwise the efficiency is blank and ``*_reason`` says why. Values are ratios
(1 is 100 %) and are not clipped.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from bench.case import DDP_FIELDS, FIELD_NAMES, GROUP_FIELDS
from reports import words
from reports.baselines import Baselines, differing
from reports.frames import Row, columns, frame, groups, rows
from reports.stats import Estimate, throughput_ratio

KINDS = ("weak", "strong")
_AXIS = frozenset(("world_size", "batch_size", "scaling", "threads"))
#: One process with no process group reads none of these; a seed changes values, not times.
_NOT_FOR_SINGLE = frozenset((*DDP_FIELDS, *GROUP_FIELDS, "strategy", "seed"))
_BESIDE_CASE = ("threads_per_rank", "torch_version", "other")
SAME_FIELDS = (
    *(name for name in FIELD_NAMES if name not in _AXIS),
    *("bucket_cap_set", *_BESIDE_CASE),
)
#: Of a baseline: one rank has no neighbour, wherever the others would be.
BASELINE_FIELDS = tuple(name for name in SAME_FIELDS if name != "placement")
SINGLE_FIELDS = tuple(
    name for name in (*FIELD_NAMES, *_BESIDE_CASE) if name not in _AXIS | _NOT_FOR_SINGLE
)

_BASELINE_COLUMNS = {
    f"{base}_{column}": kind
    for base in ("single", "same")
    for column, kind in columns(
        Float64="ratio low_ratio high_ratio speedup_ratio throughput_samples_per_s",
        string="interval_from reason",
    ).items()
}
COLUMNS = {
    **columns(
        string="file id kind series model torch strategy interval_from throughput_note",
        Int64="cell world_size batch_size global_batch_size launch_count smallest_world_size hosts",
        Float64=(
            "step_s throughput_samples_per_s throughput_low_samples_per_s "
            "throughput_high_samples_per_s smallest_ratio smallest_low_ratio "
            "smallest_high_ratio smallest_throughput_samples_per_s"
        ),
        boolean="above_one above_one_for_certain oversubscribed conflict not_parallel",
    ),
    **_BASELINE_COLUMNS,
}


def scaling_table(cells: pd.DataFrame) -> pd.DataFrame:
    """One row per cell and kind of scaling it belongs to; ``COLUMNS``.

    A cell belongs to the kind its case states. Where none is stated, and for one rank, where weak
    and strong are the same thing, it belongs to the kinds in which it has company at another world
    size. A lone cell that states no kind is shown as weak.
    """
    by_file = groups(rows(cells), "file")
    found: list[Row] = []
    for own in by_file.values():
        sized = [cell for cell in own if cell["world_size"] is not None]
        series = {kind: _series(sized, kind) for kind in KINDS}
        baselines = Baselines(sized)
        for kind in KINDS:
            for members in series[kind].values():
                kept = [
                    cell
                    for cell in members
                    if _belongs(cell, kind, members, series["strong"][_key(cell, "strong")])
                ]
                kept.sort(key=lambda cell: cell["world_size"])
                found += [_row(cell, kind, members, baselines) for cell in kept]
    return frame(found, COLUMNS)


def _series(cells: list[Row], kind: str) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for cell in cells:
        if cell["scaling"] in (None, kind) or cell["world_size"] == 1:
            found.setdefault(_key(cell, kind), []).append(cell)
        else:
            found.setdefault(_key(cell, kind), [])
    return found


def _key(cell: Row, kind: str) -> tuple[Any, ...]:
    batch = cell["global_batch_size" if kind == "strong" else "batch_size"]
    return (batch, *(cell[name] for name in SAME_FIELDS))


def _belongs(cell: Row, kind: str, members: list[Row], strong: list[Row]) -> bool:
    company = _world_sizes(members) > 1
    if cell["scaling"] == kind:
        return True
    if cell["scaling"] is not None and cell["world_size"] != 1:
        return False
    return company or (kind == "weak" and cell["scaling"] is None and _world_sizes(strong) < 2)


def _world_sizes(cells: list[Row]) -> int:
    return len({cell["world_size"] for cell in cells})


def _row(cell: Row, kind: str, members: list[Row], baselines: Baselines) -> Row:
    row = {name: cell.get(name) for name in COLUMNS}
    row |= {"kind": kind, "series": words.series(cell, kind), "model": words.model(cell)}
    row["not_parallel"] = cell["strategy"] in ("dp", "data_parallel") and bool(cell["label"])
    single = baseline(cell, kind, baselines, "single", SINGLE_FIELDS)
    if cell["strategy"] == "single":
        same: Row | str = "a single process is the baseline itself"
    else:
        same = baseline(cell, kind, baselines, cell["strategy"], BASELINE_FIELDS)
        if isinstance(same, dict) and same["cell"] == cell["cell"] and _world_sizes(members) < 2:
            same = "this strategy was measured at one world size only"
    ratios = [
        _add_efficiency(row, cell, "single", single),
        _add_efficiency(row, cell, "same", same),
    ]
    if not any(ratios):
        _add_relative_to_smallest(row, cell, members)
    known = [ratio for ratio in ratios if ratio is not None]
    certain = any(ratio.low is not None and ratio.low > 1 for ratio in known)
    # A strategy on one rank beside one process: half of all noise is above 100 %.
    row["above_one"] = certain or (
        cell["world_size"] > 1 and any(ratio.value > 1 + 1e-9 for ratio in known)
    )
    row["above_one_for_certain"] = certain
    return row


def baseline(
    cell: Row, kind: str, baselines: Baselines, strategy: str | None, fields: tuple[str, ...]
) -> Row | str:
    """The one cell at world size 1 that may be compared with ``cell``, or why there is none.

    ``baselines``: of the same file. ``kind`` says which batch must agree: the one per rank (weak)
    or the global one (strong).
    """
    if cell["conflict"]:
        return "two entries with different results for this case"
    if cell["throughput_samples_per_s"] is None:
        return cell["throughput_note"] or "this case has no throughput"
    batch = "global_batch_size" if kind == "strong" else "batch_size"
    if cell[batch] is None:
        return "the file does not state batch_size"
    named = "a single process" if strategy == "single" else strategy or "this strategy"
    if not baselines.any(strategy):
        return f"no case of {named} at world size 1 in this file"
    fields = (batch, *fields)
    fitting = baselines.fitting(cell, strategy, fields)
    if not fitting:
        nearest = baselines.nearest(cell, strategy, fields)
        return f"{named} at world size 1 differs in " + words.joined(
            [_difference(name, nearest, cell) for name in differing(nearest, cell, fields)]
        )
    # One rank is measured once for weak and once for strong where a sweep holds both.
    best = min(fitting, key=lambda one: (one["cell"] != cell["cell"], one["scaling"] != kind))
    if best["conflict"]:
        return f"two entries with different results for {named} at world size 1"
    if best["throughput_samples_per_s"] is None:
        return f"{named} at world size 1 has no throughput"
    return best


def _difference(name: str, base: Row, own: Row) -> str:
    def value(cell: Row) -> Any:
        if name == "bucket_cap_mb" and cell["bucket_cap_set"] is False:
            return "unset"
        if isinstance(cell[name], float):
            return f"{cell[name]:g}"
        return "not stated" if cell[name] is None else cell[name]

    return f"{name} ({value(base)} there, {value(own)} here)"


def _add_efficiency(row: Row, cell: Row, name: str, base: Row | str) -> Estimate | None:
    if isinstance(base, str):
        row[f"{name}_reason"] = base
        return None
    ratio = throughput_ratio(cell, base)
    if ratio is None:
        return None
    row[f"{name}_speedup_ratio"] = ratio.value
    row[f"{name}_throughput_samples_per_s"] = base["throughput_samples_per_s"]
    ratio = ratio.scaled(1 / cell["world_size"])
    row[f"{name}_ratio"], row[f"{name}_interval_from"] = ratio.value, ratio.interval_from
    row[f"{name}_low_ratio"], row[f"{name}_high_ratio"] = ratio.low, ratio.high
    return ratio


def _add_relative_to_smallest(row: Row, cell: Row, members: list[Row]) -> None:
    """Throughput per rank over that at the smallest world size there is: never an efficiency."""
    usable = [
        one
        for one in members
        if one["throughput_samples_per_s"] is not None and not one["conflict"]
    ]
    if _world_sizes(usable) < 2 or cell["cell"] not in [one["cell"] for one in usable]:
        return
    smallest = min(usable, key=lambda one: one["world_size"])
    ratio = throughput_ratio(cell, smallest)
    if ratio is None or smallest["world_size"] == 1:
        return
    ratio = ratio.scaled(smallest["world_size"] / cell["world_size"])
    row["smallest_world_size"], row["smallest_ratio"] = smallest["world_size"], ratio.value
    row["smallest_low_ratio"], row["smallest_high_ratio"] = ratio.low, ratio.high
    row["smallest_throughput_samples_per_s"] = smallest["throughput_samples_per_s"]
