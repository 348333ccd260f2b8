"""``python -m reports history``: each case over torch versions and over dates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reports import history_page, words
from reports.history_csv import write_csv
from reports.history_json import to_json
from reports.history_series import History
from reports.history_series import history as history_of
from reports.history_store import read_store
from reports.history_text import markdown, show
from reports.shifts import DELTA
from reports.source import UnreadableFile

BAD_INPUT = 2
SHIFTED = 1
_TO_TERMINAL = Path("-")


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
        float,
        typer.Option(metavar="RATIO", help="The smallest change of level that counts, as a ratio."),
    ] = DELTA,
    fail_on_shift: Annotated[
        bool,
        typer.Option("--fail-on-shift", help="Exit status 1 where a case got worse and still is."),
    ] = False,
) -> None:
    """Each case over torch versions and over dates, with shifts that last."""
    if not 0 < delta < 1:
        raise _bad_input(f"--delta {delta:g} is not between 0 and 1; 0.03 is 3 %")
    if as_json == _TO_TERMINAL and as_markdown == _TO_TERMINAL:
        raise _bad_input("--json - and --markdown - both want standard output; give one a file")
    try:
        found = history_of(read_store(paths), delta)
    except UnreadableFile as error:
        raise _bad_input(str(error)) from None
    if not found.series:
        raise _bad_input("; ".join(found.notes) + "; give files with a result that counts")
    _write(output, history_page.render(found), "-o")
    if as_json is not None:
        _write(as_json, json.dumps(to_json(found), allow_nan=False, indent=1) + "\n", "--json")
    if as_markdown is not None:
        _write(as_markdown, markdown(found), "--markdown")
    if csv is not None:
        _write_csv(found, csv)
    quiet = _TO_TERMINAL in (as_json, as_markdown)
    if not quiet:
        show(found, Console())
    typer.echo(words.printable(str(output)), err=quiet)
    if fail_on_shift and found.standing:
        raise typer.Exit(SHIFTED)


def _write(path: Path, content: str, option: str) -> None:
    if path == _TO_TERMINAL and option != "-o":
        typer.echo(content, nl=False)
        return
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise _cannot_write(path, error, option) from None


def _write_csv(found: History, folder: Path) -> None:
    try:
        count = write_csv(found, folder)
    except OSError as error:
        raise _cannot_write(folder, error, "--csv") from None
    if count < len(found.series):
        left = len(found.series) - count
        typer.echo(f"note: {left} series without dates are not in {folder}", err=True)


def _cannot_write(path: Path, error: OSError, option: str) -> typer.Exit:
    return _bad_input(
        f"{path}: cannot be written ({error.strerror or error}); choose another with {option}"
    )


def _bad_input(sentence: str) -> typer.Exit:
    typer.echo(words.printable("error: " + " ".join(sentence.split())), err=True)
    return typer.Exit(BAD_INPUT)
