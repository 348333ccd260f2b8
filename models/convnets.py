"""Small convolutional nets: `cifar_cnn`, `conv_fc`, `conv_small`; 10 classes each."""

from __future__ import annotations

from torch import nn

from models.model import Model, image_batch

CLASSES = 10


def cifar_cnn() -> nn.Module:
    """(n, 3, 32, 32) -> (n, 10), 183,242 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 16 * 16, CLASSES),
    )


def conv_fc() -> nn.Module:
    """(n, 3, 14, 14) -> (n, 10), 3,355,274 parameters, nearly all in one Linear layer.

    There is no activation between the layers: the recipe is about one large gradient.
    """
    return nn.Sequential(
        nn.Conv2d(3, 64, 3),
        nn.Conv2d(64, 128, 3),
        nn.Flatten(),
        nn.Linear(128 * 10 * 10, 256),
        nn.Linear(256, CLASSES),
    )


def conv_small() -> nn.Module:
    """(n, 3, 5, 5) -> (n, 10), 39,370 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 3),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


_NETS = {"cifar_cnn": (cifar_cnn, 32), "conv_fc": (conv_fc, 14), "conv_small": (conv_small, 5)}


def convnet(name: str) -> Model:
    """The net of that name."""
    build, side = _NETS[name]
    shape = (3, side, side)
    batch = image_batch(shape, CLASSES)
    return Model(name=name, build=build, batch=batch, input_shape=shape, classes=CLASSES)
