from __future__ import annotations

import pytest

from bench.deadlines import LEAST_S, SHARES, Limits
from bench.result import PHASES


def test_every_phase_has_a_limit_within_the_cases() -> None:
    assert set(SHARES) == set(PHASES)
    for case_s in (0.5, 8, 600, 7200):
        for phase in PHASES:
            assert 0 < Limits(case_s).phase_s(phase) <= case_s


def test_a_longer_case_timeout_stretches_all_phases() -> None:
    for phase in PHASES:
        assert Limits(3600).phase_s(phase) > Limits(600).phase_s(phase)


def test_no_phase_is_held_to_less_than_a_busy_machine_needs() -> None:
    assert min(Limits(60).phase_s(phase) for phase in PHASES) == LEAST_S


@pytest.mark.parametrize(
    ("warm_up_s", "limit_s"),
    [
        (0.1, 60 + 5 * 2.0),  # ten steps of 10 ms: the time budget foretells more
        (20.0, 60 + 5 * 80.0),  # ten steps of 2 s, and 40 foretold of them
        (200.0, 540.0),  # never more than the phase's share
        (None, 540.0),  # before the warm-up nothing is foretold
    ],
)
def test_the_timed_pass_is_held_to_what_the_warm_up_foretells(
    warm_up_s: float | None, limit_s: float
) -> None:
    limits = Limits(600, min_steps=20, warm_up_steps=10, max_seconds=2.0)
    assert limits.phase_s("timed", warm_up_s) == pytest.approx(limit_s)
