"""DDP against DataParallel: two bars for each pair. Nothing is computed here."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports import words
from reports.drawing import (
    MOST_CASES,
    Lines,
    axes_in_page_style,
    beside,
    colour_of,
    legend_below,
    patch,
)
from reports.frames import Row, rows
from reports.svg import INK, inline_svg


def strategies(table: pd.DataFrame, name: str) -> str | None:
    """``table``: rows of choices.strategy_table, of one model and file or of several."""
    pairs = [row for row in rows(table) if row["reason"] is None][:MOST_CASES]
    if not pairs:
        return None
    longest = 0.0
    with axes_in_page_style(3) as (figure, axes):
        lines = Lines(figure, axes)
        for row in pairs:
            lines.heading(_heading(row))
            y = lines.line("DDP", 0.8)
            end = _bar(axes, y, row, "ddp", "ddp")
            ratio = words.change(row["ratio"])
            beside(axes, end, y, f"≈ {ratio}" if row["includes_one"] else ratio)
            other = _bar(axes, lines.line(row["dp_strategy"], 0.8), row, "dp", row["dp_strategy"])
            longest = max(longest, end, other)
        axes.set_xlim(0, longest * 1.2)
        kinds = ["ddp", *dict.fromkeys(row["dp_strategy"] for row in pairs)]
        legend_below(figure, [patch(colour_of(kind), kind) for kind in kinds], columns=3)
        lines.finish("samples/s, whole job", "DDP against DataParallel", legend_lines=1)
        return inline_svg(
            figure, name, "Throughput of DDP against DataParallel", " ".join(map(_spoken, pairs))
        )


def _heading(row: Row) -> str:
    return f"{row['model']}, {row['world_size']} devices, global batch {row['global_batch_size']}"


def _bar(axes: Any, y: float, row: Row, side: str, strategy: str) -> float:
    value: float = row[f"{side}_throughput_samples_per_s"]
    axes.barh(y, value, height=0.66, color=colour_of(strategy), linewidth=0)
    low, high = row[f"{side}_low_samples_per_s"], row[f"{side}_high_samples_per_s"]
    if low is None or high is None:
        return value
    axes.plot([low, high], [y, y], color=INK, linewidth=1)
    return max(value, float(high))


def _spoken(row: Row) -> str:
    interval = words.between(row["low_ratio"], row["high_ratio"], words.change)
    beside_it = f" ({interval})" if interval else ""
    return (
        f"{_heading(row)}: DDP {words.plain(row['ddp_throughput_samples_per_s'])} samples/s, "
        f"{row['dp_strategy']} {words.plain(row['dp_throughput_samples_per_s'])} samples/s; DDP "
        f"{words.change(row['ratio'])}{beside_it}."
    )
