"""``python -m reports verdict``: what the page says first, as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reports import verdict_words, words
from reports.command import bad_input
from reports.load import load
from reports.source import UnreadableFile
from reports.tables import compute
from reports.terminal import wrapped
from reports.verdict_words import Said

_INDENT = "  "
#: What --short leaves: models, sentences of each, and sentences on how sure they are. Where
#: interpreters were compared it is the comparison that was asked for.
_MODELS, _SENTENCES, _SURE = 4, 3, 3


def verdict(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES", help="Written with pytest --benchmark-json.")
    ],
    short: Annotated[
        bool, typer.Option("--short", help="The first sentences about the first models only.")
    ] = False,
) -> None:
    """The verdict of FILES in sentences: how well it scales, what is best, how sure that is."""
    try:
        tables = compute(load(files))
    except UnreadableFile as error:
        raise bad_input(str(error)) from None
    found = verdict_words.verdicts(tables, _MODELS if short else None)
    width = Console().width
    for n, said in enumerate(found):
        if len(found) > 1:
            typer.echo(("\n" if n else "") + words.printable(said.file))
        for indent, text in _lines(said, short):
            for line in wrapped(text, width, indent):
                typer.echo(line)


def _lines(said: Said, short: bool) -> Iterator[tuple[str, str]]:
    """(indentation, sentence)"""
    for sentence in said.compared:
        yield "", sentence
    most = None if not short else 0 if said.compared else _SENTENCES
    for model in said.models:
        yield "", f"{model.model}: {model.headline}"
        for sentence in model.sentences[:most]:
            yield _INDENT, sentence
    if not said.models:
        yield "", verdict_words.NOTHING
    if said.more:
        yield "", verdict_words.more(said)
    if said.sure:
        yield "", "How sure is this?"
    for sentence in said.sure[: _SURE if short else None]:
        yield _INDENT, sentence
