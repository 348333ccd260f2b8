"""The same by HolisticTraceAnalysis, run by an interpreter that has it: ``overlap_theirs.py OUT
TRACE …``. Writes JSON: per cent, a rank each, null where it gives none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hta.trace_analysis import TraceAnalysis


def main(out: str, paths: list[str]) -> None:
    analysis = TraceAnalysis(trace_files=dict(enumerate(paths)), trace_dir="/")
    frame = analysis.get_comm_comp_overlap(visualize=False).sort_values("rank")
    found = [float(value) for value in frame["comp_comm_overlap_pctg"]]
    Path(out).write_text(json.dumps([value if value == value else None for value in found]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
