"""Where the templates of all pages are found, and the words they may use. Everything is escaped."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import inline, words
from reports.frames import Row


def anchor(row: Row) -> str:
    """The id of a case on the page: the cell's number makes it unique, the words are for people."""
    return f"case-{row['cell']}-{_readable(row['id'])}".rstrip("-")


def ended_anchor(n: int, id: str) -> str:
    """The same for a case without a number, the ``n``-th of the outcomes."""
    return f"ended-{n}-{_readable(id)}".rstrip("-")


def order(value: float | None) -> Markup:
    """The attribute by which a cell of a table is sorted; empty where nothing is known."""
    return Markup(f' data-order="{"" if value is None else value!r}"')


def _readable(id: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", id).strip("-")[:60].lower()


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
    "rate": words.rate,
    "binary": words.binary,
    "cost": words.cost,
    "seconds": words.seconds,
    "whole": words.whole_number,
    "settings": words.settings,
    "anchor": anchor,
    "order": order,
}
ENVIRONMENT.globals |= {
    "between": words.between,
    "BLANK": words.BLANK,
    "words": words,
    "style": inline.read("templates/style.css"),
    "policy": inline.policy,
}
#: Of ``tojson``, which escapes what could end the element it stands in.
ENVIRONMENT.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
