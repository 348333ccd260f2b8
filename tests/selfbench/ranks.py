"""The controller of up to 1,024 ranks, and the page of such a run: time, peak memory and size.

The ranks are simulated (tests/simulated_ranks.py): they speak the protocol, in a process of their
own, and what they send has a real case's size. The controller is a process of its own too: run as
``python -m tests.selfbench.ranks RANKS FILE SAID`` it measures a few cases, writes the file that is
read, and says in another what that took.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.case import Case
from bench.deadlines import Limits
from bench.gathering import gathered
from bench.group import Group
from bench.launch import Launched
from bench.record import extra_info
from bench.result import Failure
from tests.reports.builder import document, outcome
from tests.selfbench.traces import Cost
from tests.simulated_ranks import Simulated

CASES = 3


def grow(sizes: list[int]) -> None:
    print(f"simulated ranks, medians of {CASES} cases", flush=True)
    for ranks in sizes:
        with tempfile.TemporaryDirectory() as folder:
            print(_line(ranks, Path(folder)), flush=True)


def _line(ranks: int, folder: Path) -> str:
    source, page, said = folder / "run.json", folder / "page.html", folder / "said.json"
    measure = [sys.executable, "-m", "tests.selfbench.ranks", str(ranks), str(source), str(said)]
    cost = Cost.of_command(measure)
    if cost.error:
        return f"  {ranks:5} ranks: {cost.error}"
    took: dict[str, float] = json.loads(said.read_text())
    steps = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in took.items())
    made = Cost.of_command([sys.executable, "-m", "reports", "html", str(source), "-o", str(page)])
    if made.error:
        return f"  {ranks:5} ranks: {made.error}"
    return (
        f"  {ranks:5} ranks: {steps}, {cost.peak_bytes / 1e6:.0f} MB; "
        f"file {source.stat().st_size / 1e6:.1f} MB; page in {made.wall_s:.1f} s, "
        f"{made.peak_bytes / 1e6:.0f} MB, {page.stat().st_size / 1e6:.2f} MB"
    )


def main(ranks: int, file: Path, said: Path) -> None:
    case = Case(model="transformer-s", strategy="ddp", world_size=ranks, batch_size=4)
    begun = 0.0

    def start(world_size: int, address: tuple[str, int], token: str) -> Launched:
        nonlocal begun
        started = Simulated.start(world_size, address, token)
        begun = time.perf_counter()  # they have prepared what they will say, and begin to connect
        return started

    took: dict[str, list[float]] = {"connect": [], "case": [], "gather": [], "write": []}
    group = Group(start, ranks, timeout_s=120)
    took["connect"].append(time.perf_counter() - begun)
    try:
        for _ in range(CASES):
            at = [time.perf_counter()]
            job: dict[str, Any] = {"world_size": ranks, "port": None, "case": case.to_dict()}
            records = group.run(job, Limits(120))
            if isinstance(records, Failure):
                raise SystemExit(records.message)
            at.append(time.perf_counter())
            launch = gathered(0, time.time(), records, precision=0.02)
            at.append(time.perf_counter())
            info = extra_info(case, [launch], [])
            entry = {"name": case.id, "extra_info": info, "stats": {"data": list(launch.step_s)}}
            whole = document([entry], outcomes=[outcome(case.to_dict())])
            file.write_text(json.dumps(whole, indent=4))
            at.append(time.perf_counter())
            for name, begin, end in zip(("case", "gather", "write"), at[:-1], at[1:], strict=True):
                took[name].append(end - begin)
    finally:
        group.stop()
    medians = {name: sorted(times)[len(times) // 2] for name, times in took.items()}
    said.write_text(json.dumps(medians))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
