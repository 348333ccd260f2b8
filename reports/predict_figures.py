"""Efficiency to 1,024 ranks over several links, and step time against bucket cap."""

from __future__ import annotations

from reports import predict_words, words
from reports.drawing import (
    LEGEND_LINE_INCHES,
    PHASE_COLOURS,
    axes_in_page_style,
    colour_of,
    despine,
    legend_below,
    stroke,
)
from reports.predict_cost import Link
from reports.predict_report import CURVE, PredictReport
from reports.svg import INK, inline_svg

_MARKERS = "osD^vP"
#: More links are no longer told apart; the table has them all.
MOST_LINKS = 6
_COLOURS = (
    *(colour_of(strategy) for strategy in ("ddp", "dp", "all_reduce")),
    *(PHASE_COLOURS["backward"], PHASE_COLOURS["communication"], colour_of("single")),
)
_HEIGHT_INCHES = 2.9


def efficiency(report: PredictReport, name: str) -> str:
    """A line a link, at the first asked bucket cap, with the interval of each point."""
    asked = report.asked
    links, cap = asked.links[:MOST_LINKS], asked.caps_mb[0]
    lines = {link: [report.line_of(size, link, cap) for size in CURVE] for link in links}
    most = max(report.sizes_measured)
    with axes_in_page_style(_HEIGHT_INCHES + LEGEND_LINE_INCHES * (len(links) + 1)) as (
        figure,
        axes,
    ):
        alone = report.predictor.alone_s
        for n, points in enumerate(lines.values()):
            axes.fill_between(
                CURVE,
                [alone / point.high_s for point in points],
                [alone / point.low_s for point in points],
                color=_COLOURS[n],
                alpha=0.18,
                linewidth=0,
            )
            axes.plot(
                *(CURVE, [point.efficiency for point in points]),
                color=_COLOURS[n],
                linewidth=1.4,
                marker=_MARKERS[n],
                markersize=3.5,
            )
        axes.axvspan(min(report.sizes_measured), most, color=INK, alpha=0.06, linewidth=0)
        axes.axvline(most, color=INK, linewidth=0.8, linestyle=":", alpha=0.6)
        axes.set_xscale("log", base=2)
        axes.set_xticks(CURVE, [str(size) for size in CURVE])
        axes.minorticks_off()
        axes.set(xlabel="world size", ylabel="efficiency")
        axes.set_title(f"Predicted efficiency, {words.shortened(report.workload.model, 22)}")
        highest = max(alone / point.low_s for points in lines.values() for point in points)
        axes.set_ylim(0, max(1.02, 1.02 * highest))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value * 100:.0f} %")
        axes.yaxis.grid(True)
        despine(axes)
        handles = [
            stroke(_COLOURS[n], link.name, marker=_MARKERS[n], markersize=3.5)
            for n, link in enumerate(links)
        ]
        said = f"measured to {most}; to the right of it all is extrapolation"
        handles.append(stroke(INK, said, linestyle=":", linewidth=0.8))
        legend_below(figure, handles)
        spoken = " ".join(
            f"{link.name}: "
            + ", ".join(
                f"{words.percent(point.efficiency)} at {point.wish.world_size}"
                for point in points
                if point.wish.world_size in (8, 64, 1024)
            )
            + "."
            for link, points in lines.items()
        )
        return inline_svg(figure, name, f"Predicted efficiency: {report.workload.model}", spoken)


def bucket_caps(report: PredictReport, name: str) -> str | None:
    """Step time against bucket cap for one world size and link: those that were measured, where
    they were. None where one rank alone is asked for."""
    size, link = _of_caps(report)
    if size == 1:
        return None
    caps = report.caps_of_curve
    points = [report.line_of(size, link, cap) for cap in caps]
    best, best_s = report.best_cap(size, link)
    unset_s = report.step_s(size, link, None)
    measured = [
        (one.bucket_cap_mb, one.step_s)
        for one in report.measured(size, link)
        if one.bucket_cap_mb is not None
    ]
    with axes_in_page_style(_HEIGHT_INCHES + LEGEND_LINE_INCHES * 3) as (figure, axes):
        blue, orange = colour_of("ddp"), colour_of("dp")
        axes.fill_between(
            caps,
            [1e3 * point.low_s for point in points],
            [1e3 * point.high_s for point in points],
            color=blue,
            alpha=0.18,
            linewidth=0,
        )
        axes.plot(caps, [1e3 * point.step_s for point in points], color=blue, linewidth=1.4)
        axes.plot([best], [1e3 * best_s], "v", color=orange, markersize=7)
        axes.axhline(1e3 * unset_s, color=INK, linewidth=0.8, linestyle="--", alpha=0.6)
        handles = [
            stroke(blue, "predicted, with its interval"),
            stroke(orange, f"best: {best:.2g} MiB", marker="v", markersize=6, linestyle="none"),
            stroke(INK, "bucket_cap_mb unset", linestyle="--", linewidth=0.8),
        ]
        if measured:
            axes.plot(
                *([cap for cap, _ in measured], [1e3 * step_s for _, step_s in measured]),
                marker="o",
                color=INK,
                markersize=4,
                linestyle="none",
            )
            handles.append(stroke(INK, "measured", marker="o", markersize=4, linestyle="none"))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.minorticks_off()
        axes.set_ylim(0)
        axes.set(xlabel=f"bucket_cap_mb; {words.ranks(size)}, {link.name}", ylabel="step, ms")
        axes.set_title(f"Predicted step, {words.shortened(report.workload.model, 26)}")
        axes.yaxis.grid(True)
        despine(axes)
        legend_below(figure, handles)
        spoken = (
            f"Best is {best:.2g} MiB with {words.seconds(best_s)}; unset takes "
            f"{words.seconds(unset_s)}. "
            + ", ".join(
                f"{words.seconds(point.step_s)} at {predict_words.cap(cap)}"
                for cap, point in list(zip(caps, points, strict=True))[::7]
            )
            + "."
        )
        title = f"Predicted step time against bucket cap: {report.workload.model}"
        return inline_svg(figure, name, title, spoken)


def _of_caps(report: PredictReport) -> tuple[int, Link]:
    """Where caps were measured, else the first that was asked for with several ranks."""
    for size in sorted(report.sizes_measured, reverse=True):
        for one in report.workload.settings:
            if one.world_size == size > 1 and one.link is not None:
                caps = {same.bucket_cap_mb for same in report.measured(size, one.link)}
                if len(caps) > 1:
                    return size, one.link
    sizes = [size for size in report.asked.world_sizes if size > 1] or [1]
    return sizes[0], report.asked.links[0]
