"""One profiled step of a case on all its ranks, as bench/timeline.py recorded it -> rows.

A row per timeline, and a row per stretch of time in it: a phase of a rank's step, or a collective.
Older files have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.frames import Row, columns
from reports.source import count, flag, launch_number, number, table, tables, text, whole

TIMELINE_COLUMNS = columns(
    string="reason",
    Int64="cell launch step steps left_out_ranks left_out_collectives",
    Float64="step_s ends_within_s",
    boolean="aligned",
)
#: ``lane``: the how many-th collective of the rank's step, from 0; blank for phases. ``wait_s``:
#: the first part of a collective, in which others had not joined it yet. The rank's whole step
#: has the name STEP. ``why``: what the rank was chosen for, where not all are recorded.
STRETCH_COLUMNS = columns(
    string="name why", Int64="cell rank lane bytes", Float64="start_s end_s wait_s"
)
STEP = "step"
#: A damaged file must not make a page of any size.
_MOST_RANKS, _MOST_PHASES, _MOST_COLLECTIVES = 64, 16, 256


def timeline_rows(entry: dict[str, Any]) -> tuple[list[Row], list[Row]]:
    """(the timeline of the first launch that has one, its stretches)"""
    result = table(table(entry.get("extra_info")).get("result"))
    for position, launch in enumerate(tables(result.get("launches"))):
        record = table(launch.get("timeline"))
        if not record:
            continue
        left_out = table(record.get("left_out"))
        made = {
            "launch": launch_number(launch, position),
            "reason": text(record.get("reason")),
            "step": whole(record.get("step")),
            "steps": count(record.get("steps")),
            "step_s": number(record.get("step_s")),
            "ends_within_s": number(record.get("ends_within_s")),
            "aligned": flag(record.get("aligned")),
            "left_out_ranks": whole(left_out.get("ranks")),
            "left_out_collectives": whole(left_out.get("collectives")),
        }
        return [made], [
            row for rank in tables(record.get("ranks"))[:_MOST_RANKS] for row in _of_rank(rank)
        ]
    return [], []


def _of_rank(record: dict[str, Any]) -> list[Row]:
    rank = whole(record.get("rank"))
    if rank is None:
        return []
    phases = tables(record.get("phases"))[:_MOST_PHASES]
    collectives = tables(record.get("collectives"))[:_MOST_COLLECTIVES]
    found = [
        *_stretches([record | {"name": STEP}]),
        *_stretches(phases),
        *(
            row | {"lane": lane}
            for lane, one in enumerate(collectives)
            for row in _stretches([one | {"name": one.get("kind")}])
        ),
    ]
    return [row | {"rank": rank, "why": text(record.get("why"))} for row in found]


def _stretches(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Those with a name, a start and an end that is not before it."""
    found = []
    for record in records:
        name = text(record.get("name"))
        start_s, end_s = number(record.get("start_s")), number(record.get("end_s"))
        if name is None or start_s is None or end_s is None or end_s < start_s:
            continue
        wait_s = number(record.get("wait_s"))
        known = wait_s is not None and 0 <= wait_s <= end_s - start_s + 1e-9
        found.append(
            {
                "name": name,
                "start_s": start_s,
                "end_s": end_s,
                "bytes": whole(record.get("bytes")),
                "wait_s": wait_s if known else None,
            }
        )
    return found
