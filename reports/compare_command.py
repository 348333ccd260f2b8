"""``python -m reports compare``: its options, and where its words go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.paired import DELTA
from reports import compare_json, compare_markdown, compare_page, compare_text, metrics, words
from reports.command import bad_input, write
from reports.comparison import Comparison
from reports.comparison import compare as compare_sides
from reports.gate import Conclusion, conclude
from reports.load import load
from reports.sides import NotComparable, choose
from reports.source import UnreadableFile
from reports.stats import with_estimates
from reports.waterfall import waterfall_table

_STANDARD_OUTPUT = "-"


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|BASE NEW",
            help="One file measured with several --torch, or two, written by pytest "
            "--benchmark-json.",
        ),
    ],
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="LABEL", help="The interpreter to compare with."),
    ] = None,
    new: Annotated[
        str | None, typer.Option("--new", metavar="LABEL", help="The interpreter to be judged.")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            metavar="NAME",
            help=f"What the gate is on: {', '.join(one.name for one in metrics.METRICS)}.",
        ),
    ] = metrics.STEP_TIME.name,
    delta: Annotated[
        str,
        typer.Option("--delta", metavar="CHANGE", help="A change up to this is none: 3% or 0.03."),
    ] = f"{DELTA:g}",
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit status 3 where a case is inconclusive or is missing."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compare files measured under other conditions; says so."),
    ] = False,
    as_json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Also write everything as JSON; - is stdout."),
    ] = None,
    markdown: Annotated[
        str | None,
        typer.Option("--markdown", metavar="FILE", help="Also write Markdown; - is stdout."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PAGE", help="Also write a page.")
    ] = None,
) -> None:
    """Is NEW slower than BASE? Exit status 0: no regression, 1: regression, 2: bad input or
    nothing to judge, 3: inconclusive under --strict."""
    if as_json == markdown == _STANDARD_OUTPUT:
        raise bad_input("--json - and --markdown - cannot share stdout; give one of them a file")
    try:
        gate, least = metrics.metric(metric), parse_delta(delta)
    except ValueError as error:
        raise bad_input(str(error)) from None
    try:
        records = load(files)
        sides = choose(records, base, new)
        cells = with_estimates(records.cells, records.launches)
        waterfall = waterfall_table(cells, records.launches, records.ranks)
        comparison = compare_sides(
            records, cells, waterfall, sides, gate=gate, delta=least, force=force
        )
    except (UnreadableFile, NotComparable) as error:
        raise bad_input(str(error)) from None
    conclusion = conclude(comparison, strict)
    if _STANDARD_OUTPUT in (as_json, markdown):
        typer.echo(words.printable(conclusion.sentence), err=True)
    else:
        compare_text.show(comparison, conclusion, Console())
    _write_all(comparison, conclusion, as_json, markdown, html)
    raise typer.Exit(conclusion.status)


def parse_delta(text: str) -> float:
    """'3%' or '0.03' as a ratio. Raises ValueError in one line."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise ValueError(f"--delta {text}: is no number; write 3% or 0.03") from None
    if not 0 < value < 1:  # nor nan
        raise ValueError(
            f"--delta {text}: must lie between 0 and 1, as a ratio; 3 per cent is 3% or 0.03"
        )
    return value


def _write_all(
    comparison: Comparison,
    conclusion: Conclusion,
    as_json: str | None,
    markdown: str | None,
    html: Path | None,
) -> None:
    if as_json is not None:
        document = compare_json.document(comparison, conclusion)
        text = json.dumps(document, allow_nan=False, indent=1)
        _write(as_json, f"{text}\n", "--json")
    if markdown is not None:
        _write(markdown, compare_markdown.render(comparison, conclusion), "--markdown")
    if html is not None:
        write(html, compare_page.render(comparison, conclusion), "--html")


def _write(where: str, text: str, option: str) -> None:
    if where == _STANDARD_OUTPUT:
        typer.echo(words.clean(text), nl=False)
    else:
        write(Path(where), words.clean(text), option)
