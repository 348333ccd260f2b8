"""Peak memory: per case, and with the bucket view against without. Nothing is computed here."""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.drawing import (
    MOST_CASES,
    Lines,
    axes_in_page_style,
    beside,
    colour_of,
    legend_below,
    stroke,
)
from reports.frames import Row, rows
from reports.memory import KINDS
from reports.svg import INK, inline_svg

_NO_ENDS = {"linestyle": "none", "markersize": 6}


def memory(table: pd.DataFrame, name: str) -> str | None:
    """``table``: the rows of one file, model and kind of memory of memory.memory_table.

    A bar to the largest rank's peak, a line over its range between launches, a tick where the
    smallest rank's peak is.
    """
    cells = rows(table)[:MOST_CASES]
    if not cells:
        return None
    unit, scale = _unit(max(cell["high_bytes"] for cell in cells))
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for cell in cells:
            lines.heading(cell["id"])
            y = lines.line()
            low, peak, high, least = (
                cell[f"{name_}_bytes"] / scale for name_ in ("low", "peak", "high", "least")
            )
            axes.barh(y, peak, height=0.7, color=colour_of(cell["strategy"]), linewidth=0)
            if high > low:
                axes.plot([low, high], [y, y], color=INK, linewidth=1)
            if least < peak:
                axes.plot([least, least], [y - 0.35, y + 0.35], color=INK, linewidth=1)
            beside(axes, max(high, peak), y, words.size(cell["peak_bytes"]))
        axes.set_xlim(0, max(cell["high_bytes"] for cell in cells) / scale * 1.22)
        handles = []
        if any(cell["high_bytes"] > cell["low_bytes"] for cell in cells):
            handles.append(stroke(INK, "lowest to highest launch", linewidth=1))
        if any(cell["least_bytes"] < cell["peak_bytes"] for cell in cells):
            tick = stroke(INK, "smallest rank", marker="|", **_NO_ENDS)
            handles.append(tick)
        if handles:
            legend_below(figure, handles, columns=2)
        kind = KINDS.get(cells[0]["peak_kind"], "memory of a kind that is not stated")
        lines.finish(f"{unit}, largest rank, {kind}", "Peak memory", legend_lines=bool(handles))
        title = f"Peak memory: {table['model'].iloc[0]} ({table['file'].iloc[0]})"
        spoken = f"{kind}. " + " ".join(
            f"{cell['id']}: {words.size(cell['peak_bytes'])}." for cell in cells
        )
        return inline_svg(figure, name, title, spoken[0].upper() + spoken[1:])


def view_memory(table: pd.DataFrame, name: str) -> str | None:
    """``table``: one group's rows of bucket_memory.bucket_memory_table. For each cap the peak
    without the view (filled) and with it (hollow), and what was saved."""
    pairs = [row for row in rows(table) if row["saved_bytes"] is not None]
    if not pairs:
        return None
    ends = [row[f"{view}_peak_bytes"] for row in pairs for view in ("off", "on")]
    unit, scale = _unit(max(ends))
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        colour = colour_of("ddp")
        for row in pairs:
            lines.heading(f"bucket_cap_mb {row['bucket_cap']}: {_saved(row)}")
            y = lines.line()
            off, on = row["off_peak_bytes"] / scale, row["on_peak_bytes"] / scale
            axes.plot([off, on], [y, y], color=colour, linewidth=1.2, zorder=2)
            axes.plot([off], [y], "o", color=colour, markersize=6, zorder=3)
            axes.plot([on], [y], "o", color=colour, markersize=7, fillstyle="none", zorder=3)
        reach = max(ends) - min(ends)
        least = max(reach, 0.02 * max(ends))  # a difference of nothing must not look like one
        low = max(0.0, (min(ends) - 0.15 * least) / scale)
        axes.set_xlim(low, (min(ends) + 1.15 * least) / scale)
        handles = [
            stroke(colour, "view off", marker="o", **_NO_ENDS),
            stroke(colour, "view on", marker="o", fillstyle="none", **_NO_ENDS),
        ]
        legend_below(figure, handles, columns=2)
        kind = KINDS.get(pairs[0]["peak_kind"], "memory of a kind that is not stated")
        lines.finish(f"{unit}, largest rank, {kind}", "gradient_as_bucket_view", legend_lines=1)
        title = f"Memory with and without the bucket view: {table['group'].iloc[0]}"
        spoken = " ".join(
            f"bucket_cap_mb {row['bucket_cap']}: {words.size(row['off_peak_bytes'])} without, "
            f"{words.size(row['on_peak_bytes'])} with; {words.saved(row)}."
            for row in pairs
        )
        return inline_svg(figure, name, f"{title} ({table['file'].iloc[0]})", spoken)


def _unit(largest: float) -> tuple[str, float]:
    return ("GB", 1e9) if largest >= 2e9 else ("MB", 1e6)


def _saved(row: Row) -> str:
    said = words.size(abs(row["saved_bytes"]))
    return f"{said} more" if row["saved_bytes"] < 0 else f"{said} saved"
