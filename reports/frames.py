"""Frames and their rows.

Columns have nullable types, so that "not known" is one value (``pd.NA``) in every column, and a
row read back as a dict holds plain Python values with None for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

Row = dict[str, Any]


def columns(**names_of_kind: str) -> dict[str, str]:
    """Name -> pandas dtype, from the names of each kind: ``columns(Float64="step_s wait_s")``."""
    return {name: kind for kind, names in names_of_kind.items() for name in names.split()}


def frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """A frame of ``rows`` with exactly ``columns`` (name -> pandas dtype); absent is blank."""
    rows = list(rows)
    made: pd.DataFrame = pd.DataFrame(
        {
            name: pd.Series([row.get(name) for row in rows], dtype=kind)
            for name, kind in columns.items()
        }
    )
    return made


def rows(data: pd.DataFrame) -> list[Row]:
    """The rows as dicts of plain values; blank is None."""
    columns = {str(name): _values(data[name]) for name in data.columns}
    every = zip(*columns.values(), strict=True)
    return [dict(zip(columns, values, strict=True)) for values in every]


def _values(column: pd.Series[Any]) -> list[Any]:
    if column.dtype == object:
        return [_plain(value) for value in column]
    plain: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return plain


def groups(data: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values of ``names``, in order of first appearance; blank is a value too."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in data:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, list, tuple, dict)):
        return value
    return None if pd.isna(value) else value
