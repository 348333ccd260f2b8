"""``python -m reports``: what the terminal sees. Exit status 0 is fine, 2 is bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reports.load import load
from reports.page import render
from reports.source import UnreadableFile
from reports.tables import compute

BAD_INPUT = 2

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
    files: Annotated[list[Path], typer.Argument(help="Written with pytest --benchmark-json.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path(
        "report.html"
    ),
) -> None:
    """One self-contained page about all FILES, side by side."""
    try:
        page = render(compute(load(files)))
    except UnreadableFile as error:
        raise _bad_input(str(error)) from None
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise _bad_input(
            f"{output}: cannot be written ({error.strerror or error}); choose another with -o"
        ) from None
    typer.echo(output)


def _bad_input(sentence: str) -> typer.Exit:
    typer.echo("error: " + " ".join(sentence.split()), err=True)
    return typer.Exit(BAD_INPUT)


if __name__ == "__main__":
    app(prog_name="python -m reports")
