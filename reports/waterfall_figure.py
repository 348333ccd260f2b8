"""The loss waterfall as a figure. Nothing is computed here but where a bar stands."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports import words
from reports.drawing import axes_in_page_style, colour_of, despine
from reports.frames import Row, rows
from reports.svg import INK, inline_svg
from reports.waterfall import LEVELS, TERMS

#: Each case takes up to six bars; beyond this many cases the table is the better place to look.
MOST_CELLS = 5
_LOSS_COLOUR, _GAIN_COLOUR = "#d55e00", "#56b4e9"
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
    bars = [_bars(cell) for cell in cells]
    lines = sum(len(own) + 1.4 for own in bars)
    longest = max(start + max(length, 0) for own in bars for _, start, length, _, _ in own)
    with axes_in_page_style(0.9 + 0.19 * lines) as (figure, axes):
        heights, labels, y = [], [], 0.0
        for cell, own in zip(cells, bars, strict=True):
            label = words.id_shortened(cell["id"])
            axes.text(0.005, y, label, va="center", transform=axes.get_yaxis_transform())
            for label, start, length, colour, said in own:
                y += 1
                heights.append(y)
                labels.append(label)
                _bar(axes, y, start * 1e3, length * 1e3, colour, said)
            _levels(axes, own, y)
            y += 1.4
        axes.set_yticks(heights, labels)
        axes.set_ylim(y - 0.6, -0.8)
        axes.set_xlim(0, longest * 1e3 * 1.2)  # room for the number beside the longest bar
        axes.set(xlabel="ms per step", title="Where the time of a step goes")
        axes.xaxis.grid(True)
        axes.tick_params(axis="y", length=0)
        despine(axes)
        spoken = " ".join(map(_spoken, cells))
        return inline_svg(figure, name, _title(table), spoken)


_Bar = tuple[str, float, float, str, str]


def _bars(cell: Row) -> list[_Bar]:
    """(label, where it starts, s, how long it is, s, colour, the number beside it)."""
    begins: str = cell["begins"]
    at = cell["begins_s"]
    first = _SHORT_LEVELS.get(begins, begins)
    found = [(first, 0.0, at, colour_of("single"), words.milliseconds(at))]
    for term, label in _SHORT.items():
        seconds = cell[f"{term}_s"]
        if seconds is None:
            continue
        colour = _LOSS_COLOUR if seconds >= 0 else _GAIN_COLOUR
        found.append((label, at, seconds, colour, words.signed_milliseconds(seconds)))
        at += seconds
    whole = cell["step_s"]
    found.append((LEVELS["step"], 0.0, whole, colour_of("ddp"), words.milliseconds(whole)))
    return found


def _bar(axes: Any, y: float, start: float, length: float, colour: str, said: str) -> None:
    axes.barh(y, length, left=start, color=colour, height=0.8, linewidth=0)
    right = max(start, start + length)
    axes.annotate(
        said, (right, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8
    )


def _levels(axes: Any, bars: list[_Bar], last_y: float) -> None:
    """Thin lines from where one bar ends to where the next begins."""
    for n, (_, start, length, _, _) in enumerate(bars[:-1]):
        y = last_y - len(bars) + 1 + n
        end = (start + length) * 1e3
        axes.plot([end, end], [y - 0.4, y + 1.4], color=INK, linewidth=0.6, alpha=0.7)


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
