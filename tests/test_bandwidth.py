"""Rates against what nccl-tests define: doc/PERFORMANCE.md, and lines that its programs print."""

from __future__ import annotations

import pytest

from bench.bandwidth import algbw_bytes_per_s, busbw_bytes_per_s

EIGHTHS = 7 / 8


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [
        *(("all_reduce", 2, 1.0), ("all_reduce", 4, 1.5), ("all_reduce", 8, 2 * EIGHTHS)),
        *(("all_gather", 2, 0.5), ("all_gather", 8, EIGHTHS)),
        *(("reduce_scatter", 2, 0.5), ("reduce_scatter", 8, EIGHTHS)),
        *(("all_to_all", 2, 0.5), ("all_to_all", 8, EIGHTHS)),
        *(("broadcast", 2, 1.0), ("broadcast", 8, 1.0)),
        *(("reduce", 2, 1.0), ("reduce", 8, 1.0)),
        *(("send_recv", 2, 1.0), ("send_recv", 8, 1.0)),
    ],
)
def test_factors_of_nccl_tests(kind: str, ranks: int, factor: float) -> None:
    assert busbw_bytes_per_s(kind, 10**9, 0.5, ranks) == pytest.approx(2e9 * factor)


def test_a_rate_is_bytes_per_second_in_decimal_units() -> None:
    # 128 MiB in 1000 us: 134.22 GB/s, and 8 ranks carry 234.88 GB/s.
    assert algbw_bytes_per_s(2**27, 1e-3) == pytest.approx(134.217728e9)
    assert busbw_bytes_per_s("all_reduce", 2**27, 1e-3, 8) == pytest.approx(234.881024e9)


@pytest.mark.parametrize("seconds", [None, 0.0, -1.0, float("nan")])
def test_without_a_time_there_is_no_rate(seconds: float | None) -> None:
    assert algbw_bytes_per_s(8, seconds) is None
    assert busbw_bytes_per_s("all_reduce", 8, seconds, 2) is None


@pytest.mark.parametrize("size", [None, 0])
def test_without_a_size_there_is_no_rate(size: int | None) -> None:
    assert algbw_bytes_per_s(size, 1.0) is None
    assert busbw_bytes_per_s("all_reduce", size, 1.0, 2) is None


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        *(("all_reduce", 1), ("all_reduce", 0), ("all_reduce", None)),
        *(("unknown", 8), ("barrier", 8), ("gather", 8), ("scatter", 8)),
    ],
)
def test_one_rank_and_kinds_without_a_definition_have_no_bus(kind: str, ranks: int | None) -> None:
    assert busbw_bytes_per_s(kind, 8, 1.0, ranks) is None
