from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import cores, machine


def test_a_state_is_plain_json_and_says_what_it_cannot_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_read", lambda path: None)
    state = machine.state()
    json.dumps(state, allow_nan=False)
    assert state["pressure"] == {"cpu": None, "memory": None, "io": None}
    assert state["calibration_s"] > 0


def test_pressure_is_a_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=99.00 avg60=0 total=2"
    monkeypatch.setattr(machine, "_read", lambda path: said if path.endswith("cpu") else None)
    assert machine.state()["pressure"] == {"cpu": 0.125, "memory": None, "io": None}


def test_the_calibration_is_the_fastest_of_several() -> None:
    """What interrupts a run of it only makes it longer."""
    ticks = iter([0.0, 5.0, 10.0, 12.0, 20.0, 29.0, 30.0, 33.0, 40.0, 44.0])
    assert machine.state(lambda: next(ticks))["calibration_s"] == 2.0


def test_of_several_limits_of_cores_the_smallest_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine.psutil, "cpu_count", lambda logical=True: 16 if logical else 8)
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    monkeypatch.setattr(cores, "_QUOTA", str(tmp_path / "cpu.max"))
    assert machine.usable_cores() == 6  # nothing is said of a quota
    for quota, usable in (("max 100000", 6), ("400000 100000", 4), ("50000 100000", 1)):
        (tmp_path / "cpu.max").write_text(quota)
        assert machine.usable_cores() == usable
