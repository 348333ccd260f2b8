"""How every figure of the page looks: size, ink, one fixed colour for each strategy.

matplotlib and seaborn are imported here and in the figures when something is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
_WIDTH_INCHES = 4.3


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
        "font.size": 8.8,
        "axes.titlesize": 9.6,
        "axes.linewidth": 0.6,
        "grid.color": "#8888",
        "grid.linewidth": 0.4,
        "legend.frameon": False,
    }
    with sns.axes_style("ticks"), matplotlib.rc_context(style):
        figure, axes = plt.subplots(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
        try:
            yield figure, axes
        finally:
            plt.close(figure)


def despine(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
