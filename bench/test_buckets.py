"""Bucket cap, bucket view and the other settings of DDP: the ``[[buckets]]`` cells."""

from collections.abc import Callable

from bench.case import Case


def test_buckets(case: Case, measure: Callable[[Case], None]) -> None:
    measure(case)
