"""The page's section on collectives."""

from __future__ import annotations

from typing import Any

import pandas as pd
from markupsafe import Markup

from bench.pairs import common_rank
from reports import collectives_figure, words
from reports.drawing import MOST_FIGURES
from reports.environment import ENVIRONMENT
from reports.frames import Row, groups, rows
from reports.tables import Tables

#: Pairs that are named in words, and that have a row.
_MOST_NAMED, _MOST_ROWS = 3, 120
#: Pairs below this share of the fastest are slow; processes on one machine differ by less.
_SLOW = 0.8


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
    if len(pairs) < 2:
        return " ".join(map(collectives_figure.pair_sentence, pairs))
    slowest = pairs[: min(_MOST_NAMED, len(pairs) - 1)]
    said = " ".join(map(collectives_figure.pair_sentence, slowest))
    spread = pairs[-1]["rate_bytes_per_s"] / pairs[0]["rate_bytes_per_s"]
    text = f"The fastest pair has {spread:.2f} times the rate of the slowest. The slowest: {said}"
    slow, others = (
        [
            (row["first"], row["second"])
            for row in pairs
            if (row["relative_ratio"] < _SLOW) == is_slow
        ]
        for is_slow in (True, False)
    )
    rank = common_rank(slow, others)
    if rank is None:
        return text
    ends = [(row[end], row[f"{end}_host"]) for row in pairs for end in ("first", "second")]
    host = dict(ends).get(rank)
    on = f" ({host})" if host else ""
    return f"{text} All slow pairs, and no other, have rank {rank}{on}."


def _by(table: pd.DataFrame, *names: str) -> list[tuple[Any, pd.DataFrame]]:
    return [(key, part) for key, part in table.groupby(list(names), sort=False)]
