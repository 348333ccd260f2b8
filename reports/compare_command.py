"""``python -m reports compare``: its options, and where its words go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.paired import DELTA
from reports import compare_json, compare_markdown, compare_page, compare_text, metrics, words
from reports.command import (
    STANDARD_OUTPUT,
    bad_input,
    keep_inputs,
    parse_delta,
    write,
    write_or_print,
)
from reports.comparison import Comparison
from reports.comparison import compare as compare_sides
from reports.gate import Conclusion, conclude
from reports.load import load
from reports.sides import NotComparable, choose
from reports.source import UnreadableFile
from reports.stats import with_estimates
from reports.waterfall import waterfall_table


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
        Path | None,
        typer.Option("--json", metavar="FILE", help="Also write everything as JSON; - is stdout."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Also write Markdown; - is stdout."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PAGE", help="Also write a page.")
    ] = None,
) -> None:
    """Is NEW slower than BASE? Exit status 0: no regression, 1: regression, 2: bad input or
    nothing to judge, 3: inconclusive under --strict."""
    if as_json == markdown == STANDARD_OUTPUT:
        raise bad_input("--json - and --markdown - cannot share stdout; give one of them a file")
    keep_inputs({"--json": as_json, "--markdown": markdown, "--html": html}, files)
    least = parse_delta(delta)
    try:
        gate = metrics.metric(metric)
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
    if STANDARD_OUTPUT in (as_json, markdown):
        typer.echo(words.printable(conclusion.sentence), err=True)
    else:
        compare_text.show(comparison, conclusion, Console())
    _write_all(comparison, conclusion, as_json, markdown, html)
    raise typer.Exit(conclusion.status)


def _write_all(
    comparison: Comparison,
    conclusion: Conclusion,
    as_json: Path | None,
    markdown: Path | None,
    html: Path | None,
) -> None:
    if as_json is not None:
        document = compare_json.document(comparison, conclusion)
        text = json.dumps(document, allow_nan=False, indent=1)
        write_or_print(as_json, words.clean(f"{text}\n"), "--json")
    if markdown is not None:
        text = compare_markdown.render(comparison, conclusion)
        write_or_print(markdown, words.clean(text), "--markdown")
    if html is not None:
        write(html, compare_page.render(comparison, conclusion), "--html")
