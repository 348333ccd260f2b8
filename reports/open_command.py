"""``python -m reports open``: makes the page and shows it in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from reports import words
from reports.command import bad_input, keep_inputs, note, write
from reports.load import load
from reports.page import render
from reports.source import UnreadableFile, read_document
from reports.tables import compute

RESULTS = Path("results")


def open_page(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES",
            help="Written with pytest --benchmark-json.",
            show_default=f"the newest in {RESULTS}/",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PAGE",
            help="The page to write.",
            show_default="beside the first file",
        ),
    ] = None,
) -> None:
    """The page about FILES, made and opened in the browser."""
    try:
        files = files or [newest(RESULTS)]
        where = files[0].with_suffix(".html") if output is None else output
        keep_inputs({"-o": where}, files)
        page = render(compute(load(files)))
    except UnreadableFile as error:
        raise bad_input(str(error)) from None
    write(where, page, "-o")
    typer.echo(words.printable(str(where)))
    if not _opened(where):
        note("no browser could be opened here; the page is one file, open it anywhere")


def newest(folder: Path) -> Path:
    """The file of results in ``folder`` that was written last. Raises UnreadableFile."""
    found = [path for path in folder.glob("*.json") if path.is_file()]
    if not found:
        raise UnreadableFile(
            f"{folder}: no JSON file there; give one written with pytest --benchmark-json=FILE"
        )
    found.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found:
        try:
            read_document(path)
        except UnreadableFile as error:
            note(f"left out: {error}")
        else:
            return path
    raise UnreadableFile(
        f"{folder}: none of its {words.plural(len(found), 'JSON file')} holds results; "
        "give one written with pytest --benchmark-json=FILE"
    )


def _opened(page: Path) -> bool:
    try:
        return webbrowser.open(page.absolute().as_uri())
    except (webbrowser.Error, OSError):
        return False
