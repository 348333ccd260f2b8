"""Throughput and efficiency against world size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reports import (
    scaling_figures,
)
from reports.drawing import (
    colour_of,
)
from reports.frames import rows
from reports.tables import Tables
from tests.reports.builder import (
    case,
    entry,
)
from tests.reports.drawn import Drawn
from tests.reports.tables_of import one_file

Written = Callable[..., Path]


def test_throughput_has_direct_labels_a_line_per_series_and_starts_at_zero(swept: Tables) -> None:
    table = swept.scaling[swept.scaling["kind"] == "weak"]
    drawn = Drawn(scaling_figures.throughput(table, "t"))
    assert "ddp" in drawn.texts
    assert "all_reduce" in drawn.texts
    assert "0" in drawn.texts
    for strategy in ("ddp", "all_reduce"):
        assert colour_of(strategy) in drawn.svg
    # all_reduce is the slower, and its name stands lower.
    assert drawn.place("all_reduce") > drawn.place("ddp")
    assert "samples/s at world size 4" in drawn.desc


def test_a_figure_of_very_many_series_is_bounded(written: Written) -> None:
    entries = [
        entry(case(strategy="ddp", world_size=size, batch_size=batch), 0.1)
        for batch in range(1, 13)
        for size in ((1, 2, 4) if batch == 12 else (1, 2))
    ]
    tables = one_file(written, entries)
    drawn = scaling_figures.drawn_series(tables.scaling, "throughput_samples_per_s")
    assert len(drawn) == scaling_figures.MOST_SERIES
    assert any("batch 12 per rank" in label for label in drawn)  # it has most world sizes
    assert scaling_figures.series_left_out(tables.scaling) == 12 - scaling_figures.MOST_SERIES


def test_an_interval_that_dwarfs_the_values_does_not_make_the_axis(written: Written) -> None:
    """Two launches far apart: t with one degree of freedom."""
    entries = [
        entry(case(strategy="ddp", world_size=size), [0.1, 0.2], launches=2) for size in (1, 2)
    ]
    table = one_file(written, entries).scaling
    high = max(row["throughput_high_samples_per_s"] for row in rows(table))
    assert high > 10_000
    drawn = Drawn(scaling_figures.throughput(table, "t"))
    ticks = [float(text.replace("\u202f", "")) for text in drawn.texts if text[0].isdigit()]
    assert max(ticks) < 1000
    # Both intervals go on, and arrows say so.
    assert drawn.svg.count("clip-path") > 0
    colour = colour_of("ddp")
    arrows = [y for _, y in drawn.marks(colour)]
    assert arrows.count(min(arrows)) == 2


def test_one_world_size_is_no_line(written: Written) -> None:
    tables = one_file(written, [entry(case(strategy="ddp", world_size=2))])
    assert scaling_figures.throughput(tables.scaling, "t") is None
    assert scaling_figures.efficiency(tables.scaling, "e") is None
