"""Tables -> figures, as inline SVG. Nothing is computed here.

Every figure takes the rows of one file and model, and a name that is unique on the page. It
returns None where there is nothing to draw. The page holds the same numbers as a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reports import words
from reports.drawing import axes_in_page_style, colour_of, despine
from reports.frames import Row, groups, rows
from reports.svg import INK, inline_svg

_HIDDEN_COLOUR, _EXPOSED_COLOUR = "#56b4e9", "#d55e00"
_MARKERS = "osD^vP*X"
#: Beyond this many bars a figure is no longer read; the table has them all.
MOST_CELLS_WITH_BARS = 16
_LONGEST_LABEL = 48


def throughput(table: pd.DataFrame, name: str) -> str | None:
    """Throughput against world size with intervals, and the ideal line from each baseline."""
    drawn = drawn_series(table, "throughput_samples_per_s")
    if not drawn:
        return None
    with axes_in_page_style(3.1 + 0.17 * len(drawn)) as (figure, axes):
        for position, (label, points) in enumerate(drawn.items()):
            aside = _aside(position, len(drawn))
            _line(axes, points, "throughput", position, label, aside, unit="_samples_per_s")
        _ideal(axes, [point for points in drawn.values() for point in points])
        axes.set(ylabel="samples/s, whole job", title="Throughput")
        axes.set_ylim(bottom=0)
        _finish(figure, axes, drawn)
        return inline_svg(figure, name, _title("Throughput", table), _spoken(drawn, "throughput"))


def efficiency(table: pd.DataFrame, name: str) -> str | None:
    """Efficiency against world size: solid over one process, dashed over the strategy's own."""
    single, same = drawn_series(table, "single_ratio"), drawn_series(table, "same_ratio")
    labels = list(dict.fromkeys((*single, *same)))
    if not labels:
        return None
    with axes_in_page_style(3.1 + 0.17 * (len(single) + len(same))) as (figure, axes):
        for position, label in enumerate(labels):
            aside = _aside(2 * position, 2 * len(labels))
            if label in single:
                name_ = f"{label}; over one process"
                _line(axes, single[label], "single", position, name_, aside)
            if label in same:
                name_, aside = (
                    f"{label}; over its 1 rank",
                    _aside(2 * position + 1, 2 * len(labels)),
                )
                _line(axes, same[label], "same", position, name_, aside, dashes="--")
        axes.axhline(1, color=INK, linewidth=0.7, linestyle=":", zorder=1)
        axes.set(ylabel="efficiency", title="Efficiency")
        axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value * 100:.0f} %")
        _finish(figure, axes, single | same)
        spoken = _spoken(single, "single") + " " + _spoken(same, "same")
        return inline_svg(figure, name, _title("Efficiency", table), spoken.strip())


def all_reduce(bars: pd.DataFrame, name: str) -> str | None:
    """Hidden and exposed all-reduce time per step of each rank; a line marks the transfer."""
    cells = list(groups(rows(bars), "cell").values())[:MOST_CELLS_WITH_BARS]
    if not cells:
        return None
    lines = sum(len(cell) + 1 for cell in cells)
    with axes_in_page_style(1.1 + 0.19 * lines) as (figure, axes):
        heights, labels, y = [], [], 0.0
        for cell in cells:
            label = words.id_shortened(cell[0]["id"])
            axes.text(0.005, y, label, va="center", transform=axes.get_yaxis_transform())
            for bar in cell:
                y += 1
                heights.append(y)
                labels.append(f"rank {bar['rank']}")
                _bar(axes, bar, y)
            y += 1.25
        axes.set_yticks(heights, labels)
        axes.set_ylim(y - 0.5, -0.8)
        axes.set(xlabel="ms per step", title="All-reduce time")
        axes.xaxis.grid(True)
        axes.tick_params(axis="y", length=0)
        _legend_of_bars(figure)
        despine(axes)
        spoken = " ".join(_spoken_bar(bar) for cell in cells for bar in cell)
        return inline_svg(figure, name, _title("All-reduce time", bars), spoken)


def buckets(table: pd.DataFrame, name: str) -> str | None:
    """A heat map of throughput over that of the default.

    What cannot be told apart from the default is marked '≈' and has no colour.
    """
    import seaborn as sns

    cells = [row for row in rows(table) if row["ratio"] is not None]
    if len(cells) < 2:
        return None
    shape = {"index": "bucket_cap_order", "columns": "gradient_as_bucket_view"}
    data = pd.DataFrame(cells)
    data["words"] = [_bucket_words(row) for row in cells]
    data["shade"] = [1.0 if row["includes_one"] is not False else row["ratio"] for row in cells]
    values = data.pivot_table(values="shade", aggfunc="first", **shape).astype(float)
    texts = data.pivot_table(values="words", aggfunc="first", **shape).fillna("")
    names = dict(zip(data["bucket_cap_order"], data["bucket_cap"], strict=True))
    reach = max(0.05, float((values - 1).abs().max().max()))
    with axes_in_page_style(1.0 + 0.45 * len(values)) as (figure, axes):
        sns.heatmap(
            values.set_axis([names[order] for order in values.index]),
            annot=texts.to_numpy(),
            fmt="",
            cmap=sns.diverging_palette(40, 250, s=80, l=60, as_cmap=True),
            vmin=1 - reach,
            vmax=1 + reach,
            cbar=False,
            linewidths=1.5,
            linecolor="none",
            ax=axes,
        )
        axes.set(xlabel="gradient_as_bucket_view", ylabel="bucket_cap_mb")
        axes.set_title("Throughput relative to the default")
        axes.tick_params(length=0, labelrotation=0)
        spoken = " ".join(
            f"bucket_cap_mb {row['bucket_cap']}, view {row['gradient_as_bucket_view']}: "
            f"{_bucket_words(row)}."
            for row in cells
        )
        return inline_svg(figure, name, _title("Bucket settings", table), spoken)


