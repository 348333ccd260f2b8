"""The folder a case has for itself; it goes with the case."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any


def store_file(job: dict[str, Any]) -> Path:
    return Path(job["folder"]) / "store"


def scratch(job: dict[str, Any]) -> tempfile.TemporaryDirectory[str]:
    """A folder of this rank's own, within the case's where this host has it: what a killed child
    leaves there goes with the case."""
    folder = job["folder"]
    return tempfile.TemporaryDirectory(dir=folder if os.path.isdir(folder) else None)
