"""A model of one's own: `path/to/file.py` or `package.module`.

The module holds

    build() -> nn.Module
    batch(n, rank, step) -> (args, target)   # args is a tuple: model(*args)
    loss(output, target) -> scalar Tensor

and, if it wants,

    DDP_KW = dict(find_unused_parameters=True)   # arguments for DistributedDataParallel
    def step_fn(model, args, target): ...        # forward and backward in place of loss; it finds
                                                 # the gradients of the step before set to zero
    def optimizer(parameters): ...               # in place of SGD, lr 0.01, momentum 0.9

`batch` is called with torch's CPU generator seeded from (seed, rank, step), which makes
torch.randn and its like repeatable; other sources of chance are the module's own affair.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.nearest import nearest
from models.model import Batch, Model, batch_seed, sgd
from models.names import is_file

_NEEDED = {"build": (), "batch": ("n", "rank", "step"), "loss": ("output", "target")}
_OPTIONAL = {"step_fn": ("model", "args", "target"), "optimizer": ("parameters",)}


def load_user(name: str) -> Model:
    """The model of one's own module.

    ValueError, in one line: the module cannot be imported, lacks a function, has one with other
    arguments, or its DDP_KW holds what DistributedDataParallel does not take.
    """
    module = _import(name)
    functions = {key: _function(name, module, key) for key in _NEEDED}
    for key in _OPTIONAL:
        if getattr(module, key, None) is not None:
            functions[key] = _function(name, module, key)
    return Model(
        name=name,
        build=functools.partial(_build, name, functions["build"]),
        batch=functools.partial(_batch, name, functions["batch"]),
        loss=functions["loss"],
        optimizer=functions.get("optimizer", sgd),
        ddp_kw=_ddp_kw(name, module),
        step_fn=functions.get("step_fn"),
    )


def _import(name: str) -> ModuleType:
    try:
        return _import_file(Path(name)) if is_file(name) else importlib.import_module(name)
    except Exception as error:  # whatever the user's module raises is about that module
        reason = (str(error).splitlines() or [""])[0]
        problem = f"importing model {name!r} failed: {type(error).__name__}: {reason}"
        raise ValueError(problem) from error


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    spec = importlib.util.spec_from_file_location(f"lockstep_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    folder = os.fspath(path.parent)
    if folder not in sys.path:  # a model file may import its neighbours, but never hide ours
        sys.path.append(folder)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _function(name: str, module: ModuleType, key: str) -> Callable[..., Any]:
    arguments = {**_NEEDED, **_OPTIONAL}[key]
    form = f"{key}({', '.join(arguments)})"
    if not hasattr(module, key):
        near = nearest(key, (other for other in vars(module) if callable(getattr(module, other))))
        hint = f"; is {near!r} meant to be it?" if near else ""
        raise ValueError(f"model {name!r} has no function {form}{hint}")
    function = getattr(module, key)
    if not callable(function):
        raise ValueError(f"model {name!r}: {key} is {type(function).__name__}, not {form}")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise ValueError(f"model {name!r}: {key} is called as {form}: {error}") from None
    except ValueError:  # a callable in C tells no signature
        pass
    return function  # type: ignore[no-any-return]


def _ddp_kw(name: str, module: ModuleType) -> dict[str, Any]:
    given = getattr(module, "DDP_KW", {})
    if not isinstance(given, dict):
        raise ValueError(f"model {name!r}: DDP_KW is {type(given).__name__}, not a dict")
    taken = [
        key for key in inspect.signature(DistributedDataParallel).parameters if key != "module"
    ]
    for key in given:
        if key not in taken:
            near = nearest(str(key), taken)
            hint = f"; did you mean {near!r}?" if near else ""
            problem = f"DistributedDataParallel takes no {key!r}{hint}"
            raise ValueError(f"model {name!r}: DDP_KW: {problem}")
    return dict(given)


def _build(name: str, build: Callable[[], Any]) -> nn.Module:
    module = build()
    if not isinstance(module, nn.Module):
        raise ValueError(f"model {name!r}: build() gave {type(module).__name__}, not an nn.Module")
    return module


def _batch(
    name: str,
    batch: Callable[[int, int, int], Any],
    n: int,
    rank: int = 0,
    step: int = 0,
    seed: int = 0,
) -> Batch:
    with torch.random.fork_rng(devices=[]):  # the training's own random numbers stay untouched
        torch.default_generator.manual_seed(batch_seed(seed, rank, step))
        made = batch(n, rank, step)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], (tuple, list))):
        raise ValueError(
            f"model {name!r}: batch(n, rank, step) gave {_describe(made)};"
            " it gives (args, target), args a tuple"
        )
    args, target = made
    return tuple(args), target


def _describe(made: Any) -> str:
    if not isinstance(made, tuple):
        return type(made).__name__
    return f"({', '.join(type(part).__name__ for part in made)})"
