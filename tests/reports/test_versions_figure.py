"""The forest of versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from reports import (
    versions_figure,
)
from reports.drawing import (
    COST_COLOUR,
)
from reports.frames import rows
from tests.reports.builder import (
    both,
    case,
    versions,
)
from tests.reports.comparing import compared
from tests.reports.drawn import Drawn

Written = Callable[..., Path]


def test_the_forest_of_versions(written: Written) -> None:
    entries = [
        *both(case(strategy="ddp", world_size=2), 0.1, 1.08, confirmed=1.08),
        *both(case(strategy="ddp"), 0.1, 0.9, seed=1),
        *both(case(strategy="single"), 0.1, 1.0, seed=2),
    ]
    comparison = compared(written(versions(entries))).comparison
    drawn = Drawn(versions_figure.versions(comparison.rows, 0.03, "new against old", "v"))
    effects = {row["case"]: row for row in rows(comparison.rows) if row["gate"]}
    slower = effects["ddp-resnet18-w2"]
    assert slower["said"] == "slower, confirmed"
    lines = [box for box in drawn.strokes(COST_COLOUR) if box.length > 0.1]
    assert lines[0].left == pytest.approx(100 * (slower["low"] - 1), abs=0.05)
    assert lines[0].right == pytest.approx(100 * (slower["high"] - 1), abs=0.05)
    marks = drawn.marks(COST_COLOUR)
    assert (
        len(
            {
                mark
                for mark in marks
                if mark[0] == pytest.approx(100 * (slower["effect"] - 1), abs=0.1)
            }
        )
        == 1
    )
    # Its triangle and the ring of what was confirmed: two marks at one place, and in the legend.
    assert "confirmed in fresh launches" in drawn.texts
    (band,) = [bar for bar in drawn.bars("currentColor") if bar.length > 5]
    assert (band.left, band.right) == pytest.approx((-3, 3), abs=0.05)
    # The gravest is first.
    places = [drawn.place(name) for name in ("ddp-resnet18-w2", "ddp-resnet18-w1")]
    assert places == sorted(places)
    assert "ddp-resnet18-w1: −9.8 % (−10.2 to −9.5 %), faster" in drawn.desc
    assert "faster" in drawn.desc


def test_no_case_in_common_is_no_forest(written: Written) -> None:
    comparison = compared(written(versions(both(case(strategy="ddp"), 0.1, launches=6)))).comparison
    empty: pd.DataFrame = comparison.rows.iloc[:0]
    assert versions_figure.versions(empty, 0.03, "x", "v") is None


def test_a_forest_of_very_many_cases_keeps_the_gravest(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_figure, "MOST_CASES", 2)
    entries = [
        made
        for n, change in enumerate((1.0, 1.2, 1.0, 1.1))
        for made in both(case(strategy="ddp", batch_size=n + 1), 0.1, change, seed=n)
    ]
    comparison = compared(written(versions(entries))).comparison
    drawn = Drawn(versions_figure.versions(comparison.rows, 0.03, "x", "v"))
    assert [text for text in drawn.texts if text.startswith("ddp-")] == [
        "ddp-resnet18-w1-b2",
        "ddp-resnet18-w1-b4",
    ]
    assert "2 more cases are in the table." in drawn.desc
