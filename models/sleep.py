"""`sleep`: layers that wait a known time and hold known parameter bytes; the known answer.

A layer waits on the CPU, in forward and in the backward of a torch.autograd.Function of its
own, and gives up its parameter's gradient only after its wait. So a step of one process takes
layers * (forward_ms + backward_ms) and little more, and DDP can reduce the gradient of a layer
while the layers before it still wait; over a virtual link of known rate (models/virtual_link.py)
where one is asked for. In a profiler's trace the waits are the `cpu_op` ranges
`Sleep` and `SleepBackward`. A wait occupies no core but for its last fraction of a millisecond.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from models.model import Batch, Model, batch_generator
from models.sleep_options import SleepOptions
from models.virtual_link import VirtualLink
from models.waiting import wait_until


class Sleep(torch.autograd.Function):
    """x, weight -> x + scale * sum(weight), in the asked time; (n, 1) -> (n, 1).

    A real function of the weights with a dense gradient, so that checks of parameters and
    gradients mean something here too.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, scale: float, forward_s: float, backward_s: float
    ) -> Tensor:
        deadline_s = time.perf_counter() + forward_s
        ctx.elements, ctx.scale, ctx.backward_s = weight.numel(), scale, backward_s
        output = x + scale * weight.sum()
        wait_until(deadline_s)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        deadline_s = time.perf_counter() + ctx.backward_s
        (gradient,) = gradients
        weight_gradient = (ctx.scale * gradient.sum()).expand(ctx.elements).contiguous()
        wait_until(deadline_s)
        return gradient, weight_gradient, None, None, None


class SleepLayer(nn.Module):
    """One layer: (n, 1) -> (n, 1), one parameter of `options.layer_elements` float32."""

    def __init__(self, options: SleepOptions) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(options.layer_elements).uniform_(-1, 1))
        # Keeps the loss's curvature at 2 whatever the sizes: training stays finite.
        self.scale = (options.layers * options.layer_elements) ** -0.5
        self.forward_s = options.forward_ms / 1e3
        self.backward_s = options.backward_ms / 1e3

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = Sleep.apply(x, self.weight, self.scale, self.forward_s, self.backward_s)
        return output


class SleepModel(nn.Module):
    """(n, 1) -> (n, 1). On `options.late_rank` every forward starts `late_ms` late."""

    def __init__(self, options: SleepOptions) -> None:
        super().__init__()
        self.options = options
        self.layers = nn.Sequential(*(SleepLayer(options) for _ in range(options.layers)))

    def forward(self, x: Tensor) -> Tensor:
        if self.options.late_rank == _rank():
            wait_until(time.perf_counter() + self.options.late_ms / 1e3)
        output: Tensor = self.layers(x)
        return output


def sleep_model(name: str) -> Model:
    """The model of `sleep` or `sleep:KEY=VALUE,...`. ValueError: an option is wrong."""
    options = SleepOptions.from_name(name)
    build = functools.partial(SleepModel, options)
    return Model(
        name=name,
        build=build,
        batch=_batch,
        loss=nn.functional.mse_loss,
        comm_hook=functools.partial(VirtualLink, options) if options.link_mbit else None,
    )


def _batch(n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Batch:
    generator = batch_generator(seed, rank, step)
    x = torch.randn(n, 1, generator=generator)
    return (x,), torch.randn(n, 1, generator=generator)


def _rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
