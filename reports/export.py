"""A pytest-benchmark file whose rounds are launches.

In a file of ours a round is one step, so its stddev is that of steps in a process, which says
nothing about how far the next launch may be off. Here a round is a launch's step time, and stddev
is restart noise: what other tools that compare such files take it for. Statistics are
pytest-benchmark's own. Launches that measured flagged cases once more are not among the rounds:
they were taken because of what the others gave.
"""

from __future__ import annotations

from typing import Any

from pytest_benchmark.stats import Stats

from reports import entry as entries
from reports.frames import frame, rows
from reports.load import LAUNCH_COLUMNS
from reports.source import table, tables, text
from reports.stats import launch_step_s


def per_launch(document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The document with launches for rounds, and a sentence for everything that is not in it.

    All but the statistics stays as it was, but for what ``extra_info.result`` says of rounds.
    """
    ended = {
        text(one.get("id")): text(one.get("outcome"))
        for one in tables(table(document.get("lockstep")).get("outcomes"))
    }
    found, notes, alone = [], [], 0
    for entry in tables(document["benchmarks"]):
        name = text(entry.get("name")) or "(no name)"
        values = _launches(entry)
        outcome = ended.get(text(table(entry.get("extra_info")).get("id")), "ok")
        if outcome != "ok":
            notes.append(f"{name} is left out: it {outcome} after it was timed")
        elif not values:
            notes.append(f"{name} is left out: the file has no step time of it")
        else:
            found.append(_with_rounds(entry, values))
            alone += len(values) == 1
    if alone:
        notes.append(
            f"{alone} of {len(found)} cases have one launch: their stddev of 0 is not known, not "
            "none; measure with --launches 2 or more"
        )
    return document | {"benchmarks": found}, notes


def _launches(entry: dict[str, Any]) -> dict[int, float]:
    """Launch -> step time, s."""
    launches = rows(frame(entries.launch_rows(entry), LAUNCH_COLUMNS))
    read = {row["launch"]: launch_step_s(row) for row in launches}
    return {launch: value for launch, value in read.items() if value is not None}


def _with_rounds(entry: dict[str, Any], values: dict[int, float]) -> dict[str, Any]:
    stats = Stats()
    for value in values.values():
        stats.update(value)
    extra = dict(table(entry.get("extra_info"))) | {"round": "launch"}
    result = table(extra.get("result"))
    if result:
        own = {name: value for name, value in result.items() if name != "child_of_round"}
        extra["result"] = own | {"launch_of_round": list(values)}
    return entry | {
        "extra_info": extra,
        "stats": stats.as_dict() | {"data": stats.data, "iterations": 1},
    }
