from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
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


def loop(
    reduce: Any = None, clock: Any = None, precision: str = "fp32", **of_model: Any
) -> TrainingLoop:
    model = dataclasses.replace(load("mlp"), **of_model)
    module = model.build()
    batch = model.batch(4)
    return TrainingLoop(
        model,
        Wrapped(module, module, reduce=reduce),
        model.optimizer(module.parameters()),
        lambda: batch,
        FakeDevice(clock or TickingClock()),  # type: ignore[arg-type]
        precision,
        progress=[0],
    )


def own_step(model: Any, args: Any, target: Any) -> None:
    model(*args).sum().backward()


def test_the_phases_of_a_step() -> None:
    assert loop().phases == ("data", "forward", "backward", "optimizer")
    by_hand = loop(reduce=lambda: None)
    assert by_hand.phases == ("data", "forward", "backward", "communication", "optimizer")
    # Forward and backward are in the model's own step_fn and cannot be told apart.
    assert loop(step_fn=own_step).phases == ("data", "step_fn", "optimizer")


def test_a_step_fn_finds_the_gradients_of_the_step_before_at_zero() -> None:
    """A18: an old-style zero_grad looks at them. Everyone else's are gone."""
    found: list[Any] = []

    def step_fn(model: Any, args: Any, target: Any) -> None:
        found.append([parameter.grad for parameter in model.parameters()])
        model(*args).sum().backward()

    made = loop(step_fn=step_fn)
    made.step()
    made.step()
    first, second = found
    assert all(gradient is None for gradient in first)
    assert all(gradient is not None and not gradient.any() for gradient in second)
    made = loop()
    made.step()
    assert all(parameter.grad is None for parameter in made._wrapped.module.parameters())


@pytest.mark.parametrize("reduce", [None, lambda: None])
@pytest.mark.parametrize("step_fn", [None, own_step])
def test_one_mark_a_phase(reduce: Any, step_fn: Any) -> None:
    clock = TickingClock()
    made = loop(reduce=reduce, clock=clock, step_fn=step_fn)
    made.step()
    assert clock.marks == len(made.phases)


def test_what_is_done_between_which_marks() -> None:
    """Each phase holds its own work: seen from the number of marks when the work is done."""
    clock = TickingClock()
    seen: dict[str, int] = {}

    def note(what: str) -> None:
        seen.setdefault(what, clock.marks)

    class Optimizer(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            note("optimizer")

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            note("backward")
            return gradient

    def loss(output: Any, target: Any) -> Any:
        note("forward")
        return Backward.apply(output).sum()  # type: ignore[no-untyped-call]

    made = loop(reduce=lambda: note("communication"), clock=clock, loss=loss, optimizer=Optimizer)
    batch = made._next_batch()

    def next_batch() -> Any:
        note("data")
        return batch

    made._next_batch = next_batch
    made.step()
    # The mark that begins a phase is set before its work.
    assert seen == {phase: number + 1 for number, phase in enumerate(made.phases)}


def test_a_step_trains_and_leaves_no_gradients() -> None:
    made = loop()
    module = made._wrapped.module
    before = [parameter.clone() for parameter in module.parameters()]
    made.step()
    assert any(
        not torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True)
    )
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_the_precision_is_that_of_the_forward_pass(precision: str, dtype: torch.dtype) -> None:
    seen = []

    def loss(output: Any, target: Any) -> Any:
        seen.append(output.dtype)
        return output.float().sum()

    loop(precision=precision, loss=loss).step()
    assert seen == [dtype]


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


def test_ranks_meet_before_a_window_and_not_in_it() -> None:
    class Meets(Ranks):
        def barrier(self) -> None:
            told.append("met")

    class Tells(TickingClock):
        def start(self) -> None:
            super().start()
            told.append("start")

        def mark(self) -> None:
            super().mark()
            told.append("mark")

        def finish(self) -> None:
            told.append("finish")

    told: list[str] = []
    clock = Tells()
    run_window(loop(clock=clock), FakeDevice(clock), Meets(1, None), 2)  # type: ignore[arg-type]
    lead_in = ["met", "start", *["mark"] * 4]
    assert told == [*lead_in, "start", *["mark"] * 9, "finish"]


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


