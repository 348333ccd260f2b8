"""Judgements of pairs of launches against published examples, enumeration and plain reasoning."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower

from bench import student
from bench.arrangements import MOST_EXACT, p_values
from bench.paired import (
    BETTER,
    INCONCLUSIVE,
    NO_CHANGE,
    SMOKE,
    WORSE,
    Judgement,
    Samples,
    judge,
    launches_needed_unpaired,
    pairs_for,
    pairs_needed,
)

#: Height of cross-fertilised less self-fertilised plants, eighths of an inch: Darwin 1876, as
#: Fisher (The Design of Experiments, 1935, section 21) works it: 863 of the 32,768 arrangements
#: have a sum of 314 or more, and as many of -314 or less.
DARWIN = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)
#: Extra sleep under two drugs (Student 1908). R's t.test: paired 95 % interval 0.7001142 to
#: 2.4598858; Welch's -3.3654832 to 0.2054832 for the first less the second.
DRUG_1 = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
DRUG_2 = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)
#: Ten changes around 0, in per cent: mean 0.
NOISE = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.5, 2.0)


def by_launch(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values))


def pairs(d: Sequence[float], base: float = 0.1) -> Samples:
    """Pairs with these logarithmic differences."""
    return Samples(
        by_launch([base] * len(d)), by_launch([base * math.exp(each) for each in d]), paired=True
    )


def unpaired(log_a: Sequence[float], log_b: Sequence[float]) -> Samples:
    a, b = ([0.1 * math.exp(each) for each in side] for side in (log_a, log_b))
    return Samples(by_launch(a), by_launch(b), paired=False)


def slower(percent: float, noise: float = 1.0) -> list[float]:
    return [(percent + noise * each) / 100 for each in NOISE]


def only(samples: Samples, **options: float) -> Judgement:
    return judge([samples], **options)[0]


def test_p_is_fishers_for_darwins_plants() -> None:
    """The exact count is known, and it has ties: the differences are whole numbers."""
    assert only(pairs([d / 1000 for d in DARWIN])).p == 2 * 863 / 32768


@given(st.lists(st.integers(-6, 6), min_size=2, max_size=9))
def test_p_is_the_share_of_sign_flips_with_as_large_a_sum(d: list[int]) -> None:
    """Small whole numbers, so that many arrangements tie."""
    flipped = [
        abs(sum(sign * each for sign, each in zip(signs, d, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(d))
    ]
    expected = sum(total >= abs(sum(d)) for total in flipped) / len(flipped)
    assert only(pairs([each / 300 for each in d])).p == expected


@given(
    st.lists(st.integers(-4, 4), min_size=2, max_size=5),
    st.lists(st.integers(-4, 4), min_size=2, max_size=5),
)
def test_p_of_unpaired_launches_is_the_share_of_choices(a: list[int], b: list[int]) -> None:
    sums = [sum(chosen) for chosen in itertools.combinations(a + b, len(b))]
    above = sum(total >= sum(b) for total in sums) / len(sums)
    below = sum(total <= sum(b) for total in sums) / len(sums)
    found = only(unpaired([each / 300 for each in a], [each / 300 for each in b])).p
    assert found == pytest.approx(min(1, 2 * min(above, below)), abs=1e-12)


def test_least_p_of_pairs_is_that_of_one_in_all_sign_flips() -> None:
    assert only(pairs([0.01 * n for n in range(1, 13)])).p == 2 / 2**12


def test_more_pairs_than_can_be_gone_through_are_drawn_alike_every_time() -> None:
    d = [*DARWIN, *DARWIN]
    assert 2 ** len(d) > MOST_EXACT
    first, again = (p_values([(d,)])[0] for _ in range(2))
    assert first == again
    # Normal approximation: 628 over the root of the sum of squares.
    z = sum(d) / math.sqrt(sum(each**2 for each in d))
    assert first == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.2)


def test_paired_interval_is_students() -> None:
    found = only(pairs([b - a for a, b in zip(DRUG_1, DRUG_2, strict=True)]))
    assert found.pairs == 10
    assert found.effect == pytest.approx(math.exp(1.58))
    assert (math.log(found.low or 0), math.log(found.high or 0)) == pytest.approx(
        (0.7001142, 2.4598858), abs=1e-6
    )


def test_unpaired_interval_is_welchs() -> None:
    found = only(unpaired(DRUG_1, DRUG_2))
    assert found.effect == pytest.approx(math.exp(1.58))
    assert (math.log(found.low or 0), math.log(found.high or 0)) == pytest.approx(
        (-0.2054832, 3.3654832), abs=1e-6
    )


def test_welchs_degrees_of_freedom() -> None:
    """R's t.test of the same data says 17.776."""
    assert student.difference(DRUG_1, DRUG_2).freedom == pytest.approx(17.776, abs=5e-4)
    tiny = student.difference([x * 1e-100 for x in DRUG_1], [x * 1e-100 for x in DRUG_2])
    assert tiny.freedom == pytest.approx(17.776, abs=5e-4)


