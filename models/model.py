"""What the worker needs to know of a model, and the random samples that models share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

Batch = tuple[tuple[Any, ...], Any]
"""(args, target): the model is called as `model(*args)`, the loss as `loss(output, target)`."""

StepFunction = Callable[[Callable[..., Any], tuple[Any, ...], Any], Any]
"""(model, args, target): one forward and backward in place of `loss(...).backward()`."""


class BatchFunction(Protocol):
    """Makes a batch of `n` samples on the CPU.

    The same (n, rank, step, seed) gives the same batch in any process, so that one rank can
    make every rank's batch again.
    """

    def __call__(self, n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Batch: ...


CROSS_ENTROPY = nn.CrossEntropyLoss()
"""The loss of models that bring none: (n, classes) logits, (n,) int64 classes -> scalar."""


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of models that bring none: SGD, lr 0.01, momentum 0.9."""
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


class CommHook(Protocol):
    """A communication hook of DDP: begins to reduce a bucket (torch.distributed.GradBucket) over
    all ranks, and gives the future of the averaged flat tensor."""

    def __call__(self, bucket: Any) -> torch.futures.Future[Tensor]: ...


@dataclass(frozen=True)
class Model:
    """One model to measure.

    build: makes the module on the CPU; equal weights on all ranks need equal global seeds.
    input_shape: (channels, height, width) where the input is one image per sample, else None.
    classes: how many classes the images have; None exactly where input_shape is.
    dataset: makes the model's own fixed set of samples (x, target), where it has one.
    comm_hook: makes what reduces the buckets under DDP in place of its own all-reduce.
    ddp_kw: arguments for DistributedDataParallel that the model asks for.
    """

    name: str
    build: Callable[[], nn.Module]
    batch: BatchFunction
    loss: Callable[[Any, Any], Tensor] = CROSS_ENTROPY
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = sgd
    ddp_kw: Mapping[str, Any] = field(default_factory=dict)
    step_fn: StepFunction | None = None
    input_shape: tuple[int, ...] | None = None
    classes: int | None = None
    dataset: Callable[[], Dataset[Any]] | None = None
    comm_hook: Callable[[], CommHook] | None = None


def batch_seed(seed: int, rank: int, step: int) -> int:
    """One seed for torch out of three numbers; unlike a sum, (1, 0) and (0, 1) differ."""
    digest = hashlib.blake2b(f"{seed} {rank} {step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1  # 63 bits: every generator takes it


def batch_generator(seed: int, rank: int, step: int) -> torch.Generator:
    """A CPU generator for one rank's batch of one step."""
    return torch.Generator().manual_seed(batch_seed(seed, rank, step))


def image_batch(shape: tuple[int, ...], classes: int) -> BatchFunction:
    """Batches of normal random images of `shape`, float32, with random classes, int64."""

    def batch(n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Batch:
        generator = batch_generator(seed, rank, step)
        images = torch.randn(n, *shape, generator=generator)
        return (images,), torch.randint(0, classes, (n,), generator=generator)

    return batch
