"""Settings and strategies against one another: ratios of throughput in the same file.

A ratio above 1 is faster than the reference. Where its interval includes 1 the two cannot be told
apart.
"""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.frames import Row, columns, frame, groups, rows
from reports.scaling import SAME_FIELDS
from reports.stats import throughput_ratio
from reports.verdict import groups_of_model

BUCKET_FIELDS = ("bucket_cap_set", "bucket_cap_mb", "gradient_as_bucket_view")
BUCKET_COLUMNS = columns(
    string="file model group id bucket_cap interval_from reason peak_kind not_run",
    Int64="cell peak_bytes",
    Float64=(
        "bucket_cap_order step_s throughput_samples_per_s ratio low_ratio high_ratio "
        "best_ratio best_low_ratio best_high_ratio"
    ),
    boolean="gradient_as_bucket_view is_default includes_one is_best like_best",
    object="rebuilt_bucket_bytes",
)
STRATEGY_COLUMNS = columns(
    string="file model case ddp dp dp_strategy interval_from reason",
    Int64="world_size global_batch_size",
    Float64=(
        "ddp_throughput_samples_per_s ddp_low_samples_per_s ddp_high_samples_per_s "
        "dp_throughput_samples_per_s dp_low_samples_per_s dp_high_samples_per_s "
        "ratio low_ratio high_ratio"
    ),
    boolean="includes_one",
)


def bucket_table(
    cells: pd.DataFrame, launches: pd.DataFrame, ranks: pd.DataFrame, outcomes: pd.DataFrame
) -> pd.DataFrame:
    """Bucket cap x bucket view, relative to the default (cap unset, no view); ``BUCKET_COLUMNS``.

    One row per cell, for every set of DDP cases that differ in nothing else and hold at least two
    combinations. Without the default in the set the ratios are blank. ``rebuilt_bucket_bytes`` is
    what DDP built after the first backward, in its own order. A combination without a number has
    a row too, and ``not_run`` is how it ended ("failed", "skipped"). ``best_*``: throughput over
    that of the fastest of the set; ``like_best``: the interval of that ratio includes 1, so that
    the two cannot be told apart (blank without an interval).
    """
    shared = tuple(name for name in SAME_FIELDS if name not in BUCKET_FIELDS)
    failed_rows = [row for row in rows(outcomes) if row["outcome"] != "ok"]
    alike = (*_SAME_CASE, *_known_of_outcomes(shared))
    without_number = groups(failed_rows, *alike)
    ddp = [
        cell
        for cell in rows(cells)
        if cell["strategy"] == "ddp" and cell["bucket_cap_set"] is not None
    ]
    of_launch, of_rank = groups(rows(launches), "cell"), groups(rows(ranks), "cell")
    found: list[Row] = []
    for members in groups(ddp, "file", "world_size", "batch_size", "scaling", *shared).values():
        of_group = without_number.get(tuple(members[0][name] for name in alike), [])
        failed = _not_among(members, of_group)
        if len(groups([*members, *failed], *BUCKET_FIELDS)) < 2:
            continue
        default, best = _default(members), _fastest(members)
        for cell in members:
            row = _bucket_row(cell, default) | _beside_best(cell, best)
            buckets = [one["rebuilt_bucket_bytes"] for one in of_launch.get((cell["cell"],), [])]
            row["rebuilt_bucket_bytes"] = next(filter(None, buckets), None)
            memory = of_rank.get((cell["cell"],), [])
            row["peak_kind"] = next((one["peak_kind"] for one in memory if one["peak_bytes"]), None)
            row["peak_bytes"] = max(
                (one["peak_bytes"] for one in memory if one["peak_bytes"]), default=None
            )
            found.append(row)
        found += [_failed_bucket_row(row, found[-1]) for row in failed]
    return frame(found, BUCKET_COLUMNS)


#: What a cell without a number shares with those beside which it would stand, had it one.
_SAME_CASE = ("file", "strategy", "world_size", "batch_size", "scaling")


def _known_of_outcomes(shared: tuple[str, ...]) -> list[str]:
    """Threads and torch's version are known of what ran only."""
    return [name for name in shared if name not in ("threads_per_rank", "torch_version")]


def _not_among(members: list[Row], outcomes: list[Row]) -> list[Row]:
    ids = {cell["id"] for cell in members}
    return [row for row in outcomes if row["bucket_cap_set"] is not None and row["id"] not in ids]


def _failed_bucket_row(outcome: Row, beside: Row) -> Row:
    return {
        **_bucket_combination(outcome),
        **{name: outcome[name] for name in ("file", "id", "gradient_as_bucket_view")},
        **{name: beside[name] for name in ("model", "group")},
        "is_default": False,
        "not_run": outcome["outcome"],
        "reason": words.shortened((outcome["reason"] or "no reason recorded").splitlines()[0], 120),
    }


def _bucket_combination(row: Row) -> Row:
    return {
        "bucket_cap": f"{row['bucket_cap_mb']:g}" if row["bucket_cap_set"] else "unset",
        "bucket_cap_order": row["bucket_cap_mb"] if row["bucket_cap_set"] else -1.0,
    }


def _default(members: list[Row]) -> Row | str:
    fitting = [
        cell
        for cell in members
        if cell["bucket_cap_set"] is False and cell["gradient_as_bucket_view"] is False
    ]
    if not fitting:
        return "the default (bucket_cap_mb unset, no bucket view) was not measured"
    if fitting[0]["conflict"]:
        return "two entries with different results for the default"
    return fitting[0]


