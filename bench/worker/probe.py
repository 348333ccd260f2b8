"""What one interpreter has, as one line of JSON: ``python -m bench.worker.probe [MODEL ...]``.

The controller imports no torch; this short process is how it learns what can run, and what
models of one's own, named on the command line, ask of DistributedDataParallel.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from bench.cores import usable_of
from bench.environment import kept
from bench.wire import PROBE_MARK
from models.names import is_file


def probe() -> dict[str, Any]:
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "cores": usable_cores(),
        "boot_id": _boot_id(),
        "environment": kept(os.environ),
        "torch": None,
        "torchvision": None,
        "cuda": None,
        "hip": None,
        "nccl": None,
        "blas": None,
        "onednn": None,
        "openmp": None,
        "compiler": None,
        "cpu_capability": None,
        "backends": [],
        "gpus": [],
        "driver": None,
        "problem": None,
    }
    try:
        import torch
        import torch.distributed as dist
    except (ImportError, OSError) as error:
        found["problem"] = f"torch cannot be imported: {error}"
        return found
    found["torch"] = torch.__version__
    found["cuda"] = torch.version.cuda
    found["hip"] = getattr(torch.version, "hip", None)
    found |= build(torch.__config__.show())
    if dist.is_available():
        if dist.is_gloo_available():
            found["backends"].append("gloo")
        if dist.is_nccl_available():
            found["backends"].append("nccl")
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            found["gpus"].append({"name": properties.name, "memory_bytes": properties.total_memory})
        if "nccl" in found["backends"]:
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    try:
        import torchvision

        found["torchvision"] = torchvision.__version__
    except (ImportError, OSError, RuntimeError, AttributeError):
        pass  # not there, or built for another torch: models that need it are skipped
    return found


#: How torch's own description of its build says what it was built with, and what it uses here.
_BUILD = {
    "blas": r"^\s*- (.*Math Kernel Library Version [\d.]+|OpenBLAS.*)",
    "onednn": r"^\s*- Intel\(R\) MKL-DNN (v\S+)",
    "openmp": r"^\s*- OpenMP (\d+)",
    "compiler": r"^\s*- ((?:GCC|clang|MSVC) \S+)",
    "cpu_capability": r"CPU capability usage: (\S+)",
}


def build(description: str) -> dict[str, str | None]:
    """What may make a build faster or slower than another of the same version.

    ``description``: ``torch.__config__.show()``. What it does not say is None.
    """
    found = {}
    for name, pattern in _BUILD.items():
        match = re.search(pattern, description, re.MULTILINE)
        found[name] = match.group(1) if match else None
    if found["blas"] is None:
        match = re.search(r"\bBLAS_INFO=(\w+)", description)
        found["blas"] = match.group(1) if match else None
    return found


def usable_cores() -> int:
    """As bench/machine.py counts them, on this host."""
    try:
        import psutil

        physical = psutil.cpu_count(logical=False)
    except ImportError:
        physical = None
    return usable_of(physical or os.cpu_count() or 1)


def _boot_id() -> str | None:
    """The same for all containers of one machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def own_models(names: list[str]) -> dict[str, dict[str, Any]]:
    """By name: the module's DDP_KW and a digest, or the problem with the module in one line."""
    from models.registry import load

    found: dict[str, dict[str, Any]] = {}
    for name in names:
        try:
            asked = load(name).ddp_kw
            plain = {key: value for key, value in asked.items() if _is_plain(value)}
            found[name] = {"ddp_kw": plain, "problem": None, "sha256": _digest(name)}
        except ValueError as error:
            found[name] = {"ddp_kw": {}, "problem": str(error), "sha256": None}
    return found


def _digest(name: str) -> str | None:
    """Of the file that defines the model: whether a later run means the same one. What that file
    imports is not looked into."""
    if is_file(name):
        path = Path(name)
    else:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return None
        path = Path(spec.origin)
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


if __name__ == "__main__":
    facts = probe()
    facts["models"] = own_models(sys.argv[1:]) if facts["torch"] else {}
    print(PROBE_MARK + json.dumps(facts), flush=True)
