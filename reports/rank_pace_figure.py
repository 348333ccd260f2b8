"""How the ranks of a case differ in pace, a box for each case. Nothing is computed here."""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.drawing import MOST_CASES, Lines, axes_in_page_style, beside, legend_below
from reports.frames import Row, rows
from reports.rank_pace import SLOW
from reports.step_times_figure import HEIGHT, box, box_legend
from reports.svg import INK, inline_svg


def rank_pace(table: pd.DataFrame, name: str) -> str | None:
    """``table``: the rows of one file and model of rank_pace.rank_pace_table."""
    cases = rows(table)[:MOST_CASES]
    if not cases:
        return None
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for case in cases:
            lines.heading(case["id"])
            y = lines.line("", HEIGHT)
            box(axes, y, case)
            rank, _, over = case["slowest"][0]
            if over > SLOW:
                axes.plot(case["longest_s"] * 1e3, y, marker="o", color=INK, markersize=3.5)
                beside(axes, case["longest_s"] * 1e3, y - 0.55, f"rank {rank}", ha="right")
        legend_below(figure, box_legend("fastest to slowest rank"), columns=2)
        lines.finish(f"ms, {cases[0]['measure']}", "Ranks apart from each other", 2)
        title = f"Pace of the ranks: {table['model'].iloc[0]} ({table['file'].iloc[0]})"
        return inline_svg(figure, name, title, " ".join(map(spoken, cases)))


def spoken(case: Row) -> str:
    """One case in a sentence."""
    rank, host, over = case["slowest"][0]
    where = f" on {host}" if host else ""
    return (
        f"{case['id']}: median {words.seconds(case['median_s'])}, "
        f"{words.between(case['p10_s'], case['p90_s'], words.seconds)} for four of five ranks; "
        f"the slowest is rank {rank}{where}, {words.signed_percent(over)}."
    )
