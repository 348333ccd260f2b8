"""One entry of ``benchmarks`` -> a row per cell, per launch and per rank.

An entry is ours (``extra_info.case`` and ``extra_info.result``) or anyone's, as far as its
``params`` use PyTorch's names. What an entry does not say stays blank.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from bench.case import DEFAULT, FIELD_NAMES, TRAINING_FIELDS
from reports import checks, children, hosts
from reports.frames import Row
from reports.source import (
    count,
    flag,
    items,
    launch_number,
    number,
    numbers,
    positive,
    share,
    table,
    tables,
    text,
    whole,
)

STRATEGY_NAMES = {
    "distributeddataparallel": "ddp",
    "dataparallel": "dp",
    "none": "single",
}


def is_case(entry: dict[str, Any]) -> bool:
    """Whether the entry says enough to be a data-parallel case, ours or another suite's."""
    names = case_fields(entry)
    return any(names.get(name) is not None for name in ("world_size", "strategy"))


def case_fields(entry: dict[str, Any]) -> dict[str, Any]:
    """The case's fields as the file has them; ``wrapper`` counts as ``strategy``."""
    own = table(table(entry.get("extra_info")).get("case"))
    fields = dict(own or table(entry.get("params")))
    if "wrapper" in fields and "strategy" not in fields:
        fields["strategy"] = fields.pop("wrapper")
    strategy = fields.get("strategy")
    if isinstance(strategy, str):
        fields["strategy"] = STRATEGY_NAMES.get(strategy.lower(), strategy)
    return fields


def typed_fields(fields: dict[str, Any]) -> Row:
    """Columns of a cell from its case's fields: blank unless stated and of the right type.

    ``bucket_cap_set`` tells unset (False) from a number (True) and from not stated (blank).
    ``other``: fields this version does not know, as text, so that they still keep cells apart.
    """
    row: Row = {}
    for name in FIELD_NAMES:
        default, value = getattr(DEFAULT, name), fields.get(name)
        if isinstance(default, bool):
            row[name] = flag(value)
        elif isinstance(default, int):
            row[name] = count(value) if name != "seed" else whole(value)
        elif isinstance(default, str):
            # torch's label is empty in most files, and an empty label is not an unknown one.
            row[name] = value if name == "torch" and isinstance(value, str) else text(value)
        else:
            row[name] = count(value) if name == "threads" else number(value)
    if "bucket_cap_mb" in fields:
        stated = fields["bucket_cap_mb"]
        row["bucket_cap_set"] = False if stated is None else row["bucket_cap_mb"] is not None
    if row["strategy"] == "collective":
        row |= dict.fromkeys(TRAINING_FIELDS)  # there is no batch, whatever its default
    other = {name: value for name, value in fields.items() if name not in FIELD_NAMES}
    row["other"] = json.dumps(other, sort_keys=True, allow_nan=False) if other else None
    return row


def pair_name(row: Row, name: str) -> str:
    """The name of a case of ours without the label of its interpreter: the same for all labels."""
    ending = DEFAULT.replace(torch=row["torch"] or "").id.removeprefix(DEFAULT.id)
    return name.removesuffix(ending)


def _pair_key(fields: dict[str, Any], row: Row, own: bool) -> str:
    """What two entries of one case share, whatever interpreter they ran under.

    Ours have an id that says all; names of other suites need not, so their params count too.
    """
    if own:
        return str(row["pair_name"])
    return json.dumps([row["pair_name"], fields], sort_keys=True, allow_nan=False)


def _definition(fields: dict[str, Any]) -> str:
    """The case's fields but for the interpreter's label; one that is not there is at its default,
    for a field that a later version brings is at its default in an older one's file."""
    known = {name: getattr(DEFAULT, name) for name in FIELD_NAMES} | fields
    del known["torch"]
    return json.dumps(known, sort_keys=True, allow_nan=False)


