from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.tables import Tables
from tests.reports.builder import sweep
from tests.reports.tables_of import tables_of

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("LOCKSTEP_SHARED", ROOT.parent / "shared")) / "cases" / "bench_json"

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real headless Chromium, driven by Playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs Chromium")
    with api.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, args=_FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of a whole sweep."""
    path = tmp_path_factory.mktemp("swept") / "run.json"
    path.write_text(json.dumps(sweep()))
    return tables_of(path)


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """A file of the public cases, read where it lies."""

    def find(name: str) -> Path:
        if not SHARED.is_dir():
            pytest.skip(f"needs {SHARED}")
        return SHARED / name

    return find


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """A document as a file."""

    def write(document: Any, name: str = "run.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return path

    return write
