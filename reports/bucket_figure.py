"""Bucket cap against bucket view: throughput over that of the fastest. Nothing is computed here."""

from __future__ import annotations

import pandas as pd

from reports import words
from reports.drawing import PHASE_COLOURS, axes_in_page_style, contrasting
from reports.frames import Row, rows
from reports.svg import inline_svg

#: Of the buckets that were built, so many sizes are written into a cell.
_MOST_SIZES = 3
#: Smaller differences all have nearly the colour of the best.
_LEAST_REACH = 0.1
_NAMES_OF_VIEW = {False: "no", True: "yes", None: "not stated"}


def buckets(table: pd.DataFrame, name: str) -> str | None:
    """A heat map of one group's rows of choices.bucket_table.

    A cell says how far it is below the best, "≈" where the two cannot be told apart, and which
    buckets DDP built.
    """
    import seaborn as sns

    cells = [row for row in rows(table) if row["best_ratio"] is not None]
    if len(cells) < 2:
        return None
    data = pd.DataFrame(
        {
            "cap": [row["bucket_cap_order"] for row in cells],
            "view": [_NAMES_OF_VIEW[row["gradient_as_bucket_view"]] for row in cells],
            "shade": [row["best_ratio"] for row in cells],
            "words": [_in_cell(row) for row in cells],
        }
    )
    values = data.pivot_table(values="shade", index="cap", columns="view", aggfunc="first")
    texts = data.pivot_table(values="words", index="cap", columns="view", aggfunc="first")
    names = {row["bucket_cap_order"]: row["bucket_cap"] for row in cells}
    floor = min(1 - _LEAST_REACH, float(values.min().min()))
    with axes_in_page_style(1.0 + 0.56 * len(values)) as (figure, axes):
        sns.heatmap(
            values.astype(float).set_axis([names[order] for order in values.index]),
            annot=texts.fillna("").to_numpy(),
            annot_kws={"fontsize": 8.6, "linespacing": 1.15},
            fmt="",
            cmap=sns.blend_palette(["#e2dcf0", PHASE_COLOURS["backward"]], as_cmap=True),
            vmin=floor,
            vmax=1,
            cbar=False,
            linewidths=1.5,
            linecolor="none",
            ax=axes,
        )
        contrasting(axes, values.notna().to_numpy().ravel())
        axes.set(xlabel="gradient_as_bucket_view", ylabel="bucket_cap_mb")
        axes.set_title("Throughput relative to the best")
        axes.tick_params(length=0, labelrotation=0)
        spoken = " ".join(
            f"bucket_cap_mb {row['bucket_cap']}, view "
            f"{_NAMES_OF_VIEW[row['gradient_as_bucket_view']]}: {_spoken(row)}."
            for row in cells
        )
        title = f"Bucket settings: {table['group'].iloc[0]} ({table['file'].iloc[0]})"
        return inline_svg(figure, name, title, spoken)


def relative(row: Row) -> str:
    """How a cell stands to the best: 'best', '≈ −0.4 %', '−12.0 %'."""
    if row["is_best"]:
        return "best"
    alike = "≈ " if row["like_best"] is not False else ""
    return alike + words.change(row["best_ratio"])


def _in_cell(row: Row) -> str:
    first = relative(row) + (" · default" if row["is_default"] else "")
    sizes = row["rebuilt_bucket_bytes"]
    return f"{first}\n{_sizes(sizes)}" if sizes else first


def _sizes(sizes: list[int]) -> str:
    shown = [words.plain(size / 1e6) for size in sizes[:_MOST_SIZES]]
    if len(sizes) > _MOST_SIZES:
        shown.append("…")
    return f"{len(sizes)}: {', '.join(shown)} MB"


def _spoken(row: Row) -> str:
    said = "the best" if row["is_best"] else f"{words.change(row['best_ratio'])} against the best"
    if not row["is_best"] and row["like_best"] is not False:
        said += ", not told apart"
    if row["is_default"]:
        said += ", the default"
    sizes = row["rebuilt_bucket_bytes"]
    return f"{said}, {words.plural(len(sizes), 'bucket')}, {_sizes(sizes)}" if sizes else said
