from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from bench.case import Case
from bench.worker.device import CpuDevice, device_for
from bench.worker.strategies import (
    NOT_PARALLEL,
    InvalidCase,
    Wrapped,
    buckets,
    bytes_of,
    initialise_lazy,
    silence,
    software,
    trainable,
    wrap,
)


@pytest.mark.parametrize(
    ("batch_size", "devices", "sizes"),
    [
        (9, 8, [2, 2, 2, 2, 1]),
        (10, 8, [2] * 5),
        (8, 8, [1] * 8),
        (16, 8, [2] * 8),
        (3, 8, [1] * 3),
    ],
)
def test_dataparallel_uses_as_many_replicas_as_there_are_pieces(
    batch_size: int, devices: int, sizes: list[int]
) -> None:
    """A26."""
    module = nn.Linear(2, 2)
    assert Wrapped(module, module, replicas=devices).replicas_used(batch_size) == len(sizes)
    pieces = torch.zeros(batch_size).chunk(devices)  # which is what scatter does
    assert [len(piece) for piece in pieces] == sizes


def test_dataparallel_on_a_cpu_is_labelled() -> None:
    wrapped = wrap(nn.Linear(2, 2), Case(strategy="dp"), CpuDevice(), {})
    assert wrapped.label == NOT_PARALLEL == "not parallel: plain module"
    assert isinstance(wrapped.forward, nn.DataParallel)
    assert wrapped.replicas == 1


def test_what_dataparallel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """On accelerators: the first so many devices, in the wrapped and in the functional form."""
    asked: list[dict[str, Any]] = []

    def functional(module: nn.Module, args: tuple[Any, ...], **options: Any) -> Any:
        asked.append(options)
        return module(*args)

    monkeypatch.setattr(nn, "DataParallel", lambda module, **options: asked.append(options))
    monkeypatch.setattr(nn.parallel, "data_parallel", functional)
    module, device = nn.Linear(2, 2), FakeCuda()
    wrapped = wrap(module, Case(strategy="dp", device="cuda", world_size=4), device, {})
    assert (wrapped.module, wrapped.replicas, wrapped.label) == (module, 4, None)
    wrapped = wrap(module, Case(strategy="data_parallel", device="cuda", world_size=3), device, {})
    assert (wrapped.module, wrapped.replicas, wrapped.label) == (module, 3, None)
    assert wrapped.forward(torch.zeros(1, 2)).shape == (1, 2)
    assert asked == [{"device_ids": [0, 1, 2, 3]}, {"device_ids": [0, 1, 2]}]


class FakeCuda(CpuDevice):
    kind = "cuda"
    name = "cuda:3"


