"""What a sweep makes of its own launches: what it compares, what it flags, what it says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from bench import regression
from bench.case import Case
from bench.journal import Journal
from bench.paired import INCONCLUSIVE, NO_CHANGE, SMOKE, WORSE
from bench.regression import Compared, flagged, line, pairs_of, too_few
from bench.result import LaunchResult
from bench.sweep import Sweep
from bench.terminal import Layout
from tests.test_sweep import FakeController

LAUNCHES = 8


def swept(values: Mapping[Case, Sequence[float]], launches: int = LAUNCHES) -> Sweep:
    """A sweep in which these cases have had these step times, launch by launch."""
    made = Sweep(
        FakeController(), Journal(None), launches, list(values), lambda block, launch, answers: None
    )
    for case, of_case in values.items():
        made.answers[case.id] = {
            launch: LaunchResult(launch, (value,), {"median_step_s": value})
            for launch, value in enumerate(of_case)
        }
    return made


def cell(torch: str, seed: int = 0) -> Case:
    return Case(torch=torch, seed=seed)


def test_all_are_compared_with_the_base() -> None:
    made = swept({cell(torch): [1.0] for torch in ("old", "new", "newer")})
    assert [(a.torch, b.torch) for a, b in pairs_of(made, "old")] == [
        ("old", "new"),
        ("old", "newer"),
    ]


def test_a_cell_that_the_base_cannot_run_is_compared_with_nothing() -> None:
    """Also where it is the first of all: the base stays the interpreter that was named first."""
    cells = [cell("new", 0), cell("newer", 0), cell("old", 1), cell("new", 1)]
    made = swept({case: [1.0] for case in cells})
    assert pairs_of(made, "old") == [(cells[2], cells[3])]


def drifting(factor: float, spread: float) -> list[float]:
    """Launches that drift by 5 % each, and differ from the base by ``factor``, give or take."""
    return [math.exp(0.05 * n) * factor * (1 + spread * (1, -1)[n % 2]) for n in range(LAUNCHES)]


def test_what_is_slower_is_flagged_whatever_the_machine_did_meanwhile() -> None:
    made = swept(
        {
            cell("old", 0): drifting(0.1, 0),
            cell("new", 0): drifting(0.108, 0.01),
            cell("old", 1): drifting(0.1, 0),
            cell("new", 1): drifting(0.1, 0.01),
            cell("old", 2): drifting(0.1, 0),
            cell("new", 2): drifting(0.1, 0.2),
        }
    )
    compared = regression.compare(made, "old")
    assert [each.judgement.verdict for each in compared] == [WORSE, NO_CHANGE, INCONCLUSIVE]
    assert [each.new.id for each in flagged(compared)] == [cell("new", 0).id]
    # Exactly 8 % but for the spread: sqrt(1.01 * 0.99) on average.
    assert compared[0].judgement.effect == pytest.approx(1.08 * math.sqrt(1 - 0.01**2))


def test_the_confirmation_is_judged_on_fresh_launches_alone() -> None:
    base, new = drifting(0.1, 0), drifting(0.108, 0.01)
    made = swept({cell("old"): base * 2, cell("new"): [*new, *base]})
    (before,) = regression.compare(made, "old")
    assert before.judgement.verdict == WORSE
    (after,) = regression.confirm(made, [before])
    assert after.judgement.effect == pytest.approx(1)
    assert after.judgement.pairs == LAUNCHES


def test_a_launch_that_only_one_has_does_not_count() -> None:
    made = swept({cell("old"): drifting(0.1, 0), cell("new"): drifting(0.1, 0)[:4]})
    (compared,) = regression.compare(made, "old")
    assert (compared.judgement.pairs, compared.judgement.verdict) == (4, SMOKE)


def test_what_cannot_be_told_is_said_before_it_is_measured() -> None:
    assert too_few(9, 8) is None  # 1 + log2(8 / 0.05) = 8.3
    assert too_few(3, 0) is None
    smoke, few = too_few(4, 8), too_few(8, 8)
    assert smoke is not None and "smoke test" in smoke and "--launches 9" in smoke
    assert few is not None and "need 9 pairs" in few and "--launches 9" in few


def test_a_line_says_the_effect_its_interval_and_the_verdict() -> None:
    made = swept({cell("old"): drifting(0.1, 0), cell("new"): drifting(0.108, 0.01)})
    (compared,) = regression.compare(made, "old")
    layout = Layout.of(made.cells, LAUNCHES)
    said = line(compared, layout, ", again")
    # sd of d 0.01 * sqrt(8 / 7), t(0.975, 7) = 2.3646: half a width of 0.00894.
    assert " ".join(said.split()) == "ddp-mlp-w1 new/old +8.0% [+7.0%, +9.0%] slower, again"
    nothing = Compared(
        compared.base, compared.new, regression.judge([regression.Samples({}, {}, True)])[0]
    )
    assert "%" not in line(nothing, layout)
