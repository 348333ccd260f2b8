"""What the ranks of a case sent -> one result: their step times, and their collectives matched."""

from __future__ import annotations

from typing import Any

from bench.garbage import collector_paused
from bench.outline import from_outline
from bench.precision import relative_half_width
from bench.ranks import match_collectives
from bench.result import LaunchResult, gather
from bench.timeline import no_timeline, timeline


def gathered(
    launch: int,
    started_unix_s: float,
    records: list[dict[str, Any]],
    precision: float,
    one_machine: bool = False,
) -> LaunchResult:
    """``precision``: the relative half-width that was asked for; ``one_machine``: hosts are so in
    name only, and have one clock."""
    outlines = [record.pop("outline", None) for record in records]
    result = gather(launch, started_unix_s, records)
    reached = relative_half_width(result.step_s)
    result.fields["precision_reached"] = reached
    result.fields["reached_precision"] = reached is not None and reached <= precision
    same_clock = one_machine or len({record["host"] for record in records}) == 1
    with collector_paused():
        result.fields.update(_across_ranks(outlines, same_clock, launch))
    return result


def _across_ranks(
    outlines: list[dict[str, Any] | None], same_clock: bool, launch: int
) -> dict[str, Any]:
    known = [outline for outline in outlines if outline is not None]
    if len(known) < 2 or len(known) < len(outlines):
        return {"across_ranks": None}
    too_many = max((outline.get("too_many") or 0 for outline in known), default=0)
    if too_many:
        reason = (
            f"a step has {too_many} collectives, too many to send from each of {len(known)} ranks"
        )
        return {"across_ranks": None, "timeline": no_timeline(reason)}
    traces = [from_outline(outline) for outline in known]
    across = match_collectives(traces, same_clock)
    found: dict[str, Any] = {"across_ranks": across.to_json()}
    if launch == 0:  # one step is drawn of a case, and would say no more of the others
        found["timeline"] = timeline(traces, across)
    return found
