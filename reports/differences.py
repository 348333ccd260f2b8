"""What differs between two interpreters besides the version of torch: it may be the cause."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from reports.frames import Row
from reports.sides import Side
from reports.source import table, text

#: Facts of an interpreter (bench.worker.probe) in the order of the list, and what they are called.
#: Facts that are not named here are shown under their own names.
TITLES = {
    "python": "Python",
    "torchvision": "torchvision",
    "cuda": "CUDA",
    "hip": "ROCm (HIP)",
    "nccl": "NCCL",
    "backends": "backends",
    "blas": "BLAS",
    "onednn": "oneDNN",
    "openmp": "OpenMP",
    "compiler": "compiler",
    "cpu_capability": "CPU capability",
    "driver": "driver",
    "gpus": "GPUs",
}
#: Where the interpreter lies, what is compared anyway, and what says nothing about speed.
_LEFT_OUT = ("executable", "torch", "problem", "models")
#: A build has these or has not: a probe that asked and found nothing says "none".
_NONE_IS_KNOWN = ("cuda", "hip", "nccl", "torchvision")
NOT_KNOWN = "not known"


def facts(file: Row, side: Side, cells: Sequence[Row]) -> dict[str, Any]:
    """What is known of a side's interpreter, from its own facts, its cells and its file."""
    found = dict(table(file["interpreters"].get(side.label)))
    if not text(found.get("torch")):
        found["torch"] = _one({cell["torch_version"] for cell in cells})
    if not text(found.get("python")):
        found["python"] = file["python"]
    if not found.get("driver"):
        found["driver"] = file["driver"]
    threads = _one({cell["threads_per_rank"] for cell in cells})
    return found | {"threads per rank": threads, "system": file["os"]}


def differences(base: dict[str, Any], new: dict[str, Any]) -> list[Row]:
    """Rows of ``what``, ``a`` and ``b``, as text: what differs, or is known of one side only.

    What neither side knows is left out: it is no difference that anyone has seen.
    """
    found = differing([base, new])
    return [{"what": what, "a": one, "b": other} for what, (one, other) in found]


def differing(sides: Sequence[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """The same for any number of sides: (what, the text of each side)."""
    names = [*TITLES, *(name for side in sides for name in side if name not in TITLES)]
    found = []
    for name in dict.fromkeys(names):
        if name in _LEFT_OUT:
            continue
        values = [side.get(name) for side in sides]
        if all(value == values[0] for value in values) or all(map(_is_blank, values)):
            continue
        texts = [
            "none" if name in _NONE_IS_KNOWN and name in side and value is None else _words(value)
            for side, value in zip(sides, values, strict=True)
        ]
        found.append((TITLES.get(name, name), texts))
    return found


def build(known: dict[str, Any]) -> str | None:
    """'cu', 'cpu', 'rocm' or 'xpu': what torch was built for; None where nothing tells."""
    local = re.match(r"(cu|cpu|rocm|xpu)", (text(known.get("torch")) or "").partition("+")[2])
    if local:
        return local.group(1)
    if text(known.get("hip")):
        return "rocm"
    if text(known.get("cuda")):
        return "cu"
    # The probe asks for both; a file of another suite has neither key.
    return "cpu" if text(known.get("torch")) and "cuda" in known and "hip" in known else None


def _is_blank(value: Any) -> bool:
    return value is None or value == "" or value == []


def _words(value: Any) -> str:
    if _is_blank(value):
        return "none" if value == [] else NOT_KNOWN
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if isinstance(value, dict):
        return text(value.get("name")) or json.dumps(value, sort_keys=True, allow_nan=False)
    return str(value)


def _one(values: set[Any]) -> Any:
    """The value all have; None where they have several."""
    return next(iter(values)) if len(values) == 1 else None
