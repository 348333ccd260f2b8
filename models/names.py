"""The names of models, without torch: the controller checks a name before any rank is started.

A model is named by one of

- a name of `names()`, for example `mlp` or `transformer-s`;
- `torchvision:NAME`, any classification model of torchvision;
- `resnet18@64`, `torchvision:NAME@64`: the same with images of 3x64x64 instead of 3x224x224;
- `sleep:layers=4,forward_ms=5`, the options of models/sleep_options.py;
- `path/to/file.py` or `package.module`, one's own module (models/user.py says what it holds).

Only the standard library is imported here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from bench.nearest import nearest
from models.sleep_options import SleepOptions

_PLAIN = (
    "mlp",
    "cifar_cnn",
    "conv_fc",
    "conv_small",
    "transformer-s",
    "transformer-m",
    "sleep",
)
_SIZED = ("resnet18", "resnet50")  # these and torchvision:NAME take @SIZE
_TORCHVISION = "torchvision:"
_SLEEP = "sleep:"


def names() -> list[str]:
    """The models known by a plain name."""
    return [*_PLAIN[:4], *_SIZED, *_PLAIN[4:]]


def check_name(name: str) -> str | None:
    """None if `load(name)` may work, otherwise one sentence that says why it cannot.

    What needs torchvision or the user's module to be imported is left to `load`: whether
    torchvision has a model of that name, and whether a module holds what it must.
    """
    if is_file(name):
        return _check_file(Path(name))
    base, side = split_size(name)
    if base.startswith(_TORCHVISION) or base in _SIZED:
        if side is not None and not re.fullmatch(r"[1-9]\d{0,4}", side):
            return f"model {name!r}: the image side after '@' is a whole number of pixels above 0"
        if base == _TORCHVISION:
            return f"model {name!r}: name a model of torchvision, as in 'torchvision:resnet18'"
        return None
    if side is not None:
        sized = f"{', '.join(_SIZED)} and torchvision:NAME"
        return f"unknown model {name!r}: only {sized} take an image side after '@'"
    if name.startswith(_SLEEP):
        try:
            SleepOptions.from_name(name)
        except ValueError as error:
            return str(error)
        return None
    if name in _PLAIN or is_module(name):
        return None
    near = nearest(name, names())
    if near is not None:
        return f"unknown model {name!r}; did you mean {near!r}?"
    forms = "torchvision:NAME, path/to/file.py, package.module"
    return f"unknown model {name!r}; known are {', '.join(names())}, {forms}"


def is_file(name: str) -> bool:
    """Whether the name means a file of one's own (it need not exist)."""
    return name.endswith(".py") or "/" in name or os.sep in name


def is_module(name: str) -> bool:
    """Whether the name has the form `package.module`."""
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def split_size(name: str) -> tuple[str, str | None]:
    """`resnet18@64` -> (`resnet18`, `64`); without a size the second is None."""
    base, at, side = name.partition("@")
    return base, side if at else None


def _check_file(path: Path) -> str | None:
    if path.suffix != ".py":
        return f"model {str(path)!r}: a model file's name ends in .py"
    if path.is_file():
        return None
    folder = path.parent
    if not folder.is_dir():
        return f"model {str(path)!r}: there is no folder {str(folder)!r}"
    near = nearest(path.name, (entry.name for entry in folder.glob("*.py")))
    hint = f"; did you mean {str(folder / near)!r}?" if near else ""
    return f"model {str(path)!r}: there is no such file{hint}"
