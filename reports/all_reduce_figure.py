"""The all-reduce time of each rank, divided in two ways. Nothing is computed here.

Above, what computing hides of it and what it does not; below, where it is known, how long the rank
waited for others and how long data moved. Both bars are of the same all-reduces.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports import words
from reports.drawing import (
    COST_COLOUR,
    GAIN_COLOUR,
    MOST_CASES,
    TRANSFER_COLOUR,
    Lines,
    axes_in_page_style,
    hollow,
    legend_below,
    patch,
)
from reports.frames import Row, groups, rows
from reports.svg import inline_svg


def all_reduce(bars: pd.DataFrame, name: str) -> str | None:
    """``bars``: the rows of one file and model of communication.all_reduce_bars."""
    cells = list(groups(rows(bars), "cell").values())[:MOST_CASES]
    if not cells:
        return None
    waits = any(bar["wait_s"] is not None for cell in cells for bar in cell)
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for cell in cells:
            lines.heading(cell[0]["id"])
            for bar in cell:
                _bar(axes, bar, lines.line(f"rank {bar['rank']}"))
        axes.set_xlim(left=0)
        handles = [patch(GAIN_COLOUR, "hidden behind computing"), patch(COST_COLOUR, "exposed")]
        if waits:
            handles += [
                patch(TRANSFER_COLOUR, "transfer"),
                hollow(TRANSFER_COLOUR, "waiting for other ranks"),
            ]
        legend_below(figure, handles, columns=2)
        lines.finish("ms per step", "All-reduce time", legend_lines=len(handles) // 2)
        spoken = " ".join(_spoken(bar) for cell in cells for bar in cell)
        title = f"All-reduce time: {bars['model'].iloc[0]} ({bars['file'].iloc[0]})"
        return inline_svg(figure, name, title, spoken)


def _bar(axes: Any, bar: Row, y: float) -> None:
    if bar["hidden_s"] is not None:
        hidden, exposed = bar["hidden_s"] * 1e3, bar["exposed_s"] * 1e3
        axes.barh(y - 0.2, hidden, color=GAIN_COLOUR, height=0.36, linewidth=0)
        axes.barh(y - 0.2, exposed, left=hidden, color=COST_COLOUR, height=0.36, linewidth=0)
    if bar["wait_s"] is None or bar["transfer_s"] is None:
        return
    waited, moved = bar["wait_s"] * 1e3, bar["transfer_s"] * 1e3
    axes.barh(
        y + 0.2, waited, height=0.3, facecolor="none", edgecolor=TRANSFER_COLOUR, linewidth=0.8
    )
    axes.barh(y + 0.2, moved, left=waited, color=TRANSFER_COLOUR, height=0.36, linewidth=0)


def _spoken(bar: Row) -> str:
    said = (
        f"{bar['id']}, rank {bar['rank']}: {words.seconds(bar['hidden_s'])} hidden, "
        f"{words.seconds(bar['exposed_s'])} exposed"
    )
    if bar["wait_s"] is not None and bar["transfer_s"] is not None:
        said += (
            f"; {words.seconds(bar['wait_s'])} waiting, "
            f"{words.seconds(bar['transfer_s'])} of transfer"
        )
    return f"{said}."
