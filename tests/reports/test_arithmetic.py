from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.frames import Row, rows
from reports.load import load
from reports.page import render
from reports.stats import percentile, step_time, throughput_ratio
from reports.tables import Tables, compute
from tests.reports.builder import case, document, entry, outcome, steps, sweep

Written = Callable[..., Path]
T_2 = 4.302653  # Student's t at 97.5 %, 2 degrees of freedom


def made(written: Written, *entries: dict[str, Any], **own: Any) -> Tables:
    return compute(load([written(document(list(entries), **own))]))


def cell(tables: Tables, id: str) -> Row:
    return next(row for row in rows(tables.cells) if row["id"] == id)


def test_step_time_is_the_geometric_mean_of_launch_medians() -> None:
    medians = {n: math.exp(x) for n, x in enumerate((-0.01, 0.0, 0.01))}
    found = step_time(medians, [])
    assert found is not None
    half = T_2 * 0.01 / math.sqrt(3)
    assert found.value == pytest.approx(1)
    assert (found.low, found.high) == pytest.approx((math.exp(-half), math.exp(half)), rel=1e-6)
    assert found.interval_from == "launches"


def test_one_launch_has_the_interval_of_its_steps() -> None:
    found = step_time({0: 0.1}, steps(0.1, 41))
    assert found is not None
    assert found.interval_from == "one launch"
    assert found.low is not None
    assert found.low < 0.1 < (found.high or 0)
    alone = step_time({0: 0.1}, [])
    assert alone is not None
    assert alone.low is None
    assert step_time({}, []) is None


def test_ratios_of_cells_measured_in_the_same_launches_are_paired(written: Written) -> None:
    """Launches that are all slower or faster together say nothing about the ratio."""
    drift = [1.0, 1.2, 0.9]
    tables = made(
        written,
        entry(case(strategy="ddp"), [0.1 * d for d in drift]),
        entry(case(strategy="ddp", world_size=2), [0.125 * d for d in drift]),
    )
    two = next(row for row in rows(tables.scaling) if row["world_size"] == 2)
    assert two["same_ratio"] == pytest.approx(0.8)
    assert two["same_high_ratio"] - two["same_low_ratio"] < 0.01
    assert cell(tables, "ddp-resnet18-w2")["step_high_s"] > 0.15


def test_both_baselines_are_shown(written: Written) -> None:
    tables = made(
        written,
        entry(case(strategy="single"), 0.08),
        entry(case(strategy="ddp"), 0.1),
        entry(case(strategy="ddp", world_size=2), 0.125),
    )
    two = next(row for row in rows(tables.scaling) if row["world_size"] == 2)
    assert two["single_ratio"] == pytest.approx(0.64)
    assert two["same_ratio"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 16},
        {"precision": "bf16"},
        {"data": "loader"},
        {"model": "resnet50"},
        {"torch": "old"},
    ],
)
def test_a_baseline_that_differs_is_none(written: Written, changes: dict[str, Any]) -> None:
    tables = made(
        written,
        entry(case(strategy="ddp", **changes), 0.1),
        entry(case(strategy="single", **changes), 0.1),
        entry(case(strategy="ddp", world_size=2), 0.1),
    )
    two = next(row for row in rows(tables.scaling) if row["world_size"] == 2)
    assert two["same_ratio"] is None
    assert two["single_ratio"] is None
    assert next(iter(changes)) in two["same_reason"]


def test_strong_scaling_starts_at_the_same_cell(written: Written) -> None:
    tables = made(
        written,
        entry(case(strategy="ddp"), 0.1),
        entry(case(strategy="ddp", world_size=2, batch_size=16, scaling="strong"), 0.0625),
    )
    strong = {row["world_size"]: row for row in rows(tables.scaling) if row["kind"] == "strong"}
    assert strong[2]["same_ratio"] == pytest.approx(0.8)
    assert strong[2]["same_speedup_ratio"] == pytest.approx(1.6)


def test_buckets_are_relative_to_the_default(written: Written) -> None:
    jitter = [1.0, 1.03, 0.97]
    tables = made(
        written,
        entry(case(world_size=2), 0.1),
        entry(case(world_size=2, bucket_cap_mb=25), 0.125),
        entry(case(world_size=2, gradient_as_bucket_view=True), [0.1 * j for j in jitter]),
    )
    table = {
        (row["bucket_cap"], row["gradient_as_bucket_view"]): row for row in rows(tables.buckets)
    }
    assert table["unset", False]["is_default"] is True
    assert table["25", False]["ratio"] == pytest.approx(0.8)
    assert table["25", False]["includes_one"] is False
    assert table["unset", True]["includes_one"] is True  # cannot be told apart


