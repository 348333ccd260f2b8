"""From a model's name to the model. Importing this file imports no torch; `load` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.names import check_name, is_file, is_module, names

if TYPE_CHECKING:
    from models.model import Model

__all__ = ["check_name", "load", "names"]


def load(name: str) -> Model:
    """The model of that name; models/names.py says which names there are.

    ValueError: there is no such model, its options are wrong, torchvision is needed and cannot
    be imported, or one's own module does not hold what it must. One line, for people.
    """
    problem = check_name(name)
    if problem is not None:
        raise ValueError(problem)
    # Each family is imported only when asked for: a rank that measures an mlp should not pay
    # for torchvision.
    if is_file(name) or is_module(name):
        from models.user import load_user

        return load_user(name)
    if name == "mlp":
        from models.mlp import mlp

        return mlp()
    if name in ("cifar_cnn", "conv_fc", "conv_small"):
        from models.convnets import convnet

        return convnet(name)
    if name.startswith("transformer-"):
        from models.transformer import transformer

        return transformer(name)
    if name.partition(":")[0] == "sleep":
        from models.sleep import sleep_model

        return sleep_model(name)
    from models.vision import vision

    return vision(name)
