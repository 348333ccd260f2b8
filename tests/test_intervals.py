"""Interval arithmetic against a grid on which every nanosecond is counted by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.intervals import (
    Intervals,
    Range,
    clip,
    intersection,
    shifted,
    subtraction,
    total_ns,
    union,
)

MOMENTS = st.integers(min_value=-30, max_value=30)
RANGES = st.lists(st.tuples(MOMENTS, MOMENTS).map(lambda pair: (min(pair), max(pair))), max_size=12)


def cells(ranges: list[Range] | Intervals) -> set[int]:
    return {cell for start, end in ranges for cell in range(start, end)}


def is_normal(intervals: Intervals) -> bool:
    moments = [moment for interval in intervals for moment in interval]
    return all(left < right for left, right in itertools.pairwise(moments))


@given(RANGES)
def test_union_covers_what_any_range_covers(ranges: list[Range]) -> None:
    merged = union(ranges)
    assert is_normal(merged)
    assert cells(merged) == cells(ranges)
    assert total_ns(merged) == len(cells(ranges))


@given(RANGES, RANGES)
def test_intersection_covers_what_both_cover(left: list[Range], right: list[Range]) -> None:
    both = intersection(union(left), union(right))
    assert is_normal(both)
    assert cells(both) == cells(left) & cells(right)


@given(RANGES, RANGES)
def test_subtraction_covers_what_only_the_left_covers(
    left: list[Range], right: list[Range]
) -> None:
    rest = subtraction(union(left), union(right))
    assert is_normal(rest)
    assert cells(rest) == cells(left) - cells(right)


@given(RANGES, RANGES)
def test_overlap_and_exposed_add_up(left: list[Range], right: list[Range]) -> None:
    communication, compute = union(left), union(right)
    overlap = total_ns(intersection(communication, compute))
    exposed = total_ns(subtraction(communication, compute))
    assert overlap + exposed == total_ns(communication)


@given(RANGES, RANGES)
def test_no_order_of_the_ranges_matters(left: list[Range], right: list[Range]) -> None:
    both = union([*left, *right])
    assert union([*reversed(right), *left]) == union([*union(left), *union(right)]) == both
    assert intersection(union(left), union(right)) == intersection(union(right), union(left))


@given(RANGES, st.integers(-(10**19), 10**19))
def test_shifted_covers_the_same_so_much_later(ranges: list[Range], by_ns: int) -> None:
    moved = shifted(union(ranges), by_ns)
    assert is_normal(moved)
    assert moved == union((start + by_ns, end + by_ns) for start, end in ranges)
    assert total_ns(moved) == len(cells(ranges))
    assert shifted(moved, -by_ns) == union(ranges)


@given(RANGES, MOMENTS, MOMENTS)
def test_clip_keeps_what_lies_between(ranges: list[Range], start: int, end: int) -> None:
    inside = clip(union(ranges), start, end)
    assert is_normal(inside)
    assert cells(inside) == cells(ranges) & set(range(start, end))


@given(RANGES, MOMENTS, MOMENTS)
def test_clip_is_the_intersection_with_one_range(ranges: list[Range], a: int, b: int) -> None:
    start, end = min(a, b), max(a, b)
    assert clip(union(ranges), start, end) == intersection(union(ranges), union([(start, end)]))


@pytest.mark.parametrize("offset_ns", [0, 1_790_000_000_000_000_000])
def test_nanoseconds_survive_times_since_1970(offset_ns: int) -> None:
    left = union([(offset_ns, offset_ns + 3)])
    right = union([(offset_ns + 1, offset_ns + 2)])
    assert subtraction(left, right) == (
        (offset_ns, offset_ns + 1),
        (offset_ns + 2, offset_ns + 3),
    )


def test_touching_ranges_become_one_and_empty_ones_none() -> None:
    assert union([(5, 5), (2, 3), (1, 2)]) == ((1, 3),)
