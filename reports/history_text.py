"""A history for a terminal and as Markdown. No table is cut: it is as wide as its columns need."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports import words
from reports.history_series import History, Series
from reports.history_words import build, headline, sentences, value, verdict, versions

#: Failures listed one by one.
MOST_FAILURES = 10
_PROSE_WIDTH = 100
_UNLIMITED = 100_000
_HEADINGS = ("series", "runs", "torch", "last", "since shift", "lasting shifts")
_NUMBERS = ("runs", "last", "since shift")


def show(history: History, console: Console) -> None:
    """Print it all: a table for each machine and build, then a sentence for each shift."""
    parts: list[RenderableType] = [_text(headline(history), style="bold")]
    for place, series in _by_place(history).items():
        parts += ["", _text(place, style="bold"), _table(series)]
    told = [(one, sentence) for one in history.series for sentence in sentences(one)]
    if told:
        parts.append("")
    parts += [_prose(f"{one.case}: {sentence}") for one, sentence in told]
    parts += [_prose(f"note: {note}") for note in notes(history)]
    everything = Group(*parts)
    unlimited = console.options.update(max_width=_UNLIMITED)
    console.width = max(console.width, Measurement.get(console, unlimited, everything).maximum)
    console.print(everything)


def markdown(history: History) -> str:
    """The same for a job summary. Names are escaped: they may hold anything."""
    lines = [f"**{_escaped(headline(history))}**", ""]
    for place, series in _by_place(history).items():
        lines += [_escaped(place), ""]
        lines += ["| " + " | ".join(_HEADINGS) + " |"]
        lines += ["|" + "|".join("--:" if name in _NUMBERS else "---" for name in _HEADINGS) + "|"]
        lines += ["| " + " | ".join(map(_escaped, _cells(one))) + " |" for one in series]
        lines.append("")
    for one in history.series:
        lines += [f"- {_escaped(f'{one.case}: {sentence}')}" for sentence in sentences(one)]
    lines += [f"- note: {_escaped(note)}" for note in notes(history)]
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
        justify = "right" if heading in _NUMBERS else "left"
        table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
    for one in series:
        table.add_row(*map(_text, _cells(one)))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _prose(sentence: str) -> Text:
    lines = textwrap.wrap(
        words.printable(sentence),
        _PROSE_WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return Text("\n".join(lines))


def _text(cell: str, style: str = "") -> Text:
    """Never markup: names come from files."""
    return Text(words.printable(cell), style=style)


def _escaped(text: str) -> str:
    """For Markdown: what could begin HTML, a link, emphasis or another cell is spelled out."""
    plain = words.printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#~!])", r"\\\1", plain).replace("@", "&#64;")
