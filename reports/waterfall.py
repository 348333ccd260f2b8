"""Where the time of a DDP step goes: from a single process to the measured step, term by term.

Five step times, seconds, each the geometric mean over launches of the launches' medians, as
everywhere (reports/stats.py):

    single            one process without a wrapper, at the batch of one rank
    same              DDP on one rank, equal settings and batch per rank
    mean_alone        the pass without communication, mean over ranks
    slowest_alone     the pass without communication, slowest rank of each step
    step              the measured step

A term is the difference of two neighbours, so that the terms add up to the measured step exactly:

    wrapper           same - single
    contention        mean_alone - same
    wait              slowest_alone - mean_alone: what an average rank waits for the slowest
    transfer          step - slowest_alone: communication that computing does not hide

The batch is the one per rank in strong scaling too: it is what a rank really computes. Where a
time is not known, the terms up to it are blank and the waterfall begins later. Terms are never
clipped.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports import words
from reports.baselines import Baselines
from reports.communication import exposed_mean_s
from reports.frames import Row, columns, frame, groups, rows
from reports.scaling import BASELINE_FIELDS, SINGLE_FIELDS, baseline
from reports.stats import difference_half_width_s, step_time

#: The step times the waterfall leads through, in order, and what they are called.
LEVELS = {
    "single": "single process",
    "same": "DDP on 1 rank",
    "mean_alone": "mean rank without communication",
    "slowest_alone": "slowest rank without communication",
    "step": "measured step",
}
#: The terms, each from one level to the next.
TERMS = {
    "wrapper": "wrapper",
    "contention": "contention",
    "wait": "waiting for the slowest rank",
    "transfer": "exposed transfer",
}
#: Two ways to the same exposed time may differ by this share of the larger before it is said: both
#: passes are short, and the profiler slows what it watches.
SAME_EXPOSED = 0.10

COLUMNS = columns(
    string="file id model begins begins_reason exposed_words",
    Int64="cell world_size",
    Float64=(
        " ".join(f"{name}_s" for name in (*LEVELS, *TERMS))
        + " "
        + " ".join(f"{name}_ratio {name}_half_width_s" for name in TERMS)
        + " begins_s exposed_by_profiler_s exposed_by_pass_s exposed_difference_ratio"
    ),
    boolean=" ".join(f"{name}_within_noise" for name in TERMS) + " exposed_agrees",
    object="notes level_medians_s",
)


def waterfall_table(
    cells: pd.DataFrame, launches: pd.DataFrame, ranks: pd.DataFrame
) -> pd.DataFrame:
    """One row per DDP cell on several ranks with a pass without communication; ``COLUMNS``.

    ``level_medians_s``: for each level the launches' values, by launch.
    ``*_ratio``: the term over the measured step. ``begins``: the level the known terms start from.
    """
    of_launch, of_rank = groups(rows(launches), "cell"), groups(rows(ranks), "cell")
    found: list[Row] = []
    for own in groups(rows(cells), "file").values():
        baselines = Baselines(own)
        for cell in own:
            passes = of_launch.get((cell["cell"],), [])
            if cell["strategy"] != "ddp" or (cell["world_size"] or 0) < 2:
                continue
            if cell["step_s"] is None or not _medians(passes, "no_communication_step_s"):
                continue
            found.append(_row(cell, baselines, passes, of_rank.get((cell["cell"],), [])))
    return frame(found, COLUMNS)


def _row(cell: Row, baselines: Baselines, launches: list[Row], ranks: list[Row]) -> Row:
    row: Row = {name: cell.get(name) for name in ("file", "cell", "id", "world_size")}
    row["model"] = words.model(cell)
    # A rank computes its own batch in either kind of scaling; "weak" asks for just that.
    single = baseline(cell, "weak", baselines, "single", SINGLE_FIELDS)
    same = baseline(cell, "weak", baselines, "ddp", BASELINE_FIELDS)
    medians: dict[str, dict[int, float]] = {
        "single": {} if isinstance(single, str) else single["launch_medians_s"] or {},
        "same": {} if isinstance(same, str) else same["launch_medians_s"] or {},
        "mean_alone": _medians(launches, "no_communication_mean_step_s"),
        "slowest_alone": _medians(launches, "no_communication_step_s"),
        "step": cell["launch_medians_s"],
    }
    for name, values in medians.items():
        estimate = step_time(values, [])
        row[f"{name}_s"] = estimate.value if estimate else None
    row["level_medians_s"] = medians
    _add_terms(row, medians)
    reasons = {
        "single": single if isinstance(single, str) else None,
        "same": same if isinstance(same, str) else None,
        "mean_alone": "the record has no mean over ranks for the pass without communication",
    }
    return row | _beginning(row, reasons) | _exposed(row, ranks)


def _medians(launches: list[Row], name: str) -> dict[int, float]:
    return {one["launch"]: one[name] for one in launches if one[name] is not None}


def _add_terms(row: Row, medians: dict[str, dict[int, float]]) -> None:
    """The differences from the last level on before which one is not known."""
    levels = list(LEVELS)
    known = [row[f"{level}_s"] is not None for level in levels]
    first = max((n + 1 for n, one in enumerate(known) if not one), default=0)
    row["begins"], row["begins_s"] = LEVELS[levels[first]], row[f"{levels[first]}_s"]
    row["notes"] = []
    for n, (term, name) in enumerate(TERMS.items()):
        if n < first:
            continue
        below, above = levels[n], levels[n + 1]
        seconds = row[f"{above}_s"] - row[f"{below}_s"]
        half = difference_half_width_s(medians[above], medians[below])
        row |= {f"{term}_s": seconds, f"{term}_half_width_s": half}
        row[f"{term}_ratio"] = seconds / row["step_s"]
        row[f"{term}_within_noise"] = None if half is None else abs(seconds) <= half
        if seconds < 0 and not row[f"{term}_within_noise"]:
            row["notes"].append(_negative(name, half))
    noise = [name for term, name in TERMS.items() if row.get(f"{term}_within_noise")]
    if noise:
        row["notes"].append(f"within noise, not to be told from 0: {words.joined(noise)}")


def _negative(name: str, half_width_s: float | None) -> str:
    if half_width_s is None:
        return f"{name} is below 0: noise, or an effect of caches; one launch cannot tell which"
    return f"{name} is below 0 by more than the noise: an effect of caches or of the clock rate"


def _beginning(row: Row, reasons: dict[str, Any]) -> Row:
    """Why the waterfall begins where it does: the last level that is not known."""
    missing = [level for level in LEVELS if row[f"{level}_s"] is None]
    if not missing:
        return {}
    reason = reasons[missing[-1]] or f"{LEVELS[missing[-1]]} has no step time"
    return {"begins_reason": reason}


def _exposed(row: Row, ranks: list[Row]) -> Row:
    """The exposed communication of a mean rank, by the profiler and by the other pass, s a step.

    Both hold the waiting for the slowest rank and the transfer. The pass alone also holds how much
    hidden communication slows the computing beside it (gloo's threads on the ranks' cores, NCCL's
    kernels on their multiprocessors), and so it is often the larger.
    """
    profiler = exposed_mean_s(ranks)
    alone = row["mean_alone_s"]
    other = None if alone is None else row["step_s"] - alone
    found: Row = {"exposed_by_profiler_s": profiler, "exposed_by_pass_s": other}
    if profiler is None or other is None:
        return found
    larger = max(abs(profiler), abs(other))
    difference = abs(profiler - other) / larger if larger else 0.0
    agrees = difference <= SAME_EXPOSED
    said = (
        f"{words.seconds(profiler)} by the profiler, {words.seconds(other)} by the pass without "
        "communication"
    )
    if not agrees:
        of_step = words.percent(abs(profiler - other) / row["step_s"])
        said += f": they differ by {words.percent(difference)} of the larger, {of_step} of the step"
    return found | {
        "exposed_difference_ratio": difference,
        "exposed_agrees": agrees,
        "exposed_words": said,
    }
