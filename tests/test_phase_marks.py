"""The phases of a step in the profiler's trace: where they stand, and that they change nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.classify import PHASE_MARK
from bench.trace import analyse
from bench.worker.phase_marks import PhaseMarks
from tests.test_trace_figures import Gpu, step
from tests.test_worker_loop import TickingClock, loop


def test_a_range_for_every_phase_between_the_marks_of_the_clock() -> None:
    said: list[str] = []

    @contextlib.contextmanager
    def range_of(name: str) -> Iterator[None]:
        said.append(f"+{name}")
        yield
        said.append(f"-{name}")

    made = loop()
    marks = PhaseMarks(lambda: said.append("mark"), made.phases, range_of)
    with made.marked_by(marks):
        for _ in range(2):
            made.step()
            marks.end_step()
    of_step = [
        *("mark", "+lockstep:data", "-lockstep:data"),
        *("mark", "+lockstep:forward", "-lockstep:forward"),
        *("mark", "+lockstep:backward", "-lockstep:backward"),
        *("mark", "+lockstep:optimizer", "-lockstep:optimizer"),
    ]
    assert said == of_step * 2


def test_the_clock_gets_its_marks_back() -> None:
    clock = TickingClock()
    made = loop(clock=clock)
    with pytest.raises(ValueError), made.marked_by(lambda: None):
        made.step()
        assert clock.marks == 0
        raise ValueError
    made.step()
    assert clock.marks == len(made.phases)


def profiled(folder: Path) -> dict[str, Any]:
    """A real trace of three marked steps."""
    made = loop(reduce=lambda: None)
    marks = PhaseMarks(made._mark, made.phases)
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with (
        made.marked_by(marks),
        torch.profiler.profile(activities=activities, schedule=schedule) as profiler,
    ):
        for _ in range(4):
            made.step()
            marks.end_step()
            profiler.step()
        profiler.export_chrome_trace(str(folder / "trace.json"))
    return json.loads((folder / "trace.json").read_text())  # type: ignore[no-any-return]


def test_phases_of_a_real_trace(tmp_path: Path) -> None:
    trace = analyse(profiled(tmp_path))
    assert len(trace.steps) == 3
    for of_step in trace.steps:
        phases = [phase for phase in trace.phases if phase.step == of_step.number]
        assert [phase.name for phase in phases] == [
            *("data", "forward", "backward", "communication", "optimizer")
        ]
        borders = [moment for phase in phases for moment in (phase.start_ns, phase.end_ns)]
        assert borders == sorted(borders)
        assert of_step.start_ns <= borders[0]
        assert borders[-1] <= of_step.end_ns
        # Between the phases there is next to nothing.
        inside = sum(phase.end_ns - phase.start_ns for phase in phases)
        assert inside > (borders[-1] - borders[0]) / 2


def test_marks_are_no_work_and_change_no_figure(tmp_path: Path) -> None:
    content = profiled(tmp_path)
    events = content["traceEvents"]
    plain = [event for event in events if not str(event.get("name")).startswith(PHASE_MARK)]
    assert len(events) - len(plain) == 3 * 5
    with_marks, without = (analyse(content | {"traceEvents": chosen}) for chosen in (events, plain))
    assert with_marks.to_json() == without.to_json()
    assert with_marks.work == without.work
    assert without.phases == ()


def test_a_mark_that_is_filed_under_operators_is_no_work_either() -> None:
    events = [step(1, 0)]
    mark = {"ph": "X", "cat": "cpu_op", "name": "lockstep:forward", "pid": 1, "tid": 1}
    trace = analyse([*events, mark | {"ts": 100, "dur": 500}])
    assert trace.totals().compute_ns == 0
    assert [phase.name for phase in trace.phases] == ["forward"]


def test_on_a_gpu_a_phase_is_what_was_launched_in_it() -> None:
    gpu = Gpu()
    gpu.events += [step(1, 0), step(2, 1000)]
    for base in (0, 1000):
        for name, start, end in (("data", 0, 50), ("forward", 50, 200), ("backward", 200, 500)):
            mark = {"ph": "X", "cat": "user_annotation", "name": PHASE_MARK + name}
            gpu.events.append(mark | {"pid": 1, "tid": 1, "ts": base + start, "dur": end - start})
        gpu.run(base + 60, base + 300, 100)
        gpu.run(base + 70, base + 450, 50)
        gpu.run(base + 250, base + 600, 300)
    trace = analyse(gpu.events)
    found = [(p.name, p.step, p.start_ns / 1000, p.end_ns / 1000) for p in trace.phases]
    assert found[:2] == [("forward", 1, 300, 500), ("backward", 1, 600, 900)]
    assert all(name != "data" for name, *_ in found)  # nothing was launched in it
