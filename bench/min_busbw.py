"""``--min-busbw``: whether the network gives what it was bought for, and who falls short.

Judged are the largest size of every series of all_reduce, and every pair of ranks at the largest
size of theirs. What was not measured has not passed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from bench.bandwidth import busbw_bytes_per_s
from bench.case import Case
from bench.pairs import Pair, common_rank, pair_seconds
from bench.result import LaunchResult
from bench.terminal import bandwidth, step_time_s
from bench.units import bytes_text

_JUDGED = ("all_reduce", "pairs")
#: Pairs of one cell that are named, the slowest first.
_MOST_PAIRS = 8


def shortfalls(
    cases: Iterable[Case],
    launches_of: Callable[[Case], Sequence[LaunchResult]],
    least_bytes_per_s: float,
) -> list[str]:
    """A line for every series and pair below ``least_bytes_per_s``, and for what is not known.

    ``launches_of``: the good launches of a case; none where there is no result.
    """
    largest: dict[Case, Case] = {}
    for case in cases:
        if case.collective in _JUDGED:
            series = case.replace(bytes=1)
            if case.bytes > largest.get(series, series).bytes or series not in largest:
                largest[series] = case
    if not largest:
        return ["--min-busbw: no all_reduce and no pairs are in this sweep; nothing was judged"]
    found: list[str] = []
    for case in largest.values():
        launches = launches_of(case)
        if not launches:
            found.append(f"{_named(case)}: not measured, so not known to reach the least busbw")
        elif case.collective == "pairs":
            found += _pairs(case, launches, least_bytes_per_s)
        else:
            found += _series(case, launches, least_bytes_per_s)
    return found


def _series(case: Case, launches: Sequence[LaunchResult], least: float) -> list[str]:
    busbw = busbw_bytes_per_s(case.collective, case.bytes, step_time_s(launches), case.world_size)
    if busbw is None or busbw >= least:
        return []
    times: dict[int, list[float]] = {}
    host: dict[int, str] = {}
    for launch in launches:
        for rank in launch.fields["ranks"]:
            times.setdefault(rank["rank"], []).append(rank["median_step_s"])
            host[rank["rank"]] = rank["host"]
    means = {rank: statistics.fmean(own) for rank, own in times.items()}
    slowest = max(means, key=lambda rank: means[rank])
    more = means[slowest] / min(means.values()) - 1
    return [
        f"{_named(case)}: busbw {bandwidth(busbw)} is below {bandwidth(least)}; slowest is rank "
        f"{slowest} on {host[slowest]} ({more:+.1%} over the fastest; all wait for each other, so "
        "collective=pairs tells more)"
    ]


def _pairs(case: Case, launches: Sequence[LaunchResult], least: float) -> list[str]:
    records = [launch.fields for launch in launches]
    host = {rank["rank"]: rank["host"] for rank in records[0]["ranks"]}
    found, slow = [], list[Pair]()
    seconds = pair_seconds(records)
    for (first, second), time_s in sorted(seconds.items(), key=lambda item: -item[1]):
        rate = busbw_bytes_per_s("send_recv", case.bytes, time_s, 2) or math.nan
        if not rate >= least:
            slow.append((first, second))
            found.append(
                f"{_named(case)}: rank {first} on {host[first]} and rank {second} on "
                f"{host[second]} exchange {bandwidth(rate)} each way, below {bandwidth(least)}"
            )
    more = len(found) - _MOST_PAIRS
    found = found[:_MOST_PAIRS] + ([f"{_named(case)}: and {more} more pairs"] if more > 0 else [])
    rank = common_rank(slow, seconds.keys() - set(slow))
    if rank is not None:
        found.append(
            f"{_named(case)}: all slow pairs, and no other, have rank {rank} on {host[rank]}"
        )
    return found


def _named(case: Case) -> str:
    where = f"{case.backend} on {case.device}"
    also = "" if case.placement == "packed" else f", {case.placement}"
    label = f", torch {case.torch}" if case.torch else ""
    size = f"{bytes_text(case.bytes)} of {case.dtype}"
    return f"{case.collective} of {size}, {case.world_size} ranks, {where}{also}{label}"
