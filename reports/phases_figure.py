"""The phases of a step, one stacked bar per case. Nothing is computed here."""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.drawing import (
    MOST_CASES,
    PHASE_COLOURS,
    Lines,
    axes_in_page_style,
    beside,
    legend_below,
    patch,
    phase_name,
    stroke,
)
from reports.frames import Row, rows
from reports.step_phases import PHASES
from reports.svg import INK, inline_svg


def phases(table: pd.DataFrame, name: str) -> str | None:
    """``table``: the rows of one file and model of step_phases.step_phase_table."""
    cells = rows(table)[:MOST_CASES]
    if not cells:
        return None
    longest = 0.0
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for cell in cells:
            lines.heading(cell["id"])
            y, end = lines.line(), 0.0
            for phase in (name for name in PHASES if cell[f"{name}_s"]):
                length = cell[f"{phase}_s"] * 1e3
                colour = PHASE_COLOURS[phase]
                axes.barh(y, length, left=end, height=0.8, color=colour, linewidth=0)
                end += length
            step = (cell["step_s"] or 0) * 1e3
            axes.plot([step, step], [y - 0.5, y + 0.5], color=INK, linewidth=1.2)
            beside(axes, max(end, step), y, f"{words.milliseconds(cell['step_s'])} ms")
            longest = max(longest, end, step)
        axes.set_xlim(0, longest * 1.18)
        used = [phase for phase in PHASES if any(cell[f"{phase}_s"] for cell in cells)]
        handles = [patch(PHASE_COLOURS[phase], phase_name(phase)) for phase in used]
        handles.append(stroke(INK, "measured step", linewidth=1.2))
        legend_below(figure, handles, columns=3)
        lines.finish(
            "ms per step, slowest rank", "Phases of a step", legend_lines=(len(handles) + 2) // 3
        )
        title = f"Phases of a step: {table['model'].iloc[0]} ({table['file'].iloc[0]})"
        return inline_svg(figure, name, title, " ".join(map(_spoken, cells)))


def _spoken(cell: Row) -> str:
    known = [
        f"{phase_name(phase)} {words.seconds(cell[f'{phase}_s'])}"
        for phase in PHASES
        if cell[f"{phase}_s"] is not None
    ]
    return f"{cell['id']}: {', '.join(known)}; measured step {words.seconds(cell['step_s'])}."
