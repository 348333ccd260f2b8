"""A comparison for a terminal, or a pipe: at 80 columns a row takes two lines, and none is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from bench import paired
from reports import attribution, compare_words, words
from reports.comparison import FLAGGED, Comparison, Versus
from reports.frames import Row, groups, rows
from reports.gate import Conclusion, gate_rows
from reports.terminal import text, wrapped

_GAP = "  "
_STYLES = {paired.WORSE: "bold red", paired.BETTER: "green"}


def show(comparison: Comparison, conclusion: Conclusion, console: Console) -> None:
    """Print it all; the conclusion comes last."""
    for line in _all(comparison, conclusion, console.width):
        console.print(line, soft_wrap=True, highlight=False)


def _all(comparison: Comparison, conclusion: Conclusion, width: int) -> Iterator[Text]:
    yield text(compare_words.title(comparison), "bold")
    yield from _prose(compare_words.how(comparison), width)
    for sentence in compare_words.care(comparison):
        yield from _prose(f"warning: {sentence}", width, "yellow")
    for versus in comparison.news:
        yield Text()
        yield from _versus(comparison, versus, width)
    yield Text()
    style = "bold red" if conclusion.status == 1 else "bold"
    yield from _prose(conclusion.sentence, width, style, indent="")


def _versus(comparison: Comparison, versus: Versus, width: int) -> Iterator[Text]:
    name = versus.new.name
    yield text(compare_words.side("A", comparison.sides.base, comparison.base_facts))
    yield text(compare_words.side("B", versus.new, versus.facts))
    yield from _prose(compare_words.also_differ(versus), width, indent="")
    own = [row for row in rows(comparison.rows) if row["new"] == name]
    judged = [row for row in own if row["gate"]]
    if judged:
        yield Text()
        yield from _table([(row["case"], row) for row in judged], compare_words.HEADINGS, width)
        yield Text()
        legend = compare_words.legend(comparison, len(gate_rows(comparison)))
        yield from _prose(legend, width, "dim")
    yield from _uncompared(comparison, name, width)
    for (case,), parts in groups(
        (row for row in rows(comparison.parts) if row["new"] == name), "case"
    ).items():
        yield from _parts(case, parts, width)
    yield from _others(own, width)


def _table(
    listed: Sequence[tuple[str, Row]], headings: Sequence[str], width: int
) -> Iterator[Text]:
    texts = [[words.printable(cell) for cell in compare_words.cells(row)] for _, row in listed]
    widths = [max(map(len, column)) for column in zip(headings, *texts, strict=True)]
    names = [words.printable(name) for name, _ in listed]
    said = [words.printable(row["said"]) for _, row in listed]
    name_width = max(len("case"), *map(len, names))
    numbers = [_columns(row, widths) for row in texts]
    heads = _columns(headings, widths)
    wide = 2 + name_width + len(_GAP) + len(heads) + len(_GAP) + max(map(len, said)) <= width
    if wide:
        yield text(f"  {'case':{name_width}}{_GAP}{heads}{_GAP}verdict", "dim")
    else:
        yield text(f"  case: verdict\n    {heads}", "dim")
    for (_, row), name, line, verdict in zip(listed, names, numbers, said, strict=True):
        style = "yellow" if row["said"].endswith(FLAGGED) else _STYLES.get(row["verdict"], "")
        if wide:
            row_text = text(f"  {name:{name_width}}{_GAP}{line}{_GAP}")
            yield row_text.append(verdict, style)
        else:
            yield text(f"  {name}: ").append(verdict, style)
            yield text(f"    {line}")
        for note in filter(None, (compare_words.first_time(row), row["note"])):
            yield from _prose(note, width, "dim", indent="      ")


def _columns(texts: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))


def _uncompared(comparison: Comparison, name: str, width: int) -> Iterator[Text]:
    own = [row for row in rows(comparison.uncompared) if row["new"] == name]
    if not own:
        return
    yield Text()
    yield text("Not compared", "bold")
    for row in own:
        style = "bold red" if row["broken"] else ""
        yield from _prose(f"{row['case']}, {row['kind']}: {row['sentence']}", width, style)
        if row["broken"] and row["rerun"]:
            yield text(f"    {row['rerun']}")


def _parts(case: str, parts: Sequence[Row], width: int) -> Iterator[Text]:
    yield Text()
    yield text(f"Where the time of {case} went", "bold")
    for sentence in attribution.sentences(parts):
        yield from _prose(sentence, width)
    lines = [(compare_words.PARTS_HEADING, "A", "B", "growth", "±")]
    lines += [(row["part"], *compare_words.part_cells(row)) for row in parts]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for n, line in enumerate(lines):
        first = f"{line[0]:{widths[0]}}"
        yield text(f"  {first}{_GAP}{_columns(line[1:], widths[1:])}", "" if n else "dim")


def _others(own: Sequence[Row], width: int) -> Iterator[Text]:
    shown = compare_words.listed(list(own))
    rest = sum(not row["gate"] and row["pairs"] > 0 for row in own) - len(shown)
    if shown:
        yield Text()
        yield text("Other metrics: listed, not part of the gate", "bold")
        named = [(f"{row['case']}, {compare_words.metric_of(row).title}", row) for row in shown]
        yield from _table(named, compare_words.LISTED_HEADINGS, width)
    if rest and own:
        yield Text()
        yield from _prose(
            f"{rest} other rows of other metrics are in --json and on the page.", width, "dim", ""
        )


def _prose(sentence: str, width: int, style: str = "", indent: str = "  ") -> Iterator[Text]:
    for line in wrapped(sentence, width, indent):
        yield Text(line, style=style)
