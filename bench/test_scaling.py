"""Throughput and efficiency against world size: the ``[[scaling]]`` cells of the matrix."""

from collections.abc import Callable

from bench.case import Case


def test_scaling(case: Case, measure: Callable[[Case], None]) -> None:
    measure(case)
