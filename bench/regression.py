"""What looks slower under another interpreter, from a sweep's own launches.

The gate is ``python -m reports compare``; the sweep only needs to know which cells to measure once
more, and to say in the terminal how it went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.case import Case
from bench.paired import ALPHA, DELTA, FEWEST_PAIRS, WORSE, Judgement, Samples, judge, pairs_needed
from bench.result import LaunchResult
from bench.sweep import Sweep
from bench.terminal import Layout


@dataclass(frozen=True)
class Compared:
    """The step time of a cell under an interpreter against the same cell under the first."""

    base: Case
    new: Case
    judgement: Judgement


def pairs_of(sweep: Sweep, base: str) -> list[tuple[Case, Case]]:
    """Each cell of the interpreter ``base`` with the same cell of each other. A cell that it
    cannot run has nothing to be compared with."""
    return [
        (of_base, new)
        for block in sweep.blocks
        for of_base in block
        if of_base.torch == base
        for new in block
        if new is not of_base
    ]


def compare(sweep: Sweep, base: str) -> list[Compared]:
    """Every pair of cells, judged on its launches and corrected for all of them together."""
    return _judged(sweep, pairs_of(sweep, base), confirmation=False)


def confirm(sweep: Sweep, flagged: Sequence[Compared]) -> list[Compared]:
    """The flagged ones, judged on the fresh pairs alone."""
    return _judged(sweep, [(each.base, each.new) for each in flagged], confirmation=True)


def flagged(compared: Sequence[Compared]) -> list[Compared]:
    return [each for each in compared if each.judgement.verdict == WORSE]


def too_few(launches: int, cells: int) -> str | None:
    """In a sentence, what so many launches cannot tell about so many cells; None where they can."""
    if not cells:
        return None
    needed = pairs_needed(cells)
    if launches < FEWEST_PAIRS:
        return (
            f"{launches} launches are a smoke test: there will be no verdict, and no alarm can be "
            f"raised. Use --launches {needed} or more for {cells} comparisons"
        )
    if launches < needed:
        return (
            f"{launches} launches cannot show that a case is slower, however much it is: {cells} "
            f"comparisons at the {ALPHA:.0%} level need {needed} pairs. Use --launches {needed}"
        )
    return None


def line(each: Compared, layout: Layout, also: str = "") -> str:
    """One comparison in the terminal; ``also`` stands after its verdict."""
    judgement = each.judgement
    effect = interval = ""
    if judgement.effect is not None:
        effect = f"{judgement.effect - 1:+.1%}"
    if judgement.low is not None and judgement.high is not None:
        interval = f"[{judgement.low - 1:+.1%}, {judgement.high - 1:+.1%}]"
    sides = f"{each.new.torch}/{each.base.torch}"
    verdict = "slower" if judgement.verdict == WORSE else judgement.verdict
    rest = f"{sides:<{2 * layout.label + 1}}  {effect:>7}  {interval:>18}  {verdict}{also}"
    return layout.after_name(each.base.replace(torch="").id, rest, len(rest) + 2)


def heading(compared: Sequence[Compared]) -> str:
    return (
        f"step time against the first interpreter, {len(compared)} comparisons "
        f"(a change below {DELTA:.0%} is none):"
    )


def _judged(sweep: Sweep, pairs: Sequence[tuple[Case, Case]], confirmation: bool) -> list[Compared]:
    take = sweep.confirmation if confirmation else sweep.good
    samples = [Samples(_values(take(base)), _values(take(new)), paired=True) for base, new in pairs]
    return [
        Compared(base, new, judgement)
        for (base, new), judgement in zip(pairs, judge(samples), strict=True)
    ]


def _values(launches: Sequence[LaunchResult]) -> dict[int, float]:
    return {launch.launch: float(launch.fields["median_step_s"]) for launch in launches}