@pytest.mark.parametrize(
    ("case", "ddp_kw", "told"),
    [
        # What is unset is not said: unset is not 25.
        (Case(), {}, {}),
        (Case(bucket_cap_mb=25), {}, {"bucket_cap_mb": 25}),
        (
            Case(gradient_as_bucket_view=True, broadcast_buffers=False),
            {},
            {"gradient_as_bucket_view": True, "broadcast_buffers": False},
        ),
        # The case's word on its own fields is the last; what is no field of a case passes.
        (
            Case(bucket_cap_mb=1),
            {"bucket_cap_mb": 9, "static_graph": True, "delay_all_reduce_named_params": []},
            {"bucket_cap_mb": 1, "delay_all_reduce_named_params": []},
        ),
    ],
)
def test_what_ddp_is_told(
    monkeypatch: pytest.MonkeyPatch, case: Case, ddp_kw: dict[str, Any], told: dict[str, Any]
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(
        nn.parallel, "DistributedDataParallel", lambda module, **options: asked.append(options)
    )
    module = nn.Linear(2, 2)
    assert wrap(module, case, CpuDevice(), ddp_kw).module is module
    wrap(module, case, FakeCuda(), ddp_kw)
    assert asked == [told, {**told, "device_ids": [3]}]


def test_a_model_with_nothing_to_train_is_invalid_for_ddp() -> None:
    """A02."""
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(InvalidCase, match="the model has no trainable parameter"):
        wrap(frozen, Case(), CpuDevice(), {})
    assert wrap(frozen, Case(strategy="single"), CpuDevice(), {}).module is frozen


def test_gradients_summed_by_hand_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four ranks with equal gradients: the sum is fourfold, the mean what each had."""
    sent: list[int] = []
    monkeypatch.setattr(dist, "broadcast", lambda tensor, src: sent.append(tensor.numel()))
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.mul_(4))
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    module[0].bias.requires_grad_(False)
    wrapped = wrap(module, Case(strategy="all_reduce", world_size=4), CpuDevice(), {})
    assert wrapped.reduce is not None
    # Weights and biases of both layers, then the running mean, variance and count.
    assert sent == [6, 3, 3, 3, 3, 3, 1]
    wrapped.forward(torch.randn(5, 2)).square().sum().backward()
    before = [parameter.grad.clone() for parameter in trainable(module)]
    wrapped.reduce()
    after = [parameter.grad for parameter in trainable(module)]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert module[0].bias.grad is None


def test_one_process_strategies_add_nothing() -> None:
    module = nn.Linear(2, 2)
    wrapped = wrap(module, Case(strategy="single"), CpuDevice(), {})
    assert wrapped.forward is wrapped.module is module
    assert (wrapped.reduce, wrapped.ddp, wrapped.label, wrapped.replicas) == (None, None, None, 1)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process only."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/s", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore")
def test_real_ddp_says_what_its_buckets_are_and_can_be_silenced() -> None:
    """10 -> 20 -> 5: 220 and 105 parameters, one bucket; in two where its cap is small."""
    for cap, sizes in ((25, [1300]), (0.0003, [420, 880])):
        module = nn.Sequential(nn.Linear(10, 20), nn.Linear(20, 5))
        wrapped = wrap(module, Case(bucket_cap_mb=cap), CpuDevice(), {})
        assert wrapped.ddp is not None
        before = buckets(wrapped.ddp)
        assert before is not None
        assert before["rebuilt_bytes"] is None
        for _ in range(12):  # DDP's logging data follow the steps they are sampled in
            wrapped.forward(torch.randn(3, 10)).sum().backward()
        found = buckets(wrapped.ddp)
        assert found is not None
        assert found["rebuilt_bytes"] == sizes
        rebuilt = [index for bucket in found["rebuilt_parameters"] for index in bucket]
        assert sorted(rebuilt) == [0, 1, 2, 3]
    silence(wrapped)
    assert wrapped.ddp.broadcast_buffers is False
    with pytest.raises(RuntimeError, match="register_comm_hook"):
        silence(wrapped)  # DDP takes one hook: ours is there
    wrapped.forward(torch.randn(3, 10)).sum().backward()  # still trains


class FakeDDP:
    def __init__(self, **data: Any) -> None:
        self._data = data

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return self._data


def test_buckets_come_from_ddps_own_data() -> None:
    ddp: Any = FakeDDP(
        bucket_sizes="300",
        rebuilt_bucket_sizes="100, 200",
        rebuilt_per_bucket_param_indices="3 2, 1 0",
        has_rebuilt_buckets=1,
    )
    assert buckets(ddp) == {
        "initial_bytes": [300],
        "rebuilt_bytes": [100, 200],
        "rebuilt_parameters": [[3, 2], [1, 0]],
    }


def test_buckets_that_were_not_rebuilt_are_unknown_not_empty() -> None:
    ddp: Any = FakeDDP(bucket_sizes="300", rebuilt_bucket_sizes="", has_rebuilt_buckets=0)
    assert buckets(ddp) == {
        "initial_bytes": [300],
        "rebuilt_bytes": None,
        "rebuilt_parameters": None,
    }
    other: Any = object()
    assert buckets(other) is None


def test_a_shared_tensor_counts_once() -> None:
    module = nn.ModuleList([nn.Embedding(32, 16), nn.Linear(16, 32, bias=False)])
    module[1].weight = module[0].weight
    assert bytes_of(trainable(module)) == 2048  # A06
    assert bytes_of(trainable(nn.Linear(8, 4).to(torch.bfloat16))) == 72  # A31


def test_lazy_layers_get_their_shapes() -> None:
    module = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 1))
    assert initialise_lazy(module, (torch.zeros(2, 8),)) is True
    assert module[0].weight.shape == (4, 8)
    assert initialise_lazy(module, (torch.zeros(2, 8),)) is False


def test_software_is_recorded_as_json() -> None:
    found = software("gloo")
    assert json.loads(json.dumps(found)) == found
    assert (found["torch"], found["backend"]) == (torch.__version__, "gloo")
    if not torch.cuda.is_available():
        assert found["nccl"] is found["cudnn"] is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there() -> None:
    """A29: of a cell that is skipped before launch where this is known."""
    with pytest.raises(ValueError, match="device=cuda needs a GPU, found 0"):
        device_for("cuda", 0, "nccl")
