"""What the selftest makes of an A/A run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.case import Case
from tests.selftest.analysis import Noise, advice, noise, table


def document(a: dict[int, float], b: dict[int, float]) -> dict[str, Any]:
    return {
        "benchmarks": [
            {
                "extra_info": {
                    "case": Case(torch=label).to_dict(),
                    "result": {
                        "launches": [
                            {"launch": n, "median_step_s": value} for n, value in values.items()
                        ]
                    },
                }
            }
            for label, values in (("a", a), ("b", b))
        ]
    }


def of_differences(differences: list[float], drift: list[float]) -> list[Noise]:
    a = {n: math.exp(x) for n, x in enumerate(drift)}
    b = {n: math.exp(x + d) for n, (x, d) in enumerate(zip(drift, differences, strict=True))}
    return noise(document(a, b), "a", "b")


def test_what_pairs_share_is_not_in_their_noise() -> None:
    # The machine drifts by 0.1 a launch; within a pair A and B differ by 0.01 either way.
    (found,) = of_differences([0.01, -0.01] * 3, [0.1 * n for n in range(6)])
    assert found.cell == "ddp-mlp-w1"
    assert found.restart == pytest.approx(0.1 * math.sqrt(3.5))  # of 0..5: variance 3.5
    assert found.pair == pytest.approx(0.01 * math.sqrt(6 / 5))
    assert not found.false_alarm
    assert found.judgement.effect == pytest.approx(1)


def test_a_difference_where_there_is_none_is_called_a_false_alarm() -> None:
    (found,) = of_differences([0.099, 0.1, 0.101] * 4, [0.0] * 12)
    assert found.false_alarm
    assert "FALSE ALARM" in table([found])[2]
    assert advice([found])[-1].startswith("False alarms: 1 of 1 cases")


def test_advice_grows_with_the_noise() -> None:
    def launches(spread: float) -> list[int]:
        (found,) = of_differences([spread, -spread] * 6, [0.0] * 12)
        lines = advice([found])[:-1]
        return [int(line.split("--launches ")[1].split()[0]) for line in lines]

    quiet, loud = launches(0.01), launches(0.03)
    assert quiet == sorted(quiet)  # a smaller change needs more of them
    assert all(more > fewer for fewer, more in zip(quiet[1:], loud[1:], strict=True))


def test_too_few_pairs_say_nothing() -> None:
    (found,) = of_differences([0.01], [0.0])
    assert (found.restart, found.pair) == (None, None)
    assert "?" in table([found])[2]
    assert advice([found]) == ["Too few pairs to say anything: give it more minutes."]


def test_only_cells_of_both_are_compared() -> None:
    one = document({0: 1.0}, {0: 1.0})
    del one["benchmarks"][1]
    assert noise(one, "a", "b") == []
    assert len(table([])) == 2
