from __future__ import annotations

import random

import pytest

from reports.cost_fit import fit_cost

SIZES = [4**k * 1024 for k in range(9)]  # 1 KiB to 64 MiB


def test_a_line_is_found_again() -> None:
    fit = fit_cost(SIZES, [50e-6 + size / 1e9 for size in SIZES])
    assert fit is not None and fit.alpha_s == pytest.approx(50e-6)
    assert fit.rate_bytes_per_s == pytest.approx(1e9)
    assert fit.regimes == ()
    assert fit.largest_relative_residual == pytest.approx(0, abs=1e-9)
    assert (fit.least_bytes, fit.most_bytes, fit.sizes) == (1024, 64 << 20, 9)
    assert fit.seconds(2 << 20) == pytest.approx(50e-6 + (2 << 20) / 1e9)
    assert fit.covers(2 << 20) and not fit.covers(128 << 20)


def test_noise_is_no_second_regime() -> None:
    noise = random.Random(1)
    times = [(50e-6 + size / 1e9) * noise.lognormvariate(0, 0.1) for size in SIZES]
    fit = fit_cost(SIZES, times)
    assert fit is not None and fit.alpha_s is not None
    assert fit.regimes == ()
    assert fit.alpha_s == pytest.approx(50e-6, rel=0.3)
    assert fit.rms_relative_residual is not None and 0.02 < fit.rms_relative_residual < 0.2


def test_two_regimes_are_told_apart() -> None:
    """Large messages go another way: a handshake first, and twice the rate."""
    times = [20e-6 + s / 0.5e9 if s <= 64 << 10 else 900e-6 + s / 4e9 for s in SIZES]
    fit = fit_cost(SIZES, times)
    assert fit is not None
    small, large = fit.regimes
    assert (small.most_bytes, large.least_bytes) == (64 << 10, 256 << 10)
    assert small.alpha_s == pytest.approx(20e-6)
    assert large.rate_bytes_per_s == pytest.approx(4e9)
    assert fit.seconds(1 << 20) == pytest.approx(900e-6 + (1 << 20) / 4e9)
    assert fit.seconds(2048) == pytest.approx(20e-6 + 2048 / 0.5e9)


def test_what_the_times_do_not_show_is_none_with_a_reason() -> None:
    steeper = fit_cost(SIZES, [(s / 1e9) ** 1.1 for s in SIZES])
    assert steeper is not None and steeper.alpha_s is None and "no latency" in steeper.note
    flat = fit_cost(SIZES[:4], [3e-3, 2.9e-3, 2.8e-3, 2.7e-3])
    assert flat is not None and flat.rate_bytes_per_s is None and "no rate" in flat.note
    assert flat.seconds(1e9) == pytest.approx(2.85e-3, rel=0.02)
    assert fit_cost([1024, 1024], [1e-3, 2e-3]) is None
    two = fit_cost([1024, 4096], [1e-3, 2e-3])
    assert two is not None and two.rms_relative_residual is None


def test_times_must_be_above_0() -> None:
    with pytest.raises(ValueError, match="above 0"):
        fit_cost([1024, 2048], [0.0, 1e-3])
