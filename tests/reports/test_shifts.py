"""Lasting shifts in short series: right answers by hand, and error rates by simulation."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable

import numpy as np
import pytest

from reports.shifts import (
    FEWEST,
    Shift,
    _best_cuts,
    _costs,
    _price,
    detectable,
    find_shifts,
    standing_change,
)

#: E06: throughput of b19_noise_then_shift.json, samples/s; 64 samples per step.
B19 = [600, 612, 591, 605, 560, 603, 598, 609, 540, 538, 543, 541]
QUIET = [100.0, 100.4, 99.7, 100.1, 99.9, 100.2, 99.8, 100.3]


def draw(
    random: np.random.Generator, runs: int, noise: float, outliers: float = 0.0
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Logarithms of independent runs; a share ``outliers`` is off by 10 to 30 % either way."""
    logs = random.normal(0, noise, runs)
    off = random.random(runs) < outliers
    logs[off] += random.choice([-1, 1], off.sum()) * random.uniform(0.1, 0.3, off.sum())
    return logs


def places(values: list[float]) -> list[int]:
    return [shift.at for shift in find_shifts(values)]


def test_e06_one_dip_is_no_shift_and_the_lasting_one_is() -> None:
    (shift,) = find_shifts([64 / rate for rate in B19])
    assert shift.at == 8
    assert 64 / shift.before == pytest.approx(601.5, abs=0.01)  # medians of 8 and of 4
    assert 64 / shift.after == pytest.approx(540.5, abs=0.01)
    assert 1 / shift.ratio - 1 == pytest.approx(-0.101, abs=0.0005)
    assert (shift.runs_before, shift.runs_after) == (8, 4)
    assert shift.is_worse(lower_is_better=True)
    # The same as throughput: the same place, the other direction.
    (rate,) = find_shifts(B19)
    assert (rate.at, rate.is_worse(lower_is_better=False)) == (8, True)
    assert not rate.is_worse(lower_is_better=True)
    assert find_shifts(B19[:8]) == []


@pytest.mark.parametrize("outliers", [[1], [0], [7], [1, 6], [3], [6, 7]])
def test_single_outliers_are_no_shift(outliers: list[int]) -> None:
    values = [value * (1.3 if i in outliers else 1) for i, value in enumerate(QUIET)]
    assert find_shifts(values) == []


def test_two_bad_runs_and_a_good_one_do_not_pass_for_three() -> None:
    steady = [100.0] * 20
    assert find_shifts([*steady, 115.0, 116.0]) == []
    assert find_shifts([*steady, 115.0, 100.0, 116.0]) == []
    assert find_shifts([*steady, 115.0, 116.0, *steady]) == []
    assert places([*steady, 115.0, 116.0, 115.5]) == [20]


def test_up_down_and_several() -> None:
    up = [value * 1.1 for value in QUIET]
    down = [value * 0.9 for value in QUIET]
    assert places([*QUIET, *up]) == [8]
    assert places([*QUIET, *down]) == [8]
    assert places([*QUIET, *up[:5], *QUIET]) == [8, 13]  # a hump: no single cut shows it
    first, second, third = find_shifts([*QUIET, *up, *down, *QUIET])
    assert [first.ratio, second.ratio, third.ratio] == pytest.approx(
        [1.1, 0.9 / 1.1, 1 / 0.9], rel=0.005
    )


def test_small_changes_do_not_count() -> None:
    assert find_shifts([*QUIET, *(value * 1.02 for value in QUIET)]) == []
    assert places([*QUIET, *(value * 1.04 for value in QUIET)]) == [8]
    higher = [*QUIET, *(value * 1.04 for value in QUIET)]
    assert find_shifts(higher, delta=0.05) == []


def test_too_few_runs_say_nothing() -> None:
    assert find_shifts([1.0, 1.0, 2.0, 2.0, 2.0]) == []
    assert detectable([1.0, 1.0, 1.0, 1.0, 1.0]) is None
    assert places([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]) == [3]


def test_constant_series_divide_nothing_by_zero() -> None:
    assert find_shifts([0.1] * 12) == []
    assert places([0.1] * 6 + [0.2] * 6) == [6]


def test_a_cut_goes_where_something_is_known_to_have_changed() -> None:
    """The first run after the change came out a little low: the best cut is one late."""
    values = [100, 101, 99, 100, 102, 98, 104, 108, 110, 109, 111, 110]
    assert places(values) == [7]
    assert [shift.at for shift in find_shifts(values, preferred=[6])] == [6]
    assert [shift.at for shift in find_shifts(values, preferred=[3])] == [7]  # explains too little


