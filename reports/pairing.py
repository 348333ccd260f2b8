"""Which cell of B belongs to which of A, and what is to be said of those without a partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.frames import Row, columns, groups
from reports.sides import Side

#: A case that ran under A and has no number under B.
FAILED, SKIPPED, MISSING = "failed", "skipped", "missing"
#: One that has a number under B alone, one that has none at all, and one with two.
NEW, NO_BASELINE, NEITHER, AMBIGUOUS = "new", "no baseline", "on neither side", "ambiguous"

UNCOMPARED_COLUMNS = columns(
    string="case new kind sentence rerun",
    # It ran under A and broke under B: not a number, and yet worse than any.
    boolean="broken",
)


@dataclass(frozen=True)
class Paired:
    """One case under A and under B: rows of the table of cells."""

    name: str
    new: Side
    a: Row
    b: Row


@dataclass(frozen=True)
class _State:
    """One case on one side: its cells that count, and how it ended where there are none."""

    name: str
    cells: tuple[Row, ...]
    outcome: str | None
    reason: str | None
    rerun: str | None


def pair(
    base: Side,
    new: Side,
    cells: Sequence[Row],
    new_cells: Sequence[Row],
    outcomes: Sequence[Row],
    new_outcomes: Sequence[Row],
) -> tuple[list[Paired], list[Row]]:
    """(the pairs in the order of the base, a row for each other case); ``outcomes`` are those of
    the cells' own sides."""
    of_base, of_new = _states(cells, outcomes), _states(new_cells, new_outcomes)
    pairs, rest = [], []
    for key in dict.fromkeys((*of_base, *of_new)):
        a, b = of_base.get(key), of_new.get(key)
        if a and b and len(a.cells) == len(b.cells) == 1:
            pairs.append(Paired(a.name, new, a.cells[0], b.cells[0]))
        else:
            rest.append(_without_partner(base, new, a, b))
    return pairs, rest


def _states(cells: Sequence[Row], outcomes: Sequence[Row]) -> dict[str, _State]:
    ended = {row["pair_name"]: row for row in outcomes if row["outcome"] != "ok"}
    found: dict[str, _State] = {}
    for (key,), own in groups(cells, "pair_key").items():
        row = ended.pop(key, {})
        good = tuple(cell for cell in own if cell["outcome"] in (None, "ok"))
        how = None if good else own[0]["outcome"]
        name = own[0]["pair_name"]
        found[key] = _State(name, good, how, row.get("reason"), row.get("rerun") or own[0]["rerun"])
    for name, row in ended.items():
        found[name] = _State(name, (), row["outcome"], row["reason"], row["rerun"])
    return found


def _without_partner(base: Side, new: Side, a: _State | None, b: _State | None) -> Row:
    kind = _kind(a, b)
    broken = kind == FAILED
    parts = [
        _ended(state, side.name)
        for side, state in ((base, a), (new, b))
        if state is None or len(state.cells) != 1
    ]
    state = b if b and not b.cells else a
    return {
        "case": a.name if a else b.name if b else None,
        "new": new.name,
        "kind": kind,
        "sentence": "; ".join(parts),
        "rerun": state.rerun if state and not state.cells else None,
        "broken": broken,
    }


def _kind(a: _State | None, b: _State | None) -> str:
    if (a and len(a.cells) > 1) or (b and len(b.cells) > 1):
        return AMBIGUOUS
    if a and a.cells:
        if b is None:
            return MISSING
        return SKIPPED if b.outcome == "skipped" else FAILED
    if b and b.cells:
        return NEW if a is None else NO_BASELINE
    return NEITHER


def _ended(state: _State | None, side: str) -> str:
    if state is None:
        return f"not measured under {side}"
    if len(state.cells) > 1:
        return f"{len(state.cells)} entries under {side}, and which one counts is not known"
    reason = (state.reason or "").strip().splitlines()
    return f"{state.outcome} under {side}{f' ({reason[0]})' if reason else ''}"
