"""How every figure of the page looks: size, ink, one fixed colour for each strategy.

matplotlib and seaborn are imported here and in the figures when something is drawn, not before.

Nothing is told by hue alone: neighbouring bars differ in lightness too, strategies have names
beside them, and what is judged has a sign or a shape of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reports import words
from reports.svg import INK

#: seaborn's palette "colorblind"; a strategy has the same colour on every page.
_COLORBLIND = {
    "ddp": "#0173b2",
    "all_reduce": "#029e73",
    "dp": "#de8f05",
    "data_parallel": "#ca9161",
    "single": "#949494",
}
_OTHER_COLOUR = "#cc78bc"
#: Phases of a step. DDP's all-reduces run within backward; those by hand are a phase.
PHASE_COLOURS = {
    "data": "#7d8a97",
    "forward": "#b3a2dd",
    "backward": "#7a5ea8",
    "step_fn": "#7a5ea8",
    "communication": "#a5506b",
    "optimizer": "#c2a83e",
}
#: What is paid for (exposed communication, losses, a change for the worse), and what is not.
COST_COLOUR, GAIN_COLOUR = "#d55e00", "#56b4e9"
#: Data on the move. Waiting is an empty box in the same colour.
TRANSFER_COLOUR = PHASE_COLOURS["communication"]

#: More figures of a kind are not drawn on one page: the tables hold the rest.
MOST_FIGURES = 6
#: Beyond this many cases a figure of bars is no longer read; the table has them all.
MOST_CASES = 16

WIDTH_INCHES = 4.3
#: One line of a figure that is read from top to bottom.
LINE_INCHES = 0.19
#: What an axis below and a title above take.
FRAME_INCHES = 0.75
LEGEND_LINE_INCHES = 0.17
SMALL = 8.4
#: Letters that fit side by side in a figure.
LONGEST_HEADING = 48
#: The luminance at which black and white words stand out equally.
_MIDDLE = 0.18
#: matplotlib's markers as letters.
_GLYPHS = {"o": "●", "s": "■", "D": "◆", "^": "▲", "v": "▼", "P": "✚", "*": "★", "X": "✖"}


def colour_of(strategy: str | None) -> str:
    return _COLORBLIND.get(strategy or "", _OTHER_COLOUR)


@contextmanager
def axes_in_page_style(height_inches: float) -> Iterator[Any]:
    """A figure and its axes in the page's style, closed afterwards."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    ink = dict.fromkeys(inked, INK)
    style: Any = ink | {
        "svg.fonttype": "none",
        "text.parse_math": False,
        "font.size": 9.2,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.linewidth": 0.6,
        "grid.color": "#8888",
        "grid.linewidth": 0.4,
        "legend.frameon": False,
    }
    with sns.axes_style("ticks"), matplotlib.rc_context(style):
        figure, axes = plt.subplots(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        try:
            yield figure, axes
        finally:
            plt.close(figure)


def despine(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


class Lines:
    """A figure that is read from top to bottom: headings, and below each its lines.

    A heading has a line of its own, so that a long name needs no margin on a narrow screen.
    """

    def __init__(self, figure: Any, axes: Any) -> None:
        self._figure, self._axes = figure, axes
        self._places: list[float] = []
        self._labels: list[str] = []
        self._y = 0.0

    def heading(self, text: str) -> None:
        if self._y:
            self._y += 0.4
        self._axes.text(
            *(0.005, self._y, words.id_shortened(text, LONGEST_HEADING)),
            va="center",
            transform=self._axes.get_yaxis_transform(),
        )
        self._y += 1

    def line(self, label: str = "", height: float = 1.0) -> float:
        """The middle of the next line."""
        middle = self._y + (height - 1) / 2
        self._places.append(middle)
        self._labels.append(label)
        self._y += height
        return middle

    def finish(self, xlabel: str, title: str, legend_lines: int = 0) -> None:
        axes = self._axes
        axes.set_yticks(self._places, self._labels)
        axes.set_ylim(self._y - 0.4, -0.7)
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel=xlabel)
        axes.set_title(title)
        axes.xaxis.grid(True)
        axes.set_axisbelow(True)
        despine(axes)
        height = FRAME_INCHES + LINE_INCHES * self._y + LEGEND_LINE_INCHES * legend_lines
        self._figure.set_size_inches(WIDTH_INCHES, height)


def beside(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    """A few words to the right of a point of the figure."""
    axes.annotate(
        text,
        (x, y),
        **{"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": SMALL}
        | style,
    )


def label_ends(axes: Any, ends: list[tuple[float, float, str, str, str]]) -> None:
    """(x, y, name, colour, marker): the names of lines where they end, moved apart where they would
    meet.

    The limits of the axes must be set. Colour and shape stand in a mark before the words, not in
    the words, which keep the contrast of text.
    """
    low, high = axes.get_ylim()
    ends = sorted(ends, key=lambda end: end[1])
    least = 0.075 * (high - low)
    places = spread_apart([end[1] for end in ends], least)
    floor = low + least / 2
    for n, place in enumerate(places):
        places[n] = max(place, floor)
        floor = places[n] + least
    for at, (x, _, text, colour, marker) in zip(places, ends, strict=True):
        axes.annotate(
            _GLYPHS.get(marker, "●"),
            (x, at),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=colour,
            annotation_clip=False,
        )
        beside(axes, x, at, text, xytext=(18, 0), annotation_clip=False)


def bounded_reach(values: list[float], ends: list[float]) -> float:
    """How far up an axis from 0 goes: to the ends of intervals, unless these dwarf the values. An
    interval from two launches can reach a thousand times as far as anything that was measured, and
    a figure of it would show nothing else; ``beyond`` marks what goes on."""
    top = max(values)
    return max([top, *(end for end in ends if end <= 2 * top)]) * 1.08


def beyond(axes: Any, x: float, y: float, colour: str, towards: str) -> None:
    """A small arrow where an interval goes on beyond the axes: "up", "left" or "right"."""
    marker = {"up": "^", "left": "<", "right": ">"}[towards]
    axes.plot([x], [y], marker, color=colour, markersize=4.5, clip_on=False, zorder=5)


def spread_apart(values: list[float], least: float) -> list[float]:
    """Rising values, moved as little as it takes for each to be ``least`` above the one before:
    those that would meet are spread around their middle."""
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and _places(groups[-1], least)[0] < (
            _places(groups[-2], least)[-1] + least
        ):
            last = groups.pop()
            groups[-1] += last
    return [place for group in groups for place in _places(group, least)]


def _places(group: list[float], least: float) -> list[float]:
    start = sum(group) / len(group) - least * (len(group) - 1) / 2
    return [start + least * n for n in range(len(group))]


def legend_below(figure: Any, handles: list[Any], columns: int = 1) -> None:
    figure.legend(
        handles=handles, loc="outside lower left", ncols=columns, handlelength=1.4, fontsize=SMALL
    )


def patch(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, linewidth=0, label=label)


def hollow(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor="none", edgecolor=colour, linewidth=1, label=label)


def stroke(colour: str, label: str, **style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, label=label, **{"linewidth": 1.4} | style)


def phase_name(name: str) -> str:
    """A phase in words."""
    return {"step_fn": "step_fn (forward and backward)"}.get(name, name)


def named_apart(labels: list[str]) -> tuple[dict[str, str], str]:
    """(series -> what tells it from the others, what all have in common): of gloo and one batch
    'ddp, gloo, batch 32 per rank' is 'ddp' and the rest is common. The whole label where nothing
    would be left, or two would be alike."""
    parts = [label.split(", ") for label in labels]
    if len(labels) == 1:
        return {labels[0]: parts[0][0]}, ", ".join(parts[0][1:])
    common = set.intersection(*map(set, parts)) if parts else set()
    short = [", ".join(part for part in own if part not in common) for own in parts]
    said = ", ".join(part for part in parts[0] if part in common) if parts else ""
    if "" in short or len(set(short)) < len(short):
        short, said = labels, ""
    names = {label: words.shortened(text, 48) for label, text in zip(labels, short, strict=True)}
    return names, said


def contrasting(axes: Any, is_shown: Any) -> None:
    """Words in a cell are black or white, whichever stands out more from its colour."""
    from matplotlib.colors import to_rgb

    colours = axes.collections[0].get_facecolors()[is_shown]
    for text, colour in zip(axes.texts, colours, strict=True):
        text.set_color("#ffffff" if _luminance(to_rgb(colour)) < _MIDDLE else "#111111")


def _luminance(rgb: Sequence[float]) -> float:
    """Relative luminance, 0 to 1 (WCAG 2, definition)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
