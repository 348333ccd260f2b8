"""A prediction for a terminal, or a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from reports import predict_words, words
from reports.predict_report import Line, PredictReport
from reports.terminal import text, wrapped

_GAP = "  "


def show(reports: Sequence[PredictReport], console: Console) -> None:
    for n, report in enumerate(reports):
        if n:
            console.print()
        for line in _all(report, console.width):
            console.print(line, soft_wrap=True, highlight=False)


def _all(report: PredictReport, width: int) -> Iterator[Text]:
    yield from _prose(predict_words.title(report), width, "bold", "")
    for sentence in predict_words.facts(report):
        yield from _prose(sentence, width)
    for note in report.workload.notes:
        yield from _prose(f"note: {note}", width, "yellow")
    yield Text()
    yield from _table(report.lines, width)
    yield Text()
    for sentence in (predict_words.baselines(report), predict_words.range_of_data(report)):
        yield from _prose(sentence, width, "dim")
    yield Text()
    for sentence in predict_words.optima(report):
        yield from _prose(sentence, width)


def _table(lines: Sequence[Line], width: int) -> Iterator[Text]:
    """Columns that are blank in every row are left out; a table too wide for the terminal takes
    two lines a row."""
    rows = [[words.printable(cell) for cell in predict_words.cells(line)] for line in lines]
    headings = predict_words.HEADINGS
    shown = [
        n for n in range(len(headings)) if any(row[n] not in ("", words.BLANK) for row in rows)
    ]
    widths = {n: max(len(headings[n]), *(len(row[n]) for row in rows)) for n in shown}
    first = [n for n in shown if n < 3]
    rest = [n for n in shown if n >= 3]
    whole = 2 + sum(widths[n] + len(_GAP) for n in shown) <= width

    def joined(cells: Sequence[str], numbers: Sequence[int]) -> str:
        return _GAP.join(f"{cells[n]:>{widths[n]}}" for n in numbers).rstrip()

    for number, row in enumerate([list(headings), *rows]):
        style = "" if number else "dim"
        if whole:
            yield text(f"  {joined(row, shown)}", style)
        else:
            yield text(f"  {joined(row, first)}", style)
            yield text(f"      {joined(row, rest)}", style)


def _prose(sentence: str, width: int, style: str = "", indent: str = "  ") -> Iterator[Text]:
    for line in wrapped(sentence, width, indent):
        yield Text(line, style=style)
