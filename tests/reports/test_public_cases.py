"""Cases from public reports, with the right outcome of each (their numbers stand in the names)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports.frames import Row, rows
from reports.load import load
from reports.page import render
from reports.tables import Tables, compute
from tests.reports.builder import case, document, entry, outcome

Shared = Callable[[str], Path]
Written = Callable[..., Path]


def tables(*paths: Path) -> Tables:
    return compute(load(paths))


def by_size(table: pd.DataFrame, kind: str = "weak") -> dict[int, Row]:
    return {row["world_size"]: row for row in rows(table) if row["kind"] == kind}


def test_a02_an_invalid_case_has_a_cause_and_no_traceback(written: Written) -> None:
    def page(traceback: str) -> str:
        failure = {"phase": "wrap", "type": "InvalidCase", "message": "no sense"}
        failure["traceback"] = traceback
        bad = outcome(case(world_size=2), "failed", failure=failure)
        return render(tables(written(document([entry(case(), 0.1)], outcomes=[bad]))))

    assert "InvalidCase: no sense" in page("")
    assert "<summary>details</summary>" not in page("")
    assert "in wrap" in page("in wrap")


def test_a26_fewer_pieces_than_devices_are_said(written: Written) -> None:
    fields = case(strategy="dp", world_size=8, device="cuda")
    page = render(tables(written(document([entry(fields, launch_changes={"replicas_used": 5})]))))
    assert "The batch split into 5 pieces for 8 devices." in page


def test_b02_throughput_is_the_jobs_and_per_rank_is_labelled(written: Written) -> None:
    path = written(document([entry(case(world_size=2, batch_size=32), 0.1)]))
    (cell,) = rows(tables(path).cells)
    assert cell["throughput_samples_per_s"] == pytest.approx(640)
    page = render(tables(path))
    assert "samples/s, whole job" in page
    assert "samples/s, per rank" in page
    assert "640" in page
    assert "320" in page


def test_b03_weak(shared: Shared) -> None:
    table = by_size(tables(shared("b01_weak_scaling.json")).scaling, "weak")
    assert [table[n]["same_ratio"] for n in (1, 2, 4)] == pytest.approx([1, 0.95, 0.85])


def test_b03_strong(shared: Shared) -> None:
    made = tables(shared("b17_strong_scaling.json"))
    table = by_size(made.scaling, "strong")
    assert [table[n]["same_speedup_ratio"] for n in (1, 2, 4)] == pytest.approx(
        [1, 1.818, 3.2], 1e-3
    )
    assert [table[n]["same_ratio"] for n in (1, 2, 4)] == pytest.approx([1, 0.909, 0.80], 1e-3)
    # One series of one global batch, not three single points.
    assert {row["global_batch_size"] for row in table.values()} == {64}
    assert len({row["series"] for row in table.values()}) == 1
    assert not by_size(made.scaling, "weak")


def test_b05_above_100_per_cent_is_shown_as_it_is(shared: Shared) -> None:
    made = tables(shared("b03_superlinear.json"))
    row = by_size(made.scaling)[2]
    assert row["same_ratio"] == pytest.approx(1.05)
    assert row["above_one"] is True
    page = render(made)
    assert re.search(r"105\.0\s%", page)
    assert "Above 100 %" in page


def test_b06_without_a_baseline_efficiency_is_blank(shared: Shared) -> None:
    made = tables(shared("b02_no_baseline.json"))
    table = by_size(made.scaling)
    for row in table.values():
        assert row["same_ratio"] is None
        assert row["single_ratio"] is None
        assert "no case of ddp at world size 1" in row["same_reason"]
    assert [table[n]["smallest_ratio"] for n in sorted(table)] == pytest.approx([1, 0.895], 1e-3)
    page = render(made)
    assert "which is not an efficiency" in page


def test_b13_no_baseline_from_another_backend_or_wrapper(shared: Shared) -> None:
    made = tables(shared("b18_mixed_backends.json"))
    table = rows(made.scaling)
    two = [row for row in table if row["world_size"] == 2]
    assert len(two) == 2
    assert all(row["same_ratio"] is None and row["single_ratio"] is None for row in two)
    assert len({row["series"] for row in table}) == 3
    gloo = next(row for row in two if row["strategy"] == "ddp")
    assert "backend" in gloo["same_reason"]


def test_d01_non_finite_numbers_are_blanks(shared: Shared) -> None:
    made = tables(shared("b04_nan_inf.json"))
    found = {cell["world_size"]: cell["throughput_samples_per_s"] for cell in rows(made.cells)}
    assert found == {1: None, 2: None, 4: pytest.approx(1088.0)}
    row = by_size(made.scaling)[4]
    assert row["same_ratio"] is None
    page = render(made).lower()
    for word in ("nan ", ">nan", "infinity", ">inf<"):
        assert word not in page


def test_d02_without_the_single_times_there_is_no_interval(shared: Shared) -> None:
    made = tables(shared("b05_no_stats_data.json"))
    (cell,) = rows(made.cells)
    assert cell["step_s"] == pytest.approx(0.1)
    assert cell["step_low_s"] is None
    assert cell["interval_from"] is None
    assert "too few step times" in render(made)


@pytest.mark.parametrize("key", ["ops", "median", "mean", "rounds", "data", "iqr", "stddev"])
def test_d06_a_missing_key_of_stats_is_derived_or_blank(
    shared: Shared, written: Written, key: str
) -> None:
    content = json.loads(shared("b01_weak_scaling.json").read_text())
    for one in content["benchmarks"]:
        del one["stats"][key]
    made = tables(written(content))
    assert [cell["step_s"] for cell in rows(made.cells)] == pytest.approx([0.1] * 3)
    assert by_size(made.scaling)[4]["same_ratio"] == pytest.approx(0.85)
    render(made)


def test_d06_no_stats_at_all(shared: Shared, written: Written) -> None:
    content = json.loads(shared("b01_weak_scaling.json").read_text())
    for one in content["benchmarks"]:
        del one["stats"], one["extra_info"]
    made = tables(written(content))
    assert [cell["step_s"] for cell in rows(made.cells)] == [None] * 3
    assert [cell["throughput_samples_per_s"] for cell in rows(made.cells)] == [None] * 3
    render(made)


def test_d13_names_stay_text(shared: Shared) -> None:
    page = render(tables(shared("b06_html_names.json")))
    assert "<script>alert" not in page
    assert "<img src" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert 'id="case-0-' in page
    elements = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    for identifier in (part.split('"')[0] for part in elements.split(' id="')[1:]):
        assert identifier.replace("-", "").replace("_", "").replace(".", "").isalnum(), identifier


def test_d15_two_results_of_one_case_are_a_conflict(shared: Shared) -> None:
    made = tables(shared("b08_duplicate_fullname.json"))
    cells = rows(made.cells)
    assert [cell["conflict"] for cell in cells] == [True, True]
    assert len({cell["throughput_samples_per_s"] for cell in cells}) == 2
    page = render(made)
    assert page.count("Conflict: another entry for the same case has a different result.") == 2


def test_e04_files_are_side_by_side_and_never_one_series(shared: Shared) -> None:
    made = tables(shared("b10_machine_a.json"), shared("b10_machine_b.json"))
    assert [cell["file"] for cell in rows(made.cells)] == [
        "b10_machine_a.json",
        "b10_machine_b.json",
    ]
    page = render(made)
    assert "2 files, side by side" in page


def reading(content: Any, written: Written) -> Tables:
    return tables(written(content))


def test_a_benchmark_of_something_else_is_left_out_and_counted(written: Written) -> None:
    content = document([entry(case(), 0.1)])
    content["benchmarks"].append({"name": "test_parse", "params": {"n": 3}, "stats": {"median": 1}})
    made = reading(content, written)
    assert len(made.cells) == 1
    assert "1 other benchmarks in the file" in render(made)
