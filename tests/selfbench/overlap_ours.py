"""Communication/computation overlap of ranks' traces, by Lockstep: ``overlap_ours.py OUT TRACE …``.

Writes JSON: per cent of the communication time, a rank each, of the whole file and of what all
steps but the last one launched (which is what HolisticTraceAnalysis takes; all, if there is one).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.trace import RankTrace, analyse


def main(out: str, paths: list[str]) -> None:
    found: dict[str, list[float | None]] = {"whole": [], "steps": []}
    for path in paths:
        trace = analyse(path)
        found["whole"].append(percent(trace, None))
        steps = [step.number for step in trace.steps[:-1]]
        found["steps"].append(percent(trace, steps or None))
    Path(out).write_text(json.dumps(found))


def percent(trace: RankTrace, steps: list[int] | None) -> float | None:
    ratio = trace.totals(steps=steps).overlap_ratio
    return None if ratio is None else 100 * ratio


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
