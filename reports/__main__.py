"""``python -m reports``: what the terminal sees. Exit status 0 is fine, 2 is bad input."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reports import summary_markdown, trace_page, words
from reports.command import (
    BAD_INPUT,
    STANDARD_OUTPUT,
    bad_input,
    keep_inputs,
    write,
    write_or_print,
)
from reports.compare_command import compare
from reports.export_command import export
from reports.figure_command import figure
from reports.history_command import history
from reports.load import load
from reports.open_command import open_page
from reports.page import render
from reports.predict_command import predict
from reports.source import UnreadableFile
from reports.tables import compute
from reports.trace_files import report_on, size_notes
from reports.trace_text import show
from reports.verdict_command import verdict

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def reports() -> None:
    """Reports from the results of Lockstep, and from other pytest-benchmark files."""


@app.command()
def html(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES", help="Written with pytest --benchmark-json.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PAGE", help="The page to write.")
    ] = Path("report.html"),
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="OUT", help="Also write a summary; - is stdout."),
    ] = None,
) -> None:
    """One self-contained page about all FILES, side by side."""
    keep_inputs({"-o": output, "--markdown": markdown}, files)
    gc.disable()  # until the page is written tables only grow, and looking for garbage takes time
    try:
        tables = compute(load(files))
    except UnreadableFile as error:
        raise bad_input(str(error)) from None
    write(output, render(tables), "-o")
    if markdown is not None:
        write_or_print(markdown, summary_markdown.render(tables), "--markdown")
    typer.echo(words.printable(str(output)), err=markdown == STANDARD_OUTPUT)


@app.command(short_help="Communication and waiting in torch.profiler traces.")
def trace(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Written by torch.profiler, .json or .json.gz."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output instead of tables.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PAGE", help="Also write a page.")
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", metavar="N", min=0, help="Read the file of this rank alone."),
    ] = None,
    same_clock: Annotated[
        bool,
        typer.Option(
            "--same-clock/--different-clocks",
            help="Whether the ranks' times can be compared: one host, or synchronised ones.",
        ),
    ] = True,
) -> None:
    """Communication, overlap and waiting in torch.profiler traces of one job, a file per rank."""
    keep_inputs({"--html": html}, files)
    for note in size_notes(files):
        typer.echo(words.printable(f"note: {note}"), err=True)
    report = report_on(files, rank=rank, same_clock=same_clock, refused=_refused)
    if as_json:
        typer.echo(json.dumps(report.to_json(), allow_nan=False, indent=1))
    else:
        show(report, Console())
    if html is not None:
        write(html, trace_page.render(report), "--html")
        typer.echo(words.printable(str(html)), err=as_json)
    if report.unreadable:
        raise typer.Exit(BAD_INPUT)


app.command(short_help="Is NEW slower than BASE? A gate, by its exit status.")(compare)
app.command(short_help="Results of FILES for other tools.")(export)
app.command(short_help="One figure of the page as a file of its own.")(figure)
app.command(short_help="Each case over torch versions and over dates.")(history)
app.command("open")(open_page)
app.command(short_help="Step times on networks and world sizes not measured.")(predict)
app.command(short_help="The verdict of FILES in sentences.")(verdict)


def _refused(sentence: str) -> None:
    typer.echo(words.printable(f"error: {sentence}"), err=True)


if __name__ == "__main__":
    app(prog_name="python -m reports")
