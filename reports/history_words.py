"""Series, their shifts and what can be said of them, in words."""

from __future__ import annotations

from reports import words
from reports.history_series import STEP_TIME, History, MarkedShift, Point, Series
from reports.shifts import FEWEST, FEWEST_RUNS

#: How shifts are found, for the page and whoever asks what a sentence rests on.
METHOD = (
    f"A lasting shift: at least {FEWEST} runs on either side, whose medians differ by more than "
    "the smallest change that counts, and a gain in fit that about one series in a hundred without "
    "any shift would show by chance (simulated for 6 to 100 independent runs, also with outliers). "
    "One bad run is never a shift. It is advice, not the gate: for a verdict, measure both "
    "versions side by side in one run and compare them."
)


def value(series: Series, number: float | None) -> str:
    """A value of the series with its unit."""
    if series.metric == STEP_TIME:
        return words.seconds(number)
    return words.BLANK if number is None else f"{words.digits(number)}{words.SPACE}samples/s"


def unit(series: Series) -> str:
    return "step time" if series.metric == STEP_TIME else "throughput"


def build(series: Series) -> str:
    """'cu builds, release', with the threads where they are known."""
    where = series.where
    threads = where.threads_per_rank
    noun = "thread" if threads == 1 else "threads"
    stated = f"{threads} {noun} per rank" if threads else "threads not stated"
    family = "builds of unknown kind" if where.family == "unknown" else f"{where.family} builds"
    channel = "channel unknown" if where.channel == "unknown" else where.channel
    return f"{family}, {channel}, {stated}"


def versions(series: Series) -> str:
    """'2.9.1+cu128 to 2.14.1+cu130', or the only one."""
    first, last = series.versions[0].shown, series.versions[-1].shown
    return first if first == last else f"{first} to {last}"


def verdict(series: Series) -> str:
    """One line: what the runs tell about lasting shifts."""
    if series.too_few:
        return f"too few runs to tell ({len(series.runs)}, at least {FEWEST_RUNS} needed)"
    if not series.shifts:
        if series.detectable is None:
            return "no lasting shift, but the runs scatter so much that a doubling would be missed"
        seen = words.percent(series.detectable)
        return f"no lasting shift; one of {seen} halfway would have been found"
    last = series.shifts[-1]
    several = "" if len(series.shifts) == 1 else f"{len(series.shifts)} lasting shifts, the last "
    way = "worse" if last.worse else "better"
    change = f"{unit(series)} {words.change(last.shift.ratio)}"
    return f"{several}{way}: {change} from {_start(last)}"


def sentences(series: Series) -> list[str]:
    """What is known of each shift, in order; then whether the last level is still worse."""
    found = [_sentence(series, marked) for marked in series.shifts]
    if series.standing is not None:
        found[-1] += f" Still in force: {_signed(series, series.standing)} in all."
    elif any(marked.worse for marked in series.shifts):
        found[-1] += " What was lost has been made up for."
    return found


def headline(history: History) -> str:
    """The page's and the terminal's first sentence."""
    series = history.series
    few = sum(one.too_few for one in series)
    told = len(series) - few
    standing, shifted = len(history.standing), sum(bool(one.shifts) for one in series)
    if standing:
        found = (
            f"{standing} of {told} series got worse and still {'is' if standing == 1 else 'are'}"
        )
    elif shifted:
        found = f"{shifted} of {told} series had lasting shifts, none is worse for it now"
    else:
        found = f"no lasting shift in {told} series"
    if few:
        too_few = f"{few} series with too few runs to tell"
        found = f"{found}, {too_few}" if told else too_few
    files = "1 file" if history.files == 1 else f"{history.files} files"
    return f"{found[0].upper()}{found[1:]} ({files})."


def day(point: Point) -> str:
    return "no date" if point.date is None else f"{point.date:%Y-%m-%d %H:%M}"


def dates(series: Series) -> list[str]:
    """The first and the last day, once where they are the same."""
    known = sorted(point.date for point in series.points if point.date is not None)
    return list(dict.fromkeys(f"{date:%Y-%m-%d}" for date in (*known[:1], *known[-1:])))


def mark(marked: MarkedShift) -> str:
    """What stands beside a shift in a figure: its size."""
    return words.change(marked.shift.ratio)


def _sentence(series: Series, marked: MarkedShift) -> str:
    shift = marked.shift
    levels = f"{value(series, shift.before)} before, {value(series, shift.after)} after"
    rate = ""
    if series.metric == STEP_TIME and marked.first.throughput_samples_per_s is not None:
        rate = f" (throughput {words.change(1 / shift.ratio)})"
    before = "1 run" if shift.runs_before == 1 else f"{shift.runs_before} runs"
    return (
        f"{unit(series).capitalize()} {words.change(shift.ratio)}{rate}, "
        f"{'worse' if marked.worse else 'better'}, from {_start(marked)}: {levels} ("
        f"{before} and {shift.runs_after}). {_cause(marked)}"
    )


def _cause(marked: MarkedShift) -> str:
    old, new = marked.last.version.shown, marked.first.version.shown
    before, after = marked.last.commit, marked.first.commit
    commits = (
        f"commit {before[:10]} -> {after[:10]}" if before and after and before != after else ""
    )
    if marked.of_version:
        also = f"; the code changed too, {commits}" if commits else ""
        return f"With torch {old} -> {new}{also}."
    beside = f" ({commits})" if commits else ""
    if marked.doubt:
        return f"At torch {old} -> {new}, but {marked.doubt}: machine or code{beside}."
    stayed = f", torch stayed {new}" if old == new and marked.last.version.order else ""
    return f"Machine or code{beside}{stayed}."


def _start(marked: MarkedShift) -> str:
    dated = "" if marked.first.date is None else f" of {marked.first.date:%Y-%m-%d}"
    return f"{marked.first.file}{dated} on"


def _signed(series: Series, ratio: float) -> str:
    return f"{unit(series)} {words.change(ratio)}"