def test_effect_is_the_ratio_of_geometric_means() -> None:
    found = only(Samples({0: 1.0, 1: 4.0}, {0: 3.0, 1: 12.0}, paired=True))
    assert found.effect == pytest.approx(3)
    found = only(Samples({0: 1.0, 1: 4.0}, {0: 6.0, 1: 6.0, 2: 6.0}, paired=False))
    assert found.effect == pytest.approx(3)


def test_holm_and_benjamini_hochberg_over_the_cases() -> None:
    """Ten pairs: with j of the differences below 0 and all of one size, p is binomial."""

    def case(below: int) -> Samples:
        return pairs([0.01] * (10 - below) + [-0.01] * below)

    p_1, p_2, p_3, p_4 = (
        2 * sum(math.comb(10, j) for j in range(below + 1)) / 2**10 for below in (0, 1, 2, 3)
    )
    found = judge([case(2), case(0), case(3), case(1)])
    assert [one.p for one in found] == [p_3, p_1, p_4, p_2]
    assert [one.p_holm for one in found] == pytest.approx([2 * p_3, 4 * p_1, p_4, 3 * p_2])
    assert [one.p_bh for one in found] == pytest.approx([p_3 * 4 / 3, 4 * p_1, p_4, 2 * p_2])


def test_too_few_pairs_have_no_verdict_and_do_not_count_in_the_correction() -> None:
    """Four pairs of a change however large; nine of them beside one case with ten pairs."""
    smoke = pairs([0.5, 0.51, 0.52, 0.53])
    *few, enough = judge([smoke] * 9 + [pairs(slower(10))])
    assert {one.verdict for one in few} == {SMOKE}
    assert {(one.p_holm, one.p_bh, one.detectable) for one in few} == {(None, None, None)}
    assert few[0].pairs == 4 and few[0].p == 2 / 2**4
    assert few[0].low is not None and few[0].low > 1.6
    assert enough.p_holm == enough.p == 2 / 2**10
    assert enough.verdict == WORSE


@pytest.mark.parametrize("paired", [True, False])
def test_few_values_leave_blank_what_they_do_not_say(paired: bool) -> None:
    none = only(Samples({}, {0: 1.0}, paired))
    assert none == Judgement(0, None, None, None, None, None, None, None, SMOKE)
    one = only(Samples({0: 2.0}, {0: 3.0}, paired))
    assert one.effect == pytest.approx(1.5)
    assert replace(one, effect=None) == Judgement(
        1, None, None, None, None, None, None, None, SMOKE
    )
    assert judge([]) == []