class SteppingClock(TickingClock):
    """A step of ``loop`` takes ``step_s(i)`` in the i-th timed step of the pass."""

    def __init__(self, step_s: Callable[[int], float]) -> None:
        super().__init__()
        self._step_s = step_s
        self._timed = 0

    def start(self) -> None:
        self._timed += max(0, self.marks - 4) // 4  # the step that leads in is none
        super().start()

    def seconds(self, first: int, second: int) -> float:
        assert second < self.marks, "asked for a moment that was not marked"
        return self._step_s(self._timed + first // 4) * (second - first) / 4


@dataclasses.dataclass
class TogetherRanks:
    """Ranks that are threads: the maximum over them, and nothing else, is shared."""

    meeting: threading.Barrier
    said: dict[int, list[float]]
    rank: int

    def barrier(self) -> None:
        self.meeting.wait(10)

    def maximum(self, values: list[float]) -> list[float]:
        self.said[self.rank] = values
        self.meeting.wait(10)
        largest = [max(times) for times in zip(*self.said.values(), strict=True)]
        self.meeting.wait(10)
        return largest


def together(goal: Mapping[str, Any], *step_s: Callable[[int], float]) -> list[Any]:
    """What ``timed_pass`` gives each of several ranks."""
    meeting, said = threading.Barrier(len(step_s)), dict[int, list[float]]()

    def one(rank: int) -> Any:
        clock = SteppingClock(step_s[rank])
        device, ranks = FakeDevice(clock), TogetherRanks(meeting, said, rank)
        return timed_pass(loop(clock=clock), device, ranks, **goal)  # type: ignore[arg-type]

    with ThreadPoolExecutor(len(step_s)) as pool:
        return list(pool.map(one, range(len(step_s))))


def test_all_ranks_stop_together() -> None:
    """A steady rank beside a restless one: alone the first would have enough after 20 steps."""
    goal = {"min_steps": 20, "precision": 0.02, "max_seconds": 8.0}
    steady, restless = lambda step: 0.1, lambda step: 0.1 + step * 37 % 11 / 100
    (alone, _, _) = together(goal, steady)[0]
    assert len(alone) == 20
    answers = together(goal, steady, restless)
    counts = [len(own) for own, _, _ in answers]
    assert counts[0] == counts[1] > 20
    assert answers[0][2] == answers[1][2] == pytest.approx(answers[1][0])
    assert answers[0][0] == pytest.approx([0.1] * counts[0])
    assert sum(answers[0][2]) <= 8.0
    for own, phases, _ in answers:
        assert [sum(times) for times in zip(*phases.values(), strict=True)] == pytest.approx(own)


def test_the_slowest_rank_may_change_from_step_to_step() -> None:
    goal = {"min_steps": 8, "precision": 10.0, "max_seconds": 1.0}
    even, odd = lambda step: 0.1 + 0.1 * (step % 2), lambda step: 0.2 - 0.1 * (step % 2)
    for own, _, slowest in together(goal, even, odd):
        assert slowest == pytest.approx([0.2] * 8)
        assert sorted(own) == pytest.approx([0.1] * 4 + [0.2] * 4)


@pytest.mark.parametrize("step", [0, 7, 12, 30])
def test_a_failure_names_the_step_of_the_pass(step: int) -> None:
    """However many windows there were before: 8 steps, then 10 and more."""
    made = loop(clock=SteppingClock(lambda i: 0.1 + i * 37 % 11 / 100))

    def next_batch() -> Any:
        if made.step_index == step:
            raise RuntimeError(f"at {made.step_index}")
        return batch

    batch, made._next_batch = made._next_batch(), next_batch
    device: Any = FakeDevice(made._mark.__self__)  # type: ignore[attr-defined]
    goal: Any = {"min_steps": 8, "precision": 1e-9, "max_seconds": 1e9}
    with pytest.raises(RuntimeError, match=f"at {step}"):
        timed_pass(made, device, Ranks(1, None), **goal)


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
