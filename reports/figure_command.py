"""``python -m reports figure``: one figure as a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports import words
from reports.command import STANDARD_OUTPUT, bad_input, cannot_write, write_or_print
from reports.figure_catalogue import NAMES, NoFigure, choose, listed
from reports.load import load
from reports.source import UnreadableFile
from reports.svg import also_saved, quiet_about_fonts, standing_alone
from reports.tables import compute

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 220


def figure(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME FILE...", help="Which figure, and the files; with --list files alone."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="An .svg or .png to write; - prints SVG. Default NAME.svg."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Of several that of this model.")
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="ID", help="Of this case alone.")
    ] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="Say which figures there are of FILE.")
    ] = False,
) -> None:
    """One figure of the page as SVG or PNG, dark on white."""
    name, *files = ["", *arguments] if list_them else arguments
    if not files:
        raise bad_input(f"figure {name}: give a file too, or --list FILE for the names there are")
    name, path = name.lower(), output or Path(f"{name.lower()}.svg")
    is_png = path.suffix.lower() == ".png"
    if not list_them and path != STANDARD_OUTPUT and path.suffix.lower() not in (".svg", ".png"):
        raise bad_input(f"{path}: is neither .svg nor .png; choose another with -o")
    try:
        tables = compute(load([Path(file) for file in files]))
        if list_them:
            found = listed(tables)
            for one in NAMES:
                if one in found:
                    models = words.joined(found[one])
                    typer.echo(words.printable(f"{one:18} {NAMES[one]}: {models}"))
            return
        chosen, svg = choose(tables, name, model, case)
    except (UnreadableFile, NoFigure) as error:
        raise bad_input(str(error)) from None
    if is_png:
        with also_saved(lambda drawn: _write_png(drawn, path)):
            chosen.draw()
    else:
        write_or_print(path, standing_alone(svg), "-o")
    if path != STANDARD_OUTPUT:
        typer.echo(words.printable(str(path)))


def _write_png(drawn: Figure, path: Path) -> None:
    try:
        with quiet_about_fonts():
            drawn.savefig(path, dpi=_DOTS_PER_INCH, facecolor="white")
    except OSError as error:
        raise cannot_write(path, error, "-o") from None
