"""Wrong alarms and wrong silence from public reports (the cases' numbers stand in the names)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import paired
from reports import metrics
from tests.reports.comparing import by_metric, compared, run

Shared = Callable[[str], Path]


def test_d07_files_of_two_machines_are_refused_with_their_differences(shared: Shared) -> None:
    a, b = shared("b10_machine_a.json"), shared("b10_machine_b.json")
    done = run(a, b)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "host 'host-a' and 'host-b'" in line
    assert "CPU 'Example CPU 16c' and 'Other CPU 8c'" in line
    assert "--force" in line


def test_d07_forced_it_is_labelled(shared: Shared, tmp_path: Path) -> None:
    a, b = shared("b10_machine_a.json"), shared("b10_machine_b.json")
    done = run(a, b, "--force", "--metric", "throughput", "--json", tmp_path / "out.json")
    assert done.exit_code == 2  # one launch each: no verdict, and so no pass
    assert "Compared by --force although these differ: host 'host-a'" in done.text
    assert "−23.1 %" in done.text
    (row,) = by_metric(json.loads((tmp_path / "out.json").read_text()), "throughput")
    assert row["said"].startswith("forced: ")
    assert row["effect"] == pytest.approx(492 / 640)


def test_d08_names_that_do_not_meet_are_no_pass(shared: Shared) -> None:
    done = run(shared("b10_machine_a.json"), shared("b11_renamed_only.json"))
    assert done.exit_code == 2
    assert "0 of 1 case compared, 1 without a baseline" in done.text
    assert "test_ddp[2], missing: not measured under b11_renamed_only.json" in done.text
    assert "test_ddp_v2[2], new: not measured under b10_machine_a.json" in done.text


def test_d10_one_round_is_no_sample(shared: Shared) -> None:
    done = run(shared("b16_single_round.json"), shared("b16_single_round_new.json"))
    assert done.exit_code == 2
    assert "+3.0 %" in done.text
    assert "Insufficient samples" in done.text
    assert "slower" not in done.text.replace("called slower", "")
    comparison = compared(shared("b16_single_round.json"), shared("b16_single_round_new.json"))
    assert {row["verdict"] for row in comparison.gate_rows} == {paired.SMOKE}


def test_e04_builds_for_cuda_cpu_and_rocm_are_no_mere_versions(shared: Shared) -> None:
    cu, cpu, rocm = (shared(f"b09_version_{n}.json") for n in ("04", "05", "06"))
    for a, b in ((cu, cpu), (cpu, rocm), (cu, rocm)):
        assert any("builds differ" in words for words in compared(a, b, force=True).warnings)
    assert not any("builds" in words for words in compared(cu, cu, force=True).warnings)


def test_e08_each_metric_has_its_own_direction() -> None:
    """Throughput from 600 to 660 is better; step time from 0.10 to 0.11 is worse."""

    def verdict(name: str, before: float, after: float) -> str:
        metric = metrics.metric(name)
        noise = [0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0, 1.002]
        samples = paired.Samples(
            {n: before * factor for n, factor in enumerate(noise)},
            {n: after * factor for n, factor in enumerate(noise)},
            True,
            metric.lower_is_better,
        )
        found: Any = paired.judge([samples])[0].verdict
        return {paired.WORSE: metric.worse, paired.BETTER: metric.better}.get(found, found)

    assert verdict("throughput", 600, 660) == "faster"
    assert verdict("throughput", 660, 600) == "slower"
    assert verdict("step_time", 0.10, 0.11) == "slower"
    assert verdict("peak_memory", 1e9, 1.1e9) == "more"
    assert metrics.metric("throughput").direction == "higher is better"
    assert {one.name for one in metrics.METRICS if not one.lower_is_better} == {"throughput"}


def test_e08_directions_are_in_the_json(shared: Shared, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run(shared("b16_single_round.json"), shared("b16_single_round_new.json"), "--json", out)
    document = json.loads(out.read_text())
    assert document["metrics"]["throughput"]["lower_is_better"] is False
    assert document["metrics"]["step_time"]["direction"] == "lower is better"
    assert {row["direction"] for row in by_metric(document, "throughput")} == {"higher is better"}
