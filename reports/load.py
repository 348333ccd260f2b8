"""pytest-benchmark files -> tidy frames.

One row per cell, per launch of a cell, per rank of a launch, per skipped or failed cell, and per
file. ``cell`` numbers the cells over all files and joins the frames. A cell belongs to its file:
nothing here or later joins cells of two files, so machines and builds never mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bench.case import FIELD_NAMES
from bench.result import OUR_TYPES
from reports import entry as entries
from reports import hosts
from reports.frames import Row, columns, frame
from reports.ready_record import READY_COLUMNS, ready_rows
from reports.source import (
    UnreadableFile,
    count,
    items,
    number,
    read_document,
    share,
    table,
    tables,
    text,
    whole,
)
from reports.timeline_record import STRETCH_COLUMNS, TIMELINE_COLUMNS, timeline_rows

_KIND_OF_FIELD = {
    "world_size": "Int64",
    "batch_size": "Int64",
    "threads": "Int64",
    "seed": "Int64",
    "bytes": "Int64",
    "bucket_cap_mb": "Float64",
    "gradient_as_bucket_view": "boolean",
    "find_unused_parameters": "boolean",
    "static_graph": "boolean",
    "broadcast_buffers": "boolean",
}
CELL_COLUMNS = {
    **columns(
        Int64="cell threads_per_rank global_batch_size rounds hosts",
        string=(
            "file id name group other identity torch_version label outcome rerun "
            "pair_name pair_key definition"
        ),
        boolean="bucket_cap_set own oversubscribed conflict throughput_is_stated",
        object="failed_checks warnings",
        Float64="stats_median_s mean_s stated_throughput_samples_per_s",
    ),
    **{name: _KIND_OF_FIELD.get(name, "object") for name in FIELD_NAMES},
}
LAUNCH_COLUMNS = columns(
    Int64="cell launch parameters gradient_bytes waited_for children",
    object="step_s child_step_s rebuilt_bucket_bytes",
    Float64=(
        "median_step_s no_communication_step_s no_communication_mean_step_s profiled_step_s "
        "checkpoint_s transfer_s first_child_step_s first_step_s init_s peak_bytes"
    ),
    boolean="transfer_is_estimate complete",
)
_RANK_SECONDS = (
    *("median_step_s", "first_step_s", "all_reduce_s", "exposed_s", "wait_s", "data_s"),
    *("forward_s", "backward_s", "step_fn_s", "communication_s", "optimizer_s"),
    *("init_s", "wrap_s", "compute_s", "alone_s"),
    *("forward_mean_s", "backward_mean_s", "ddp_forward_s", "ddp_backward_s"),
    *("ddp_all_reduce_s", "ddp_overlap_s"),
)
RANK_COLUMNS = {
    **columns(
        Int64="cell launch rank peak_bytes",
        string="host device_name peak_kind",
        Float64="calls_per_step bytes_per_step overlap_ratio explained_ratio",
        object="pair_s",
    ),
    **dict.fromkeys(_RANK_SECONDS, "Float64"),
}
OUTCOME_COLUMNS = {
    **columns(
        string="file id outcome reason phase host traceback rerun other pair_name",
        Int64="rank step",
        boolean="bucket_cap_set",
    ),
    **{name: _KIND_OF_FIELD.get(name, "object") for name in FIELD_NAMES},
}
FILE_COLUMNS = columns(
    string="file datetime host cpu os driver version command boot_id python links",
    Int64="cores usable_cores memory_bytes ignored schema",
    Float64="load_before load_after",
    object="gpus hosts environment settings warnings interpreters state_before state_after",
)

#: Numbers of a machine's state (bench/machine.py): load is of all cores, ``cpu_s`` and ``steal_s``
#: count since the machine started, ``calibration_s`` is the time of a fixed piece of work.
#: ``pressure_cpu``, ``_memory`` and ``_io``, shares of time, stand beside them.
STATE_NAMES = ("load_1min", "cpu_s", "steal_s", "cpu_mhz", "calibration_s")


@dataclass(frozen=True)
class Records:
    """What the files hold: frames with the columns named above.

    ``confirmations`` and ``confirmation_ranks`` are the launches in which flagged cases were
    measured once more; they are in no other frame. ``timelines`` and their ``stretches`` are
    described in reports/timeline_record.py, ``ready`` in reports/ready_record.py.
    """

    cells: pd.DataFrame
    launches: pd.DataFrame
    ranks: pd.DataFrame
    outcomes: pd.DataFrame
    files: pd.DataFrame
    confirmations: pd.DataFrame
    confirmation_ranks: pd.DataFrame
    timelines: pd.DataFrame
    stretches: pd.DataFrame
    ready: pd.DataFrame


def load(paths: Sequence[Path]) -> Records:
    """Reads every file; raises UnreadableFile on the first that is bad or holds nothing to show."""
    cells: list[Row] = []
    launches: list[Row] = []
    ranks: list[Row] = []
    confirmations: list[Row] = []
    confirmation_ranks: list[Row] = []
    timelines: list[Row] = []
    stretches: list[Row] = []
    ready: list[Row] = []
    outcomes: list[Row] = []
    files: list[Row] = []
    for path, name in zip(paths, _names(paths), strict=True):
        document = read_document(path)
        of_file = _outcomes(document, name)
        file = _file(document, name)
        found = [row for row in tables(document["benchmarks"]) if entries.is_case(row)]
        file["ignored"] = len(document["benchmarks"]) - len(found)
        if not found and not any(row["outcome"] != "ok" for row in of_file):
            raise UnreadableFile(_nothing_to_show(path, len(document["benchmarks"])))
        own_cells: list[Row] = []
        for item in found:
            cell = len(cells) + len(own_cells)
            row = entries.cell_row(item, document, file["cores"])
            own_cells.append(row | {"cell": cell, "file": name})
            launches += [launch | {"cell": cell} for launch in entries.launch_rows(item)]
            ranks += [rank | {"cell": cell} for rank in entries.rank_rows(item)]
            again = entries.confirmation_rows(item)
            confirmations += [launch | {"cell": cell} for launch in again]
            again = entries.confirmation_rank_rows(item)
            confirmation_ranks += [rank | {"cell": cell} for rank in again]
            drawn, parts = timeline_rows(item)
            timelines += [row | {"cell": cell} for row in drawn]
            stretches += [row | {"cell": cell} for row in parts]
            ready += [row | {"cell": cell} for row in ready_rows(item)]
        _add_outcomes(own_cells, of_file)
        _mark_conflicts(own_cells)
        cells += own_cells
        outcomes += of_file
        files.append(file)
    return Records(
        frame(cells, CELL_COLUMNS),
        frame(launches, LAUNCH_COLUMNS),
        frame(ranks, RANK_COLUMNS),
        frame(outcomes, OUTCOME_COLUMNS),
        frame(files, FILE_COLUMNS),
        frame(confirmations, LAUNCH_COLUMNS),
        frame(confirmation_ranks, RANK_COLUMNS),
        frame(timelines, TIMELINE_COLUMNS),
        frame(stretches, STRETCH_COLUMNS),
        frame(ready, READY_COLUMNS),
    )


def _nothing_to_show(path: Path, entry_count: int) -> str:
    if not entry_count:
        return (
            f"{path}: no data, its list of benchmarks is empty; run without --benchmark-disable "
            "and with at least one case"
        )
    return (
        f"{path}: none of its {entry_count} benchmarks has params named world_size, strategy or "
        "wrapper; there is no scaling to report"
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest distinct name for each file: its own, else its path, else numbered."""
    short = [path.name for path in paths]
    names = [path.name if short.count(path.name) == 1 else str(path) for path in paths]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _file(document: dict[str, Any], name: str) -> Row:
    own = table(document.get("lockstep"))
    machine, other = table(own.get("machine")), table(document.get("machine_info"))
    other_cpu = table(other.get("cpu"))
    gpus = machine.get("gpus")
    settings = table(own.get("settings"))
    states = {when: _state(own, when) for when in ("before", "after")}
    return {
        "file": name,
        "datetime": text(document.get("datetime")),
        "host": text(machine.get("host")) or text(other.get("node")),
        "cpu": text(machine.get("cpu")) or text(other_cpu.get("brand_raw")),
        "os": text(machine.get("os")) or text(other.get("system")),
        "cores": count(machine.get("physical_cores"))
        or count(machine.get("logical_cores"))
        or count(other_cpu.get("count")),
        "usable_cores": count(machine.get("usable_cores")),
        "memory_bytes": count(machine.get("memory_bytes")),
        "boot_id": text(machine.get("boot_id")),
        "python": text(other.get("python_version")),
        "gpus": [text(gpu.get("name")) or "unnamed GPU" for gpu in tables(gpus)]
        if isinstance(gpus, list)
        else None,
        "driver": text(machine.get("driver")),
        "hosts": hosts.host_rows(document),
        "links": hosts.links(document),
        "environment": table(machine.get("environment")),
        "settings": settings,
        "state_before": states["before"],
        "state_after": states["after"],
        "load_before": states["before"].get("load_1min"),
        "load_after": states["after"].get("load_1min"),
        "interpreters": table(own.get("interpreters")),
        "warnings": [words for words in map(text, items(own.get("warnings"))) if words],
        "version": text(own.get("version")),
        "schema": count(own.get("schema")),
        "command": text(settings.get("command")),
    }


