"""The page's section on collectives."""

from __future__ import annotations

from typing import Any

import pandas as pd
from markupsafe import Markup

from reports import collectives_figure, words
from reports.drawing import MOST_FIGURES
from reports.environment import ENVIRONMENT
from reports.frames import Row, groups, rows
from reports.tables import Tables

#: Pairs that are named in words, and that have a row.
_MOST_NAMED, _MOST_ROWS = 3, 120


def section(tables: Tables) -> str | None:
    if tables.collectives.empty and tables.pairs.empty:
        return None
    fits = groups(rows(tables.fits), "file", "collective")
    parts = []
    for n, (key, part) in enumerate(_by(tables.collectives, "file", "collective")):
        drawn = collectives_figure.busbw(part, f"busbw-{n}") if n < MOST_FIGURES else None
        figures = [Markup(drawn)] if drawn else []
        parts.append((*key, figures, rows(part), fits.get(key, [])))
    pairs = []
    maps = 0  # of two ranks there is none
    for (file, _), part in _by(tables.pairs, "file", "id"):
        drawn = collectives_figure.pairs(part, f"pairs-{maps}") if maps < MOST_FIGURES else None
        maps += drawn is not None
        figure = Markup(drawn) if drawn else None
        first = rows(part)[0]
        title = f"Pairs, {words.binary(first['bytes'])}, {first['series']}"
        pairs.append((file, title, figure, rows(part)[:_MOST_ROWS], slowest_pairs(rows(part))))
    several = len(tables.records.files) > 1
    template = ENVIRONMENT.get_template("collectives.html.j2")
    return template.render(parts=parts, pairs=pairs, several=several)


def slowest_pairs(pairs: list[Row]) -> str:
    """``pairs``: those of one cell, the slowest first."""
    said = " ".join(map(collectives_figure.pair_sentence, pairs[:_MOST_NAMED]))
    if len(pairs) < 2:
        return said
    spread = pairs[-1]["rate_bytes_per_s"] / pairs[0]["rate_bytes_per_s"]
    return f"The fastest pair has {spread:.2f} times the rate of the slowest. The slowest: {said}"


def _by(table: pd.DataFrame, *names: str) -> list[tuple[Any, pd.DataFrame]]:
    return [(key, part) for key, part in table.groupby(list(names), sort=False)]
