"""Where a step's time goes: waterfall, all-reduce, phases, one step on all ranks, step times."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import (
    all_reduce_figure,
    memory_figures,
    phases_figure,
    step_times_figure,
    timeline_figure,
    waterfall_figure,
)
from reports.drawing import (
    COST_COLOUR,
    GAIN_COLOUR,
    PHASE_COLOURS,
    TRANSFER_COLOUR,
    colour_of,
)
from reports.frames import rows
from reports.page import render
from reports.tables import Tables
from tests.reports.builder import (
    case,
    communication,
    entry,
    rank,
)
from tests.reports.drawn import Drawn
from tests.reports.tables_of import one_file, tables_of
from tests.reports.timelines import timeline, with_timeline

Written = Callable[..., Path]
MS = 1e-3


# --- waterfall


def test_the_waterfalls_bars_add_up_to_the_measured_step(swept: Tables) -> None:
    table = swept.waterfall
    row = next(row for row in rows(table) if row["begins"] == "single process")
    one = table[table["cell"] == row["cell"]]
    drawn = Drawn(waterfall_figure.waterfall(one, "w"))
    (begins,) = drawn.bars(colour_of("single"))
    (step,) = drawn.bars(colour_of("ddp"))
    losses, gains = drawn.bars(COST_COLOUR), drawn.bars(GAIN_COLOUR)
    assert begins.length == pytest.approx(row["single_s"] / MS, rel=1e-3)
    assert step.length == pytest.approx(row["step_s"] / MS, rel=1e-3)
    terms = sum(bar.length for bar in losses) - sum(bar.length for bar in gains)
    assert begins.length + terms == pytest.approx(step.length, rel=1e-3)
    assert len(losses) + len(gains) == 4
    share = f"{row['transfer_ratio'] * 100:+.1f} %"
    assert any(text.endswith(f" ms, {share}") for text in drawn.texts), drawn.texts


# --- all-reduce


def test_both_divisions_of_the_all_reduce_time(written: Written) -> None:
    fields = case(strategy="ddp", world_size=2)
    ranks = [
        rank(n, 0.1, communication=communication(all_reduce_s, exposed_s))
        for n, (all_reduce_s, exposed_s) in enumerate(((0.050, 0.030), (0.020, 0.005)))
    ]
    across = {"transfer_s": 0.018, "wait_s": [0.032, 0.002], "estimate": False, "waited_for": 1}
    made = entry(fields, 0.1, launch_changes={"ranks": ranks, "across_ranks": across})
    tables = one_file(written, [made])
    drawn = Drawn(all_reduce_figure.all_reduce(tables.all_reduce_bars, "a"))
    lengths = [[round(bar.length, 1) for bar in drawn.bars(c)] for c in (GAIN_COLOUR, COST_COLOUR)]
    assert lengths == [[20, 15], [30, 5]]
    moved, waited = drawn.bars(TRANSFER_COLOUR), drawn.hollow(TRANSFER_COLOUR)
    assert [round(bar.length, 1) for bar in moved] == [18, 18]
    assert [round(bar.length, 1) for bar in waited] == [32, 2]
    assert [round(bar.left, 1) for bar in moved] == [32, 2]
    assert "rank 0: 20.0 ms hidden, 30.0 ms exposed; 32.0 ms waiting, 18.0 ms of transfer" in (
        drawn.desc
    )


def test_waiting_that_is_not_known_is_not_drawn(written: Written) -> None:
    made = entry(case(strategy="ddp", world_size=2), launch_changes={"across_ranks": None})
    drawn = Drawn(all_reduce_figure.all_reduce(one_file(written, [made]).all_reduce_bars, "a"))
    assert drawn.bars(TRANSFER_COLOUR) == drawn.hollow(TRANSFER_COLOUR) == []
    assert len(drawn.bars(GAIN_COLOUR)) == 2
    assert "waiting" not in drawn.desc
    alone = one_file(written, [entry(case(strategy="single"))])
    assert all_reduce_figure.all_reduce(alone.all_reduce_bars, "a") is None


# --- phases


def test_phases_are_those_of_the_slowest_rank(written: Written) -> None:
    def of_rank(n: int, step_s: float, forward_s: float) -> dict[str, Any]:
        phases = {"data": 0.001, "forward": forward_s, "backward": 0.06, "optimizer": 0.004}
        return rank(n, step_s, phases={k: {"median_s": v, "mean_s": v} for k, v in phases.items()})

    ranks = [of_rank(0, 0.09, 0.050), of_rank(1, 0.1, 0.020)]
    fields = case(strategy="ddp", world_size=2)
    tables = one_file(written, [entry(fields, 0.1, launch_changes={"ranks": ranks})])
    (row,) = rows(tables.step_phases)
    assert (row["step_s"], row["forward_s"]) == pytest.approx((0.1, 0.020))
    assert row["communication_s"] is None
    drawn = Drawn(phases_figure.phases(tables.step_phases, "p"))
    lengths = {name: drawn.bars(colour) for name, colour in PHASE_COLOURS.items()}
    stacked = [lengths[name][0] for name in ("data", "forward", "backward", "optimizer")]
    assert [round(bar.length, 2) for bar in stacked] == [1, 20, 60, 4]
    for before, after in itertools.pairwise(stacked):
        assert after.left == pytest.approx(before.right, abs=0.01)
    assert stacked[0].left == pytest.approx(0, abs=0.01)
    assert "forward 20.0 ms, backward 60.0 ms, optimizer 4.00 ms; measured step 100 ms" in (
        drawn.desc
    )


def test_a_models_own_step_function_is_one_phase(written: Written) -> None:
    phases = {
        "forward": None,
        "backward": None,
        "step_fn": {"median_s": 0.08, "mean_s": 0.08},
        "optimizer": {"median_s": 0.01, "mean_s": 0.01},
    }
    made = entry(case(strategy="single"), launch_changes={"ranks": [rank(0, 0.1, phases=phases)]})
    drawn = Drawn(phases_figure.phases(one_file(written, [made]).step_phases, "p"))
    assert [round(bar.length, 1) for bar in drawn.bars(PHASE_COLOURS["step_fn"])] == [80]
    assert "step_fn (forward and backward) 80.0 ms" in drawn.desc


def test_files_without_phases_have_no_figure_of_them(shared: Callable[[str], Path]) -> None:
    tables = tables_of(shared("b01_weak_scaling.json"))
    assert phases_figure.phases(tables.step_phases, "p") is None
    assert memory_figures.memory(tables.memory, "m") is None
    assert tables.timelines.empty


# --- one step on all ranks


def test_a_step_is_drawn_where_it_happened(written: Written) -> None:
    tables = one_file(written, [with_timeline(timeline())])
    drawn = Drawn(timeline_figure.timeline(tables.timelines, "t"))
    forward, backward = (drawn.bars(PHASE_COLOURS[name]) for name in ("forward", "backward"))
    assert [(round(b.left, 1), round(b.right, 1)) for b in forward] == [(0, 10), (1, 11)]
    assert [(round(b.left, 1), round(b.right, 1)) for b in backward] == [(10, 30), (11, 31)]
    moved, waited = drawn.bars(TRANSFER_COLOUR), drawn.hollow(TRANSFER_COLOUR)
    assert [(round(b.left, 1), round(b.right, 1)) for b in moved] == [
        *((13, 16), (18, 21)),
        *((12, 16), (17, 21)),
    ]
    assert [(round(b.left, 1), round(b.right, 1)) for b in waited] == [(12, 13), (17, 18)]
    # Under each rank's phases its calls, each on a line of its own; then the next rank.
    order = [forward[0], moved[0], moved[1], forward[1], moved[2], moved[3]]
    middles = [bar.middle for bar in order]
    assert middles == sorted(middles)
    assert all(a + 1 < b for a, b in itertools.pairwise(middles))
    assert drawn.texts.count("2.00 MB") == 2
    assert "Rank 0: forward 0.00 to 10.0 ms; backward 10.0 to 30.0 ms" in drawn.desc
    assert "all_reduce of 1.00 MB 12.0 to 16.0 ms, waiting 1.00 ms" in drawn.desc


def test_many_calls_share_lines_and_never_overlap() -> None:
    calls = [{"start_s": n * 1.0, "end_s": n + 1.5} for n in range(40)]
    lines = timeline_figure.in_lines(calls)
    assert len(lines) == 2
    assert sum(map(len, lines)) == 40
    for line in lines:
        assert all(a["end_s"] <= b["start_s"] for a, b in itertools.pairwise(line))


def test_of_each_model_and_strategy_the_most_ranks_are_shown(written: Written) -> None:
    entries = [
        with_timeline(timeline(2), world_size=2),
        with_timeline(timeline(4), world_size=4, bucket_cap_mb=5),
        with_timeline(timeline(4), world_size=4),
        with_timeline(timeline(2), world_size=2, strategy="all_reduce"),
    ]
    tables = one_file(written, entries)
    assert list(dict.fromkeys(tables.timelines["id"])) == [
        "ddp-resnet18-w4",
        "all_reduce-resnet18-w2",
    ]
    page = render(tables)
    assert page.count("<h3>One step on all ranks</h3>") == 1
    assert page.count("<h4>ddp-resnet18-w4</h4>") == 1
    assert "of it waiting, ms" in page


def test_a_timeline_that_could_not_be_made_says_why(written: Written) -> None:
    made = {"ranks": [], "reason": "the ranks' times cannot be compared: different clocks"}
    tables = one_file(written, [with_timeline(made)])
    assert tables.timelines.empty
    page = render(tables)
    assert "no timeline, the ranks&#39; times cannot be compared" in page
    assert timeline_figure.timeline(tables.timelines, "t") is None
    # A file of an older version says nothing of it.
    older = render(one_file(written, [entry(case(strategy="ddp", world_size=2))]))
    assert "no timeline" not in older
    assert "One step on all ranks" not in older


@pytest.mark.parametrize(
    "damaged",
    [
        {"ranks": [{"rank": 0, "start_s": None, "end_s": 1}, {"rank": "1"}]},
        {"ranks": 7, "step_s": "long"},
        {
            "ranks": [
                {
                    "rank": r,
                    "start_s": 0,
                    "end_s": 1,
                    "phases": [{"name": "x", "start_s": 2, "end_s": 1}, 5],
                    "collectives": [{"kind": None}, {"start_s": 1e400}],
                }
                for r in range(2)
            ]
        },
    ],
)
def test_a_damaged_timeline_costs_no_page(written: Written, damaged: dict[str, Any]) -> None:
    page = render(one_file(written, [with_timeline(timeline() | damaged)]))
    assert "ddp-resnet18-w2" in page


# --- step times


def test_every_launch_has_a_box(written: Written) -> None:
    steps = [[(100 + n + 10 * launch) * MS for n in range(1, 21)] for launch in range(3)]
    tables = one_file(written, [entry(case(strategy="ddp"), launches=steps)])
    first, *_ = rows(tables.step_times)
    at = [round(first[name] / MS, 6) for name in ("shortest_s", "p10_s", "p25_s", "median_s")]
    assert at == [101, 102, 105, 110.5]
    drawn = Drawn(step_times_figure.step_times(tables.step_times, "s"))
    boxes = drawn.bars(colour_of("ddp"))
    assert [round(box.left) for box in boxes] == [105, 115, 125]
    assert [round(box.right) for box in boxes] == [115, 125, 135]
    assert "launch 1 median 120 ms, 112 to 128 ms for four of five steps" in drawn.desc


def test_medians_without_single_steps_are_no_distribution(written: Written) -> None:
    made = entry(case(strategy="ddp"))
    del made["stats"]["data"]
    tables = one_file(written, [made])
    assert step_times_figure.step_times(tables.step_times, "s") is None
