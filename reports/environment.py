"""Where the templates of all pages are found, and the words they may use. Everything is escaped."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports import words
from reports.frames import Row


def anchor(row: Row) -> str:
    """The id of a case on the page: the cell's number makes it unique, the words are for people."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", row["id"]).strip("-")[:60]
    return f"case-{row['cell']}-{readable}".rstrip("-").lower()


ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "ms": words.milliseconds,
    "plain": words.plain,
    "percent": words.percent,
    "change": words.change,
    "signed_ms": words.signed_milliseconds,
    "signed_percent": words.signed_percent,
    "size": words.size,
    "saved": words.saved,
    "seconds": words.seconds,
    "whole": words.whole_number,
    "settings": words.settings,
    "anchor": anchor,
}
ENVIRONMENT.globals |= {"between": words.between, "BLANK": words.BLANK, "words": words}
