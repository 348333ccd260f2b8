"""How step times are spread, a box for each launch. Nothing is computed here."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports import words
from reports.drawing import Lines, axes_in_page_style, colour_of, legend_below, patch, stroke
from reports.frames import Row, groups, rows
from reports.step_times import LEVELS
from reports.svg import INK, inline_svg

#: Beyond these the table is the better place to look.
MOST_CELLS, MOST_LAUNCHES = 8, 12
HEIGHT = 0.62


def step_times(table: pd.DataFrame, name: str) -> str | None:
    """``table``: the rows of one file and model of step_times.step_time_table.

    Of each launch a line from the shortest to the longest step, thick from the 10th to the 90th
    percentile, a box over the middle half, and the median as a stroke.
    """
    cells = list(groups(rows(table), "cell").values())[:MOST_CELLS]
    if not cells:
        return None
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for cell in cells:
            lines.heading(cell[0]["id"])
            for launch in cell[:MOST_LAUNCHES]:
                box(axes, lines.line("", HEIGHT), launch)
        legend_below(figure, box_legend("shortest to longest step"), columns=2)
        lines.finish("ms, slowest rank of each step", "Step times, launch by launch", 2)
        title = f"Step times by launch: {table['model'].iloc[0]} ({table['file'].iloc[0]})"
        return inline_svg(figure, name, title, " ".join(map(_spoken, cells)))


def box_legend(range_words: str) -> list[Any]:
    return [
        stroke("#8c8c8c", range_words, linewidth=0.8),
        stroke("#8c8c8c", "10th to 90th percentile", linewidth=2.2),
        patch("#8c8c8c", "middle half"),
        stroke(INK, "median", linewidth=1.4),
    ]


def box(axes: Any, y: float, row: Row) -> None:
    """``row``: of step_times.spread, and the strategy."""
    colour = colour_of(row["strategy"])
    at = {key: row[key] * 1e3 for key in ("shortest_s", *LEVELS, "median_s", "longest_s")}
    axes.plot([at["shortest_s"], at["longest_s"]], [y, y], color=colour, linewidth=0.8)
    axes.plot([at["p10_s"], at["p90_s"]], [y, y], color=colour, linewidth=2.2)
    axes.barh(
        *(y, at["p75_s"] - at["p25_s"]),
        left=at["p25_s"],
        height=HEIGHT * 0.75,
        color=colour,
        linewidth=0,
    )
    median = at["median_s"]
    axes.plot([median, median], [y - 0.28, y + 0.28], color=INK, linewidth=1.4)


def _spoken(cell: list[Row]) -> str:
    of_launches = [
        f"launch {row['launch']} median {words.seconds(row['median_s'])}, "
        f"{words.between(row['p10_s'], row['p90_s'], words.seconds)} for four of five steps"
        for row in cell[:MOST_LAUNCHES]
    ]
    return f"{cell[0]['id']}: {'; '.join(of_launches)}."