def _fastest(members: list[Row]) -> Row | None:
    known = [
        cell
        for cell in members
        if cell["throughput_samples_per_s"] is not None and not cell["conflict"]
    ]
    return max(known, key=lambda cell: cell["throughput_samples_per_s"], default=None)


def _beside_best(cell: Row, best: Row | None) -> Row:
    if best is None or cell["conflict"]:
        return {}
    if cell["cell"] == best["cell"]:
        return {"is_best": True, "best_ratio": 1.0, "like_best": True}
    ratio = throughput_ratio(cell, best)
    if ratio is None:
        return {}
    return {
        "is_best": False,
        "best_ratio": ratio.value,
        "best_low_ratio": ratio.low,
        "best_high_ratio": ratio.high,
        "like_best": ratio.includes_one,
    }


def _bucket_row(cell: Row, default: Row | str) -> Row:
    row: Row = {name: cell.get(name) for name in BUCKET_COLUMNS}
    rest = cell | dict.fromkeys(BUCKET_FIELDS)
    row |= {"model": words.model(cell), "group": f"{words.model(cell)}: {words.case(rest)}"}
    row |= _bucket_combination(cell)
    if isinstance(default, str):
        return row | {"is_default": False, "reason": default}
    row["is_default"] = cell["cell"] == default["cell"]
    if cell["conflict"]:
        return row | {"reason": "two entries with different results for this case"}
    return row | _ratio(cell, default)


def _ratio(cell: Row, reference: Row) -> Row:
    ratio = throughput_ratio(cell, reference)
    if ratio is None:
        return {"reason": cell["throughput_note"] or "a throughput is missing"}
    return {
        "ratio": ratio.value,
        "low_ratio": ratio.low,
        "high_ratio": ratio.high,
        "interval_from": ratio.interval_from,
        "includes_one": ratio.includes_one,
    }


def strategy_table(cells: pd.DataFrame, outcomes: pd.DataFrame) -> pd.DataFrame:
    """DDP over DataParallel at equal devices and global batch; ``STRATEGY_COLUMNS``.

    One row per pair; a file and model without a pair gets one row that holds only the reason.
    """
    not_run = groups(rows(outcomes), "file", "model", "torch")
    found: list[Row] = []
    for (file,), own in groups(rows(cells), "file").items():
        for name, of_model in groups_of_model(own).items():
            ddps = groups(filter(_is_plain_ddp, of_model), *_EQUAL)
            pairs = [
                _pair(name, ddp, dp)
                for dp in of_model
                if _is_data_parallel(dp)
                for ddp in ddps.get(tuple(dp[one] for one in _EQUAL), [])
            ]
            if not pairs:
                first = of_model[0]
                skipped = not_run.get((file, first["model"], first["torch"]), [])
                reason = _why_no_pair(of_model, skipped)
                pairs = [{"model": name, "reason": reason}]
            found += [pair | {"file": file} for pair in pairs]
    return frame(found, STRATEGY_COLUMNS)


#: What DDP and DataParallel must share. One version may be measured under two labels.
_EQUAL = (
    *("world_size", "global_batch_size", "device", "precision", "data"),
    *("torch", "torch_version"),
)


def _is_data_parallel(cell: Row) -> bool:
    """DataParallel that really ran on several accelerators, with a result to compare."""
    return (
        cell["strategy"] in ("dp", "data_parallel")
        and not cell["label"]
        and cell["device"] not in (None, "cpu")
        and (cell["world_size"] or 0) > 1
        and not cell["conflict"]
        and cell["throughput_samples_per_s"] is not None
    )


def _is_plain_ddp(ddp: Row) -> bool:
    plain = all(not ddp[name] for name in ("find_unused_parameters", "static_graph"))
    default = ddp["bucket_cap_set"] is False and not ddp["gradient_as_bucket_view"]
    return (
        ddp["strategy"] == "ddp"
        and plain
        and default
        and not ddp["conflict"]
        and ddp["throughput_samples_per_s"] is not None
    )


def _pair(model: str, ddp: Row, dp: Row) -> Row:
    row: Row = {
        "model": model,
        "case": words.case(ddp),
        "world_size": ddp["world_size"],
        "global_batch_size": ddp["global_batch_size"],
        "ddp": ddp["id"],
        "dp": dp["id"],
        "dp_strategy": dp["strategy"],
        "ddp_throughput_samples_per_s": ddp["throughput_samples_per_s"],
        "dp_throughput_samples_per_s": dp["throughput_samples_per_s"],
    }
    for name, cell in (("ddp", ddp), ("dp", dp)):
        for end in ("low", "high"):
            row[f"{name}_{end}_samples_per_s"] = cell[f"throughput_{end}_samples_per_s"]
    return row | _ratio(ddp, dp)


def _why_no_pair(cells: list[Row], outcomes: list[Row]) -> str:
    kinds = ("dp", "data_parallel")
    parallel = [cell for cell in cells if cell["strategy"] in kinds]
    skipped = [row for row in outcomes if row["strategy"] in kinds and row["outcome"] != "ok"]
    if any(_is_data_parallel(cell) for cell in parallel):
        return "no DDP case with default settings at the same devices and global batch"
    for label in (cell["label"] for cell in parallel if cell["label"]):
        return f"DataParallel is parallel on accelerators only; its case here is “{label}”"
    if any(cell["device"] is None and (cell["world_size"] or 0) > 1 for cell in parallel):
        return (
            "the file does not say on which device its cases ran, "
            "and DataParallel is parallel on accelerators only"
        )
    for row in skipped:
        return f"DataParallel {row['outcome']}: {row['reason'] or 'no reason recorded'}"
    if parallel:
        return "DataParallel was measured on one device only"
    return "no DataParallel case of this model in this file"