def drawn_series(table: pd.DataFrame, value: str) -> dict[str, list[Row]]:
    """The series a line can be drawn for: at least two world sizes with a value."""
    known = [row for row in rows(table) if row[value] is not None and not row["conflict"]]
    found: dict[str, list[Row]] = {}
    for (label,), points in groups(known, "series").items():
        if len({point["world_size"] for point in points}) > 1:
            short = words.shortened(label, _LONGEST_LABEL)
            found[f"{short} ({len(found) + 1})" if short in found else short] = points
    return found


def _aside(position: int, count: int) -> float:
    """How far a series steps aside, in widths of the axis, so that intervals can be seen apart."""
    return 0.012 * (position - (count - 1) / 2)


def _line(
    axes: Any,
    points: list[Row],
    column: str,
    position: int,
    label: str,
    aside: float,
    unit: str = "_ratio",
    dashes: str = "-",
) -> None:
    import seaborn as sns

    colour = colour_of(points[0]["strategy"])
    marker = _MARKERS[position % len(_MARKERS)]
    sizes = [point["world_size"] for point in points]
    x = [size * (max(sizes) / min(sizes)) ** aside for size in sizes]
    y = [point[f"{column}{unit}"] for point in points]
    sns.lineplot(
        x=x, y=y, ax=axes, color=colour, linestyle=dashes, linewidth=1.4, label=label, legend=False
    )
    axes.lines[-1].set_marker(marker)
    axes.lines[-1].set_markersize(4)
    for point, size, value in zip(points, x, y, strict=True):
        if point["oversubscribed"]:
            axes.plot([size], [value], marker="o", markersize=9, color=colour, fillstyle="none")
        low, high = point[f"{column}_low{unit}"], point[f"{column}_high{unit}"]
        if low is not None and high is not None:
            axes.plot([size, size], [low, high], color=colour, linewidth=1)


def _ideal(axes: Any, points: list[Row]) -> None:
    """A line through each distinct baseline; without any, one through the smallest world size."""
    sizes = sorted({point["world_size"] for point in points})
    origins: dict[float, tuple[str, int]] = {}
    for point in points:
        for column, label, size in (
            ("single", "ideal from one process", 1),
            ("same", "ideal from its 1 rank", 1),
            ("smallest", "linear from", point["smallest_world_size"]),
        ):
            start = point[f"{column}_throughput_samples_per_s"]
            if start is not None:
                word = (
                    label if column != "smallest" else f"linear from {size} ranks, not efficiency"
                )
                origins.setdefault(start / size, (word, size))
    seen: set[str] = set()
    for slope, (label, size) in origins.items():
        drawn = np.geomspace(size, max(sizes))  # a straight line bends on a logarithmic axis
        style = "--" if label == "ideal from one process" else ":"
        axes.plot(
            drawn,
            slope * drawn,
            color=INK,
            linestyle=style,
            linewidth=0.8,
            alpha=0.6,
            label=None if label in seen else label,
        )
        seen.add(label)


def _finish(figure: Any, axes: Any, drawn: dict[str, list[Row]]) -> None:
    from matplotlib.ticker import NullLocator

    sizes = sorted({point["world_size"] for points in drawn.values() for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("world size")
    axes.yaxis.grid(True)
    despine(axes)
    figure.legend(loc="outside lower left", ncols=1, handlelength=3)


def _bar(axes: Any, bar: Row, y: float) -> None:
    if bar["hidden_s"] is None:
        return
    hidden, exposed = bar["hidden_s"] * 1e3, bar["exposed_s"] * 1e3
    axes.barh(y, hidden, color=_HIDDEN_COLOUR, height=0.8, linewidth=0)
    axes.barh(y, exposed, left=hidden, color=_EXPOSED_COLOUR, height=0.8, linewidth=0)
    if bar["transfer_s"] is not None:
        at = bar["transfer_s"] * 1e3
        axes.plot([at, at], [y - 0.5, y + 0.5], color=INK, linewidth=1.4)


def _legend_of_bars(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(color=_HIDDEN_COLOUR, label="hidden behind computing"),
        Patch(color=_EXPOSED_COLOUR, label="exposed"),
        Line2D([], [], color=INK, linewidth=1.4, label="transfer (the rest is waiting)"),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2, handlelength=1.4)


def _bucket_words(row: Row) -> str:
    if row["is_default"]:
        return "default"
    alike = "≈ " if row["includes_one"] or row["includes_one"] is None else ""
    return alike + words.change(row["ratio"])


def _title(what: str, table: pd.DataFrame) -> str:
    return f"{what}: {table['model'].iloc[0]} ({table['file'].iloc[0]})"


def _spoken(drawn: dict[str, list[Row]], column: str) -> str:
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


def _spoken_bar(bar: Row) -> str:
    return (
        f"{bar['id']}, rank {bar['rank']}: {words.seconds(bar['hidden_s'])} hidden, "
        f"{words.seconds(bar['exposed_s'])} exposed."
    )
