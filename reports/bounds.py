"""How much of a large file the sections of a page show.

Tables of thousands of rows cost time and memory, and nobody reads them. Of each part of a section
(a model's scaling, say) the first rows are kept, and the page says how many are not; the table of
all cases has every case, and verdicts are made from all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from reports.tables import Tables

#: Rows of the tables of one section together, and parts.
MOST_ROWS = 500
MOST_PARTS = 20
#: Section -> the table it is made from, and the columns that tell its parts apart.
_PARTS = {
    "scaling": ("scaling", ["file", "model", "kind"]),
    "waterfall": ("waterfall", ["file", "model"]),
    "all-reduce": ("all_reduce", ["file", "model"]),
    "collectives": ("collectives", ["file", "collective"]),
    "buckets": ("buckets", ["file", "group"]),
    "strategies": ("strategies", ["file", "model"]),
}


def bounded(tables: Tables) -> tuple[Tables, dict[str, int]]:
    """The tables with at most MOST_ROWS rows for each of these sections, and how many rows each
    section has lost."""
    kept: dict[str, Any] = {}
    lost: dict[str, int] = {}
    for section, (name, parts) in _PARTS.items():
        whole: pd.DataFrame = getattr(tables, name)
        kept[name] = first_rows(whole, parts)
        lost[section] = len(whole) - len(kept[name])
    return replace(tables, **kept), lost


def first_rows(table: pd.DataFrame, parts: list[str]) -> pd.DataFrame:
    """At most MOST_ROWS rows of at most MOST_PARTS parts, of a long part as many as of another."""
    groups = table.groupby(parts, sort=False, dropna=False)
    if len(table) <= MOST_ROWS and groups.ngroups <= MOST_PARTS:
        return table
    kept: pd.DataFrame = table[groups.ngroup() < MOST_PARTS]
    if len(kept) <= MOST_ROWS:
        return kept
    most = MOST_ROWS // min(groups.ngroups, MOST_PARTS)
    shown: pd.DataFrame = kept.groupby(parts, sort=False, dropna=False).head(most)
    return shown
