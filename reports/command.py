"""What the commands of ``python -m reports`` share: bad input is one line and exit status 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from reports import words

BAD_INPUT = 2
STANDARD_OUTPUT = Path("-")


def write(path: Path, text: str, option: str) -> None:
    """Raises the exit for a path that cannot be written; ``option`` is what chooses another."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_write(path, error, option) from None


def write_or_print(path: Path, text: str, option: str) -> None:
    """The same, where ``-`` is standard output."""
    if path == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
    else:
        write(path, text, option)


def cannot_write(path: Path, error: OSError, option: str) -> typer.Exit:
    return bad_input(
        f"{path}: cannot be written ({error.strerror or error}); choose another with {option}"
    )


def keep_inputs(outputs: Mapping[str, Path | None], files: Sequence[Path]) -> None:
    """Raises the exit where an output, by option, would be written over a file of results."""
    wrong = over_an_input(outputs, files)
    if wrong:
        raise bad_input(wrong)


def over_an_input(outputs: Mapping[str, Path | None], files: Sequence[Path]) -> str | None:
    """In a sentence, which file would be written over what is to be read; by option."""
    for option, path in outputs.items():
        for file in files:
            if path not in (None, STANDARD_OUTPUT) and path.resolve() == file.resolve():
                return f"{path}: is to be read; choose another file with {option}"
    return None


def parse_delta(text: str) -> float:
    """'3%' or '0.03' as a ratio. Raises the exit in one line."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise bad_input(f"--delta {text}: is no number; write 3% or 0.03") from None
    if not 0 < value < 1:  # nor nan
        raise bad_input(
            f"--delta {text}: must lie between 0 and 1, as a ratio; 3 per cent is 3% or 0.03"
        )
    return value


def note(sentence: str) -> None:
    typer.echo(words.printable(f"note: {sentence}"), err=True)


def bad_input(sentence: str) -> typer.Exit:
    typer.echo(words.printable(f"error: {' '.join(sentence.split())}"), err=True)
    return typer.Exit(BAD_INPUT)
