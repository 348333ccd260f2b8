"""Tables in GitHub's Markdown. Names are escaped: they may hold anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from reports import words


def escaped(text: str) -> str:
    """Plain text in one line, as it is to be read: no markup, no end of a cell."""
    return re.sub(r"([\\`*_\[\]<>|~#&])", r"\\\1", words.printable(" ".join(text.split())))


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str] = ()
) -> list[str]:
    """Lines; the columns of ``numbers`` are set to the right."""
    return [
        _line(headings),
        "|" + "|".join("--:" if name in numbers else "---" for name in headings) + "|",
        *map(_line, rows),
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"
