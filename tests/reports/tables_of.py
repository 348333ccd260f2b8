"""The tables of a file, as the page is made from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from reports.load import load
from reports.tables import Tables, compute
from tests.reports.builder import document


def tables_of(path: Path) -> Tables:
    return compute(load([path]))


def one_file(written: Callable[..., Path], entries: list[dict[str, Any]]) -> Tables:
    return tables_of(written(document(entries)))
