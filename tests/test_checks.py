"""Results are checked: these tests check that a wrong result would be seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from bench.case import Case
from bench.worker import checks
from bench.worker.checks import (
    _concatenate,
    _relative_error,
    check_gradients,
    parameters_equal,
)
from bench.worker.device import CpuDevice
from bench.worker.loop import Ranks, TrainingLoop
from bench.worker.strategies import Wrapped, trainable
from models.model import Model
from models.registry import load

CASE = Case(strategy="all_reduce", world_size=2, batch_size=4)


class CountingRanks(Ranks):
    def __init__(self) -> None:
        super().__init__(1, None)
        self.barriers = 0

    def barrier(self) -> None:
        self.barriers += 1


def answer(
    finish: Callable[[list[Any], list[Any]], None],
    case: Case = CASE,
    rank: int = 0,
    module: nn.Module | None = None,
    **of_model: Any,
) -> dict[str, Any]:
    """What rank 0 of two says. ``finish`` takes its gradients to what the all-reduce would make
    of them, given those of rank 1."""
    model = dataclasses.replace(load("mlp"), **of_model)
    torch.manual_seed(0)
    module = module or model.build()

    def reduce() -> None:
        mine = [parameter.grad for parameter in trainable(module)]
        finish(mine, gradients_of_rank_1(model, module))

    device, ranks = CpuDevice(), CountingRanks()
    wrapped = Wrapped(module, module, reduce=reduce)
    loop = TrainingLoop(model, wrapped, None, lambda: model.batch(4), device, case.precision, [0])
    before = [parameter.clone() for parameter in module.parameters()]
    found = check_gradients(model, wrapped, loop, case, rank, device, ranks)
    # The pass after this one starts where this one did.
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(map(torch.equal, before, module.parameters()))
    if found["gradient_method"] is not None:
        assert ranks.barriers == 1
    return found


def gradients_of_rank_1(model: Model, module: nn.Module) -> list[Any]:
    args, target = model.batch(4, 1, 0, 0)
    loss = model.loss(module(*args), target)
    return list(torch.autograd.grad(loss, trainable(module)))


def mean(mine: list[Any], other: list[Any]) -> None:
    for gradient, theirs in zip(mine, other, strict=True):
        gradient.add_(theirs).div_(2)


def total(mine: list[Any], other: list[Any]) -> None:
    for gradient, theirs in zip(mine, other, strict=True):
        gradient.add_(theirs)


def nothing(mine: list[Any], other: list[Any]) -> None:
    """As if no rank had sent anything."""


def one_per_cent_off(mine: list[Any], other: list[Any]) -> None:
    mean(mine, other)
    for gradient in mine:
        gradient.mul_(1.01)


def test_the_mean_over_ranks_is_the_gradient_of_one_process() -> None:
    found = answer(mean)
    assert found["gradients_match"] is True
    assert found["gradient_relative_error"] < 1e-6
    assert found["gradient_method"] == "one process on the concatenated batch"
    assert found["notes"] == []


def test_a_sum_that_nobody_divided_is_seen() -> None:
    found = answer(total)
    assert found["gradients_match"] is False
    assert found["gradient_relative_error"] == pytest.approx(1.0)


def test_gradients_that_nobody_reduced_are_seen() -> None:
    assert answer(nothing)["gradients_match"] is False


def test_rounding_has_the_room_of_its_precision() -> None:
    assert answer(one_per_cent_off)["gradients_match"] is False
    assert answer(one_per_cent_off, CASE.replace(precision="bf16"))["gradients_match"] is True
    assert answer(total, CASE.replace(precision="bf16"))["gradients_match"] is False


def test_weights_of_half_precision_have_its_room() -> None:
    """A31: in a case of fp32 as well, where the model brings them."""
    module = nn.Linear(10, 2).to(torch.bfloat16)

    def batch(n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Any:
        generator = torch.Generator().manual_seed(rank)
        made = [torch.randn(n, size, generator=generator).to(torch.bfloat16) for size in (10, 2)]
        return (made[0],), made[1]

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target).square().mean()

    own = {"module": module, "batch": batch, "loss": loss}
    assert answer(one_per_cent_off, **own)["gradients_match"] is True
    assert answer(total, **own)["gradients_match"] is False


def test_batch_statistics_are_each_ranks_own() -> None:
    """The concatenated batch would be another calculation."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(10, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    found = answer(mean, module=module)
    assert found["gradient_method"] == "one process, rank by rank"
    assert found["gradients_match"] is True
    assert answer(total, module=module)["gradients_match"] is False


