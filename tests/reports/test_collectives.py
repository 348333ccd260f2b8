"""Collectives: their tables, their section on the page, and that training does not see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import findings
from reports.figure_catalogue import listed
from reports.frames import rows
from reports.page import render
from tests.reports.builder import case, collective, entry, rank
from tests.reports.drawn import Drawn
from tests.reports.tables_of import one_file

Written = Callable[..., Path]
SIZES = [1 << 10, 1 << 15, 1 << 20, 1 << 25]


def all_reduce(size: int, **fields: Any) -> dict[str, Any]:
    """Of 150 µs and 1.2 GB/s."""
    return entry(collective(bytes=size, **fields), 150e-6 + size / 1.2e9)


def pairs(**fields: Any) -> dict[str, Any]:
    """Of three ranks, of which 2 is half as fast for the others."""
    ranks = [rank(n, 0.1, host=f"host{n}", pair_s={}) for n in range(3)]
    for first, second, seconds in ((0, 1, 0.01), (0, 2, 0.02), (1, 2, 0.02)):
        ranks[first]["pair_s"][str(second)] = seconds
        ranks[second]["pair_s"][str(first)] = seconds * 0.9
    own = collective("pairs", bytes=10_000_000, world_size=3, **fields)
    return entry(own, 0.1, launch_changes={"ranks": ranks})


def test_bandwidth_and_its_interval_follow_from_the_times(written: Written) -> None:
    tables = one_file(written, [all_reduce(1 << 20, world_size=4)])
    (row,) = rows(tables.collectives)
    time_s = 150e-6 + (1 << 20) / 1.2e9
    assert row["algbw_bytes_per_s"] == pytest.approx((1 << 20) / time_s)
    assert row["busbw_bytes_per_s"] == pytest.approx(1.5 * (1 << 20) / time_s)
    assert row["busbw_low_bytes_per_s"] <= row["busbw_bytes_per_s"] <= row["busbw_high_bytes_per_s"]
    assert row["series"] == "4 ranks, gloo, float32"
    assert (row["hosts"], row["launch_count"]) == (1, 3)


def test_the_cost_is_found_again_series_by_series(written: Written) -> None:
    cells = [all_reduce(size, world_size=n) for n in (2, 4) for size in SIZES]
    tables = one_file(written, [*cells, all_reduce(1 << 20, dtype="uint8")])
    two, four, one_size = rows(tables.fits)
    for row in (two, four):
        assert row["alpha_s"] == pytest.approx(150e-6)
        assert row["rate_bytes_per_s"] == pytest.approx(1.2e9)
        assert (row["regime"], row["sizes"]) == ("all sizes", 4)
    assert one_size["alpha_s"] is None and "one size" in one_size["note"]


def test_the_slowest_rank_and_its_host_are_named(written: Written) -> None:
    ranks = [rank(0, 0.010, host="a"), rank(1, 0.012, host="b")]
    cell = entry(collective(), 0.012, launch_changes={"ranks": ranks})
    (row,) = rows(one_file(written, [cell]).collectives)
    assert (row["slowest_rank"], row["slowest_host"]) == (1, "b")
    assert row["spread_ratio"] == pytest.approx(1.2)


def test_pairs_come_slowest_first_beside_the_fastest(written: Written) -> None:
    found = rows(one_file(written, [pairs()]).pairs)
    assert [(row["first"], row["second"]) for row in found] == [(0, 2), (1, 2), (0, 1)]
    assert found[0]["rate_bytes_per_s"] == pytest.approx(10_000_000 / 0.02)  # of two the longer
    assert [row["relative_ratio"] for row in found] == pytest.approx([0.5, 0.5, 1])
    assert (found[0]["first_host"], found[0]["second_host"]) == ("host0", "host2")


def test_training_does_not_see_collectives(written: Written) -> None:
    trained = [entry(case(world_size=n), 0.1) for n in (1, 2)]
    alone = one_file(written, trained)
    both = one_file(written, [*trained, *map(all_reduce, SIZES), pairs()])
    for name in ("scaling", "waterfall", "best", "largest", "step_times", "memory", "buckets"):
        assert getattr(alone, name).equals(getattr(both, name)), name
    models = [one.model for one in findings.of_models(both, "run.json")]
    assert models == ["resnet18", "collectives"]
    for row in rows(both.cells)[2:]:
        assert row["throughput_samples_per_s"] is row["batch_size"] is None


def test_the_page_of_collectives_alone(written: Written) -> None:
    tables = one_file(written, [*map(all_reduce, SIZES), pairs()])
    html = render(tables)
    assert "time = 150\u00a0µs + bytes ÷ 1.20\u00a0GB/s, from 4 sizes" in html
    assert "Ranks 0 (host0) and 2 (host2): 500\u00a0MB/s, 0.50 of the fastest pair." in html
    assert "All slow pairs, and no other, have rank 2 (host2)." in html
    assert "samples/s at best" not in html
    assert {"busbw", "pairs"} <= listed(tables).keys()
    (found,) = findings.of_models(tables, "run.json")
    assert found.headline.startswith("busbw 1.19\u00a0GB/s, all_reduce of 32\u00a0MiB")


def test_the_figure_says_its_numbers(written: Written) -> None:
    from reports.collectives_figure import busbw

    svg = busbw(one_file(written, list(map(all_reduce, SIZES))).collectives, "busbw")
    assert svg is not None
    drawn = Drawn(svg)
    assert "1.19 GB/s at 32MiB" in drawn.desc
    assert drawn.title == "Bus bandwidth by size: all_reduce (run.json)"


def test_wrong_values_are_a_failed_check(written: Written) -> None:
    cell = entry(collective(), 0.01, launch_changes={"checks": {"values_right": False}})
    (row,) = rows(one_file(written, [cell]).cells)
    assert row["failed_checks"] == ["The collective gave wrong values."]