def brute_force(logs: list[float]) -> tuple[int, ...]:
    """All ways to cut, by the definition."""
    n = len(logs)

    def score(cuts: tuple[int, ...]) -> float:
        edges = [0, *cuts, n]
        parts = [logs[a:b] for a, b in itertools.pairwise(edges)]
        if min(map(len, parts)) < FEWEST:
            return math.inf
        off = sum(abs(x - statistics.median(part)) for part in parts for x in part)
        return n * math.log(off + n * 1e-3) + len(cuts) * _price(n)

    ways = (cuts for k in range(n // 3) for cuts in itertools.combinations(range(1, n), k))
    return min(ways, key=score)


def test_the_best_cuts_are_those_of_all_ways_to_cut() -> None:
    random = np.random.default_rng(11)
    found = 0
    for _ in range(60):
        logs = draw(random, 12, 0.03, 0.05)
        logs[4:] += random.choice([0, 0.15])
        logs[8:] -= random.choice([0, 0.15])
        cuts = _best_cuts(_costs(list(logs)))
        assert tuple(cuts) == brute_force(list(logs))
        found += bool(cuts)
    assert 20 < found < 60


def test_standing() -> None:
    def shifts(*levels: float) -> list[Shift]:
        return [Shift(5 * i, a, b, 5, 5) for i, (a, b) in enumerate(itertools.pairwise(levels), 1)]

    assert standing_change([], True, 0.03) is None
    assert standing_change(shifts(100, 110), True, 0.03) == pytest.approx(1.1)
    assert standing_change(shifts(100, 110), False, 0.03) is None  # more throughput is better
    assert standing_change(shifts(100, 90), False, 0.03) == pytest.approx(0.9)
    assert standing_change(shifts(100, 110, 101), True, 0.03) is None  # made up for
    assert standing_change(shifts(100, 120, 110), True, 0.03) == pytest.approx(1.1)  # in part
    assert standing_change(shifts(100, 90, 99), True, 0.03) == pytest.approx(1.1)
    assert standing_change(shifts(100, 110, 80), True, 0.03) is None


def test_what_would_have_been_found() -> None:
    random = np.random.default_rng(5)
    quiet = list(np.exp(draw(random, 30, 0.01)))
    noisy = list(np.exp(draw(random, 30, 0.08)))
    small, large = detectable(quiet), detectable(noisy)
    assert small is not None and large is not None
    assert 0.03 < small < 0.05 < large < 0.5
    for values, change, found in ((quiet, small, True), (noisy, large * 0.7, False)):
        planted = [v * (1 + change) if i >= 15 else v for i, v in enumerate(values)]
        assert bool(find_shifts(planted)) is found


def share(series: int, alarm: Callable[[], bool]) -> float:
    return sum(alarm() for _ in range(series)) / series


def test_false_alarms_in_series_without_a_shift() -> None:
    """30 runs, 3 % noise, 5 % outliers: at most 5 % of series may have an alarm."""
    random = np.random.default_rng(1)
    rate = share(1000, lambda: bool(find_shifts(np.exp(draw(random, 30, 0.03, 0.05)).tolist())))
    print(f"false alarms, 30 runs, sd 3 %, 5 % outliers: {rate:.1%} of series")
    assert rate <= 0.05


@pytest.mark.parametrize("runs", [6, 10, 30, 60])
def test_the_price_of_a_cut_holds_whatever_the_noise(runs: int) -> None:
    """With 10 % noise the smallest change that counts protects no more: the price has to."""
    random = np.random.default_rng(runs)
    series = 1500 if runs < 60 else 500
    normal = share(series, lambda: bool(_best_cuts(_costs(random.normal(0, 0.1, runs).tolist()))))
    tails = share(
        series, lambda: bool(_best_cuts(_costs((0.1 * random.standard_t(3, runs)).tolist())))
    )
    print(f"cuts in {runs} runs without a shift: normal {normal:.1%}, t3 {tails:.1%} of series")
    assert max(normal, tails) <= 0.02


@pytest.mark.parametrize(
    ("runs", "at", "noise", "least"),
    [(30, 15, 0.03, 0.90), (30, 25, 0.02, 0.80), (12, 8, 0.01, 0.70), (12, 6, 0.02, 0.60)],
)
def test_power_for_ten_per_cent(runs: int, at: int, noise: float, least: float) -> None:
    """Found at most two runs off, with 5 % outliers among the runs."""
    random = np.random.default_rng(runs * at)

    def found() -> bool:
        logs = draw(random, runs, noise, 0.05)
        logs[at:] += math.log(1.1)
        shifts = find_shifts(np.exp(logs).tolist())
        return any(abs(shift.at - at) <= 2 and shift.ratio > 1 for shift in shifts)

    power = share(300, found)
    print(f"+10 % from run {at} of {runs}, sd {noise:.0%}, 5 % outliers: found in {power:.1%}")
    assert power >= least


def test_runs_that_drift_together_are_a_known_limit() -> None:
    """Not independent: lag-1 correlation of 0.5 gives more alarms. Printed, not promised."""
    random = np.random.default_rng(3)

    def alarm() -> bool:
        logs = [random.normal(0, 0.03)]
        for step in random.normal(0, 0.03 * math.sqrt(0.75), 29):
            logs.append(0.5 * logs[-1] + step)
        return bool(find_shifts(np.exp(logs).tolist()))

    rate = share(400, alarm)
    print(f"false alarms, 30 runs, sd 3 %, lag-1 correlation 0.5: {rate:.1%} of series")
    assert rate > 0.02, "the page and the docstring warn of this for nothing"
