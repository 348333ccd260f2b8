"""The bucket rule against torch's own, and by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from bench.case import Case
from bench.ddp_buckets import MIB, bucket_bytes, buckets, caps_bytes
from bench.worker.device import CpuDevice
from bench.worker.strategies import buckets as torch_says
from bench.worker.strategies import wrap

CAPS = (0.1, 1, 5, 25, None)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/store")
    yield
    dist.destroy_process_group()


def test_a_bucket_ends_with_the_gradient_that_fills_it() -> None:
    mib = [MIB // 2, MIB, MIB // 4, 30 * MIB, MIB]
    assert buckets(mib, None) == [[0, 1], [2, 3], [4]]  # 1 MiB first, then 25
    assert buckets(mib, 25) == [[0, 1, 2, 3], [4]]  # a given cap holds for the first bucket too
    assert buckets(mib, 1) == [[0, 1], [2, 3], [4]]
    assert buckets(mib, 0.1) == [[0], [1], [2], [3], [4]]
    assert bucket_bytes(mib, buckets(mib, 25)) == [mib[0] + mib[1] + mib[2] + mib[3], MIB]
    assert caps_bytes(None) == (MIB, 25 * MIB)


def test_gradients_of_two_types_share_no_bucket_and_each_type_has_a_first_one() -> None:
    sizes, dtypes = [MIB, MIB, MIB, MIB], ["float32", "bfloat16", "float32", "bfloat16"]
    assert buckets(sizes, None, dtypes) == [[0], [1], [2], [3]]
    assert buckets(sizes, 2, dtypes) == [[0, 2], [1, 3]]


@pytest.mark.parametrize("cap", CAPS)
def test_the_rule_is_torchs(cap: float | None) -> None:
    drawn = random.Random(7)
    elements = [drawn.choice((10, 3_000, 70_000, 400_000, 2_000_000)) for _ in range(60)]
    kinds = [drawn.choice((torch.float32, torch.bfloat16)) for _ in elements]
    tensors = [torch.empty(n, dtype=kind) for n, kind in zip(elements, kinds, strict=True)]
    limits = [*caps_bytes(cap)]
    found, _ = dist._compute_bucket_assignment_by_size(
        tensors, limits, [False] * len(tensors), list(range(len(tensors)))
    )
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    ours = buckets(sizes, cap, [str(kind) for kind in kinds])
    assert sorted(ours) == sorted(found)
    assert ours[: len(found) - 2] == found[:-2]  # torch's order of what was left open is a hash's


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cap", CAPS)
def test_the_rule_is_that_of_a_real_ddp(cap: float | None) -> None:
    """From the last layer to the first, 0.25 to 4 MiB each."""
    widths = [1024, 1024, 512, 512, 256, 1024, 64]
    module = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(widths)))
    wrapped = wrap(module, Case(bucket_cap_mb=cap), CpuDevice(), {})
    assert wrapped.ddp is not None
    for _ in range(3):
        wrapped.forward(torch.randn(2, widths[0])).sum().backward()
    said = torch_says(wrapped.ddp)
    assert said is not None
    order = [index for bucket in said["rebuilt_parameters"] for index in bucket]
    parameters = list(module.parameters())
    sizes = [4 * parameters[index].numel() for index in order]
    assert bucket_bytes(sizes, buckets(sizes, cap)) == said["rebuilt_bytes"]