def cell_row(entry: dict[str, Any], document: dict[str, Any], cores: int | None) -> Row:
    """The cell's own columns: what it is, what the file states about it, what to beware of."""
    extra = table(entry.get("extra_info"))
    result = table(extra.get("result"))
    launches = tables(result.get("launches"))
    fields = case_fields(entry)
    row = typed_fields(fields)
    ranks = tables(launches[0].get("ranks")) if launches else []
    threads = {whole(rank.get("threads")) for rank in ranks} or {row["threads"]}
    row["threads_per_rank"] = threads.pop() if len(threads) == 1 else None
    row["oversubscribed"] = checks.threads_beyond_cores(
        ranks,
        row["threads_per_rank"],
        row["world_size"],
        cores,
        hosts.cores_of_hosts(document),
        hosts.are_one_machine(document),
    )
    row["hosts"] = len({text(rank.get("host")) for rank in ranks} - {None}) or None
    own = bool(table(extra.get("case")))
    failed = checks.failed_checks(launches)
    row |= {
        "id": text(extra.get("id")) or text(entry.get("name")) or "(no name)",
        "name": text(entry.get("name")),
        "group": text(entry.get("group")),
        "own": own,
        "identity": json.dumps(fields, sort_keys=True, allow_nan=False),
        "definition": _definition(fields) if own else None,
        "torch_version": _torch_version(entry, document, ranks, row["torch"]),
        "global_batch_size": count(result.get("global_batch_size"))
        or _product(row["world_size"], row["batch_size"]),
        "label": text(result.get("label")),
        "failed_checks": failed,
        "warnings": checks.said_once(checks.recorded_warnings(result, launches), failed)
        + checks.doubts(launches, row["world_size"]),
        # Ours restates what stats.data gives; another suite's is a measurement of its own.
        "throughput_is_stated": not own and "throughput_samples_per_s" in extra,
        "stated_throughput_samples_per_s": positive(extra.get("throughput_samples_per_s")),
    }
    row["pair_name"] = pair_name(row, row["id"] if own else row["name"] or row["id"])
    row["pair_key"] = _pair_key(fields, row, own)
    return row | _statistics(table(entry.get("stats")))


def launch_rows(entry: dict[str, Any]) -> list[Row]:
    """One row per launch, with the slowest rank's step times where the file has them.

    A file without launches is one launch. Steps that cannot be told to a launch (no
    ``launch_of_round``, several launches) are left out, and the launches' own medians remain.
    ``child_step_s``: the same steps, a list per child, where they can be told apart.
    """
    result = table(table(entry.get("extra_info")).get("result"))
    data = items(table(entry.get("stats")).get("data"))
    records = tables(result.get("launches"))
    if not records:
        steps = [step for step in numbers(data) if step > 0]
        return [{"launch": 0, "step_s": steps, "child_step_s": [steps], "median_step_s": None}]
    numbers_of = [launch_number(record, i) for i, record in enumerate(records)]
    of_round = items(result.get("launch_of_round"))
    if len(records) == 1 and len(of_round) != len(data):
        of_round = numbers_of * len(data)
    if len(of_round) != len(data):
        data = of_round = []
    of_child = items(result.get("child_of_round"))
    if len(of_child) != len(data):
        of_child = [None] * len(data)
    found = []
    for launch, record in zip(numbers_of, records, strict=False):
        by_child: dict[int | None, list[Any]] = {}
        for step, owner, child in zip(data, of_round, of_child, strict=True):
            if owner == launch:
                by_child.setdefault(whole(child), []).append(step)
        runs = [[step for step in numbers(own) if step > 0] for own in by_child.values()]
        row = _launch_row(launch, record)
        row["step_s"] = [step for run in runs for step in run]
        # Steps of several children that cannot be told apart are no run of steps.
        row["child_step_s"] = runs if len(runs) == (row["children"] or 1) else []
        found.append(row)
    return found


def confirmation_rows(entry: dict[str, Any]) -> list[Row]:
    """One row per launch of the second measurement of a flagged case, with ``complete``."""
    result = table(table(entry.get("extra_info")).get("result"))
    confirmation = table(result.get("confirmation"))
    first = len(items(result.get("launches")))
    complete = flag(confirmation.get("complete"))
    return [
        _launch_row(launch_number(record, first + i), record) | {"complete": complete}
        for i, record in enumerate(tables(confirmation.get("launches")))
    ]


def confirmation_rank_rows(entry: dict[str, Any]) -> list[Row]:
    """One row per rank of those launches."""
    result = table(table(entry.get("extra_info")).get("result"))
    first = len(items(result.get("launches")))
    return _rank_rows(tables(table(result.get("confirmation")).get("launches")), first)


def _launch_row(launch: int, record: dict[str, Any]) -> Row:
    """What one launch's record says, but for its steps."""
    return (
        {
            "launch": launch,
            "median_step_s": positive(record.get("median_step_s")),
            "no_communication_step_s": positive(record.get("no_communication_step_s")),
            "no_communication_mean_step_s": positive(record.get("no_communication_mean_step_s")),
            "profiled_step_s": positive(record.get("profiled_step_s")),
            "parameters": whole(record.get("parameters")),
            "gradient_bytes": whole(record.get("gradient_bytes")),
            "rebuilt_bucket_bytes": _buckets(record),
            "checkpoint_s": positive(table(record.get("checkpoint")).get("seconds")),
        }
        | children.of_launch(record)
        | _across_ranks(table(record.get("across_ranks")))
    )


