"""Throughput and efficiency against world size. Nothing is computed here.

Both take the rows of one file, model and kind of scaling (reports/scaling.py), and a name that is
unique on the page. They return None where no series has two world sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reports import words
from reports.drawing import (
    LEGEND_LINE_INCHES,
    axes_in_page_style,
    beyond,
    bounded_reach,
    colour_of,
    despine,
    label_ends,
    legend_below,
    named_apart,
    stroke,
)
from reports.frames import Row, groups, rows
from reports.svg import INK, inline_svg

_MARKERS = "osD^vP*X"
#: More lines are no longer told apart; the table has them all.
MOST_SERIES = 8
#: Longer names do not fit beside the ends of the lines.
_LONGEST_END = 16
_HEIGHT_INCHES = 2.9

Series = dict[str, list[Row]]


def throughput(table: pd.DataFrame, name: str) -> str | None:
    """Throughput against world size with intervals, and the ideal line from each baseline."""
    drawn = drawn_series(table, "throughput_samples_per_s")
    if not drawn:
        return None
    names, common = named_apart(list(drawn))
    ideals = _ideals([point for points in drawn.values() for point in points])
    with _axes(names, len(ideals)) as (figure, axes):
        for position, points in enumerate(drawn.values()):
            aside = _aside(position, len(drawn))
            _line(axes, points, "throughput", position, aside, unit="_samples_per_s")
        for slope, size, _, style in ideals:
            # A straight line bends on a logarithmic axis.
            reach = np.geomspace(size, max(_sizes(drawn)))
            axes.plot(reach, slope * reach, color=INK, linestyle=style, linewidth=0.8, alpha=0.6)
        axes.set(ylabel="samples/s, whole job", title=_heading("Throughput", table))
        tops = [slope * max(_sizes(drawn)) for slope, *_ in ideals]
        _limit(axes, [(points, "throughput", "_samples_per_s") for points in drawn.values()], tops)
        ends = {label: points[-1]["throughput_samples_per_s"] for label, points in drawn.items()}
        styles = {label: style for _, _, label, style in ideals}
        handles = [
            stroke(INK, label, linestyle=style, linewidth=0.8) for label, style in styles.items()
        ]
        axes.yaxis.set_major_formatter(lambda value, _: words.whole_number(value))
        _finish(figure, axes, drawn, names, ends, handles, common)
        return inline_svg(figure, name, _title("Throughput", table), _spoken(drawn, "throughput"))


def efficiency(table: pd.DataFrame, name: str) -> str | None:
    """Efficiency against world size: solid over one process, dashed over the strategy's own."""
    single, same = drawn_series(table, "single_ratio"), drawn_series(table, "same_ratio")
    labels = list(dict.fromkeys((*single, *same)))[:MOST_SERIES]
    if not labels:
        return None
    names, common = named_apart(labels)
    used = [
        (of, line, f"over {what}")
        for of, line, what in ((single, "-", "one process"), (same, "--", "its own 1 rank"))
        if of
    ]
    with _axes(names, len(used)) as (figure, axes):
        for position, label in enumerate(labels):
            aside = _aside(2 * position, 2 * len(labels))
            if label in single:
                _line(axes, single[label], "single", position, aside)
            if label in same:
                aside = _aside(2 * position + 1, 2 * len(labels))
                _line(axes, same[label], "same", position, aside, dashes="--")
        axes.axhline(1, color=INK, linewidth=0.8, linestyle=":", alpha=0.6, zorder=1)
        axes.set(ylabel="efficiency", title=_heading("Efficiency", table))
        _limit(
            axes,
            [(p, "single", "_ratio") for p in single.values()]
            + [(p, "same", "_ratio") for p in same.values()],
            [1.0],
        )
        axes.yaxis.set_major_formatter(lambda value, _: f"{value * 100:.0f} %")
        ends = {label: same[label][-1]["same_ratio"] for label in labels if label in same}
        ends |= {label: single[label][-1]["single_ratio"] for label in labels if label in single}
        handles = [stroke(INK, label, linestyle=line) for _, line, label in used]
        handles.append(stroke(INK, "ideal, 100 %", linestyle=":", linewidth=0.8))
        _finish(figure, axes, single | same, names, ends, handles, common)
        spoken = _spoken(single, "single") + " " + _spoken(same, "same")
        return inline_svg(figure, name, _title("Efficiency", table), spoken.strip())


def drawn_series(table: pd.DataFrame, value: str) -> Series:
    """The series a line is drawn for: at least two world sizes with a value; of more than
    MOST_SERIES those with most world sizes."""
    known = [row for row in rows(table) if row[value] is not None and not row["conflict"]]
    found = {
        label: points
        for (label,), points in groups(known, "series").items()
        if len(_world_sizes(points)) > 1
    }
    kept = sorted(found, key=lambda label: -len(_world_sizes(found[label])))[:MOST_SERIES]
    return {label: points for label, points in found.items() if label in kept}


def series_left_out(table: pd.DataFrame) -> int:
    """How many series have a line's worth of numbers and no line."""
    known = [
        row
        for row in rows(table)
        if row["throughput_samples_per_s"] is not None and not row["conflict"]
    ]
    lines = [p for p in groups(known, "series").values() if len(_world_sizes(p)) > 1]
    return max(0, len(lines) - MOST_SERIES)


def _world_sizes(points: list[Row]) -> set[int]:
    return {point["world_size"] for point in points}


