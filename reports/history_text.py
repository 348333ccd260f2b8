"""A history for a terminal and as Markdown. No table is cut: it is as wide as its columns need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

from reports import words
from reports.history_series import History, Series
from reports.history_words import build, headline, sentences, value, verdict, versions
from reports.markdown import escaped
from reports.markdown import table as markdown_table
from reports.terminal import prose, text

#: Failures listed one by one.
MOST_FAILURES = 10
_UNLIMITED = 100_000
_HEADINGS = ("series", "runs", "torch", "last", "since shift", "lasting shifts")
_TEXT = ("series", "torch", "lasting shifts")


def show(history: History, console: Console) -> None:
    """Print it all: a table for each machine and build, then a sentence for each shift."""
    parts: list[RenderableType] = [text(headline(history), style="bold")]
    for place, series in _by_place(history).items():
        parts += ["", text(place, style="bold"), _table(series)]
    told = [(one, sentence) for one in history.series for sentence in sentences(one)]
    if told:
        parts.append("")
    parts += [prose(f"{one.case}: {sentence}") for one, sentence in told]
    parts += [prose(f"note: {note}") for note in notes(history)]
    everything = Group(*parts)
    unlimited = console.options.update(max_width=_UNLIMITED)
    console.width = max(console.width, Measurement.get(console, unlimited, everything).maximum)
    console.print(everything)


def markdown(history: History) -> str:
    """The same for a job summary. Names are escaped: they may hold anything."""
    lines = [f"**{escaped(headline(history))}**", ""]
    for place, series in _by_place(history).items():
        lines += [escaped(place), ""]
        lines.append(markdown_table(_HEADINGS, [_cells(one) for one in series], text=_TEXT))
        lines.append("")
    for one in history.series:
        lines += [f"- {escaped(f'{one.case}: {sentence}')}" for sentence in sentences(one)]
    lines += [f"- note: {escaped(note)}" for note in notes(history)]
    return "\n".join(lines).rstrip() + "\n"


def notes(history: History) -> Iterator[str]:
    """What was left out, and what failed."""
    yield from history.notes
    for one in history.series:
        yield from (f"{one.case}: {note}" for note in one.notes)
    for row in history.failures[:MOST_FAILURES]:
        torch = f", torch {row['torch_version']}" if row["torch_version"] else ""
        yield f"{row['id']} has no result in {row['file']}{torch}: {row['reason']}"
    more = len(history.failures) - MOST_FAILURES
    if more > 0:
        yield f"{more} more results are missing because their case failed; --json has them all"


def _by_place(history: History) -> dict[str, list[Series]]:
    found: dict[str, list[Series]] = {}
    for one in history.series:
        found.setdefault(f"{one.where.machine}: {build(one)}", []).append(one)
    return found


def _cells(series: Series) -> list[str]:
    return [
        series.case,
        str(len(series.runs)),
        versions(series),
        value(series, series.points[-1].value),
        words.change(series.changed),
        verdict(series),
    ]


def _table(series: Sequence[Series]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in _HEADINGS:
        justify: JustifyMethod = "left" if heading in _TEXT else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    for one in series:
        table.add_row(*map(text, _cells(one)))
    return Padding(table, (0, 0, 0, 2), expand=False)
