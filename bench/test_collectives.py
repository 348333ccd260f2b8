"""Time, algbw and busbw of collectives against their size: the ``[[collectives]]`` cells."""

from collections.abc import Callable

from bench.case import Case


def test_collectives(case: Case, measure: Callable[[Case], None]) -> None:
    measure(case)