def rank_rows(entry: dict[str, Any]) -> list[Row]:
    """One row per launch and rank."""
    result = table(table(entry.get("extra_info")).get("result"))
    return _rank_rows(tables(result.get("launches")), 0)


def _rank_rows(launches: Sequence[dict[str, Any]], first: int) -> list[Row]:
    found = []
    for i, record in enumerate(launches, first):
        waits = items(table(record.get("across_ranks")).get("wait_s"))
        for position, rank in enumerate(tables(record.get("ranks"))):
            n = whole(rank.get("rank"))
            n = position if n is None else n
            communication = table(rank.get("communication"))
            phases = table(rank.get("phases"))
            life = table(rank.get("lifecycle"))
            memory = table(rank.get("memory"))
            row: Row = {
                "launch": launch_number(record, i),
                "rank": n,
                "host": text(rank.get("host")),
                "device_name": text(rank.get("device_name")),
                "median_step_s": positive(rank.get("median_step_s")),
                "first_step_s": positive(rank.get("first_step_s")),
                "wait_s": number(waits[n]) if 0 <= n < len(waits) else None,
                "peak_bytes": whole(memory.get("peak_bytes")),
                "peak_kind": text(memory.get("kind")),
                "pair_s": _pairs(table(rank.get("pair_s"))),
            }
            for name in ("calls_per_step", "bytes_per_step", "all_reduce_s", "exposed_s"):
                row[name] = number(communication.get(name))
            if (row["exposed_s"] or 0) < 0:
                row["exposed_s"] = None  # no time: neither drawn nor compared
            row["overlap_ratio"] = number(communication.get("overlap_ratio"))
            row["explained_ratio"] = share(communication.get("explained_ratio"))
            for name in ("data", "forward", "backward", "step_fn", "communication", "optimizer"):
                row[f"{name}_s"] = number(table(phases.get(name)).get("median_s"))
            for name in ("forward", "backward"):
                row[f"{name}_mean_s"] = positive(table(phases.get(name)).get("mean_s"))
            said = table(rank.get("ddp_own_times"))
            for name in ("forward_s", "backward_s", "all_reduce_s", "overlap_s"):
                row[f"ddp_{name}"] = positive(said.get(name))
            for name in ("init_s", "wrap_s"):
                row[name] = number(life.get(name))
            found.append(row)
    return found


def _pairs(seconds: dict[str, Any]) -> dict[int, float] | None:
    """By the other rank's number the time of an exchange with it."""
    found = {int(n): positive(value) for n, value in seconds.items() if n.isdecimal()}
    return {n: value for n, value in found.items() if value is not None} or None


def _across_ranks(across: dict[str, Any]) -> Row:
    return {
        "transfer_s": number(across.get("transfer_s")),
        "transfer_is_estimate": flag(across.get("estimate")),
        "waited_for": whole(across.get("waited_for")),
    }


def _buckets(record: dict[str, Any]) -> list[int] | None:
    sizes = table(record.get("buckets")).get("rebuilt_bytes")
    return [int(size) for size in numbers(sizes)] if isinstance(sizes, list) else None


def _statistics(stats: dict[str, Any]) -> Row:
    """Median and mean in seconds and the number of rounds, from whatever keys there are."""
    data = [step for step in numbers(stats.get("data")) if step > 0]
    rounds = len(data) or count(stats.get("rounds"))
    median, mean = positive(stats.get("median")), positive(stats.get("mean"))
    if data:
        median, mean = statistics.median(data), statistics.fmean(data)
    if mean is None:
        total, ops = positive(stats.get("total")), positive(stats.get("ops"))
        mean = total / rounds if total and rounds else 1 / ops if ops else None
    if median is None and rounds == 1:
        median = mean
    return {"stats_median_s": median, "mean_s": mean, "rounds": rounds}


def _torch_version(
    entry: dict[str, Any], document: dict[str, Any], ranks: list[Row], label: str | None
) -> str | None:
    extra = table(entry.get("extra_info"))
    of_ranks = {text(table(rank.get("software")).get("torch")) for rank in ranks} - {None}
    if of_ranks:
        return ", ".join(sorted(map(str, of_ranks)))
    interpreters = table(table(document.get("lockstep")).get("interpreters"))
    return (
        text(table(interpreters.get(label or "")).get("torch"))
        or text(extra.get("torch_version"))
        or text(table(document.get("machine_info")).get("torch"))
    )


def _product(a: int | None, b: int | None) -> int | None:
    return a * b if a is not None and b is not None else None
