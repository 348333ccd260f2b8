"""The loss waterfall as a figure. Nothing is computed here but where a bar stands."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports import words
from reports.drawing import (
    COST_COLOUR,
    GAIN_COLOUR,
    Lines,
    axes_in_page_style,
    beside,
    colour_of,
)
from reports.frames import Row, rows
from reports.svg import INK, inline_svg
from reports.waterfall import LEVELS, TERMS

#: Each case takes up to six bars; beyond this many cases the table is the better place to look.
MOST_CELLS = 5
_SHORT = {
    "wrapper": "wrapper",
    "contention": "contention",
    "wait": "waiting",
    "transfer": "exposed transfer",
}
_SHORT_LEVELS = {
    "mean rank without communication": "mean, no comm.",
    "slowest rank without communication": "slowest, no comm.",
}


def waterfall(table: pd.DataFrame, name: str) -> str | None:
    """For each case bars from the step it begins at, term by term, to the measured step.

    Those with most terms come first.
    """
    begins = list(LEVELS.values())
    cells = sorted(rows(table), key=lambda row: begins.index(row["begins"]))[:MOST_CELLS]
    if not cells:
        return None
    longest = 0.0
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for cell in cells:
            lines.heading(cell["id"])
            before: tuple[float, float] | None = None
            for label, start, length, colour, said in _bars(cell):
                y = lines.line(label)
                if before is not None:
                    _level(axes, *before, y)
                _bar(axes, y, start * 1e3, length * 1e3, colour, said)
                before = (start + length) * 1e3, y
                longest = max(longest, start * 1e3, (start + length) * 1e3)
        axes.set_xlim(0, longest * 1.35)  # room for the numbers beside the longest bar
        lines.finish("ms per step", "Where the time of a step goes")
        spoken = " ".join(map(_spoken, cells))
        return inline_svg(figure, name, _title(table), spoken)


_Bar = tuple[str, float, float, str, str]


def _bars(cell: Row) -> list[_Bar]:
    """(label, where it starts, s, how long it is, s, colour, the numbers beside it)."""
    begins: str = cell["begins"]
    at, whole = cell["begins_s"], cell["step_s"]
    said = f"{words.milliseconds(at)} ms"
    found = [(_SHORT_LEVELS.get(begins, begins), 0.0, at, colour_of("single"), said)]
    for term, label in _SHORT.items():
        seconds = cell[f"{term}_s"]
        if seconds is None:
            continue
        colour = COST_COLOUR if seconds >= 0 else GAIN_COLOUR
        share = words.signed_percent(cell[f"{term}_ratio"])
        said = f"{words.signed_milliseconds(seconds)} ms, {share}"
        found.append((label, at, seconds, colour, said))
        at += seconds
    said = f"{words.milliseconds(whole)} ms"
    found.append((LEVELS["step"], 0.0, whole, colour_of("ddp"), said))
    return found


def _bar(axes: Any, y: float, start: float, length: float, colour: str, said: str) -> None:
    axes.barh(y, length, left=start, color=colour, height=0.76, linewidth=0)
    beside(axes, max(start, start + length), y, said)


def _level(axes: Any, x: float, above: float, below: float) -> None:
    """A thin line from where one bar ends to where the next begins."""
    axes.plot([x, x], [above - 0.38, below + 0.38], color=INK, linewidth=0.6, alpha=0.7)


def _title(table: pd.DataFrame) -> str:
    return f"Where the time goes: {table['model'].iloc[0]} ({table['file'].iloc[0]})"


def _spoken(cell: Row) -> str:
    terms = [
        f"{name} {words.signed_milliseconds(cell[f'{term}_s'])}{words.SPACE}ms"
        for term, name in TERMS.items()
        if cell[f"{term}_s"] is not None
    ]
    return (
        f"{cell['id']}: {cell['begins']} {words.seconds(cell['begins_s'])}, {', '.join(terms)}, "
        f"measured step {words.seconds(cell['step_s'])}."
    )
