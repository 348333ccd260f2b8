"""Exact arithmetic on intervals of whole nanoseconds.

A range is a pair `(start_ns, end_ns)`, half open, `start_ns <= end_ns`. `Intervals` are ranges in
order which neither touch nor overlap and none of which is empty: every function here gives such a
tuple, and all but `union` expect one. Integers, so that sums over thousands of kernels are exact.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

Range = tuple[int, int]
Intervals = tuple[Range, ...]


def union(ranges: Iterable[Range]) -> Intervals:
    """The time covered by at least one of the ranges, given in any order."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return tuple(merged)


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """The time covered by both."""
    both: list[Range] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i][0], right[j][0])
        end = min(left[i][1], right[j][1])
        if start < end:
            both.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(both)


def subtraction(left: Intervals, right: Intervals) -> Intervals:
    """The time covered by `left` and not by `right`."""
    rest: list[Range] = []
    j = 0
    for start, end in left:
        while j < len(right) and right[j][1] <= start:
            j += 1
        k = j
        while k < len(right) and right[k][0] < end:
            if start < right[k][0]:
                rest.append((start, right[k][0]))
            start = right[k][1]
            k += 1
        if start < end:
            rest.append((start, end))
    return tuple(rest)


def total_ns(intervals: Intervals) -> int:
    """The length of the time covered, in nanoseconds."""
    return sum(end - start for start, end in intervals)


def shifted(intervals: Intervals, by_ns: int) -> Intervals:
    """The same, later by so much."""
    return tuple((start + by_ns, end + by_ns) for start, end in intervals) if by_ns else intervals


def clip(intervals: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """The part between two moments; takes time for that part only, however long the rest is."""
    if start_ns >= end_ns:
        return ()
    first = bisect.bisect_right(intervals, start_ns, key=lambda r: r[1])
    last = bisect.bisect_left(intervals, end_ns, lo=first, key=lambda r: r[0])
    inside = intervals[first:last]
    return tuple((max(start, start_ns), min(end, end_ns)) for start, end in inside)
