"""A series as figures, over torch's versions and over dates. Nothing is computed here.

Both show every run: a point with its interval over launches where there are several, thin lines
for the levels between shifts, and a broken line with its size at every shift. The axis of values
does not begin at 0, or a few per cent could not be seen; it spans at least a tenth of the value, or
noise would look like news.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from reports import words
from reports.drawing import (
    COST_COLOUR,
    GAIN_COLOUR,
    SMALL,
    axes_in_page_style,
    colour_of,
    despine,
)
from reports.history_series import STEP_TIME, MarkedShift, Point, Series
from reports.history_words import build, mark, sentences, unit, value, verdict
from reports.svg import INK, inline_svg

#: Versions named on the axis; of more, every second or third is.
_MOST_NAMED = 12
_LONGEST_NAME = 24
#: Letters that fit side by side below the axis.
_ROOM = 50
_LEAST_SPAN = 0.10
#: How far from the middle of its version's place a run may stand; the places are 1 apart.
_SPREAD = 0.34


def over_versions(series: Series, name: str) -> str | None:
    """Torch's versions in order, the runs of one version side by side in the order of dates.

    None with one version, unless there are no two dates to draw it over either.
    """
    versions = series.versions
    if len(versions) < 2 and (len(series.points) < 2 or len(_days(series)) > 1):
        return None
    places: dict[Point, float] = {}
    for i, version in enumerate(versions):
        own = [point for point in series.points if point.version == version]
        for j, point in enumerate(own):
            places[point] = i + (2 * (j + 0.5) / len(own) - 1) * _SPREAD
    with axes_in_page_style(3.2) as (figure, axes):
        _draw(axes, series, places)
        step = math.ceil(len(versions) / _MOST_NAMED)
        named = list(enumerate(versions))[::step]
        axes.set_xticks(
            [i for i, _ in named],
            [words.shortened(version.shown, _LONGEST_NAME) for _, version in named],
        )
        if sum(min(len(one.shown), _LONGEST_NAME) + 3 for _, one in named) > _ROOM:
            for label in axes.get_xticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.6, len(versions) - 0.4)
        _finish(
            axes, series, "torch version" if step == 1 else f"torch version, every {step}th named"
        )
        title = f"{unit(series).capitalize()} over torch versions"
        axes.set_title(title)
        return inline_svg(figure, name, f"{title}: {_title(series)}", _spoken(series))


def over_dates(series: Series, name: str) -> str | None:
    """The runs at their dates; None where there are no two."""
    import matplotlib.dates

    mdates: Any = matplotlib.dates  # partly without annotations
    dated = [point for point in series.points if point.date is not None]
    if len(_days(series)) < 2:
        return None
    with axes_in_page_style(3.2) as (figure, axes):
        places = {point: float(mdates.date2num(point.date)) for point in dated}
        _draw(axes, series, places)
        # Between 3 and 7 marks there is a round step for every span; with fewer it may warn.
        locator = mdates.AutoDateLocator(minticks=3, maxticks=7)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
        _finish(axes, series, "date")
        title = f"{unit(series).capitalize()} over dates"
        axes.set_title(title)
        return inline_svg(figure, name, f"{title}: {_title(series)}", _spoken(series))


def _draw(axes: Any, series: Series, places: dict[Point, float]) -> None:
    import seaborn as sns

    scale = _scale(series)
    drawn = [point for point in series.points if point in places]
    colour = colour_of(series.strategy)
    sns.scatterplot(
        x=[places[point] for point in drawn],
        y=[point.value * scale for point in drawn],
        color=colour,
        s=16 if len(drawn) < 80 else 8,
        linewidth=0,
        ax=axes,
        zorder=3,
    )
    for point in drawn:
        if point.low is not None and point.high is not None:
            ends = [point.low * scale, point.high * scale]
            axes.plot([places[point]] * 2, ends, color=colour, linewidth=0.9, alpha=0.7)
    _span(axes, series)
    _levels(axes, series, places)


def _span(axes: Any, series: Series) -> None:
    scale = _scale(series)
    values = [point.value * scale for point in series.points]
    low, high = axes.get_ylim()
    middle = (min(values) + max(values)) / 2
    least = _LEAST_SPAN * middle
    low, high = min(low, middle - least / 2), max(high, middle + least / 2)
    axes.set_ylim(max(0, low), high + 0.12 * (high - low))  # room for what is said of shifts


def _levels(axes: Any, series: Series, places: dict[Point, float]) -> None:
    """A mark at each shift, and a line at each level where its runs stand beside each other."""
    scale = _scale(series)
    shifts = series.shifts
    for marked in shifts:
        if marked.last in places and marked.first in places:
            _mark(axes, marked, places)
    stretches = _stretches(series)
    levels = [marked.shift.before for marked in shifts] + [one.shift.after for one in shifts[-1:]]
    reach = [
        (min(own), max(own))
        for points in stretches
        if (own := [places[point] for point in points if point in places])
    ]
    if len(reach) != len(levels) or any(a[1] >= b[0] for a, b in pairwise(reach)):
        return  # dates of the stretches overlap: a level would run through another's runs
    for (first, last), level in zip(reach, levels, strict=True):
        axes.plot([first, last], [level * scale] * 2, color=INK, linewidth=0.8, zorder=2)


def _mark(axes: Any, marked: MarkedShift, places: dict[Point, float]) -> None:
    last, first = places[marked.last], places[marked.first]
    if last > first:
        return  # the version that shows it was measured before: the other figure has the mark
    colour = COST_COLOUR if marked.worse else GAIN_COLOUR
    at = (last + first) / 2
    axes.axvline(at, color=colour, linewidth=1, linestyle="--", zorder=1)
    axes.annotate(
        f"{mark(marked)} {'worse' if marked.worse else 'better'}",
        (at, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(3, -3),
        textcoords="offset points",
        va="top",
        fontsize=SMALL,
    )


def _stretches(series: Series) -> list[Sequence[Point]]:
    """The points by the level they are part of."""
    edges = [series.points.index(marked.first) for marked in series.shifts]
    starts, ends = [0, *edges], [*edges, len(series.points)]
    return [series.points[a:b] for a, b in zip(starts, ends, strict=True)]


def _finish(axes: Any, series: Series, xlabel: str) -> None:
    step = series.metric == STEP_TIME
    axes.set(xlabel=xlabel, ylabel="step, ms" if step else "samples/s, whole job")
    axes.yaxis.grid(True)
    despine(axes)


def _scale(series: Series) -> float:
    return 1e3 if series.metric == STEP_TIME else 1.0


def _days(series: Series) -> set[object]:
    return {point.date for point in series.points if point.date is not None}


def _title(series: Series) -> str:
    return f"{series.case}, {series.where.machine}, {build(series)}"


def _spoken(series: Series) -> str:
    by_version = []
    for version in series.versions:
        own = [point.value for point in series.points if point.version == version]
        least, most = value(series, min(own)), value(series, max(own))
        reach = least if least == most else f"{least} to {most}"
        by_version.append(f"torch {version.shown}: {len(own)} results, {reach}.")
    said = sentences(series) or [f"{verdict(series).capitalize()}."]
    return " ".join([*by_version, *said])
