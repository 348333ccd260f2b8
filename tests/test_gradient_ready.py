"""When gradients are ready: with a clock that ticks, and in a DDP of one real rank."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from bench.case import Case
from bench.worker import gradient_ready as module
from bench.worker.device import CpuDevice
from bench.worker.gradient_ready import Marks, gradient_ready, steps_of_window
from bench.worker.loop import Ranks, TrainingLoop
from bench.worker.strategies import silence, trainable, wrap
from models.registry import load


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/store")
    yield
    dist.destroy_process_group()


def loop_of(name: str, step_fn: Any = None) -> tuple[TrainingLoop, CpuDevice, list[nn.Parameter]]:
    """A silent DDP of one rank."""
    model, device = load(name), CpuDevice()
    wrapped = wrap(model.build(), Case(model=name), device, {}, model.comm_hook)
    silence(wrapped)
    trained = trainable(wrapped.module)
    batch = model.batch(4)
    loop = TrainingLoop(
        model, wrapped, model.optimizer(trained), lambda: batch, device, "fp32", progress=[0]
    )
    return loop, device, trained


def test_marks_of_two_steps_become_times_from_each_steps_beginning() -> None:
    """Phases data, forward, backward, optimizer; a mark a second."""
    marks = Marks(lambda: None)
    first, second = marks.hook(0), marks.hook(1)
    for hooks in ([second, first], [second]):
        for _ in range(3):
            marks.border()
        for hook in hooks:
            hook(None, None)
        marks.border()
    marks.border()
    seconds = lambda a, b: float(b - a)  # noqa: E731
    # [gradient 0, gradient 1, forward, end of backward, optimizer, step]
    assert marks.steps(seconds, 4, 2) == [[4, 3, 2, 5, 1, 6], [-1, 3, 2, 4, 1, 5]]


def test_the_window_is_short_and_never_too_short() -> None:
    assert [steps_of_window(step_s) for step_s in (0.001, 0.2, 30)] == [20, 10, 5]


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore")
def test_gradients_of_known_layers_are_ready_when_their_waits_are_over() -> None:
    loop, device, trained = loop_of("sleep:layers=3:forward_ms=2:backward_ms=4:mb=0.5")
    record = gradient_ready(loop, device, Ranks(1, None), trained, steps=5, first_step=0)
    assert (record["reason"], record["steps"], record["order"]) == (None, 5, [2, 1, 0])
    assert record["bytes"] == [2**19] * 3
    assert record["dtypes"] == ["float32"]
    begins = record["forward_s"]
    assert begins >= 0.006
    for n, ready_s in enumerate(record["ready_s"], 1):
        assert ready_s >= begins + 0.004 * n - 0.001
    assert record["ready_s"][-1] <= begins + record["backward_s"] <= record["step_s"]


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore")
def test_a_gradient_is_ready_when_it_lies_in_its_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our hook comes after DDP's own, which copies the gradient and hands the bucket over."""
    happened: list[str] = []
    loop, device, trained = loop_of("sleep:layers=1:forward_ms=0:backward_ms=0:mb=0.01:link_mbit=1")
    hook = Marks.hook

    def telling(self: Marks, position: int) -> Any:
        mark = hook(self, position)
        return lambda *args: (happened.append("ready"), mark(*args))[1]

    monkeypatch.setattr(Marks, "hook", telling)
    switch = loop._wrapped.hook
    assert switch is not None

    def hand_over(bucket: Any) -> torch.futures.Future[torch.Tensor]:
        happened.append("handed over")
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    switch.silent, switch._hook = False, hand_over
    gradient_ready(loop, device, Ranks(1, None), trained, steps=2, first_step=0)
    assert happened == ["handed over", "ready"] * 3  # one step leads in


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_told_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, device, trained = loop_of("mlp")
    monkeypatch.setattr(module, "MOST_PARAMETERS", 3)
    record = gradient_ready(loop, device, Ranks(1, None), trained, steps=2, first_step=0)
    assert record == {"reason": "more than 3 parameters"}
    loop.phases = ("data", "step_fn", "optimizer")
    record = gradient_ready(loop, device, Ranks(1, None), trained, steps=2, first_step=0)
    assert "step_fn" in record["reason"]
