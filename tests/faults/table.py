"""The table at the end, and the totals under it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tests.faults.kinds import KINDS
from tests.faults.verdict import Verdict

HEAD = (
    "kind of fault",
    "injected",
    "outcome right",
    "rank right",
    "phase right",
    "step right",
    "next measured",
    "readable",
    "processes left",
    "median s",
    "max s",
)
_CHECKS = (
    "outcome_right",
    "rank_right",
    "phase_right",
    "step_right",
    "next_measured",
    "readable",
)


def table(verdicts: Sequence[Verdict]) -> str:
    """A row per kind that was chosen, in the order of KINDS, and one of all."""
    of_kind = {name: [v for v in verdicts if v.fault.kind == name] for name in KINDS}
    rows: list[tuple[str, ...]] = [HEAD]
    rows += [_row(name, found) for name, found in of_kind.items() if found]
    rows.append(_row("all", verdicts))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _row(name: str, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    injected = [verdict for verdict in verdicts if verdict.injected]
    seconds = [verdict.seconds for verdict in injected if verdict.seconds is not None]
    return (
        name,
        _share(verdict.injected for verdict in verdicts),
        *(_share(getattr(verdict, check) for verdict in injected) for check in _CHECKS),
        str(sum(len(verdict.left) for verdict in verdicts)),
        f"{statistics.median(seconds):.2f}" if seconds else "-",
        f"{max(seconds):.2f}" if seconds else "-",
    )


def _share(values: Iterable[bool | None]) -> str:
    """How many of those that could be checked; "-" where none could."""
    checked = [value for value in values if value is not None]
    return f"{sum(checked)}/{len(checked)}" if checked else "-"
