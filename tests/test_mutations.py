"""Mutated traces in the suite; ``python -m tests.mutations`` tries 10,000 of each file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations import SHARED, Tally, try_mutations
from tests.selfbench.traces import write_trace


def test_mutations_of_a_synthetic_trace(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    write_trace(path, 100_000)
    tally = Tally()
    try_mutations(path, 400, 11, tally)
    assert tally.faults == []
    assert min(tally.refused.total(), tally.other.total()) > 10


@pytest.mark.parametrize(
    "name",
    ["cases/traces/live_normal_r0_1.json.gz", "traces/hta/gloo_cpu_only_rank34.json.gz"],
)
def test_mutations_of_a_recorded_trace(name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"recorded traces are absent: no {path}; set LOCKSTEP_SHARED to their folder")
    tally = Tally()
    try_mutations(path, 200, 12, tally)
    assert tally.faults == []
