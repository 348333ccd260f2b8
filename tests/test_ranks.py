"""Transfer and wait: collectives matched across ranks."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from bench.ranks import AcrossRanks, match_collectives
from bench.trace import RankTrace, analyse

SHARED = Path(
    os.environ.get("LOCKSTEP_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)


def traces(pattern: str, ranks: int) -> list[RankTrace]:
    paths = [SHARED / pattern.format(rank) for rank in range(ranks)]
    if not all(path.exists() for path in paths):
        pytest.skip(f"recorded traces are absent: no {paths[0]}; set LOCKSTEP_SHARED")
    return [analyse(path) for path in paths]


def rank_trace(
    rank: int,
    ranges: list[tuple[float, ...]],
    base_ns: int = 0,
    steps: int = 1,
    name: str = "gloo:all_reduce",
) -> RankTrace:
    """A rank with all-reduces of (start_us, end_us) or (start_us, end_us, elements); steps 1 ms."""
    events: list[dict[str, Any]] = [
        {"name": f"ProfilerStep#{n}", "ts": 1000 * n, "dur": 1000, "tid": 1} for n in range(steps)
    ]
    for start, end, *elements in ranges:
        args = {"Input Dims": [elements], "Input type": ["float"]} if elements else {}
        events.append({"name": name, "ts": start, "dur": end - start, "tid": 2, "args": args})
    for event in events:
        event.update(ph="X", cat="user_annotation", pid=1)
    header = {"distributedInfo": {"rank": rank}, "baseTimeNanoseconds": base_ns}
    return analyse(header | {"traceEvents": events})


def in_us(across: AcrossRanks) -> list[tuple[float, list[float]]]:
    return [(moved / 1000, [wait / 1000 for wait in waits]) for moved, waits in across.per_step()]


def test_eight_ranks_of_a_recorded_job() -> None:
    across = match_collectives(traces("traces/dlrm_8rank_v100/rank-{}.json.gz", 8), True)
    matched = across.of_kind("all_reduce")
    assert [item.transfer_ns for item in matched] == [87_000, 23_000, 69_000]
    assert across.transfer_ns("all_reduce") == 179_000
    summed = [sum(item.parts[rank].duration_ns for item in matched) for rank in range(8)]
    assert (min(summed), max(summed)) == (195_000, 1_830_000)
    assert sum(summed) / 8 == pytest.approx(1_326_000, abs=500)
    for item in matched:
        ends = [part.end_ns for part in item.parts]
        assert max(ends) - min(ends) <= 7_000
    assert (across.estimate, across.skew_ns, across.notes) == (False, 0, ())
    record = across.to_json()
    assert record["collectives"] == 3
    assert record["transfer_s"] == pytest.approx(179e-6)
    assert record["wait_s"][0] == pytest.approx(1620e-6)
    # A rank's kernels last as long as its waiting and the transfer together, within the 7 us.
    for rank in range(8):
        whole = summed[rank] / 1e9
        assert record["wait_s"][rank] + record["transfer_s"] == pytest.approx(whole, abs=21e-6)


def test_clocks_that_differ_are_aligned_by_the_ends_of_collectives() -> None:
    """Eight recorded ranks, their clocks set seconds apart: within the error that is stated the
    same comes out as of their one clock."""
    ranks = traces("traces/dlrm_8rank_v100/rank-{}.json.gz", 8)
    apart = [with_clock(trace, 3_000_000_000 * number**2) for number, trace in enumerate(ranks)]
    for given in (ranks, apart):
        across = match_collectives(given, same_clock=False)
        assert (across.aligned, across.estimate) == (True, False)
        assert across.transfer_ns("all_reduce") == 178_000  # by one clock 179
        assert across.ends_within_ns == 6_500
        note = str(across.to_json()["note"])
        assert "aligned by the ends of 8 collectives, which then agree within 6.5 us" in note
        true = match_collectives(ranks, same_clock=True).to_json()["wait_s"]
        assert across.to_json()["wait_s"] == pytest.approx(true, abs=3 * 6.5e-6)
    # Taken for one clock, they are found to be none, and aligned all the same.
    assert match_collectives(apart, same_clock=True).transfer_ns("all_reduce") == 178_000


def test_without_enough_collectives_the_shortest_duration_is_the_estimate() -> None:
    ranks = traces("traces/dlrm_8rank_v100/rank-{}.json.gz", 8)
    two = [
        dataclasses.replace(
            trace,
            collectives=tuple(c for c in trace.collectives if c.kind == "all_reduce")[:2],
        )
        for trace in ranks
    ]
    across = match_collectives(two, same_clock=False)
    assert (across.aligned, across.estimate, across.ends_within_ns) == (False, True, None)
    assert "estimated" in across.to_json()["note"]


def test_ends_that_do_not_agree_align_no_clocks() -> None:
    """A clock that drifts by half a collective from one to the next."""
    early = [(100, 200), (300, 400), (500, 600), (700, 800)]
    late = [(start + 50 * n, end + 50 * n) for n, (start, end) in enumerate(early)]
    across = match_collectives([rank_trace(0, early), rank_trace(1, late)], same_clock=False)
    assert (across.aligned, across.estimate) == (False, True)


def with_clock(trace: RankTrace, ahead_ns: int) -> RankTrace:
    return dataclasses.replace(
        trace,
        collectives=tuple(
            dataclasses.replace(c, start_ns=c.start_ns + ahead_ns, end_ns=c.end_ns + ahead_ns)
            for c in trace.collectives
        ),
    )


@pytest.mark.parametrize("same_clock", [True, False])
def test_c05_a_fast_rank_waits(same_clock: bool) -> None:
    record = match_collectives(traces("cases/traces/t04_rank{}.json", 2), same_clock).to_json()
    assert record["transfer_s"] == pytest.approx(100e-6)
    assert record["wait_s"] == pytest.approx([800e-6, 0])
    assert (record["waited_for"], record["waited_for_share"]) == (1, 1.0)
    assert record["estimate"] is not same_clock


def test_c06_time_bases_seconds_apart_are_no_wait() -> None:
    ranks = traces("cases/traces/t05_rank{}.json", 2)
    assert [trace.totals().union_ns for trace in ranks] == [200_000, 200_000]
    across = match_collectives(ranks, same_clock=True)
    record = across.to_json()
    assert record["estimate"] is True
    assert record["transfer_s"] == pytest.approx(200e-6)
    assert record["wait_s"] == [0, 0]
    assert (record["waited_for"], record["waited_for_share"]) == (None, None)
    assert "4999.800 ms" in record["note"]


def test_a_live_gloo_job() -> None:
    ranks = traces("cases/traces/live_normal_r{}_1.json.gz", 2)
    across = match_collectives(ranks, same_clock=True)
    assert (len(across.collectives), across.estimate, across.steps) == (12, False, (1, 2))
    # Rank 0 is the slow one throughout, and rank 1 spends its long all-reduces waiting for it.
    assert across.waited_for() == (0, 1.0)
    for (moved_ns, waits_ns), figures in zip(across.per_step(), ranks[1].per_step(), strict=True):
        assert waits_ns[0] == 0
        assert moved_ns + waits_ns[1] == pytest.approx(figures.union_ns, rel=0.02)


def test_bases_that_differ_are_fine_where_the_times_agree() -> None:
    ranks = [rank_trace(0, [(100, 200)]), rank_trace(1, [(50, 102)], base_ns=100_000)]
    across = match_collectives(ranks, same_clock=True)
    assert not across.estimate
    assert in_us(across) == [(52, [48, 0])]


def test_a_rank_that_leaves_early_has_waited_for_nobody() -> None:
    ranks = [rank_trace(0, [(100, 200)]), rank_trace(1, [(150, 190)])]
    across = match_collectives(ranks, same_clock=True)
    assert across.collectives[0].transfer_ns == 50_000
    assert across.collectives[0].wait_ns == (50_000, 0)


def test_a_broadcast_cannot_vouch_for_different_bases() -> None:
    ranges: list[tuple[float, ...]] = [(100, 200)]
    ranks = [rank_trace(r, ranges, base_ns=r * 10**6, name="gloo:broadcast") for r in range(2)]
    assert match_collectives(ranks, same_clock=True).estimate
    ranks = [rank_trace(r, ranges, name="gloo:broadcast") for r in range(2)]
    assert not match_collectives(ranks, same_clock=True).estimate


def test_two_overlapping_waits_count_once() -> None:
    """A rank 50 ms late: both buckets of the other rank wait through the same 50 ms."""
    early = rank_trace(0, [(0.0, 520.0), (10.0, 560.0)])
    late = rank_trace(1, [(500.0, 520.0), (510.0, 560.0)])
    across = match_collectives([early, late], same_clock=True)
    assert in_us(across) == [(60, [500, 0])]
    assert across.transfer_ns() == 70_000
    estimate = match_collectives([early, late], same_clock=False)
    assert in_us(estimate) == [(60, [500, 0])]


def test_sizes_tell_collectives_apart_that_start_together() -> None:
    first = rank_trace(0, [(100, 300, 8), (101, 200, 4)])
    second = rank_trace(1, [(150, 200, 4), (151, 300, 8)])
    across = match_collectives([first, second], same_clock=True)
    assert sorted(item.transfer_ns for item in across.collectives) == [50_000, 149_000]
    for item in across.collectives:
        assert len({part.bytes for part in item.parts}) == 1


def test_collectives_that_differ_between_ranks_are_left_out_with_a_note() -> None:
    two = rank_trace(0, [(100, 200), (300, 400)])
    one = rank_trace(1, [(100, 200)])
    across = match_collectives([two, one], same_clock=True)
    assert across.collectives == ()
    record = across.to_json()
    assert (record["collectives"], record["transfer_s"], record["wait_s"]) == (0, None, [None] * 2)
    assert "left out: 2" in record["note"]
    none = rank_trace(2, [])
    assert match_collectives([two, two, none], same_clock=True).collectives == ()
    sizes = [rank_trace(0, [(100, 200, 8)]), rank_trace(1, [(100, 200, 9)])]
    assert match_collectives(sizes, same_clock=True).collectives == ()


def test_only_steps_that_all_ranks_have_count() -> None:
    long = rank_trace(0, [(100, 200), (1100, 1300)], steps=2)
    short = rank_trace(1, [(150, 200)], steps=1)
    across = match_collectives([long, short], same_clock=True)
    assert (across.steps, in_us(across)) == ((0,), [(50, [50, 0])])
    assert any("only some ranks" in note for note in across.notes)


def test_without_steps_collectives_match_but_means_are_blank() -> None:
    ranks = [rank_trace(0, [(100, 200)], steps=0), rank_trace(1, [(150, 200)], steps=0)]
    across = match_collectives(ranks, same_clock=True)
    assert [item.transfer_ns for item in across.collectives] == [50_000]
    record = across.to_json()
    assert (record["collectives"], record["transfer_s"]) == (1, None)
    assert record["waited_for"] == 1


def test_the_rank_waited_for_longest_is_named_by_its_number() -> None:
    ranks = [
        rank_trace(7, [(100, 200), (310, 400), (510, 600)]),
        rank_trace(3, [(150, 200), (300, 400), (500, 600)]),
    ]
    across = match_collectives(ranks, same_clock=True)
    assert across.ranks == (7, 3)
    # Rank 3 was last once, by 50 us; rank 7 twice, by 10 us each.
    assert across.waited_for() == (3, pytest.approx(50 / 70))
    tie = match_collectives([rank_trace(0, [(1, 2)]), rank_trace(1, [(1, 2)])], same_clock=True)
    assert tie.waited_for() is None


def test_one_rank_or_none_gives_an_empty_record() -> None:
    for ranks in ([], [rank_trace(0, [(100, 200)])]):
        record = match_collectives(ranks, same_clock=True).to_json()
        assert (record["collectives"], record["transfer_s"], record["waited_for"]) == (
            0,
            None,
            None,
        )
