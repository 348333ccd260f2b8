from __future__ import annotations

import random
import statistics

from bench.precision import effective_sample_size, median_interval, relative_half_width


def correlated(random_: random.Random, count: int, lag_1: float) -> list[float]:
    """Steps of mean 10 that remember the step before."""
    values, state = [], random_.gauss(0, 1)
    for _ in range(count):
        values.append(10 + state)
        state = lag_1 * state + (1 - lag_1**2) ** 0.5 * random_.gauss(0, 1)
    return values


def test_independent_steps_are_worth_their_number() -> None:
    sizes = [effective_sample_size(correlated(random.Random(i), 400, 0.0)) for i in range(30)]
    assert statistics.median(sizes) > 300
    assert max(sizes) <= 400


def test_correlated_steps_are_worth_fewer() -> None:
    # The mean of an AR(1) series of 0.8 is worth 1 in 9 steps; its median about the same.
    sizes = [effective_sample_size(correlated(random.Random(i), 2000, 0.8)) for i in range(20)]
    assert 120 < statistics.median(sizes) < 500


def test_two_levels_that_change_once_are_worth_next_to_nothing() -> None:
    """What a frequency change does: fifty steps of one kind, then fifty of another."""
    assert effective_sample_size([1.0 + i * 1e-6 for i in range(50)] + [2.0] * 50) < 6
    assert median_interval([1.0 + i * 1e-6 for i in range(50)] + [2.0] * 50) is None


def coverage(lag_1: float, count: int) -> float:
    hits = runs = 0
    for seed in range(400):
        interval = median_interval(correlated(random.Random(seed), count, lag_1))
        if interval is not None:
            runs += 1
            hits += interval[0] <= 10 <= interval[1]
    assert runs > 350
    return hits / runs


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    assert coverage(0.0, 40) > 0.92
    assert coverage(0.5, 200) > 0.90
    assert coverage(0.0, 40) < 0.995  # an interval that always holds it would say nothing


def test_too_few_steps_give_no_interval() -> None:
    assert median_interval([1.0, 2.0, 3.0]) is None
    assert median_interval([]) is None
    assert relative_half_width([1.0, 2.0]) is None
    assert relative_half_width([]) is None


def test_equal_steps_are_known_exactly() -> None:
    assert median_interval([0.1] * 20) == (0.1, 0.1)
    assert relative_half_width([0.1] * 20) == 0


def test_half_width_is_relative_to_the_median() -> None:
    values = correlated(random.Random(1), 100, 0.0)
    interval = median_interval(values)
    assert interval is not None
    expected = (interval[1] - interval[0]) / 2 / statistics.median(values)
    assert relative_half_width(values) == expected
