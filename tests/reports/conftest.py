from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("LOCKSTEP_SHARED", ROOT.parent / "shared")) / "cases" / "bench_json"


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