def test_rank_0_alone_compares() -> None:
    found = answer(mean, rank=1)
    assert found["gradients_match"] is found["gradient_relative_error"] is None


@pytest.mark.parametrize(
    ("why", "case", "module", "of_model"),
    [
        ("dropout", CASE, nn.Sequential(nn.Linear(10, 2), nn.Dropout(0.1)), {}),
        ("more than 1024 samples", CASE.replace(batch_size=513), None, {}),
        ("its own step_fn", CASE, None, {"step_fn": lambda model, args, target: None}),
        ("nothing is trained", CASE, nn.Linear(10, 2).requires_grad_(False), {}),
        ("more than 5000000 parameters", CASE, nn.Linear(2500, 2000), {}),
    ],
)
def test_what_is_not_checked_says_why(
    why: str, case: Case, module: nn.Module | None, of_model: dict[str, Any]
) -> None:
    found = answer(mean, case, module=module, **of_model)
    assert found["gradients_match"] is found["gradient_relative_error"] is None
    (note,) = found["notes"]
    assert note.startswith("gradients not checked: ")
    assert why in note


def test_the_largest_that_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST_PARAMETERS", 67)  # as many as there are
    monkeypatch.setattr(checks, "MOST_SAMPLES", 8)
    assert answer(mean)["gradients_match"] is True
    dropped = nn.Sequential(nn.Linear(10, 2), nn.Dropout(0.0))
    assert answer(mean, module=dropped)["gradients_match"] is True


def test_relative_error_of_gradients() -> None:
    right = [torch.tensor([3.0, 4.0]), None]
    assert _relative_error([torch.tensor([3.0, 4.0]), None], right) == 0
    assert _relative_error([torch.tensor([3.0, 9.0]), None], right) == pytest.approx(1.0)
    assert _relative_error([None, None], right) == pytest.approx(1.0)
    assert _relative_error([None], [None]) == 0


def test_batches_of_ranks_are_joined_where_they_can_be() -> None:
    a = ((torch.zeros(2, 3),), torch.zeros(2))
    b = ((torch.ones(2, 3),), torch.ones(2))
    joined = _concatenate([a, b])
    assert joined is not None
    assert (joined[0][0].shape, joined[1].tolist()) == ((4, 3), [0, 0, 1, 1])
    assert _concatenate([((None,), a[1]), ((None,), b[1])]) is None


def test_one_bit_makes_parameters_unequal(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    ranks = Ranks(1, None)
    monkeypatch.setattr(ranks, "same_everywhere", lambda number: seen.append(number) or True)
    module = nn.Linear(4, 4)
    parameters_equal(module, ranks)
    parameters_equal(module, ranks)
    with torch.no_grad():
        module.weight[0, 0] = torch.nextafter(module.weight[0, 0], torch.tensor(9.0))
    parameters_equal(module, ranks)
    assert seen[0] == seen[1] != seen[2]
    assert all(0 <= number < 2**63 for number in seen)


@pytest.mark.parametrize(("theirs", "same"), [(5, True), (4, False), (6, False)])
def test_ranks_compare_one_number(monkeypatch: pytest.MonkeyPatch, theirs: int, same: bool) -> None:
    def all_reduce(tensor: torch.Tensor, op: Any, group: Any) -> None:
        assert op == dist.ReduceOp.MAX
        tensor.copy_(torch.maximum(tensor, torch.tensor([theirs, -theirs])))

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    assert Ranks(2, None).same_everywhere(5) is same
    assert Ranks(1, None).same_everywhere(5) is True  # asks nobody


def test_the_maximum_over_ranks_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = [0.1, 0.3, 1 / 3], [0.2, 0.062113879999742494, 1 / 3]

    def all_reduce(tensor: torch.Tensor, op: Any, group: Any) -> None:
        assert op == dist.ReduceOp.MAX
        tensor.copy_(torch.maximum(tensor, torch.tensor(theirs, dtype=torch.float64)))

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    assert Ranks(2, None).maximum(mine) == [0.2, 0.3, 1 / 3]
    assert Ranks(2, None).maximum(theirs) == theirs
