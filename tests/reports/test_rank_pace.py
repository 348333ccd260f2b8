"""Cases on many ranks or several hosts: who is slow is named, and nothing has a line per rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import rank_pace_figure, timeline_figure
from reports.frames import rows
from reports.page import render
from tests.reports.builder import case, communication, entry, rank
from tests.reports.drawn import Drawn
from tests.reports.tables_of import one_file
from tests.reports.timelines import timeline, with_timeline

Written = Callable[..., Path]
MANY = 300


def slow_ranks(times_s: list[float], per_host: int = 8, **changes: Any) -> dict[str, Any]:
    """One case whose ranks compute for so long."""
    ranks = [
        rank(
            n,
            0.1,
            host=f"node-{n // per_host:02}",
            communication=communication(0.02, 0.01) | {"compute_s": time_s},
            **changes,
        )
        for n, time_s in enumerate(times_s)
    ]
    fields = case(strategy="ddp", world_size=len(times_s))
    return entry(fields, 0.1, launch_changes={"ranks": ranks})


def test_the_slowest_ranks_and_host_have_names(written: Written) -> None:
    times = [0.050] * MANY
    for n in range(40, 48):
        times[n] = 0.055
    times[200] = 0.060
    tables = one_file(written, [slow_ranks(times)])
    (row,) = rows(tables.rank_pace)
    assert (row["ranks"], row["hosts"]) == (MANY, 38)
    assert (row["slow_ranks"], row["slow_hosts"]) == (9, 1)
    assert row["slowest"][0] == (200, "node-25", pytest.approx(0.2))
    assert row["slowest_host"] == ("node-05", pytest.approx(0.1))
    assert (row["shortest_s"], row["longest_s"]) == pytest.approx((0.05, 0.06))
    page = render(tables).replace("\u00a0", " ")
    assert "9 of 300 ranks over 5 % slower than the median: rank 200 on node-25 (+20.0 %)" in page
    assert "slowest host node-05 (+10.0 %)" in page


def test_the_figure_marks_the_slowest_only_where_it_is_slow(written: Written) -> None:
    for slowest_s, marked in ((0.060, True), (0.051, False)):
        tables = one_file(written, [slow_ranks([0.050] * 19 + [slowest_s])])
        drawn = Drawn(rank_pace_figure.rank_pace(tables.rank_pace, "r"))
        assert ("rank 19" in drawn.texts) == marked


def test_a_page_of_many_ranks_has_no_line_for_each(written: Written) -> None:
    few = render(one_file(written, [slow_ranks([0.050] * 20)]))
    many = render(one_file(written, [slow_ranks([0.050] * 600)]))
    assert len(many) < 1.05 * len(few)


def test_ranks_of_one_host_that_are_few_need_no_distribution(written: Written) -> None:
    assert one_file(written, [slow_ranks([0.050] * 8)]).rank_pace.empty
    assert len(one_file(written, [slow_ranks([0.050] * 4, per_host=2)]).rank_pace) == 1


def test_a_ranks_own_steps_go_before_what_the_profiler_saw(written: Written) -> None:
    made = slow_ranks([0.050] * 20, silent_step_s=[0.070, 0.080, 0.090])
    (row,) = rows(one_file(written, [made]).rank_pace)
    assert row["measure"] == "a step without communication"
    assert row["median_s"] == pytest.approx(0.080)


def test_without_one_ranks_time_nobody_is_called_slowest(written: Written) -> None:
    made = slow_ranks([0.050] * 20)
    for launch in made["extra_info"]["result"]["launches"]:
        launch["ranks"][7]["communication"] = None
    (row,) = rows(one_file(written, [made]).rank_pace)
    assert row["measure"] == "forward"


def test_ranks_chosen_from_many_say_what_for(written: Written) -> None:
    record = timeline(2, calls=30, left_out={"ranks": 1022, "collectives": 0})
    for one, number, why in zip(
        record["ranks"], (0, 682), ("the first rank", "waits least"), strict=True
    ):
        one |= {"rank": number, "why": why}
    tables = one_file(written, [with_timeline(record, world_size=1024)])
    svg = timeline_figure.timeline(tables.timelines, "t")
    assert {"rank 0: the first rank", "rank 682: waits least"} <= set(Drawn(svg).texts)
    page = render(tables)
    assert "leaves out 1022 ranks. Those that are there were chosen by how long they wait" in page


def test_what_all_ranks_say_alike_is_said_once(written: Written) -> None:
    made = slow_ranks([0.050] * 20)
    for launch in made["extra_info"]["result"]["launches"]:
        for one in launch["ranks"]:
            one.pop("software", None)
        launch["software"] = {"torch": "2.14.1+many"}
    (row,) = rows(one_file(written, [made]).cells)
    assert row["torch_version"] == "2.14.1+many"