def test_pairs_are_the_launches_that_both_have() -> None:
    a = {0: 1.0, 1: 2.0, 2: 4.0, 4: 1000.0}
    b = {2: 8.0, 1: 4.0, 0: 2.0, 3: 0.001}
    found = only(Samples(a, b, paired=True))
    assert (found.pairs, found.effect) == (3, pytest.approx(2))
    assert found.low == pytest.approx(2) and found.high == pytest.approx(2)
    assert only(Samples(a, b, paired=False)).pairs == 4


def test_unpaired_counts_the_smaller_side() -> None:
    found = only(unpaired([0.0, 0.01, 0.02, 0.03], [0.5 + n / 100 for n in range(30)]))
    assert (found.pairs, found.verdict) == (4, SMOKE)


@pytest.mark.parametrize(
    ("d", "verdict"),
    [
        (slower(8), WORSE),
        (slower(-8), BETTER),
        (slower(0), NO_CHANGE),
        (slower(1), NO_CHANGE),  # its interval ends below 3 %
        (slower(1.5, 0.2), NO_CHANGE),  # significant, and too small to matter
        (slower(3.5), INCONCLUSIVE),  # significant, and perhaps below 3 %
        (slower(0, 4), INCONCLUSIVE),  # too noisy to say
        (slower(8, 20), INCONCLUSIVE),
    ],
)
def test_verdicts(d: list[float], verdict: str) -> None:
    assert only(pairs(d)).verdict == verdict


def test_a_verdict_needs_the_corrected_level() -> None:
    """Six pairs of one sign have p = 1/32: enough for one case, too little for two."""
    d = [0.10, 0.11, 0.10, 0.11, 0.10, 0.11]
    assert only(pairs(d)).verdict == WORSE
    both = judge([pairs(d), pairs(d)])
    assert [one.verdict for one in both] == [INCONCLUSIVE] * 2
    assert [one.detectable for one in both] == [None, None]


def test_delta_and_alpha_are_the_callers() -> None:
    d = slower(3.5)
    assert only(pairs(d), delta=0.02).verdict == WORSE
    assert only(pairs(d), delta=0.06).verdict == NO_CHANGE
    assert only(pairs(slower(8)), alpha=0.001).verdict == INCONCLUSIVE


def test_a_rate_and_a_time_have_opposite_directions() -> None:
    """E08: throughput from 600 to 660 is better, step time from 0.10 to 0.11 is worse."""

    def measured(before: float, after: float, lower_is_better: bool) -> Samples:
        a = [before * (1 + each / 200) for each in NOISE]
        b = [after * (1 + each / 200) for each in reversed(NOISE)]
        return Samples(by_launch(a), by_launch(b), True, lower_is_better)

    rate, time = judge([measured(600, 660, False), measured(0.10, 0.11, True)])
    assert rate.effect == pytest.approx(1.1) and time.effect == pytest.approx(1.1)
    assert (rate.verdict, time.verdict) == (BETTER, WORSE)
    rate, time = judge([measured(660, 600, False), measured(0.11, 0.10, True)])
    assert (rate.verdict, time.verdict) == (WORSE, BETTER)


def test_identical_values_are_no_change_and_equal_changes_are_certain() -> None:
    same, changed = judge([pairs([0.0] * 8), pairs([math.log(1.1)] * 8)])
    assert (same.effect, same.low, same.high, same.p) == (1, 1, 1, 1)
    assert same.verdict == NO_CHANGE
    assert changed.low == pytest.approx(1.1) and changed.high == pytest.approx(1.1)
    assert changed.p == 2 / 2**8 and changed.verdict == WORSE
    # Without any spread, whatever is beyond delta is seen.
    assert same.detectable == pytest.approx(0.03)
    still = only(unpaired([0.0] * 6, [0.0] * 6))
    assert (still.low, still.high, still.p, still.verdict) == (1, 1, 1, NO_CHANGE)
    apart = only(unpaired([0.0] * 6, [0.1] * 6))
    assert apart.p == pytest.approx(2 / math.comb(12, 6)) and apart.verdict == WORSE


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_value_that_has_no_logarithm_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="launch 3 of B has the value"):
        Samples({0: 1.0}, {0: 1.0, 3: value}, paired=True)


