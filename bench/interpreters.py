"""The interpreters a sweep drives: their names, what each has, the cells laid out for them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.case import Case
from bench.launch import LaunchError, probe
from bench.matrix import Axes, Facts, MatrixError, cases
from bench.nearest import did_you_mean

#: A label becomes part of a case's id.
_LABEL = re.compile(r"[A-Za-z0-9][\w.+]*")


def parse(options: Iterable[str]) -> dict[str, str]:
    """``LABEL=PYTHON`` as typed to the interpreter by its label, in the order given.

    PYTHON may also be the folder of a virtual environment. Raises ValueError, in one line.
    """
    found: dict[str, str] = {}
    for option in options:
        label, equals, python = option.partition("=")
        if not equals or not python:
            raise ValueError(
                f"--torch {option}: write LABEL=PYTHON, as in --torch old=/venvs/old/bin/python"
            )
        if not _LABEL.fullmatch(label):
            raise ValueError(
                f"--torch {option}: a label has letters, digits, dots and underscores only, and "
                "begins with a letter or a digit"
            )
        if label in found:
            raise ValueError(
                f"--torch {label} is given twice; each interpreter needs its own label"
            )
        path = Path(python).expanduser()
        if path.is_dir():
            inside = path / "bin" / "python"
            if not inside.exists():
                raise ValueError(f"--torch {option}: there is no {inside}; name an interpreter")
            path = inside
        # A path without a slash is looked up like a command.
        found[label] = str(path.absolute()) if "/" in python else python
    return found


def ask(pythons: Mapping[str, str], models: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By label: what the interpreter has (see bench/worker/probe.py).

    Raises MatrixError, in one line, for an interpreter without torch and a model it cannot load.
    """
    found = {}
    for label, python in pythons.items():
        which = f"--torch {label}: " if label else ""
        try:
            about = probe(python, models)
        except LaunchError as error:
            raise MatrixError(f"{which}{error}") from None
        check(about, which, python)
        found[label] = about
    return found


def check(about: Mapping[str, Any], which: str, python: str) -> None:
    """Raises MatrixError for an interpreter without torch and a model it cannot load."""
    if about["torch"] is None:
        raise MatrixError(f"{which}{python}: {about['problem']}; install torch for it")
    for name, model in about["models"].items():
        if model["problem"]:
            raise MatrixError(f"{which}{model['problem']} (model {name})")


def facts(found: Mapping[str, Mapping[str, Any]], cores: int) -> dict[str, Facts]:
    """By label: what a cell may ask of the interpreter."""
    return {
        label: Facts(
            cores=cores,
            gpus=len(about["gpus"]),
            backends=tuple(about["backends"]),
            torchvision=about["torchvision"] is not None,
            ddp_kw={name: model["ddp_kw"] for name, model in about["models"].items()},
        )
        for label, about in found.items()
    }


def lay_out(
    groups: Mapping[str, Sequence[Axes]], axes: Axes, of_label: Mapping[str, Facts]
) -> dict[str, list[Case]]:
    """The cells of every interpreter, by benchmark, the same cell of each side by side.

    What "auto" stands for is the same for all, or there were nothing to compare: a build without
    GPUs beside one with them is measured on the CPU. Raises MatrixError.
    """
    labels = [str(label) for label in axes.get("torch", of_label)]
    for label in labels:
        if label not in of_label:
            known = [name for name in of_label if name]
            raise MatrixError(
                f"--axis torch={label}: no interpreter has this label"
                f"{did_you_mean(label, known)}; name it with --torch {label}=PYTHON"
            )
    gpus = min(of_label[label].gpus for label in labels)
    laid_out = [
        cases(
            groups,
            {**axes, "torch": [label]},
            dataclasses.replace(of_label[label], gpus=gpus),
        )
        for label in labels
    ]
    return {
        benchmark: [
            case
            for of_all in itertools.zip_longest(*(cells[benchmark] for cells in laid_out))
            for case in of_all
            if case is not None
        ]
        for benchmark in laid_out[0]
    }
