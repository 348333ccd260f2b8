"""Words for a terminal. Names come from files: they are text, and never markup of rich's."""

from __future__ import annotations

import textwrap

from rich.text import Text

from reports import words

#: Lines of prose longer than this are hard to read, however wide the terminal is.
PROSE_WIDTH = 100


def wrapped(sentence: str, width: int = PROSE_WIDTH, indent: str = "  ") -> list[str]:
    """Broken between words, but not between a number and its unit; a long name stays in one piece.
    All lines but the first are indented by two more."""
    lines = textwrap.wrap(
        sentence,
        min(width, PROSE_WIDTH),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    # Only now: the spaces that keep a number and its unit together become plain ones.
    return list(map(words.printable, lines))


def prose(sentence: str) -> Text:
    return Text("\n".join(wrapped(sentence)))


def text(cell: str, style: str = "") -> Text:
    """The lines of a heading stay lines."""
    return Text("\n".join(map(words.printable, cell.split("\n"))), style=style)
