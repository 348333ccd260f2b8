"""``python -m reports history``: each case over torch versions and over dates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reports import history_page, words
from reports.command import (
    STANDARD_OUTPUT,
    bad_input,
    cannot_write,
    keep_inputs,
    note,
    parse_delta,
    write,
    write_or_print,
)
from reports.history_csv import write_csv
from reports.history_json import to_json
from reports.history_series import History
from reports.history_series import history as history_of
from reports.history_store import read_store
from reports.history_text import markdown, show
from reports.shifts import DELTA
from reports.source import UnreadableFile

SHIFTED = 1


def history(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATHS",
            help="Folders of pytest --benchmark-autosave, as .benchmarks, or files.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PAGE", help="The page to write.")
    ] = Path("history.html"),
    as_json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Also write JSON; - is standard output."),
    ] = None,
    as_markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Also write Markdown; - as above."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv", metavar="FOLDER", help="Also write a CSV per series, and apache-otava's setup."
        ),
    ] = None,
    delta: Annotated[
        str,
        typer.Option("--delta", help="The smallest change of level that counts: 3% or 0.03."),
    ] = f"{DELTA:g}",
    fail_on_shift: Annotated[
        bool,
        typer.Option("--fail-on-shift", help="Exit status 1 where a case got worse and still is."),
    ] = False,
) -> None:
    """Each case over torch versions and over dates, with shifts that last."""
    keep_inputs({"-o": output, "--json": as_json, "--markdown": as_markdown}, paths)
    least = parse_delta(delta)
    if as_json == STANDARD_OUTPUT and as_markdown == STANDARD_OUTPUT:
        raise bad_input("--json - and --markdown - both want standard output; give one a file")
    try:
        found = history_of(read_store(paths), least)
    except UnreadableFile as error:
        raise bad_input(str(error)) from None
    if not found.series:
        raise bad_input("; ".join(found.notes) + "; give files with a result that counts")
    write(output, history_page.render(found), "-o")
    if as_json is not None:
        write_or_print(
            as_json, json.dumps(to_json(found), allow_nan=False, indent=1) + "\n", "--json"
        )
    if as_markdown is not None:
        write_or_print(as_markdown, markdown(found), "--markdown")
    if csv is not None:
        _write_csv(found, csv)
    quiet = STANDARD_OUTPUT in (as_json, as_markdown)
    if not quiet:
        show(found, Console())
    typer.echo(words.printable(str(output)), err=quiet)
    if fail_on_shift and found.standing:
        raise typer.Exit(SHIFTED)


def _write_csv(found: History, folder: Path) -> None:
    try:
        count = write_csv(found, folder)
    except OSError as error:
        raise cannot_write(folder, error, "--csv") from None
    if count < len(found.series):
        left = len(found.series) - count
        note(f"{left} series without dates are not in {folder}")
