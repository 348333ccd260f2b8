"""Text and tables in Markdown, as GitHub shows it. Names are text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from reports import words

#: What may begin markup, a link, a mention or an emoji; an underscore within a word, and a colon
#: before a space, begin nothing.
_SPECIAL = re.compile(
    r"[&<>|`*\[\]\\~!#@$]|(?<![^\W_])_|_(?![^\W_])|:(?=\S)|(?<=www)\.", re.IGNORECASE
)
#: What may begin a list or underline a heading, where it begins a line.
_FIRST = re.compile(r"^(?:[-+=]|\d(?=\d*[.)]))")


def escaped(text: str) -> str:
    """Text that no reader of Markdown takes for anything else, on one line.

    A character reference is text wherever it stands, also in a table, and begins no link.
    """
    return _FIRST.sub(_reference, _within(text))


def _within(text: str) -> str:
    """The same for text that does not begin a line."""
    plain = words.printable(words.clean(" ".join(text.split())))
    return _SPECIAL.sub(_reference, plain)


def _reference(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"


def table(
    headings: Sequence[str], lines: Sequence[Sequence[str]], text: Collection[str] = ()
) -> str:
    """The first column and those headed as in ``text`` are text; the others are numbers."""
    marks = [":--" if n == 0 or name in text else "--:" for n, name in enumerate(headings)]
    every = [headings, marks, *(map(_within, line) for line in lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in every)
