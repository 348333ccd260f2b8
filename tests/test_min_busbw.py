from __future__ import annotations

from typing import Any

from bench.case import Case
from bench.min_busbw import shortfalls
from bench.result import LaunchResult


def case_of(kind: str, size: int, ranks: int = 2) -> Case:
    own = {"model": "", "strategy": "collective", "collective": kind}
    return Case.from_dict(own | {"bytes": size, "world_size": ranks})


def launch(*rank_s: float, pairs: dict[tuple[int, int], float] | None = None) -> LaunchResult:
    ranks: list[dict[str, Any]] = [
        {"rank": n, "host": f"host{n}", "median_step_s": seconds, "pair_s": {}}
        for n, seconds in enumerate(rank_s)
    ]
    for (first, second), seconds in (pairs or {}).items():
        ranks[first]["pair_s"][str(second)] = seconds
        ranks[second]["pair_s"][str(first)] = seconds / 2
    return LaunchResult(0, (max(rank_s),), {"median_step_s": max(rank_s), "ranks": ranks})


LARGE, SMALL = case_of("all_reduce", 100_000_000), case_of("all_reduce", 1000)


def test_the_largest_size_counts_and_its_slowest_rank_is_named() -> None:
    answers = {LARGE: [launch(0.9, 1.0)], SMALL: [launch(1.0, 1.0)]}  # 100 MB/s, and 1 kB/s
    assert shortfalls([SMALL, LARGE], answers.__getitem__, 100e6) == []
    (line,) = shortfalls([SMALL, LARGE], answers.__getitem__, 101e6)
    assert "busbw 100 MB/s is below 101 MB/s" in line
    assert "rank 1 on host1 (+11.1%" in line


def test_every_pair_that_is_slow_is_named_the_slowest_first() -> None:
    pairs = case_of("pairs", 100_000_000, 3)
    of_pair = {(0, 1): 1.0, (0, 2): 2.0, (1, 2): 4.0}
    found = shortfalls([pairs], lambda case: [launch(7, 7, 7, pairs=of_pair)], 60e6)
    *found, all_have = found
    assert all_have.endswith("all slow pairs, and no other, have rank 2 on host2")
    assert [line.split("rank ", 1)[1] for line in found] == [
        "1 on host1 and rank 2 on host2 exchange 25.0 MB/s each way, below 60.0 MB/s",
        "0 on host0 and rank 2 on host2 exchange 50.0 MB/s each way, below 60.0 MB/s",
    ]


def test_what_was_not_measured_has_not_passed() -> None:
    (line,) = shortfalls([LARGE], lambda case: [], 1.0)
    assert "not measured" in line
    (line,) = shortfalls([case_of("broadcast", 1000)], lambda case: [launch(1, 1)], 1.0)
    assert "nothing was judged" in line
