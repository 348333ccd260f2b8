"""`mlp`: the smallest model, 67 parameters; its step is all overhead."""

from __future__ import annotations

import functools

import torch
from torch import nn
from torch.utils.data import TensorDataset

from models.model import Batch, Model, batch_generator

SAMPLES = 100


def mlp() -> Model:
    """Linear 10->5, ReLU, Linear 5->2 on a fixed set of 100 random samples."""
    return Model(name="mlp", build=build, batch=batch, dataset=samples)


def build() -> nn.Module:
    """(n, 10) -> (n, 2)."""
    return nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 2))


@functools.cache
def samples() -> TensorDataset:
    """100 samples (x of 10 float32, class 0 or 1), the same in every run."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, 10, generator=generator)
    return TensorDataset(x, torch.randint(0, 2, (SAMPLES,), generator=generator))


def batch(n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Batch:
    """`n` of the 100 samples, drawn with replacement: n may be more than 100."""
    chosen = torch.randint(0, SAMPLES, (n,), generator=batch_generator(seed, rank, step))
    x, target = samples().tensors
    return (x[chosen],), target[chosen]