def _state(own: Row, when: str) -> dict[str, float]:
    """What is known of the machine "before" or "after" the run: STATE_NAMES, by name."""
    state = table(table(own.get("state")).get(when))
    pressure = table(state.get("pressure"))
    found = {name: number(state.get(name)) for name in STATE_NAMES}
    found |= {f"pressure_{name}": share(pressure.get(name)) for name in ("cpu", "memory", "io")}
    return {name: value for name, value in found.items() if value is not None and value >= 0}


def _outcomes(document: dict[str, Any], name: str) -> list[Row]:
    found = []
    for record in tables(table(document.get("lockstep")).get("outcomes")):
        failure = table(record.get("failure"))
        fields = entries.typed_fields(table(record.get("case")))
        own_id = text(record.get("id")) or "(no name)"
        found.append(
            fields
            | {
                "file": name,
                "id": own_id,
                "pair_name": entries.pair_name(fields, own_id),
                "outcome": text(record.get("outcome")) or "unknown",
                "reason": _reason(failure) or text(record.get("reason")),
                "phase": text(failure.get("phase")),
                # Where all is on one host, it is named once for the file.
                "host": hosts.elsewhere(document, text(failure.get("host"))),
                "rank": whole(failure.get("rank")),
                "step": whole(failure.get("step")),
                "traceback": text(failure.get("traceback")),
                "rerun": text(record.get("rerun")),
            }
        )
    return found


def _reason(failure: dict[str, Any]) -> str | None:
    message, kind = text(failure.get("message")), text(failure.get("type"))
    if message is None or kind in (None, *OUR_TYPES):
        return message
    return f"{kind}: {message}"


def _add_outcomes(cells: list[Row], outcomes: list[Row]) -> None:
    """A benchmark that failed after it was timed is in pytest-benchmark's list all the same."""
    of_id = {row["id"]: row for row in outcomes}
    for cell in cells:
        outcome = of_id.get(cell["id"]) if cell["own"] else None
        if outcome is not None:
            cell["outcome"], cell["rerun"] = outcome["outcome"], outcome["rerun"]


def _mark_conflicts(cells: list[Row]) -> None:
    """Marks cells of one file that are the same case with different results."""
    results: dict[str, set[tuple[float | None, ...]]] = {}
    for cell in cells:
        result = (cell["stats_median_s"], number(cell["stated_throughput_samples_per_s"]))
        results.setdefault(cell["identity"], set()).add(result)
    for cell in cells:
        cell["conflict"] = len(results[cell["identity"]]) > 1
