from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.worker.device import CpuClock, CudaClock
from bench.worker.loop import Ranks, TrainingLoop, Window, next_window, run_window, timed_pass
from bench.worker.strategies import Wrapped
from models.registry import load


class TickingClock:
    """Every mark is one second after the one before."""

    def __init__(self) -> None:
        self.marks = 0

    def start(self) -> None:
        self.marks = 0

    def mark(self) -> None:
        self.marks += 1

    def finish(self) -> None: ...

    def seconds(self, first: int, second: int) -> float:
        assert second < self.marks, "asked for a moment that was not marked"
        return float(second - first)


class FakeDevice:
    name = kind = "cpu"

    def __init__(self, clock: Any) -> None:
        self.clock = clock


class FakeEvent:
    """A CUDA event whose time is the number of events recorded before it, in milliseconds."""

    recorded = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at = -1

    def record(self) -> None:
        FakeEvent.recorded += 1
        self.at = FakeEvent.recorded

    def elapsed_time(self, other: FakeEvent) -> float:
        return float(other.at - self.at)


class FakeCuda:
    def __init__(self) -> None:
        self.events: list[FakeEvent] = []
        self.synchronised = 0

    def Event(self, enable_timing: bool) -> FakeEvent:
        self.events.append(FakeEvent(enable_timing))
        return self.events[-1]

    def synchronize(self) -> None:
        self.synchronised += 1


def loop(name: str = "mlp", reduce: Any = None, clock: Any = None) -> TrainingLoop:
    model = load(name)
    module = model.build()
    batch = model.batch(4)
    return TrainingLoop(
        model,
        Wrapped(module, module, reduce=reduce),
        model.optimizer(module.parameters()),
        lambda: batch,
        FakeDevice(clock or TickingClock()),  # type: ignore[arg-type]
        "fp32",
    )


def test_the_phases_of_a_step() -> None:
    assert loop().phases == ("data", "forward", "backward", "optimizer")
    by_hand = loop(reduce=lambda: None)
    assert by_hand.phases == ("data", "forward", "backward", "communication", "optimizer")


def test_one_mark_a_phase() -> None:
    for reduce in (None, lambda: None):
        clock = TickingClock()
        made = loop(reduce=reduce, clock=clock)
        made.step()
        assert clock.marks == len(made.phases)


def test_a_window_times_steps_and_phases() -> None:
    clock = TickingClock()
    made = loop(clock=clock)
    window = run_window(made, FakeDevice(clock), Ranks(1, None), 3)  # type: ignore[arg-type]
    assert window.step_s == [4.0, 4.0, 4.0]
    assert all(times == [1.0, 1.0, 1.0] for times in window.phase_s.values())
    for step in range(3):
        assert sum(times[step] for times in window.phase_s.values()) == window.step_s[step]


def test_the_step_that_leads_in_is_not_timed() -> None:
    clock = TickingClock()
    made = loop(clock=clock)
    run_window(made, FakeDevice(clock), Ranks(1, None), 3)  # type: ignore[arg-type]
    assert clock.marks == 3 * 4 + 1
    assert made.step_index == 3


def test_cpu_clock_tells_the_difference_of_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([1.0, 1.5, 3.0])
    monkeypatch.setattr("bench.worker.device.perf_counter", lambda: next(ticks))
    clock = CpuClock()
    clock.start()
    for _ in range(3):
        clock.mark()
    assert (clock.seconds(0, 1), clock.seconds(0, 2)) == (0.5, 2.0)


def test_cuda_clock_uses_its_events_again_and_waits_once() -> None:
    cuda = FakeCuda()
    clock = CudaClock(cuda)
    for _ in range(3):
        clock.start()
        for _ in range(5):
            clock.mark()
        clock.finish()
        assert clock.seconds(0, 4) == 0.004
    assert len(cuda.events) == 5
    assert cuda.synchronised == 3


def test_how_long_a_pass_goes_on() -> None:
    goal = {"min_steps": 20, "precision": 0.02, "max_seconds": 10.0}
    assert next_window([], **goal) == 20  # type: ignore[arg-type]
    steady = [0.1] * 20
    assert next_window(steady, **goal) == 0  # type: ignore[arg-type]
    restless = [0.1, 0.2, 0.15, 0.12, 0.18] * 4
    assert next_window(restless, **goal) == 10  # type: ignore[arg-type]
    assert next_window(restless * 5, **goal) == 0  # type: ignore[arg-type]  # the time is used up
    assert next_window(restless, **{**goal, "max_seconds": 1e-9}) == 0  # type: ignore[arg-type]


def test_all_ranks_come_to_the_same_number_of_steps() -> None:
    """The decision is taken from the slowest rank's times, which every rank holds."""

    class SlowerElsewhere(Ranks):
        def maximum(self, values: list[float]) -> list[float]:
            return [value + i for i, value in enumerate(values)]

    clock = TickingClock()
    device: Any = FakeDevice(clock)
    own, phases, slowest = timed_pass(
        loop(clock=clock),
        device,
        SlowerElsewhere(1, None),
        min_steps=8,
        precision=0.02,
        max_seconds=1.0,
    )
    assert own == [4.0] * 8
    assert slowest == [4.0 + i for i in range(8)]
    assert {len(times) for times in phases.values()} == {8}


def test_window_arithmetic_without_any_step() -> None:
    assert Window(TickingClock(), ("data",), 0).step_s == []


def test_a_frozen_model_is_run_forward_only() -> None:
    made = loop()
    module: nn.Module = made._wrapped.module
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    before = [parameter.clone() for parameter in module.parameters()]
    made._optimizer = None
    made.step()
    for old, new in zip(before, module.parameters(), strict=True):
        assert torch.equal(old, new)
