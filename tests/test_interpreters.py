"""Interpreters: how they are named, what is asked of them, the cells laid out for them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bench import interpreters
from bench.interpreters import ask, facts, lay_out, parse
from bench.launch import LaunchError
from bench.matrix import Facts, MatrixError, why_not
from bench.worker.probe import build


def test_an_interpreter_is_named_by_its_label(tmp_path: Path) -> None:
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").touch()
    found = parse(["old=/a/bin/python", f"new={tmp_path}/venv", "nightly_2.15=python3.12"])
    assert found == {
        "old": "/a/bin/python",
        "new": str(folder / "python"),  # the folder of a virtual environment will do
        "nightly_2.15": "python3.12",
    }
    assert list(found) == ["old", "new", "nightly_2.15"]  # the first is what others stand against


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A virtual environment's python is a link to one that knows nothing of its packages."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert parse([f"a={link}"]) == {"a": str(link)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["/venv/bin/python"], "write LABEL=PYTHON, as in --torch old=/venvs/old/bin/python"),
        (["old="], "write LABEL=PYTHON"),
        (["=python"], "a label has letters"),
        (["a b=python"], "a label has letters"),
        (["a-b=python"], "a label has letters"),
        (["a=python", "a=python3"], "--torch a is given twice"),
        (["a=/tmp"], "there is no /tmp/bin/python"),
    ],
)
def test_what_is_refused(options: list[str], message: str) -> None:
    with pytest.raises(ValueError, match="torch") as refused:
        parse(options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def about(**changes: Any) -> dict[str, Any]:
    return {
        "torch": "2.14.1",
        "gpus": [],
        "backends": ["gloo"],
        "torchvision": "0.29.1",
        "models": {},
        "problem": None,
    } | changes


def test_whose_fault_it_is_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"m.py": {"problem": "m.py has no build()", "ddp_kw": {}}}
    answers = {
        "/none": about(torch=None, problem="torch cannot be imported"),
        "/model": about(models=broken),
    }

    def probe(python: str, models: object) -> dict[str, Any]:
        if python not in answers:
            raise LaunchError(f"cannot start {python}: No such file or directory")
        return answers[python]

    monkeypatch.setattr(interpreters, "probe", probe)
    for python, message in (
        ("/gone", "--torch x: cannot start /gone: No such file or directory"),
        ("/none", "--torch x: /none: torch cannot be imported; install torch for it"),
        ("/model", "--torch x: m.py has no build() (model m.py)"),
    ):
        with pytest.raises(MatrixError) as refused:
            ask({"x": python}, [])
        assert str(refused.value) == message
    with pytest.raises(MatrixError) as refused:
        ask({"": "/gone"}, [])
    assert str(refused.value) == "cannot start /gone: No such file or directory"


GROUPS = {"scaling": [{"strategy": ["single", "ddp"], "world_size": ["auto"]}]}


def test_a_cell_stands_beside_the_same_of_another_interpreter() -> None:
    both = {"old": Facts(cores=2), "new": Facts(cores=2)}
    cells = lay_out(GROUPS, {}, both)["scaling"]
    assert [case.id for case in cells] == [
        *("single-mlp-w1-torch_old", "single-mlp-w1-torch_new"),
        *("ddp-mlp-w1-torch_old", "ddp-mlp-w1-torch_new"),
        *("ddp-mlp-w2-torch_old", "ddp-mlp-w2-torch_new"),
    ]
    alone = lay_out(GROUPS, {}, {"": Facts(cores=2)})["scaling"]
    assert [case.id for case in alone] == ["single-mlp-w1", "ddp-mlp-w1", "ddp-mlp-w2"]


def test_auto_is_the_same_for_all() -> None:
    both = {"cpu": Facts(cores=2), "cu": Facts(cores=2, gpus=8, backends=("gloo", "nccl"))}
    cells = lay_out(GROUPS, {}, both)["scaling"]
    assert {case.device for case in cells} == {"cpu"}
    assert {case.world_size for case in cells} == {1, 2}
    asked = lay_out(GROUPS, {"device": ["cuda"]}, both)["scaling"]
    # What is asked for by name is laid out for all, and skipped where it cannot run.
    assert {why_not(case, both[case.torch]) for case in asked if case.torch == "cpu"} == {
        "needs 1 GPU, found 0"
    }
    assert {why_not(case, both[case.torch]) for case in asked if case.torch == "cu"} == {None}


def test_an_axis_may_pick_interpreters() -> None:
    both = {"old": Facts(cores=2), "new": Facts(cores=2)}
    cells = lay_out(GROUPS, {"torch": ["new"]}, both)["scaling"]
    assert {case.torch for case in cells} == {"new"}
    with pytest.raises(MatrixError, match="did you mean 'new'"):
        lay_out(GROUPS, {"torch": ["nwe"]}, both)
    with pytest.raises(MatrixError, match="name it with --torch new2=PYTHON"):
        lay_out(GROUPS, {"torch": ["new2"]}, {"": Facts(cores=2)})


def test_what_a_model_asks_of_ddp_is_each_interpreters_own() -> None:
    asks = {"mlp": {"ddp_kw": {"static_graph": True}}}
    found = facts({"old": about(), "new": about(models=asks)}, 2)
    cells = lay_out({"scaling": [{"model": ["mlp"], "strategy": ["ddp"]}]}, {}, found)
    assert {case.torch: case.static_graph for case in cells["scaling"]} == {
        "old": False,
        "new": True,
    }


MKL = """PyTorch built with:
  - GCC 13.3
  - C++ Version: 202002
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64
  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71049cd69a3df32adcccb623b12cd7baa22)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - CPU capability usage: AVX512
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release
"""


def test_what_a_build_is_made_of() -> None:
    assert build(MKL) == {
        "compiler": "GCC 13.3",
        "blas": "Intel(R) oneAPI Math Kernel Library Version 2024.2",
        "onednn": "v3.12.0",
        "openmp": "201511",
        "cpu_capability": "AVX512",
    }
    other = build("  - Build settings: BLAS_INFO=open, USE_MKL=OFF")
    assert other["blas"] == "open"
    assert other["compiler"] is None
    assert set(build("").values()) == {None}
