"""Settings: bucket cap against view, memory, DDP against DataParallel."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import (
    bucket_figure,
    memory_figures,
    strategies_figure,
)
from reports.drawing import (
    colour_of,
)
from reports.frames import rows
from reports.page import render
from reports.tables import Tables
from tests.reports.builder import (
    case,
    entry,
    rank,
)
from tests.reports.drawn import Drawn
from tests.reports.tables_of import one_file

Written = Callable[..., Path]


# --- buckets


def bucket_cases(factors: dict[tuple[float | None, bool], list[float]]) -> list[dict[str, Any]]:
    return [
        entry(
            case(strategy="ddp", world_size=2, bucket_cap_mb=cap, gradient_as_bucket_view=view),
            [0.1 * factor for factor in times],
        )
        for (cap, view), times in factors.items()
    ]


def test_what_cannot_be_told_from_the_best_is_marked(written: Written) -> None:
    tables = one_file(
        written,
        bucket_cases(
            {
                (None, False): [1.0, 1.001, 0.999],
                (25, False): [0.9, 0.93, 0.87],
                (25, True): [0.91, 0.88, 0.93],
                (1, False): [1.2, 1.201, 1.199],
            }
        ),
    )
    found = {
        (row["bucket_cap"], row["gradient_as_bucket_view"]): row for row in rows(tables.buckets)
    }
    best = found["25", False]
    assert (best["is_best"], best["best_ratio"]) == (True, 1.0)
    assert found["25", True]["like_best"] is True
    assert found["unset", False]["like_best"] is False
    assert found["unset", False]["best_ratio"] == pytest.approx(0.9, rel=0.01)
    drawn = Drawn(bucket_figure.buckets(tables.buckets, "b"))
    assert "best" in drawn.texts
    marked = [text for text in drawn.texts if text.startswith("≈")]
    assert len(marked) == 1
    assert any(re.fullmatch(r"−10\.. % · default", text) for text in drawn.texts), drawn.texts
    assert drawn.texts.count("2: 1.00, 45.8 MB") == 4  # the buckets that were built
    # The best is darkest, the slowest lightest.
    assert [bar.fill.lower() for bar in drawn.bars()].count("#7a5ea8") == 1
    assert "bucket_cap_mb 25, view yes: −0.7 % against the best, not told apart" in drawn.desc


def test_settings_without_the_default_have_a_figure_and_a_lone_one_has_none(
    written: Written,
) -> None:
    two = bucket_cases({(1, False): [1.0, 1.01, 0.99], (25, False): [0.8, 0.81, 0.79]})
    table = one_file(written, two).buckets
    assert table["ratio"].isna().all()
    assert "−20" in " ".join(Drawn(bucket_figure.buckets(table, "b")).texts)
    assert bucket_figure.buckets(one_file(written, two[:1]).buckets, "b") is None


# --- memory


def test_memory_of_the_largest_rank_and_between_launches(written: Written) -> None:
    def of_launch(*peaks_mb: int) -> dict[str, Any]:
        return {
            "ranks": [
                rank(n, 0.1, memory={"peak_bytes": mb * 10**6, "kind": "rss"})
                for n, mb in enumerate(peaks_mb)
            ]
        }

    made = entry(case(strategy="ddp", world_size=2), launches=3)
    for launch, peaks in zip(
        made["extra_info"]["result"]["launches"], ((300, 500), (310, 520), (290, 480)), strict=True
    ):
        launch |= of_launch(*peaks)
    tables = one_file(written, [made])
    (row,) = rows(tables.memory)
    names = ("peak_bytes", "least_bytes", "low_bytes", "high_bytes")
    assert [row[name] / 1e6 for name in names] == [500, 300, 480, 520]
    drawn = Drawn(memory_figures.memory(tables.memory, "m"))
    (bar,) = drawn.bars(colour_of("ddp"))
    assert (round(bar.left), round(bar.right)) == (0, 500)
    assert "500 MB" in drawn.texts
    assert "Resident memory of the process. ddp-resnet18-w2: 500 MB." in drawn.desc


def test_process_and_device_memory_are_never_in_one_figure(written: Written) -> None:
    def of(kind: str, **fields: Any) -> dict[str, Any]:
        memory = {"peak_bytes": 10**9, "kind": kind}
        return entry(case(**fields), launch_changes={"ranks": [rank(0, 0.1, memory=memory)]})

    tables = one_file(written, [of("rss", strategy="single"), of("device", strategy="ddp")])
    page = render(tables)
    assert "resnet18: memory of the device" in page
    assert "resnet18: resident memory of the process" in page


def test_memory_the_view_saves(written: Written) -> None:
    def of(view: bool, mb: int) -> dict[str, Any]:
        fields = case(strategy="ddp", world_size=2, gradient_as_bucket_view=view)
        ranks = [rank(n, 0.1, memory={"peak_bytes": mb * 10**6, "kind": "rss"}) for n in range(2)]
        return entry(fields, launch_changes={"ranks": ranks})

    tables = one_file(written, [of(False, 500), of(True, 460)])
    drawn = Drawn(memory_figures.view_memory(tables.bucket_memory, "v"))
    at = sorted({round(x) for x, _ in drawn.marks(colour_of("ddp"))} - {0})
    assert {460, 500} <= set(at)
    assert any("40.0 MB saved" in text for text in drawn.texts)
    assert "500 MB without, 460 MB with; saved 40.0 MB of 46.8 MB of gradients" in drawn.desc


# --- DDP against DataParallel


def test_ddp_and_dataparallel_side_by_side(written: Written) -> None:
    def of(strategy: str, step_s: float) -> dict[str, Any]:
        batch = {"ddp": 32, "dp": 32}[strategy]
        fields = case(strategy=strategy, world_size=2, device="cuda", batch_size=batch)
        return entry(fields, [step_s, step_s * 1.01, step_s * 0.99])

    tables = one_file(written, [of("ddp", 0.1), of("dp", 0.125)])
    drawn = Drawn(strategies_figure.strategies(tables.strategies, "d"))
    (ddp,), (dp,) = (drawn.bars(colour_of(name)) for name in ("ddp", "dp"))
    assert (round(ddp.length), round(dp.length)) == (640, 512)
    assert ddp.left == pytest.approx(0, abs=0.5)
    assert "+25.0 %" in drawn.texts
    assert "DDP 640 samples/s, dp 512 samples/s; DDP +25.0 %" in drawn.desc


def test_on_a_cpu_there_is_nothing_side_by_side(swept: Tables) -> None:
    assert strategies_figure.strategies(swept.strategies, "d") is None
