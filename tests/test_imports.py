"""Who may import whom, checked from the imports themselves.

| room | may import |
|---|---|
| S shared | the standard library, S |
| A arithmetic | numpy, scipy, statsmodels, A |
| W worker, models | S, torch, torchvision, W; psutil if it is there |
| C controller | S, A, light libraries, names of models; never torch |
| R reports | S, A, data libraries; never torch, never C |
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = {
    f"bench.{name}"
    for name in (
        "bandwidth",
        "case",
        "classify",
        "clocks",
        "cores",
        "ddp_buckets",
        "environment",
        "garbage",
        "intervals",
        "lifeline",
        "nearest",
        "outline",
        "payload",
        "pairs",
        "precision",
        "probing",
        "rank_trace",
        "ranks",
        "result",
        "timeline",
        "token_file",
        "trace",
        "trace_events",
        "trace_json",
        "trace_steps",
        "units",
        "wire",
    )
}
#: The statistics of launches: for whoever judges them, and never for whoever is measured.
ARITHMETIC = {f"bench.{name}" for name in ("arrangements", "paired", "student")}
#: What the controller may know of models without importing torch.
NAMES = {"models.names", "models.sleep_options"}
LIGHT = {"psutil", "scipy", "tomli", "pytest", "rich"}
DATA = {"numpy", "pandas", "scipy", "seaborn", "matplotlib", "jinja2", "markupsafe", "typer"} | {
    "packaging",
    "pytest_benchmark",
    "rich",
}


def files() -> list[str]:
    found = [*ROOT.glob("bench/**/*.py"), *ROOT.glob("models/*.py"), *ROOT.glob("reports/*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in [*found, ROOT / "conftest.py"])


def module_name(file: str) -> str:
    name = file.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def room(module: str) -> str:
    if module in SHARED:
        return "S"
    if module in ARITHMETIC:
        return "A"
    if module.startswith(("bench.worker", "models")):
        return "W"
    return "R" if module.startswith("reports") else "C"


def imports(path: Path) -> Iterator[str]:
    """Every module that is imported anywhere in the file; not those for type checkers alone."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if is_ours(whole) else str(node.module)


def is_ours(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def allowed(source: str, target: str) -> bool:
    here, top = room(source), target.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    if is_ours(target):
        there = room(target)
        if there == here or there in {"A": "", "C": "SA", "R": "SA"}.get(here, "S"):
            return True
        return here == "C" and target in NAMES
    libraries = {
        "S": set(),
        "A": {"numpy", "scipy", "statsmodels"},
        "W": {"torch", "torchvision", "psutil"},
        "C": LIGHT,
        "R": DATA,
    }
    return top in libraries[here]


@pytest.mark.parametrize("file", files())
def test_walls(file: str) -> None:
    source = module_name(file)
    wrong = [target for target in imports(ROOT / file) if not allowed(source, target)]
    assert not wrong, f"{source} ({room(source)}) must not import {', '.join(wrong)}"


def test_the_walls_can_be_hit() -> None:
    assert not allowed("bench.controller", "torch")
    assert not allowed("bench.case", "psutil")
    assert not allowed("reports.load", "bench.controller")
    assert not allowed("bench.worker.loop", "bench.controller")
    assert allowed("bench.worker.loop", "bench.precision")


def test_arithmetic_is_for_those_who_judge() -> None:
    for judge in ("conftest", "bench.session", "reports.stats"):
        assert allowed(judge, "bench.paired")
    for measured in ("bench.worker.loop", "models.sleep", "bench.case", "bench.precision"):
        assert not allowed(measured, "bench.paired")
    assert allowed("bench.paired", "statsmodels.stats.multitest")
    assert allowed("bench.paired", "bench.student")
    for beyond in ("torch", "pandas", "pytest", "bench.controller", "bench.case", "reports.stats"):
        assert not allowed("bench.paired", beyond)


@pytest.mark.parametrize("statement", ["import conftest", "import reports.__main__"])
def test_neither_the_controller_nor_the_reports_import_torch(statement: str) -> None:
    code = f"import sys; {statement}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_packages_begin_empty() -> None:
    for package in ("bench", "bench/worker", "models", "reports"):
        assert (ROOT / package / "__init__.py").read_text() == ""
