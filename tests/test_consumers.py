"""What other services read of our files, on a file that a sweep has written and on its export.

Neither has its parser in a package registry, so these are the fields that each is known to need:

- github-action-benchmark, ``tool: pytest`` (src/extract.ts at c38cce9): a list of benchmarks that
  is not empty, and of each ``fullname`` and ``stats.ops``, ``stddev``, ``mean`` and ``rounds``. A
  benchmark is found in an earlier run by its ``fullname``; more ``ops`` is better.
- bencher, ``python_pytest`` (lib/bencher_adapter/src/adapters/python/pytest.rs at 8d75325):
  ``machine_info`` and ``commit_info`` are objects, and of each benchmark ``fullname``, not empty
  and at most 1,024 bytes, and ``stats.mean``, ``stddev``, ``median`` and ``iqr``. One value that is
  no number, and nothing of the file is read.

Both refuse what is not strictly JSON.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.sweeps import ROOT, SHORT, sweep

LONGEST_NAME = 1024
CASES = ["single-mlp-w1-b8", "ddp-mlp-w2-b8"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ran = sweep(
        tmp_path_factory.mktemp("consumers"),
        *(*SHORT, "--launches", "2", "--axis", "model=mlp", "--axis", "strategy=single,ddp"),
        *("--axis", "world_size=1,2", "--axis", "batch_size=8", "--axis", "scaling=weak"),
        *("-k", f"test_scaling and ({CASES[0]} or {CASES[1]})"),
    )
    assert ran.status == 0, ran.output
    return ran.json_path


@pytest.fixture(scope="module")
def launches(measured: Path) -> Path:
    path = measured.with_name("launches.json")
    subprocess.run(
        [sys.executable, "-m", "reports", "export", str(measured), "--per-launch", str(path)],
        cwd=ROOT,
        check=True,
    )
    return path


@pytest.fixture(params=["measured", "launches"])
def file(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The whole file, as a parser reads it that knows no NaN."""
    text = request.getfixturevalue(request.param).read_text(encoding="utf-8")
    return dict(json.loads(text, parse_constant=_refuse))


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def test_github_action_benchmark_finds_its_fields(file: dict[str, Any]) -> None:
    names = [bench["fullname"] for bench in file["benchmarks"]]
    assert names == [f"bench/test_scaling.py::test_scaling[{id}]" for id in CASES]
    for bench in file["benchmarks"]:
        stats = bench["stats"]
        assert all(is_number(stats[name]) for name in ("ops", "stddev", "mean", "rounds"))
        # Its value is a rate; the median step of the slowest rank cannot be had from it.
        assert stats["ops"] == pytest.approx(1 / stats["mean"])
        assert stats["rounds"] == len(stats["data"])


def test_bencher_finds_its_fields(file: dict[str, Any]) -> None:
    assert isinstance(file["machine_info"], dict) and isinstance(file["commit_info"], dict)
    assert file["benchmarks"]
    for bench in file["benchmarks"]:
        assert 0 < len(bench["fullname"].encode()) <= LONGEST_NAME
        stats = bench["stats"]
        assert all(is_number(stats[name]) for name in ("mean", "stddev", "median", "iqr"))
        assert stats["median"] > 0


def test_the_export_has_the_same_names_and_launches_for_rounds(
    measured: Path, launches: Path
) -> None:
    steps, rounds = (json.loads(path.read_text())["benchmarks"] for path in (measured, launches))
    assert [one["fullname"] for one in rounds] == [one["fullname"] for one in steps]
    for of_steps, of_launches in zip(steps, rounds, strict=True):
        stated = [one["median_step_s"] for one in of_steps["extra_info"]["result"]["launches"]]
        assert of_launches["stats"]["data"] == stated and len(stated) == 2
        assert of_steps["stats"]["rounds"] > 2
