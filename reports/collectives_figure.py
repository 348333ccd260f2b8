"""busbw against size, and a map of the pairs. Nothing is computed here."""

from __future__ import annotations

import pandas as pd

from bench.units import bytes_text
from reports import words
from reports.drawing import (
    axes_in_page_style,
    beyond,
    bounded_reach,
    colour_of,
    contrasting,
    despine,
    label_ends,
    legend_below,
    named_apart,
    stroke,
)
from reports.frames import Row, groups, rows
from reports.svg import inline_svg

_MARKERS = ("o", "s", "D", "^", "v", "P")
_PALETTE = ("all_reduce", "ddp", "dp", "data_parallel", "single", None)
#: Lines that a reader can follow; the table has the others.
MOST_LINES = 6
#: Ranks of a map that can be read.
MOST_RANKS = 32
#: Names of lines that stand at their ends have at most so many letters.
_LONGEST_AT_END = 24


def busbw(table: pd.DataFrame, name: str) -> str | None:
    """One collective's rows of collectives.collective_table: a line per series, with intervals."""
    lines = {
        label: sorted(own, key=lambda row: row["bytes"])
        for (label,), own in groups(
            (row for row in rows(table) if row["busbw_bytes_per_s"] is not None), "series"
        ).items()
    }
    lines = dict(list(lines.items())[:MOST_LINES])
    sizes = sorted({row["bytes"] for own in lines.values() for row in own})
    if len(sizes) < 2:
        return None
    names, common = named_apart(list(lines))
    unit, scale = _unit([row["busbw_bytes_per_s"] for own in lines.values() for row in own])
    with axes_in_page_style(2.9) as (figure, axes):
        ends: list[tuple[float, float, str, str, str]] = []
        highs: list[tuple[int, float, str]] = []
        for position, (label, own) in enumerate(lines.items()):
            colour = colour_of(_PALETTE[position % len(_PALETTE)])
            marker = _MARKERS[position % len(_MARKERS)]
            x = [row["bytes"] for row in own]
            y = [row["busbw_bytes_per_s"] / scale for row in own]
            axes.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.4)
            for row in own:
                low, high = row["busbw_low_bytes_per_s"], row["busbw_high_bytes_per_s"]
                if low is not None and high is not None:
                    axes.vlines(row["bytes"], low / scale, high / scale, color=colour, alpha=0.6)
                    highs.append((row["bytes"], high / scale, colour))
            ends.append((x[-1], y[-1], names[label], colour, marker))
        values = [row["busbw_bytes_per_s"] / scale for own in lines.values() for row in own]
        axes.set_xscale("log", base=2)
        reach = bounded_reach(values, [high for _, high, _ in highs])
        axes.set_ylim(0, reach)
        for size, high, colour in highs:
            if high > reach:
                beyond(axes, size, reach, colour, "up")
        # Every second size where all would meet.
        ticks = sizes[:: 1 + len(sizes) // 6]
        axes.set_xticks(ticks, [bytes_text(size).replace("iB", "i") for size in ticks])
        axes.minorticks_off()
        axes.set(ylabel=f"busbw, {unit}", xlabel=_xlabel(common))
        axes.yaxis.grid(True)
        despine(axes)
        span = sizes[-1] / sizes[0]
        if max(map(len, names.values())) <= _LONGEST_AT_END:
            room = 0.1 + 0.022 * max(map(len, names.values()))
            axes.set_xlim(sizes[0] / span**0.05, sizes[-1] * span ** (room / (1 - room)))
            label_ends(axes, ends)
        else:
            axes.set_xlim(sizes[0] / span**0.05, sizes[-1] * span**0.05)
            legend_below(
                figure,
                [stroke(c, text, marker=m, markersize=4) for _, _, text, c, m in ends],
            )
        kind = table["collective"].iloc[0]
        axes.set_title(f"Bus bandwidth by size, {kind}")
        spoken = " ".join(
            f"{label}: "
            + ", ".join(
                f"{words.size(row['busbw_bytes_per_s'])}/s at {bytes_text(row['bytes'])}"
                for row in own
            )
            + "."
            for label, own in lines.items()
        )
        title = f"Bus bandwidth by size: {kind} ({table['file'].iloc[0]})"
        return inline_svg(figure, name, title, spoken)


def pairs(table: pd.DataFrame, name: str) -> str | None:
    """One cell's rows of collectives.pair_table as a map, darker for slower."""
    import seaborn as sns

    found = rows(table)
    ranks = sorted({row[end] for row in found for end in ("first", "second")})
    if not 3 <= len(ranks) <= MOST_RANKS:
        return None
    unit, scale = _unit([row["rate_bytes_per_s"] for row in found])
    values = pd.DataFrame(index=ranks, columns=ranks, dtype=float)
    for row in found:
        for one, other in (("first", "second"), ("second", "first")):
            values.loc[row[one], row[other]] = row["rate_bytes_per_s"] / scale
    few = len(ranks) <= 8
    with axes_in_page_style(1.1 + 3.0 * min(1.0, len(ranks) / 8)) as (figure, axes):
        sns.heatmap(
            values,
            annot=few,
            fmt=".3g",
            annot_kws={"fontsize": 8.6},
            cmap=sns.blend_palette(["#a5506b", "#f4e6eb"], as_cmap=True),
            vmin=0,
            linewidths=0.8 if few else 0,
            cbar=not few,
            square=True,
            ax=axes,
        )
        if few:
            contrasting(axes, values.notna().to_numpy().ravel())
        axes.tick_params(length=0, labelrotation=0)
        axes.set(xlabel="rank", ylabel="rank")
        axes.set_title(f"Every two ranks alone, {unit} each way")
        title = f"Pairs of ranks: {table['id'].iloc[0]} ({table['file'].iloc[0]})"
        return inline_svg(figure, name, title, " ".join(map(pair_sentence, found[:8])))


def pair_sentence(row: Row) -> str:
    """'Ranks 0 (host0) and 3 (host1): 118 MB/s, 0.51 of the fastest pair.' Of one pair alone there
    is no other to compare it with."""
    ends = [
        f"{row[end]} ({row[f'{end}_host']})" if row[f"{end}_host"] else str(row[end])
        for end in ("first", "second")
    ]
    rate = f"{words.size(row['rate_bytes_per_s'])}/s"
    share = row["relative_ratio"]
    beside = "" if share is None else f", {share:.2f} of the fastest pair"
    return f"Ranks {ends[0]} and {ends[1]}: {rate}{beside}."


def _xlabel(common: str) -> str:
    return "bytes" + (f"; all: {words.shortened(common, 52)}" if common else "")


def _unit(values: list[float]) -> tuple[str, float]:
    top = max(values)
    for unit, scale in (("GB/s", 1e9), ("MB/s", 1e6)):
        if top >= scale:
            return unit, scale
    return "kB/s", 1e3
