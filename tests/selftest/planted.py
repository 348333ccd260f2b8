"""The `sleep` model of 60 ms a step, 5 % slower under an interpreter that is told so."""

from __future__ import annotations

import os

from torch import Tensor, nn

from models.sleep import sleep_model

SLOWER = "LOCKSTEP_SELFTEST_SLOWER"
_TIMES = float(os.environ.get(SLOWER, "1"))
_MODEL = sleep_model(f"sleep:layers=4:forward_ms={5 * _TIMES}:backward_ms={10 * _TIMES}")


def build() -> nn.Module:
    return _MODEL.build()


def batch(n: int, rank: int, step: int) -> tuple[tuple[Tensor, ...], Tensor]:
    args, target = _MODEL.batch(n, rank, step)
    return args, target


def loss(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.mse_loss(output, target)