def test_detectable_is_that_of_the_t_test_at_the_corrected_level() -> None:
    """Twenty cases of little spread ask more of the test than of the interval's bound."""
    delta = 0.0
    d = slower(0)
    found = judge([pairs(d)] * 4, delta=delta)[0]
    of_one = TTestPower().solve_power(
        nobs=10, alpha=0.05 / 4 / 2, power=0.8, alternative="larger"
    ) * statistics.stdev(d)
    assert found.detectable == pytest.approx(math.expm1(of_one), rel=1e-4)


def test_detectable_includes_what_the_bound_needs_beyond_delta() -> None:
    d = slower(0)
    above = TTestPower().solve_power(
        nobs=10, alpha=0.025, power=0.8, alternative="larger"
    ) * statistics.stdev(d)
    expected = 1.03 * math.exp(above) - 1
    assert only(pairs(d)).detectable == pytest.approx(expected, rel=1e-4)
    mirrored = only(replace(pairs(d), lower_is_better=False))
    assert mirrored.detectable == pytest.approx(1 / (1 + expected) - 1, rel=1e-4)


def test_detectable_knows_when_all_pairs_must_agree() -> None:
    """Nine pairs, eight cases: 2/512 passes and 4/512 does not, so one sign it must be."""
    d = slower(0)[:9]
    found = judge([pairs(d)] * 8, delta=0.0)[0]
    all_agree = statistics.NormalDist().inv_cdf(0.8 ** (1 / 9)) * statistics.stdev(d)
    assert found.detectable == pytest.approx(math.expm1(all_agree), rel=1e-9)


def test_no_change_can_be_detected_by_too_few_launches() -> None:
    assert judge([pairs(slower(0)[:8])] * 8)[0].detectable is None
    assert judge([pairs(slower(0)[:9])] * 8)[0].detectable is not None
    few = unpaired(slower(0)[:5], slower(0)[:5])
    assert judge([few] * 6)[0].detectable is not None
    assert judge([few] * 7)[0].detectable is None


@pytest.mark.parametrize(
    ("cases", "expected"), [(0, 5), (1, 6), (2, 7), (8, 9), (20, 10), (10**5, 22)]
)
def test_pairs_needed(cases: int, expected: int) -> None:
    assert pairs_needed(cases) == expected
    if cases:
        assert expected == max(5, math.ceil(1 + math.log2(cases / 0.05)))


def test_pairs_needed_are_enough_and_one_less_is_not() -> None:
    """By judging: all differences of one sign are as clear as a change can be."""
    for cases in (1, 3, 8, 13):
        for n, verdict in ((pairs_needed(cases), WORSE), (pairs_needed(cases) - 1, INCONCLUSIVE)):
            clear = pairs([0.2 + 0.001 * k for k in range(n)])
            assert {one.verdict for one in judge([clear] * cases)} == {verdict}
    # p = alpha is not below alpha.
    assert pairs_needed(8, alpha=0.0625) == 9


@pytest.mark.parametrize(("cases", "expected"), [(1, 5), (6, 5), (7, 6), (23, 6), (24, 7)])
def test_launches_needed_unpaired(cases: int, expected: int) -> None:
    """2/C(10,5) is 1/126 and 2/C(12,6) is 1/462."""
    assert launches_needed_unpaired(cases) == expected


def test_pairs_for_a_change_agree_with_what_is_detectable() -> None:
    d = slower(0)
    sd = statistics.stdev(d)
    ten = only(pairs(d)).detectable or 0
    assert pairs_for(sd, ten * 1.0001, 1) == 10
    assert pairs_for(sd, ten * 0.9999, 1) == 11
    assert pairs_for(1e-6, 0.05, 8) == 9
    assert pairs_for(0.02, 0.03, 8, delta=0.01) == 11
    # Ten times the spread needs about a hundred times the pairs: the normal quantiles' sum is
    # 2.80.
    distance = math.log(1.04 / 1.03)
    assert pairs_for(0.1, 0.04, 1) == pytest.approx((2.80 * 0.1 / distance) ** 2, rel=0.01)


