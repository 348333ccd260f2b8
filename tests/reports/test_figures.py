"""Figures: what is drawn has the right values, in words too, and nothing is drawn of nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports import (
    all_reduce_figure,
    bucket_figure,
    drawing,
    memory_figures,
    phases_figure,
    scaling_figures,
    step_times_figure,
    strategies_figure,
    timeline_figure,
    versions_figure,
    waterfall_figure,
)
from reports.drawing import (
    COST_COLOUR,
    GAIN_COLOUR,
    PHASE_COLOURS,
    TRANSFER_COLOUR,
    colour_of,
    named_apart,
    spread_apart,
)
from reports.frames import rows
from reports.load import load
from reports.page import render
from reports.svg import INK
from reports.svg_style import presented
from reports.tables import Tables, compute
from tests.reports.builder import (
    both,
    case,
    communication,
    document,
    entry,
    rank,
    sweep,
    versions,
)
from tests.reports.comparing import compared
from tests.reports.drawn import Drawn

Written = Callable[..., Path]
MS = 1e-3


def tables_of(path: Path) -> Tables:
    return compute(load([path]))


def one_file(written: Written, entries: list[dict[str, Any]]) -> Tables:
    return tables_of(written(document(entries)))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    import json

    path = tmp_path_factory.mktemp("swept") / "run.json"
    path.write_text(json.dumps(sweep()))
    return tables_of(path)


# --- what every figure has


def every_figure(tables: Tables) -> dict[str, str]:
    from reports.figure_catalogue import choices

    return {f"{one.name} {one.model}": svg for one in choices(tables) if (svg := one.draw())}


def test_no_style_attribute_and_nothing_that_reaches_out(swept: Tables) -> None:
    found = every_figure(swept)
    assert len(found) >= 9
    for name, svg in found.items():
        assert "style=" not in svg, name
        assert "<style" not in svg, name
        assert INK not in svg, name
        assert set(re.findall(r'(?:xlink:)?href="(.)', svg)) <= {"#"}, name


def test_every_figure_has_a_title_and_says_its_numbers(swept: Tables) -> None:
    for name, svg in every_figure(swept).items():
        drawn = Drawn(svg)
        assert drawn.title.strip(), name
        assert re.search(r"[0-9]", drawn.desc), name
        assert drawn.root.get("role") == "img"


def test_style_becomes_attributes_and_unknown_style_is_an_error() -> None:
    said = presented({"style": "font: bold 9.2px 'DejaVu Sans', x; text-anchor: end", "x": "1"})
    assert said == {"font-weight": "bold", "font-size": "9.2", "text-anchor": "end", "x": "1"}
    said = presented({"style": "font-size: 8px; font-family: 'A', 'B'; fill: #fff; opacity: .5"})
    assert said == {"font-size": "8", "fill": "#fff", "opacity": ".5"}
    with pytest.raises(ValueError, match="behavior"):
        presented({"style": "behavior: url(x)"})


def test_a_page_has_a_bounded_number_of_figures(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reports.page.MOST_FIGURES", 2)
    monkeypatch.setattr("reports.figure_sections.MOST_FIGURES", 2)
    entries = [
        entry(case(model=f"m{n}", strategy="ddp", world_size=size), 0.1)
        for n in range(5)
        for size in (1, 2)
    ]
    page = render(one_file(written, entries))
    for name in ("scaling", "waterfall", "phases", "all-reduce", "memory", "step-times"):
        numbers = set(re.findall(rf'id="{name}-([0-9]+)-(?:throughput-)?title"', page))
        assert numbers == {"0", "1"}, name
    assert "No figure: the page has 2 of this kind." in page
    assert "Figures of the first 2 models; “All cases” has the 3 others too." in page


def test_series_are_named_by_what_tells_them_apart() -> None:
    labels = ["ddp, gloo, batch 32 per rank", "all_reduce, gloo, batch 32 per rank"]
    names, common = named_apart(labels)
    assert (list(names.values()), common) == (["ddp", "all_reduce"], "gloo, batch 32 per rank")
    one_has_more = ["ddp, gloo, batch 8", "ddp, gloo, batch 8, static_graph=True"]
    assert named_apart(one_has_more) == ({label: label for label in one_has_more}, "")
    assert named_apart(labels[:1]) == ({labels[0]: "ddp"}, "gloo, batch 32 per rank")


def test_names_at_the_ends_of_lines_keep_their_order_and_their_distance() -> None:
    places = spread_apart([1.0, 1.0, 1.2, 5.0, 9.0, 9.1], 0.5)
    assert all(b - a >= 0.5 - 1e-9 for a, b in itertools.pairwise(places))
    assert places[3] == 5.0
    assert sum(places[:3]) == pytest.approx(3.2)
    assert sum(places[4:]) == pytest.approx(18.1)


# --- scaling


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


def timeline(
    ranks: int = 2, calls: int = 2, reason: str | None = None, **changes: Any
) -> dict[str, Any]:
    """Rank r begins r ms late. Forward 10 ms, backward 20 ms, optimizer 2 ms; in backward calls of
    4 ms one after another from 12 ms on, in which all but the last rank wait 1 ms."""
    return {
        "step": 3,
        "steps": 5,
        "step_s": 0.032,
        "aligned": False,
        "ends_within_s": 1e-5,
        "left_out": {"ranks": 0, "collectives": 0},
        "ranks": [
            {
                "rank": r,
                "start_s": r * MS,
                "end_s": r * MS + 0.032,
                "phases": [
                    {"name": name, "start_s": r * MS + start, "end_s": r * MS + end}
                    for name, start, end in (
                        ("forward", 0, 0.010),
                        ("backward", 0.010, 0.030),
                        ("optimizer", 0.030, 0.032),
                    )
                ],
                "collectives": [
                    {
                        "kind": "all_reduce",
                        "bytes": 1_000_000 * (n + 1),
                        "start_s": (12 + 5 * n) * MS,
                        "end_s": (16 + 5 * n) * MS,
                        "wait_s": 0.0 if r == ranks - 1 else MS,
                    }
                    for n in range(calls)
                ],
            }
            for r in range(ranks)
        ],
        "reason": reason,
    } | changes


def with_timeline(made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    of = {"strategy": "ddp", "world_size": 2} | fields
    return entry(case(**of), launch_changes={"timeline": made})


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


# --- versions


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


def test_one_colour_per_strategy_and_none_twice() -> None:
    colours = [colour_of(name) for name in (*drawing._COLORBLIND, "other")]
    other = [*dict.fromkeys(PHASE_COLOURS.values()), COST_COLOUR, GAIN_COLOUR]
    assert len({*colours, *other}) == len(colours) + len(other)
