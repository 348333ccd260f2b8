"""Checks of how one case was measured: the profiler, DDP's own times, the steps, the launches."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from reports import words
from reports.communication import mean, profiler_slow_down_ratio
from reports.frames import Row, groups
from reports.judged import BAD, LOOK, NOT_KNOWN, OK, judged, unknown, verdict

#: Profiled over timed step. To 1.1 shares of the profiled step hold for the timed one; beyond 1.3
#: it is another program that was profiled.
LOOK_SLOW_DOWN, BAD_SLOW_DOWN = 1.10, 1.30
#: The share of the profiled step in which something of known purpose ran: what is left over can
#: hide as much again as is reported.
LOOK_EXPLAINED, BAD_EXPLAINED = 0.90, 0.70
#: DDP's own times are means over other steps than ours, the profiled among them; a quarter is more
#: than that explains. Never bad: it is DDP that samples few.
LOOK_OWN_TIMES = 0.25
#: Lag-1 autocorrelation r: n steps are worth about n (1 - r) / (1 + r), half of them at 0.3 and
#: a quarter at 0.6.
LOOK_CORRELATION, BAD_CORRELATION = 0.3, 0.6
#: Steps of a steady job: a drift of 5 % is more than most effects that are looked for.
LOOK_DRIFT, BAD_DRIFT = 0.05, 0.15
#: The longest launch over the shortest, less 1: differences between settings are often smaller.
LOOK_SPREAD, BAD_SPREAD = 0.05, 0.15
#: With fewer steps a correlation or a drift is chance.
FEWEST_STEPS = 12


def of_case(cell: Row, launches: list[Row], ranks: list[Row], exposed: Row | None) -> list[Row]:
    """The checks of one case: check, verdict, value and sentence."""
    steps = [own for launch in launches for own in launch["child_step_s"] or []]
    noun = "child" if any((launch["children"] or 1) > 1 for launch in launches) else "launch"
    # A collective is not profiled: the whole step is the one thing that is asked for.
    collective = cell["strategy"] == "collective"
    found = [] if collective else [_slow_down(launches), _explained(ranks)]
    if cell["strategy"] == "ddp":
        found.append(_own_times(ranks, cell["world_size"]))
        if (cell["world_size"] or 0) > 1:
            found.append(_exposed(exposed))
    return [*found, _correlation(steps, noun), _drift(steps, noun), _spread(cell)]


def _slow_down(launches: list[Row]) -> Row:
    ratio = profiler_slow_down_ratio(launches)
    if ratio is None:
        return unknown("profiler", "How much the profiler slows a step is not known.")
    sentence = f"The profiled step takes {ratio:.2f} times the timed one"
    grade = verdict(ratio, LOOK_SLOW_DOWN, BAD_SLOW_DOWN)
    rest = {
        OK: ".",
        LOOK: "; shares of it need not be those of the timed step.",
        BAD: ": its shares mean little for the timed step.",
    }[grade]
    return judged("profiler", grade, ratio, sentence + rest)


def _explained(ranks: list[Row]) -> Row:
    """The rank of which least is explained, mean over launches."""
    of_rank = [
        mean(one["explained_ratio"] for one in own) for own in groups(ranks, "rank").values()
    ]
    known = [ratio for ratio in of_rank if ratio is not None]
    if not known:
        sentence = "What share of the profiled step is explained is not known."
        return unknown("explained", sentence)
    lowest = round(min(known), 9)  # a mean of equal ratios may be a last digit off
    grade = _of_explained(lowest)
    sentence = (
        f"{words.percent(lowest)} of the profiled step is work or communication of known kind"
    )
    if len(known) < len(of_rank):
        # The rank without a figure may be the one of which least is explained.
        missing = words.ranks(len(of_rank) - len(known))
        sentence += f", on the lowest rank that is known; on {missing} it is not"
        return judged("explained", grade if grade != OK else NOT_KNOWN, lowest, sentence + ".")
    where = ", on the lowest rank" if len(known) > 1 else ""
    rest = "" if grade == OK else "; in the rest nothing ran that the profiler names"
    return judged("explained", grade, lowest, sentence + where + rest + ".")


def _of_explained(ratio: float) -> str:
    return OK if ratio >= LOOK_EXPLAINED else LOOK if ratio >= BAD_EXPLAINED else BAD


def _own_times(ranks: list[Row], world_size: int | None) -> Row:
    """Forward and backward by DDP's logging data over ours, for the rank where they differ most.

    Our backward ends when the gradients are reduced, and so the all-reduce time that DDP finds
    beside its computing is added to its backward. On one rank there is none worth adding.
    """
    pairs = []
    for own in groups(ranks, "rank").values():
        said = mean(_ddp_s(one, world_size) for one in own)
        ours = mean(_ours_s(one) for one in own)
        if said is not None and ours:
            pairs.append((said / ours - 1, said, ours))
    if not pairs:
        sentence = "DDP's own times, or ours of forward and backward, are not known."
        return unknown("DDP's own times", sentence)
    difference, said, ours = max(pairs, key=lambda pair: abs(pair[0]))
    return judged(
        "DDP's own times",
        LOOK if abs(difference) > LOOK_OWN_TIMES else OK,
        difference,
        f"Forward and backward take {words.seconds(said)} by DDP's own logging data and "
        f"{words.seconds(ours)} by our phases ({words.signed_percent(difference)}); it samples "
        "few iterations, lags one behind and holds warm-up and profiled steps.",
    )


def _ddp_s(rank: Row, world_size: int | None) -> float | None:
    forward, backward = rank["ddp_forward_s"], rank["ddp_backward_s"]
    if forward is None or backward is None:
        return None
    if world_size == 1:
        return float(forward + backward)
    all_reduce, overlap = rank["ddp_all_reduce_s"], rank["ddp_overlap_s"]
    if all_reduce is None or overlap is None:
        return None
    return float(forward + backward + max(0.0, all_reduce - overlap))


def _ours_s(rank: Row) -> float | None:
    forward, backward = rank["forward_mean_s"], rank["backward_mean_s"]
    return None if forward is None or backward is None else float(forward + backward)


def _exposed(row: Row | None) -> Row:
    check = "exposed communication"
    if row is None or row["exposed_agrees"] is None:
        return unknown(check, "Exposed communication is not known in two ways.")
    grade = OK if row["exposed_agrees"] else LOOK
    said = f"Exposed communication is {row['exposed_words']}."
    return judged(check, grade, row["exposed_difference_ratio"], said)


def _correlation(steps_s: Sequence[Sequence[float]], noun: str) -> Row:
    """The mean over processes: of few steps it is uncertain, and the largest would be chance."""
    value = mean(map(lag_1, steps_s))
    if value is None:
        return unknown("correlated steps", "Too few step times to say how correlated they are.")
    grade = verdict(value, LOOK_CORRELATION, BAD_CORRELATION)
    sentence = f"The correlation of a step with the next is {value:.2f}".replace("-", "−")
    if grade != OK:
        worth = max(0.0, (1 - value) / (1 + value))
        sentence += f": the steps of a {noun} are worth about {worth:.0%} of their number"
    return judged("correlated steps", grade, value, _spaced(sentence) + ".")


def lag_1(steps_s: Sequence[float]) -> float | None:
    """Lag-1 autocorrelation of step times in their order; None with too few, or all the same."""
    if len(steps_s) < FEWEST_STEPS:
        return None
    middle = statistics.fmean(steps_s)
    apart = [step - middle for step in steps_s]
    variance = sum(value * value for value in apart)
    if variance <= (1e-12 * middle) ** 2 * len(steps_s):  # rounding, and no variation
        return None
    return sum(a * b for a, b in itertools.pairwise(apart)) / variance


def _drift(steps_s: Sequence[Sequence[float]], noun: str) -> Row:
    """That of the process which drifts most: one bad launch is in the case's number."""
    known = [value for value in map(drift_ratio, steps_s) if value is not None]
    if not known:
        return unknown("drift", "Too few step times to say whether they drift.")
    value = max(known, key=abs)
    grade = verdict(abs(value), LOOK_DRIFT, BAD_DRIFT)
    how = "slower" if value > 0 else "faster"
    where = f" in the {noun} that drifts most" if len(known) > 1 else ""
    sentence = (
        f"The last third of the steps is {words.percent(abs(value))} {how} than the first{where}."
    )
    return judged("drift", grade, value, sentence)


def drift_ratio(steps_s: Sequence[float]) -> float | None:
    """Median of the last third of the steps over that of the first, less 1."""
    if len(steps_s) < FEWEST_STEPS:
        return None
    third = len(steps_s) // 3
    return statistics.median(steps_s[-third:]) / statistics.median(steps_s[:third]) - 1


def _spread(cell: Row) -> Row:
    medians = list((cell["launch_medians_s"] or {}).values())
    if len(medians) < 2:
        sentence = "One launch: how much the next would differ is not known."
        return unknown("launches", sentence)
    value = max(medians) / min(medians) - 1
    grade = verdict(value, LOOK_SPREAD, BAD_SPREAD)
    sentence = (
        f"The slowest of {len(medians)} launches takes {words.percent(value)} longer than "
        "the fastest."
    )
    return judged("launches", grade, value, sentence)


def _spaced(sentence: str) -> str:
    return sentence.replace("%", f"{words.SPACE}%")
