"""`resnet18`, `resnet50` and any classification model of torchvision: `torchvision:NAME`.

Random weights, 1000 classes, images of 3x224x224 (inception_v3: 3x299x299); `NAME@64` makes
the images 3x64x64. torchvision is imported when the first of these models is loaded.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from bench.nearest import nearest
from models.model import Model, image_batch
from models.names import split_size

CLASSES = 1000
SIDE = 224
_SIDES = {"inception_v3": 299}  # its auxiliary head needs the size that it was made for
_AUXILIARY = ("googlenet", "inception_v3")


def vision(name: str) -> Model:
    """The torchvision model of that name.

    ValueError: torchvision cannot be imported or has no classification model of that name.
    """
    base, side_text = split_size(name)
    short = base.partition(":")[2] or base
    models = _torchvision_models(name)
    known = models.list_models(module=models)
    if short not in known:
        near = nearest(short, known)
        hint = f"; did you mean 'torchvision:{near}'?" if near else ""
        raise ValueError(f"torchvision has no classification model {short!r}{hint}")
    side = int(side_text) if side_text else _SIDES.get(short, SIDE)
    shape = (3, side, side)
    return Model(
        name=name,
        build=functools.partial(_build, short, side),
        batch=image_batch(shape, CLASSES),
        loss=_loss,
        input_shape=shape,
        classes=CLASSES,
    )


def _torchvision_models(name: str) -> ModuleType:
    try:
        import torchvision.models
    except (ImportError, RuntimeError) as error:  # RuntimeError: made for another torch
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"model {name!r} needs torchvision; importing it: {reason}") from error
    found: ModuleType = torchvision.models
    return found


def _build(short: str, side: int) -> nn.Module:
    extra: dict[str, Any] = {}
    if short.startswith("vit_"):
        extra["image_size"] = side
    elif short.startswith("maxvit_"):
        extra["input_size"] = (side, side)
    elif short in _AUXILIARY:
        extra["init_weights"] = True  # the default, but leaving it out prints a warning
    module: nn.Module = _torchvision_models(short).get_model(short, weights=None, **extra)
    return module


def _loss(output: Any, target: Tensor) -> Tensor:
    """Cross entropy; auxiliary heads count 0.3 each, so that every parameter has a gradient."""
    if isinstance(output, Tensor):
        return nn.functional.cross_entropy(output, target)
    main, *others = (
        nn.functional.cross_entropy(head, target) for head in output if head is not None
    )
    return main + 0.3 * sum(others, start=main.new_zeros(()))
