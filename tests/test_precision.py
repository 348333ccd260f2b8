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


def test_what_steps_are_worth_by_hand() -> None:
    # Above and below the median as ++--++--: autocorrelations 1, 1/8, then a negative pair.
    assert effective_sample_size([2, 2, 1, 1, 2, 2, 1, 1]) == 8 / (2 * (1 + 1 / 8) - 1)
    # ++++----: 1, 5/8, 2/8, -1/8, then a negative pair.
    assert effective_sample_size([2, 2, 2, 2, 1, 1, 1, 1]) == 8 / (2 * (14 / 8) - 1)
    # An outlier is no more above the median than any other.
    assert effective_sample_size([9e9, 2, 1, 1, 2, 2, 1, 1]) == 6.4


def test_many_steps_that_are_worth_a_handful_give_no_interval() -> None:
    series = [correlated(random.Random(seed), 100, 0.95) for seed in range(60)]
    few = [each for each in series if 4.1 < effective_sample_size(each) < 6]
    assert len(few) > 3
    assert [median_interval(each) for each in few] == [None] * len(few)


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


def test_the_interval_lies_between_two_order_statistics() -> None:
    """Binomial, as tables have it for 40 independent values: the 14th of them from either end."""
    low_and_high = [value for i in range(20) for value in (float(i), float(39 - i))]
    assert effective_sample_size(low_and_high) == 40  # they swing: none repeats the one before
    assert median_interval(low_and_high) == (13.0, 26.0)
    assert median_interval([1.0, 6.0, 2.0, 5.0, 3.0, 4.0]) == (1.0, 6.0)
    assert median_interval([1.0, 5.0, 2.0, 4.0, 3.0]) is None


def test_equal_steps_are_known_exactly() -> None:
    assert median_interval([0.1] * 20) == (0.1, 0.1)
    assert relative_half_width([0.1] * 20) == 0


def test_half_width_is_relative_to_the_median() -> None:
    values = correlated(random.Random(1), 100, 0.0)
    interval = median_interval(values)
    assert interval is not None
    expected = (interval[1] - interval[0]) / 2 / statistics.median(values)
    assert relative_half_width(values) == expected
