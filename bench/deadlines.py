"""How long a case may stay in each phase of its life.

A hang should be found soon after it began, and a slow but honest phase must not be taken for one.
Every phase has a share of the case's limit, so that ``--case-timeout`` stretches them all; the
timed pass, whose length the warm-up has foretold, is held to that instead.

A job is in the phase of its last rank: the others wait for it in a collective of a later one.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Of the case's limit. Building may load data, warming up may compile.
SHARES = {
    "launch": 0.1,  # until the rank has forked its child
    "rendezvous": 0.05,
    "init": 0.2,
    "build": 0.5,
    "wrap": 0.2,
    "warm-up": 0.5,
    "timed": 0.9,
    "check": 0.3,
    "profiled": 0.3,
    "no-communication": 0.2,
    "checkpoint": 0.2,
    "teardown": 0.1,
}
#: No phase has less than this, unless the whole case has: a busy machine is no hang.
LEAST_S = 5.0
#: The timed pass may take this many times what the warm-up foretells, and a tenth of the case's.
_TIMES_FORETOLD = 5.0
_SLACK = 0.1


@dataclass(frozen=True)
class Limits:
    """The limits of one case, in seconds. ``case_s``: from the first word to the last."""

    case_s: float
    min_steps: int = 20
    warm_up_steps: int = 10
    max_seconds: float = 6.0

    def phase_s(self, phase: str, warm_up_s: float | None = None) -> float:
        """How long the job may be in ``phase``; ``warm_up_s``: how long its warm-up took."""
        limit_s = SHARES[phase] * self.case_s
        if phase == "timed" and warm_up_s is not None:
            # The first step of the warm-up is the slowest of all: an honest upper estimate.
            foretold_s = max(self.max_seconds, 2 * self.min_steps * warm_up_s / self.warm_up_steps)
            limit_s = min(limit_s, _SLACK * self.case_s + _TIMES_FORETOLD * foretold_s)
        return min(self.case_s, max(limit_s, LEAST_S))
