"""Did B make it worse than A? Launches are compared, never steps.

Steps of one process are correlated and launches of one and the same job differ by several per
cent, so a launch is one value. Everything is done on logarithms: a change is a ratio.

- effect: exp of the mean of d_k = log B_k - log A_k over pairs of launches, with Student's t
  interval on d; launches that are no pairs: difference of mean logarithms, Welch's interval;
- p: exact sign-flip test on d (Fisher 1935), or exact permutation test of launches that are no
  pairs; drawn at random, seeded, where there are more than MOST_EXACT arrangements;
- over the cases judged together: Holm (1979) for verdicts, Benjamini and Hochberg (1995) for lists;
- a verdict needs both: significance after Holm, and an interval that lies beyond ``delta``.
  "No change" is an interval within ``delta``, never the mere lack of a difference.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import nctdtrinc, ndtri

from bench import student
from bench.arrangements import least_p, p_values
from bench.student import Mean

ALPHA = 0.05
#: A change of no more than this share is not worth an alarm.
DELTA = 0.03
POWER = 0.8
FEWEST_PAIRS = 5
LEVEL = 0.95
WORSE, BETTER, NO_CHANGE = "worse", "better", "no change"
INCONCLUSIVE, SMOKE = "inconclusive", "smoke, no verdict"


@dataclass(frozen=True)
class Samples:
    """The launches' values of one case under A (base) and B (new): by launch, all > 0.

    ``paired``: launch k of A and launch k of B ran side by side, and launches that only one has
    do not count; otherwise all values count, and none of A's belongs to one of B's.
    """

    a: Mapping[int, float]
    b: Mapping[int, float]
    paired: bool
    lower_is_better: bool = True

    def __post_init__(self) -> None:
        for name, values in (("A", self.a), ("B", self.b)):
            for launch, value in values.items():
                if not (math.isfinite(value) and value > 0):
                    raise ValueError(
                        f"launch {launch} of {name} has the value {value!r}; a ratio needs values "
                        "above 0, so leave that launch out"
                    )


@dataclass(frozen=True)
class Judgement:
    """What the launches of one case say; None is not known.

    ``pairs``: pairs, or the smaller number of launches where they are no pairs. ``effect``,
    ``low`` and ``high``: ratio B/A and its 95 % interval. ``p``: two-sided; ``p_holm`` and
    ``p_bh``: corrected for the cases judged together. ``detectable``: the smallest true change
    that this row would call worse with a probability of POWER, as B/A - 1: above 0 where lower is
    better, below 0 where higher is. None where no change however large would be called worse:
    too few launches for so many cases.
    """

    pairs: int
    effect: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    p_bh: float | None
    detectable: float | None
    verdict: str


def judge(
    samples: Sequence[Samples], delta: float = DELTA, alpha: float = ALPHA
) -> list[Judgement]:
    """A judgement of every case, in order; the tests are corrected for all cases given together.

    Cases with fewer than FEWEST_PAIRS pairs get no verdict and do not count in the correction.
    """
    logs = [_logs(one) for one in samples]
    pairs = [min(map(len, parts)) for parts in logs]
    p = p_values(logs)
    tested = {
        i: value for i, value in enumerate(p) if value is not None and pairs[i] >= FEWEST_PAIRS
    }
    holm, bh = _corrected(tested, "holm"), _corrected(tested, "fdr_bh")
    found = []
    for i, (one, parts) in enumerate(zip(samples, logs, strict=True)):
        worse = 1 if one.lower_is_better else -1
        mean = _mean(parts)
        verdict, needed = SMOKE, None
        if mean is not None and i in holm:
            verdict = _verdict(mean, worse, holm[i] < alpha, delta)
            needed = _needed(mean, tuple(map(len, parts)), alpha / len(tested), delta, POWER)
        low, high = (None, None) if mean is None else _interval(mean)
        found.append(
            Judgement(
                pairs=pairs[i],
                effect=_effect(parts),
                low=low,
                high=high,
                p=p[i],
                p_holm=holm.get(i),
                p_bh=bh.get(i),
                detectable=None if needed is None else math.expm1(worse * needed),
                verdict=verdict,
            )
        )
    return found


def pairs_needed(cases: int, alpha: float = ALPHA) -> int:
    """The fewest pairs with which one of ``cases`` can be significant: 1 + log2(cases / alpha).

    The least p of n pairs is 2 / 2**n, and Holm's correction multiplies it by the cases.
    """
    return _fewest(least_p, cases, alpha)


def launches_needed_unpaired(cases: int, alpha: float = ALPHA) -> int:
    """The fewest launches on each side with which one of ``cases`` can be significant.

    For launches that are no pairs: the least p of n against n is 2 / C(2n, n).
    """
    return _fewest(lambda n: least_p(n, n), cases, alpha)


def pairs_for(
    sd: float,
    change: float,
    cases: int,
    delta: float = DELTA,
    alpha: float = ALPHA,
    power: float = POWER,
) -> int:
    """The fewest pairs with which a true ``change`` (0.05 is 5 % slower) would be called worse.

    ``sd``: standard deviation of d over pairs; ``power``: the probability to call it so. Raises
    ValueError for a change that is not beyond ``delta``: no number of pairs is enough.
    """
    if not change > delta:
        raise ValueError(
            f"a change of {change:.1%} is not beyond delta = {delta:.1%}, so it is never called "
            "worse; ask for a larger change or give a smaller delta"
        )

    def enough(n: int) -> bool:
        spread = Mean(0.0, sd / math.sqrt(n), n - 1)
        needed = _needed(spread, (n,), alpha / cases, delta, power)
        return needed is not None and needed <= math.log1p(change)

    fewest = most = pairs_needed(cases, alpha)
    while not enough(most):
        fewest, most = most + 1, 2 * most
    while fewest < most:
        middle = (fewest + most) // 2
        fewest, most = (fewest, middle) if enough(middle) else (middle + 1, most)
    return most


def _logs(samples: Samples) -> tuple[list[float], ...]:
    """(d of the pairs,), or the logarithms of A and those of B."""
    a, b = ({n: math.log(value) for n, value in side.items()} for side in (samples.a, samples.b))
    if samples.paired:
        return ([b[n] - a[n] for n in sorted(a.keys() & b.keys())],)
    return list(a.values()), list(b.values())


def _effect(parts: tuple[list[float], ...]) -> float | None:
    if not all(parts):
        return None
    return math.exp(statistics.fmean(parts[-1]) - sum(map(statistics.fmean, parts[:-1])))


def _mean(parts: tuple[list[float], ...]) -> Mean | None:
    if min(map(len, parts)) < 2:
        return None
    return student.mean(*parts) if len(parts) == 1 else student.difference(*parts)


def _interval(mean: Mean) -> tuple[float, float]:
    half = mean.half_width(LEVEL)
    return math.exp(mean.value - half), math.exp(mean.value + half)


def _corrected(tested: Mapping[int, float], method: str) -> dict[int, float]:
    from statsmodels.stats.multitest import multipletests  # a second to import, as scipy.stats

    if not tested:
        return {}
    corrected = multipletests(list(tested.values()), method=method)[1]
    return dict(zip(tested, map(float, corrected), strict=True))


def _verdict(mean: Mean, worse: int, significant: bool, delta: float) -> str:
    half, least = mean.half_width(LEVEL), math.log1p(delta)
    low, high = worse * mean.value - half, worse * mean.value + half
    if significant and low > least:
        return WORSE
    if significant and high < -least:
        return BETTER
    return NO_CHANGE if -least <= low and high <= least else INCONCLUSIVE


def _needed(
    mean: Mean, sizes: tuple[int, ...], level: float, delta: float, power: float
) -> float | None:
    """The smallest true worsening, on the logarithm, that is called so with ``power``.

    It has to pass the test at ``level`` and to bring the lower bound of its interval beyond
    ``delta``. Student's t with its noncentral distribution stands for the test by arrangement.
    It promises a little too much where few arrangements are significant (by simulation: 13 % of
    the change with the two most extreme ones of a side, 4 % with six). With one, all differences
    must have the same sign, and the change needed for that is known. None with none.
    """
    if least_p(*sizes) >= level:
        return None
    significant = mean.error * _noncentrality(mean.freedom, level, power)
    if len(sizes) == 1 and 2 * least_p(*sizes) >= level:
        sd = mean.error * math.sqrt(sizes[0])
        significant = max(significant, sd * float(ndtri(power ** (1 / sizes[0]))))
    beyond = math.log1p(delta) + mean.error * _noncentrality(mean.freedom, 1 - LEVEL, power)
    return max(significant, beyond)


def _noncentrality(freedom: float, level: float, power: float) -> float:
    """True mean over standard error at which the two-sided t test at ``level`` has ``power``."""
    return float(nctdtrinc(freedom, 1 - power, student.quantile(freedom, 1 - level / 2)))


def _fewest(least: Callable[[int], float], cases: int, alpha: float) -> int:
    n = FEWEST_PAIRS
    while least(n) * cases >= alpha:
        n += 1
    return n