def test_a_change_within_delta_is_never_called() -> None:
    with pytest.raises(ValueError, match=r"3\.0% is not beyond delta"):
        pairs_for(0.01, 0.03, 8)


values = st.floats(0.01, 100)
samples = st.builds(
    Samples,
    st.dictionaries(st.integers(0, 7), values, max_size=7),
    st.dictionaries(st.integers(0, 7), values, max_size=7),
    st.booleans(),
    st.booleans(),
)
MIRRORED = {WORSE: BETTER, BETTER: WORSE}


def assert_alike(found: Judgement, expected: Judgement) -> None:
    assert (found.pairs, found.verdict) == (expected.pairs, expected.verdict)
    for name in ("effect", "low", "high", "p", "p_holm", "p_bh", "detectable"):
        value = getattr(expected, name)
        assert getattr(found, name) == (None if value is None else pytest.approx(value, rel=1e-6))


def inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value


@settings(deadline=None, max_examples=40)
@given(st.lists(samples, max_size=4))
def test_swapping_a_and_b_mirrors_the_judgement(cases: list[Samples]) -> None:
    swapped = judge([replace(one, a=one.b, b=one.a) for one in cases])
    for found, forth in zip(swapped, judge(cases), strict=True):
        expected = replace(
            forth,
            effect=inverse(forth.effect),
            low=inverse(forth.high),
            high=inverse(forth.low),
            verdict=MIRRORED.get(forth.verdict, forth.verdict),
        )
        assert_alike(found, expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(samples, max_size=4), st.sampled_from([0.001, 0.37, 7, 1000]))
def test_the_unit_does_not_matter(cases: list[Samples], factor: float) -> None:
    scaled = [
        replace(
            one,
            a={n: value * factor for n, value in one.a.items()},
            b={n: value * factor for n, value in one.b.items()},
        )
        for one in cases
    ]
    for found, expected in zip(judge(scaled), judge(cases), strict=True):
        # An end of the interval may lie on the boundary itself.
        bounds = [expected.low, expected.high]
        assume(all(abs(abs(math.log(end)) - math.log(1.03)) > 1e-9 for end in bounds if end))
        assert_alike(found, expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(samples, max_size=4))
def test_a_rate_is_a_time_mirrored(cases: list[Samples]) -> None:
    """Throughput is a constant over step time: the same launches, the same verdict."""
    rates = [
        replace(
            one,
            a={n: 64 / value for n, value in one.a.items()},
            b={n: 64 / value for n, value in one.b.items()},
            lower_is_better=not one.lower_is_better,
        )
        for one in cases
    ]
    for found, time in zip(judge(rates), judge(cases), strict=True):
        bounds = [time.low, time.high]
        assume(all(abs(abs(math.log(end)) - math.log(1.03)) > 1e-9 for end in bounds if end))
        expected = replace(
            time,
            effect=inverse(time.effect),
            low=inverse(time.high),
            high=inverse(time.low),
            detectable=None if time.detectable is None else 1 / (1 + time.detectable) - 1,
        )
        assert_alike(found, expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(samples, min_size=1, max_size=6))
def test_what_is_judged_beside_it_changes_only_the_correction(cases: list[Samples]) -> None:
    for alone, together in zip(map(only, cases), judge(cases), strict=True):
        assert replace(together, p_holm=None, p_bh=None, detectable=None, verdict="") == replace(
            alone, p_holm=None, p_bh=None, detectable=None, verdict=""
        )
        if together.p_holm is not None and alone.p_holm is not None:
            assert together.p_holm >= alone.p_holm
        if together.verdict in MIRRORED:
            assert alone.verdict == together.verdict
