"""Versions as a forest plot: the effect on every case with its interval, and the band in which a
change is none. Nothing is computed here.

A verdict has a shape as well as a colour, and a confirmed one a ring around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bench import paired
from reports import words
from reports.comparison import FLAGGED, NOT_CONFIRMED
from reports.drawing import (
    COST_COLOUR,
    GAIN_COLOUR,
    Lines,
    axes_in_page_style,
    beside,
    beyond,
    legend_below,
    stroke,
)
from reports.frames import Row, rows
from reports.metrics import METRICS
from reports.svg import INK, inline_svg

#: Of more cases the gravest are drawn; the table has them all.
MOST_CASES = 40
_ELSE_COLOUR = "#8c8c8c"


@dataclass(frozen=True)
class _Look:
    marker: str
    colour: str
    filled: bool


_LOOKS = {
    paired.WORSE: _Look(">", COST_COLOUR, True),
    paired.BETTER: _Look("<", GAIN_COLOUR, True),
    paired.NO_CHANGE: _Look("o", _ELSE_COLOUR, True),
    paired.INCONCLUSIVE: _Look("D", _ELSE_COLOUR, False),
}
_ORDER = list(_LOOKS)
_PLAIN = _Look("D", _ELSE_COLOUR, False)


def versions(table: pd.DataFrame, delta: float, title: str, name: str) -> str | None:
    """``table``: rows of one comparison and new side of comparison.ROW_COLUMNS; of these the gate's
    that have an effect are drawn. ``delta``: changes up to this ratio are none."""
    judged = [row for row in rows(table) if row["gate"] and row["effect"] is not None]
    if not judged:
        return None
    shown = sorted(judged, key=_gravity)[:MOST_CASES]
    metric = next(one for one in METRICS if one.name == shown[0]["metric"])
    reach = _reach(shown, delta)
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for row in shown:
            lines.heading(row["case"])
            _effect(axes, lines.line(), row, reach)
        axes.axvspan(-100 * delta, 100 * delta, color=INK, alpha=0.1, linewidth=0, zorder=0)
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        room = 0.06 * (reach[1] - reach[0])
        axes.set_xlim(reach[0] - room, reach[1] + room)
        axes.xaxis.set_major_formatter(_percent)
        handles = _legend(shown, metric.worse, metric.better)
        legend_below(figure, handles, columns=2)
        band = words.percent(delta)
        lines.finish(
            f"{metric.title}, B over A; grey: no change (±{band})",
            f"{metric.title[:1].upper()}{metric.title[1:]}, {metric.direction}",
            legend_lines=(len(handles) + 1) // 2,
        )
        return inline_svg(figure, name, f"Effect on each case: {title}", _spoken(judged, shown))


def _percent(value: float, _: int) -> str:
    return f"{value:+g} %".replace("-", "−") if value else "0 %"


def _reach(shown: Sequence[Row], delta: float) -> tuple[float, float]:
    """From where to where the axis goes, %: over all effects and the band, and over intervals
    unless these dwarf them."""
    effects = [100 * (row["effect"] - 1) for row in shown]
    most = 4 * max(200 * delta, *map(abs, effects))
    ends = [
        100 * (row[end] - 1) for row in shown for end in ("low", "high") if row[end] is not None
    ]
    kept = [200 * delta, -200 * delta, *effects, *(max(-most, min(most, end)) for end in ends)]
    return min(kept), max(kept)


def _effect(axes: Any, y: float, row: Row, reach: tuple[float, float]) -> None:
    look, at = _look(row), 100 * (row["effect"] - 1)
    right = at
    if row["low"] is not None and row["high"] is not None:
        low, high = (100 * (row[end] - 1) for end in ("low", "high"))
        left, right = max(low, reach[0]), min(high, reach[1])
        axes.plot([left, right], [y, y], color=look.colour, linewidth=1.4, zorder=2)
        if low < left:
            beyond(axes, left, y, look.colour, "left")
        if high > right:
            beyond(axes, right, y, look.colour, "right")
    _marker(axes, at, y, look)
    if _confirmed(row):
        axes.plot(
            [at],
            [y],
            "o",
            color=look.colour,
            markersize=10,
            fillstyle="none",
            zorder=3,
            markeredgewidth=1.2,
        )
    beside(axes, right, y, words.change(row["effect"]), xytext=(6, 0))


def _marker(axes: Any, x: float, y: float, look: _Look) -> None:
    axes.plot(
        [x],
        [y],
        look.marker,
        color=look.colour,
        markersize=6,
        fillstyle="full" if look.filled else "none",
        markeredgewidth=1.2,
        zorder=4,
    )


def _look(row: Row) -> _Look:
    """Of what was measured again and not confirmed, or never, no verdict is drawn."""
    if row["said"].endswith((FLAGGED, NOT_CONFIRMED)):
        return _PLAIN
    return _LOOKS.get(row["verdict"], _PLAIN)


def _confirmed(row: Row) -> bool:
    return bool(row["regression"]) and row["judged_on"] == "fresh pairs"


def _gravity(row: Row) -> tuple[int, float]:
    order = _ORDER.index(row["verdict"]) if row["verdict"] in _ORDER else len(_ORDER)
    away = abs(row["effect"] - 1)
    return (0 if row["regression"] else 1 + order), -away


def _legend(shown: Sequence[Row], worse: str, better: str) -> list[Any]:
    names = {
        paired.WORSE: worse,
        paired.BETTER: better,
        paired.NO_CHANGE: "no change",
        paired.INCONCLUSIVE: "inconclusive, or not confirmed",
    }
    looks = [_look(row) for row in shown]
    found = [
        stroke(
            look.colour,
            names[verdict],
            marker=look.marker,
            markersize=6,
            linestyle="none",
            fillstyle="full" if look.filled else "none",
        )
        for verdict, look in _LOOKS.items()
        if look in looks
    ]
    if any(map(_confirmed, shown)):
        found.append(
            stroke(
                COST_COLOUR,
                "confirmed in fresh launches",
                marker="o",
                markersize=9,
                fillstyle="none",
                linestyle="none",
            )
        )
    return found


def _spoken(judged: Sequence[Row], shown: Sequence[Row]) -> str:
    said = [
        f"{row['case']}: {words.change(row['effect'])}{_interval(row)}, {row['said']}."
        for row in shown
    ]
    if len(judged) > len(shown):
        said.append(f"{len(judged) - len(shown)} more cases are in the table.")
    return " ".join(said)


def _interval(row: Row) -> str:
    interval = words.between(row["low"], row["high"], words.change)
    return f" ({interval})" if interval else ""
