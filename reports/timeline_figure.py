"""One step on all ranks, from left to right. Nothing is computed here but where a bar stands.

Under each rank's name its phases on one line, and below them its collectives, each on a line of
its own while there are few, else on as few lines as keep them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reports import words
from reports.drawing import (
    PHASE_COLOURS,
    TRANSFER_COLOUR,
    Lines,
    axes_in_page_style,
    hollow,
    legend_below,
    patch,
    phase_name,
)
from reports.frames import Row, groups, rows
from reports.svg import INK, inline_svg
from reports.timeline_record import STEP

#: Of more ranks the first are drawn; the table has all that were recorded.
MOST_RANKS = 8
#: Of this many collectives each has a line of its own.
_MOST_OWN_LINES = 6
#: More lines are as much lower, and have no labels: a rank takes no more room for them.
_MOST_FULL_LINES = 12
_OTHER_PHASE = "#7d8a97"
_PHASE_HEIGHT, _CALL_HEIGHT = 1.0, 0.84


def timeline(table: pd.DataFrame, name: str) -> str | None:
    """``table``: the rows of one cell of timelines.timeline_table."""
    of_rank = groups(rows(table), "rank")
    ranks = {rank: of_rank[(rank,)] for (rank,) in list(of_rank)[:MOST_RANKS]}
    if not ranks:
        return None
    first = rows(table)[0]
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for rank, parts in ranks.items():
            _rank(axes, lines, rank, parts)
        used = [part["name"] for parts in ranks.values() for part in parts if _is_phase(part)]
        handles = [
            patch(_colour(phase), phase_name(phase)) for phase in PHASE_COLOURS if phase in used
        ]
        calls = [part for parts in ranks.values() for part in parts if part["lane"] is not None]
        if calls:
            kinds = words.joined(sorted({call["name"] for call in calls}))
            handles.append(patch(TRANSFER_COLOUR, kinds))
        if any(call["wait_s"] for call in calls):
            handles.append(hollow(TRANSFER_COLOUR, "of it waiting for other ranks"))
        legend_below(figure, handles, columns=2)
        lines.finish(
            "ms from the first rank's start of the step",
            f"One step of {words.id_shortened(first['id'], 36)}",
            legend_lines=(len(handles) + 1) // 2,
        )
        title = f"One step on all ranks: {first['id']} ({first['file']})"
        spoken = " ".join(_spoken(rank, parts) for rank, parts in ranks.items())
        return inline_svg(figure, name, title, spoken)


def _rank(axes: Any, lines: Lines, rank: int, parts: Sequence[Row]) -> None:
    why = parts[0]["why"]
    if why:
        lines.heading(f"rank {rank}: {why}")
    y = lines.line("" if why else f"rank {rank}", _PHASE_HEIGHT + 0.15)
    for part in parts:
        start, end = part["start_s"] * 1e3, part["end_s"] * 1e3
        if part["name"] == STEP and part["lane"] is None:
            axes.plot([start, start], [y - 0.6, y + 0.6], color=INK, linewidth=0.8)
            axes.plot([end, end], [y - 0.6, y + 0.6], color=INK, linewidth=0.8)
        elif part["lane"] is None:
            axes.barh(
                y,
                end - start,
                left=start,
                height=_PHASE_HEIGHT * 0.8,
                color=_colour(part["name"]),
                linewidth=0,
            )
    calls = [part for part in parts if part["lane"] is not None]
    placed = in_lines(calls)
    height = _CALL_HEIGHT * min(1.0, _MOST_FULL_LINES / max(1, len(placed)))
    for own in placed:
        named = len(own) == 1 and own[0]["bytes"] and height == _CALL_HEIGHT
        y = lines.line(words.size(own[0]["bytes"]) if named else "", height)
        for call in own:
            _call(axes, y, call, height * 0.62)
    lines.line("", 0.5)


def in_lines(calls: Sequence[Row]) -> list[list[Row]]:
    """The calls by the line they are drawn on."""
    if len(calls) <= _MOST_OWN_LINES:
        return [[call] for call in calls]
    found: list[list[Row]] = []
    for call in sorted(calls, key=lambda one: one["start_s"]):
        free = [own for own in found if own[-1]["end_s"] <= call["start_s"]]
        if free:
            free[0].append(call)
        else:
            found.append([call])
    return found


def _call(axes: Any, y: float, call: Row, height: float) -> None:
    start, end = call["start_s"] * 1e3, call["end_s"] * 1e3
    moves = start + (call["wait_s"] or 0) * 1e3
    if moves > start:
        axes.barh(
            y,
            moves - start,
            left=start,
            height=height,
            facecolor="none",
            edgecolor=TRANSFER_COLOUR,
            linewidth=0.8,
        )
    axes.barh(y, end - moves, left=moves, height=height, color=TRANSFER_COLOUR, linewidth=0)


def _is_phase(part: Row) -> bool:
    return part["lane"] is None and part["name"] != STEP


def _colour(phase: str) -> str:
    return PHASE_COLOURS.get(phase, _OTHER_PHASE)


def _spoken(rank: int, parts: Sequence[Row]) -> str:
    said = [f"{phase_name(part['name'])} {_from_to(part)}" for part in parts if _is_phase(part)]
    calls = [part for part in parts if part["lane"] is not None]
    for call in calls[:_MOST_OWN_LINES]:
        size = f" of {words.size(call['bytes'])}" if call["bytes"] else ""
        waits = f", waiting {words.seconds(call['wait_s'])}" if call["wait_s"] else ""
        said.append(f"{call['name']}{size} {_from_to(call)}{waits}")
    if len(calls) > _MOST_OWN_LINES:
        said.append(f"and {len(calls) - _MOST_OWN_LINES} more collectives")
    why = f", {parts[0]['why']}" if parts[0]["why"] else ""
    return f"Rank {rank}{why}: {'; '.join(said)}."


def _from_to(part: Row) -> str:
    return f"{words.between(part['start_s'], part['end_s'], _milliseconds)}"


def _milliseconds(seconds: float) -> str:
    return f"{words.milliseconds(seconds)}{words.SPACE}ms".replace("-", "−")