@pytest.mark.parametrize("ended", ["failed", "skipped"])
def test_a_bucket_setting_without_a_number_stands_beside_the_others(
    written: Written, ended: str
) -> None:
    """A18: not a ratio to nothing, and not left out."""
    view = case(world_size=2, gradient_as_bucket_view=True)
    others = [
        outcome(case(world_size=4, bucket_cap_mb=25), "failed"),
        outcome(case(world_size=2, bucket_cap_mb=1, static_graph=True), "failed"),
        outcome(case(world_size=2, strategy="all_reduce"), "failed"),
    ]
    tables = made(
        written,
        entry(case(world_size=2), 0.1),
        outcomes=[outcome(view, ended, reason="it cannot be so\nand more"), *others],
    )
    value, without = rows(tables.buckets)
    assert (value["is_default"], value["not_run"]) == (True, None)
    assert (without["id"], without["not_run"]) == ("ddp-resnet18-w2-view", ended)
    assert (without["bucket_cap"], without["gradient_as_bucket_view"]) == ("unset", True)
    assert without["group"] == value["group"]
    assert without["reason"] == "it cannot be so"
    assert without["ratio"] is without["throughput_samples_per_s"] is None
    page = render(tables)
    section = page[page.index('<section id="buckets"') : page.index('<section id="cases"')]
    assert f">{ended}<" in section


def test_a_failed_default_leaves_the_others_without_a_ratio(written: Written) -> None:
    tables = made(
        written,
        entry(case(world_size=2, bucket_cap_mb=25), 0.1),
        outcomes=[outcome(case(world_size=2), "failed")],
    )
    value, without = rows(tables.buckets)
    assert value["ratio"] is without["ratio"] is None
    assert value["reason"] == ("the default (bucket_cap_mb unset, no bucket view) was not measured")
    assert (without["not_run"], without["reason"]) == ("failed", "no reason recorded")
    render(tables)


def test_dataparallel_on_a_cpu_is_no_comparison(written: Written) -> None:
    tables = made(
        written,
        entry(case(strategy="dp"), 0.1, label="not parallel: plain module"),
        entry(case(strategy="ddp"), 0.1),
    )
    (row,) = rows(tables.strategies)
    assert row["ratio"] is None
    assert "parallel on accelerators only" in row["reason"]


def test_ddp_against_dataparallel_on_gpus(written: Written) -> None:
    gpu = {"device": "cuda", "world_size": 4}
    tables = made(
        written,
        entry(case(strategy="dp", **gpu), 0.2),
        entry(case(strategy="ddp", backend="nccl", **gpu), 0.1),
    )
    (row,) = rows(tables.strategies)
    assert row["ratio"] == pytest.approx(2)


def test_a_skip_of_another_model_is_no_reason(written: Written) -> None:
    skipped = outcome(case(model="mlp", strategy="dp", world_size=2), "skipped", reason="no GPU")
    tables = made(written, entry(case(strategy="ddp"), 0.1), outcomes=[skipped])
    (row,) = rows(tables.strategies)
    assert row["reason"] == "no DataParallel case of this model in this file"


def test_a_case_that_failed_after_it_was_timed_does_not_count(written: Written) -> None:
    """D03: pytest-benchmark keeps its numbers as if nothing had happened."""
    fields = case(world_size=2)
    failed = outcome(fields, "failed", reason="assert False")
    tables = made(written, entry(fields, 0.1), outcomes=[failed])
    (row,) = rows(tables.cells)
    assert row["throughput_samples_per_s"] is None
    assert "failed after it was timed" in row["throughput_note"]


def test_percentiles_need_enough_steps() -> None:
    times = [float(n) for n in range(1, 201)]
    assert percentile(times, 0.90) == 180
    assert percentile(times, 0.99) == 198
    assert percentile(times[:100], 0.99) is None
    assert percentile(times[:20], 0.90) == 18
    assert percentile(times[:19], 0.90) is None


def test_a_ratio_with_a_blank_is_blank(written: Written) -> None:
    tables = made(written, entry(case(), 0.1), entry(case(world_size=2), 0.1))
    one, two = rows(tables.cells)
    assert throughput_ratio(one, two | {"throughput_samples_per_s": None}) is None


def test_all_reduce_is_shown_rank_by_rank(written: Written) -> None:
    tables = compute(load([written(sweep())]))
    bars = [row for row in rows(tables.all_reduce_bars) if row["id"] == "ddp-resnet18-w2"]
    assert len(bars) == 2
    early, late = sorted(bars, key=lambda row: -(row["hidden_s"] + row["exposed_s"]))
    # 110 ms steps of which the early rank spends half in all-reduce, and 30 % exposed.
    assert early["exposed_s"] == pytest.approx(0.033, rel=0.02)
    assert early["hidden_s"] == pytest.approx(0.022, rel=0.02)
    assert late["hidden_s"] + late["exposed_s"] == pytest.approx(0.022, rel=0.02)
    table = {row["id"]: row for row in rows(tables.all_reduce)}
    assert table["ddp-resnet18-w2"]["waited_for"] == 1


def test_a_failed_check_is_said_once(written: Written) -> None:
    """The benchmark's own warning and the page's sentence are about the same thing."""
    checks = {"parameters_equal": False, "reduced_bytes_equal_gradient_bytes": False}
    warnings = [
        "parameters differ between ranks after the timed pass",
        "bytes reduced per step are not the bytes of the gradients",
        "something else",
    ]
    fields = case(world_size=2)
    launch = {"checks": checks | {"notes": []}}
    tables = made(written, entry(fields, 0.1, warnings=warnings, launch_changes=launch))
    (row,) = rows(tables.cells)
    assert len(row["failed_checks"]) == 2
    assert row["warnings"] == ["something else"]
