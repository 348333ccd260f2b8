"""What every command says and writes: errors in one line, files, or standard output for ``-``."""

from __future__ import annotations

from pathlib import Path

import typer

from reports import words

BAD_INPUT = 2
STANDARD_OUTPUT = Path("-")


def bad_input(sentence: str) -> typer.Exit:
    """To be raised: says what is wrong, in one line, and ends with status 2."""
    typer.echo(words.printable("error: " + " ".join(sentence.split())), err=True)
    return typer.Exit(BAD_INPUT)


def note(sentence: str) -> None:
    typer.echo(words.printable(f"note: {sentence}"), err=True)


def write(path: Path, content: str, option: str) -> None:
    """``option`` is what to change where the path cannot be written to."""
    if path == STANDARD_OUTPUT:
        typer.echo(content, nl=False)
        return
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise cannot_write(path, error, option) from None


def cannot_write(path: Path, error: OSError, option: str) -> typer.Exit:
    return bad_input(
        f"{path}: cannot be written ({error.strerror or error}); choose another with {option}"
    )
