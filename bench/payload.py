"""Bounds of what each rank of a case sends, so that a thousand of them can send it at once.

What all ranks would say alike rank 0 says for all. Where the ranks together have more step times,
or more lines on single collectives and steps, than a record keeps, each says what it comes to, and
rank 0 alone sends them whole.
"""

from __future__ import annotations

import statistics
from typing import Any

#: Step times of every rank are kept up to this many numbers a launch; above it the slowest rank's
#: times, and every rank's median, remain.
MOST_STEP_TIMES = 20_000
#: So with the lines of ``communication.calls`` and ``communication.per_step``.
MOST_LINES = 4_000
#: Of what makes a list long in a rank's record of its communication.
_LISTS = ("calls", "per_step")


def bounded(record: dict[str, Any], ranks: int) -> dict[str, Any]:
    """The record as it is sent. Its ``job.slowest_step_s`` is, of every step, the longest time over
    ranks, on which the ranks have agreed; where it is not there every rank sends its own."""
    first = record["rank"] == 0
    sent = dict(record)
    times = sent["timed_step_s"]
    agreed = "slowest_step_s" in sent["job"]
    whole = not agreed or len(times) * ranks <= MOST_STEP_TIMES
    if not whole:
        sent |= {
            "timed_step_s": None,
            "median_step_s": statistics.median(times),
            "steps": len(times),
        }
    if not first:
        del sent["job"]  # the same on all ranks
    elif whole:
        sent["job"] = {
            name: value for name, value in sent["job"].items() if name != "slowest_step_s"
        }
    communication = sent["communication"]
    if communication is not None and not first:
        lines = sum(len(communication[name]) for name in _LISTS)
        if lines * ranks > MOST_LINES:
            sent["communication"] = communication | dict.fromkeys(_LISTS)
    return sent
