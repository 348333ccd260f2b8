"""Predictions beside what was measured: a table, and whether they are as good as they must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.predict import Predictor, Wish
from reports.predict_fit import Setting, fit
from reports.predict_words import cap


@dataclass(frozen=True)
class Goal:
    """Largest mean and largest single error allowed, relative to what was measured."""

    mean: float
    most: float


def judge(
    fitted: Sequence[Setting],
    others: Sequence[Setting],
    *,
    base: Setting,
    queues: int,
    goal: Goal | None,
) -> bool:
    """Fit on ``fitted`` alone and predict ``others``, none of which is among them. Without a goal
    the errors are said and always good enough."""
    known = fit(fitted, "gloo", queues)
    predictor = Predictor(base, known)
    share = known.share(known.network)
    told = ", ".join(name for name, yes in known.told.items() if yes) or "nothing"
    print(
        f"  fitted on {', '.join(map(_name, fitted))}: share of the link "
        f"{'unknown' if share is None else f'{share:.3f}'}, a bucket costs "
        f"{known.network.queue_s * 1e3:.2f} ms, contention {known.network.contention:.3f} "
        f"(told by what was measured: {told})"
    )
    print("  ranks  link                cap      measured   predicted      error   95 % interval")
    errors, inside = [], 0
    for one in others:
        assert one.link is not None and one not in fitted
        made = predictor.predict(Wish(one.world_size, one.link, one.bucket_cap_mb))
        error = made.step_s / one.step_s - 1
        errors.append(abs(error))
        inside += made.low_s <= one.step_s <= made.high_s
        print(
            f"  {one.world_size:5}  {one.link.name:18}  {cap(one.bucket_cap_mb):>5}"
            f"  {one.step_s * 1e3:8.1f} ms {made.step_s * 1e3:8.1f} ms  {error:+8.1%}"
            f"   {made.low_s * 1e3:.1f} to {made.high_s * 1e3:.1f}"
        )
    mean, most = sum(errors) / len(errors), max(errors)
    print(
        f"  {len(errors)} cases: mean error {mean:.1%}, largest {most:.1%}; {inside} of "
        f"{len(errors)} lie in their interval"
    )
    if goal is None:
        return True
    missed = [
        f"{name} {value:.1%} is {value - allowed:.1%} above the {allowed:.0%} allowed"
        for name, value, allowed in (("mean", mean, goal.mean), ("largest", most, goal.most))
        if value > allowed
    ]
    print(f"  MISSED: {'; '.join(missed)}" if missed else "  as good as it must be", flush=True)
    return not missed


def _name(setting: Setting) -> str:
    link = setting.link.name if setting.link is not None else "an unknown link"
    ranks = "1 rank" if setting.world_size == 1 else f"{setting.world_size} ranks"
    return f"{ranks}, {link}, cap {cap(setting.bucket_cap_mb)}"