def _sizes(drawn: Series) -> list[int]:
    return sorted({size for points in drawn.values() for size in _world_sizes(points)})


def _axes(names: dict[str, str], legend_lines: int) -> Any:
    lines = legend_lines + (0 if _fit_at_ends(names) else len(names))
    return axes_in_page_style(_HEIGHT_INCHES + LEGEND_LINE_INCHES * lines)


def _fit_at_ends(names: dict[str, str]) -> bool:
    return len(names) <= 5 and max(map(len, names.values())) <= _LONGEST_END


def _aside(position: int, count: int) -> float:
    """How far a series steps aside, in widths of the axis, so that intervals can be seen apart."""
    return 0.012 * (position - (count - 1) / 2)


def _line(
    axes: Any,
    points: list[Row],
    column: str,
    position: int,
    aside: float,
    unit: str = "_ratio",
    dashes: str = "-",
) -> None:
    colour = colour_of(points[0]["strategy"])
    marker = _MARKERS[position % len(_MARKERS)]
    sizes = [point["world_size"] for point in points]
    x = [size * (max(sizes) / min(sizes)) ** aside for size in sizes]
    y = [point[f"{column}{unit}"] for point in points]
    axes.plot(x, y, color=colour, linestyle=dashes, linewidth=1.4, marker=marker, markersize=4)
    for point, size, value in zip(points, x, y, strict=True):
        if point["oversubscribed"]:
            axes.plot([size], [value], marker="o", markersize=9, color=colour, fillstyle="none")
        low, high = point[f"{column}_low{unit}"], point[f"{column}_high{unit}"]
        if low is not None and high is not None:
            axes.plot([size, size], [low, high], color=colour, linewidth=1)


def _limit(axes: Any, lines: list[tuple[list[Row], str, str]], tops: list[float]) -> None:
    """The vertical axis from 0, and arrows where an interval goes beyond it."""
    values = [point[f"{column}{unit}"] for points, column, unit in lines for point in points]
    highs = [
        (point["world_size"], high, colour_of(point["strategy"]))
        for points, column, unit in lines
        for point in points
        if (high := point[f"{column}_high{unit}"]) is not None
    ]
    reach = bounded_reach([*values, *tops], [high for _, high, _ in highs])
    axes.set_ylim(0, reach)
    for size, high, colour in highs:
        if high > reach:
            beyond(axes, size, reach, colour, "up")


def _ideals(points: list[Row]) -> list[tuple[float, int, str, str]]:
    """(slope, where it begins, name, line style) for each distinct baseline; without any, one
    through the smallest world size."""
    origins: dict[float, tuple[float, int, str, str]] = {}
    for point in points:
        smallest = point["smallest_world_size"]
        for column, label, size, style in (
            ("single", "ideal from one process", 1, "--"),
            ("same", "ideal from its own 1 rank", 1, ":"),
            ("smallest", f"linear from {smallest} ranks, not efficiency", smallest, ":"),
        ):
            start = point[f"{column}_throughput_samples_per_s"]
            if start is not None:
                origins.setdefault(start / size, (start / size, size, label, style))
    return list(origins.values())


def _finish(
    figure: Any,
    axes: Any,
    drawn: Series,
    names: dict[str, str],
    ends: dict[str, float],
    handles: list[Any],
    common: str,
) -> None:
    from matplotlib.ticker import NullLocator

    sizes = _sizes(drawn)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("world size" + (f"; all: {words.shortened(common, 52)}" if common else ""))
    axes.yaxis.grid(True)
    despine(axes)
    reach = sizes[-1] / sizes[0]
    if _fit_at_ends(names):
        room = 0.1 + 0.022 * max(map(len, names.values()))  # shares of the axis, by letters
        axes.set_xlim(sizes[0] / reach**0.05, sizes[-1] * reach ** (room / (1 - room)))
        label_ends(
            axes,
            [
                (
                    points[-1]["world_size"],
                    ends[label],
                    names[label],
                    colour_of(_strategy(points)),
                    _MARKERS[position % len(_MARKERS)],
                )
                for position, (label, points) in enumerate(drawn.items())
                if label in ends
            ],
        )
    else:
        axes.set_xlim(sizes[0] / reach**0.06, sizes[-1] * reach**0.06)
        handles = [
            stroke(
                colour_of(_strategy(points)),
                names[label],
                marker=_MARKERS[position % len(_MARKERS)],
                markersize=4,
            )
            for position, (label, points) in enumerate(drawn.items())
            if label in names
        ] + handles
    legend_below(figure, handles)


def _strategy(points: list[Row]) -> str | None:
    strategy: str | None = points[0]["strategy"]
    return strategy


def _heading(what: str, table: pd.DataFrame) -> str:
    return f"{what}, {words.shortened(str(table['model'].iloc[0]), 30)}"


def _title(what: str, table: pd.DataFrame) -> str:
    return f"{what}: {table['model'].iloc[0]} ({table['file'].iloc[0]})"


def _spoken(drawn: Series, column: str) -> str:
    unit = "_samples_per_s" if column == "throughput" else "_ratio"
    over = {"single": " over one process", "same": " over its own 1 rank"}.get(column, "")
    say = words.percent if unit == "_ratio" else lambda value: f"{words.plain(value)} samples/s"
    return " ".join(
        f"{label}{over}: "
        + ", ".join(
            f"{say(point[column + unit])} at world size {point['world_size']}" for point in points
        )
        + "."
        for label, points in drawn.items()
    )
