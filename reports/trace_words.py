"""Sentences about traces, the same in a terminal and on a page."""

from __future__ import annotations

from reports import words
from reports.trace_across import AcrossFigures, Slowest
from reports.trace_figures import RankFigures


def rank_title(rank: RankFigures) -> str:
    """'rank 1 of 2, gloo, cpu, 5 whole steps, 0 dropped: trace.json'."""
    number = "rank unknown" if rank.rank is None else f"rank {rank.rank}"
    size = "world size unknown" if rank.world_size is None else f"of {rank.world_size}"
    joint = ", " if rank.world_size is None else " "
    steps = _count(rank.whole_steps, "whole step")
    return (
        f"{number}{joint}{size}, {rank.backend or 'backend unknown'}, {rank.device}, "
        f"{steps}, {rank.dropped_steps} dropped: {rank.file}"
    )


def across_sentences(across: AcrossFigures) -> list[str]:
    """What was matched, how sure that is, and who was waited for."""
    if not across.collectives:
        return ["No collective could be matched: nothing is known about transfer and waiting."]
    where = f" in {_count(across.matched_steps, 'step')}" if across.matched_steps else ""
    kinds = words.joined(
        [
            f"{kind} {figures.collectives} ({words.seconds(figures.transfer_s)} of transfer)"
            for kind, figures in across.kinds.items()
        ]
    )
    matched = f"{_count(across.collectives, 'collective')} matched{where}: {kinds}."
    return [matched, _certainty(across), _slowest(across)]


def _certainty(across: AcrossFigures) -> str:
    if across.clock_error_s is None:
        error = "nothing tells how far the clocks disagree"
    elif across.clock_error_s:
        error = f"the clocks disagree by {words.seconds(across.clock_error_s)} or more"
    else:
        error = "no disagreement of the clocks can be seen"
    if across.estimate:
        return (
            "Transfer is an estimate, the shortest duration over ranks, and the last to join is "
            f"the rank that had it; {error}."
        )
    within = words.seconds(across.ends_within_s) if across.ends_within_s is not None else None
    if across.aligned:
        return (
            "The ranks' clocks differ and were aligned by the ends of collectives; transfer, last "
            f"end - last start over ranks, and waiting err by {within} a collective at most."
        )
    if within is not None and not across.clock_error_s:
        error = f"the ranks' ends of one collective agree within {within}"
    return f"Transfer is exact, last end - last start over ranks; {error}."


def _slowest(across: AcrossFigures) -> str:
    slowest = across.slowest
    if slowest is None:
        return "Nobody waited for one rank."
    label = across.labels[slowest.position]
    sentence = (
        f"The ranks waited for {label} longest: {words.percent(slowest.share)} of the waiting is "
        f"put down to it. {_how_often(slowest)}"
    )
    most = max(range(len(across.labels)), key=lambda position: across.last_in[position])
    if across.last_in[most] > slowest.last_in:
        sentence += (
            f" {across.labels[most]} is the last more often, in {across.last_in[most]}, and costs "
            "less."
        )
    return sentence


def _how_often(slowest: Slowest) -> str:
    if slowest.last_in == slowest.of:
        return f"It is always the last to join, in {slowest.of} of {slowest.of} collectives."
    return f"It is the last to join in {slowest.last_in} of {slowest.of} collectives."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
