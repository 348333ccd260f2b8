"""What Lockstep itself costs, printed as ratios measured in one run: ``tox run -e selfbench``.

1. Our median step over that of a bare torchrun DDP loop of the same model, in pairs of launches,
   for a case that is the first of its launch and for one that comes after ten others.
2. The wall time of a sweep of twelve DDP cells over one torchrun per cell with the same steps,
   and the seconds a case takes outside its steps.
3. Reading traces (``--part traces``): wall time and peak memory over those of
   HolisticTraceAnalysis 0.5.0, and as a file grows.
4. The page of 100 to 10,000 cases (``--part page``): time, peak memory, size, and its use.
5. A case on 64 to 1,024 simulated ranks, and its page (``--part ranks``): time, memory and size.

Nothing is asserted: launches of one and the same job differ by several per cent, so read the
interval beside the ratio.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.case import Case
from bench.controller import Controller
from bench.launch import clean_environment
from bench.machine import usable_cores
from bench.result import Failure, LaunchResult
from bench.settings import Settings
from tests.selfbench import page, ranks, traces

BARE_LOOP = Path(__file__).with_name("bare_loop.py")
STEPS = 40
WARM_UP_STEPS = 10
OTHERS = [
    Case(model=model, strategy=strategy, world_size=2)
    for strategy in ("ddp", "all_reduce")
    for model in ("mlp", "cifar_cnn", "conv_small", "conv_fc", "sleep:layers=2:forward_ms=1")
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="selfbench", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12, help="pairs of launches (part 1)")
    parser.add_argument("--model", default="transformer-s", help="the model of part 1")
    parser.add_argument("--batch-size", type=int, default=8, help="per rank, of part 1")
    parser.add_argument("--cells", type=int, default=12, help="cells of the sweep (part 2)")
    parser.add_argument(
        "--part", choices=("1", "2", "traces", "page", "ranks"), help="only this part"
    )
    parser.add_argument("--repeats", type=int, default=5, help="of each process of part traces")
    parser.add_argument(
        "--sizes-mb", type=int, nargs="+", default=[30, 100, 300], help="files of part traces"
    )
    parser.add_argument(
        "--cases", type=int, nargs="+", default=[100, 1000, 10_000], help="of part page"
    )
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=[64, 256, 1024], help="of part ranks"
    )
    parser.add_argument("--samples", type=int, default=100, help="of a case of part page")
    parser.add_argument(
        "--other-python",
        metavar="PATH",
        help="an interpreter with HolisticTraceAnalysis 0.5.0, to compare part traces with",
    )
    options = parser.parse_args()
    if options.part in (None, "traces"):
        traces.compare(options.other_python, options.repeats)
        traces.grow(options.sizes_mb, max(1, options.repeats // 2))
    if options.part in (None, "page"):
        page.grow(options.cases, options.samples)
    if options.part in (None, "ranks"):
        ranks.grow(options.ranks)
    if options.part in ("traces", "page", "ranks"):
        return
    threads = max(1, usable_cores() // 2)
    print(f"2 gloo ranks of {threads} thread(s), {STEPS} steps after {WARM_UP_STEPS}", flush=True)
    if options.part != "2":
        case = Case(model=options.model, batch_size=options.batch_size, world_size=2)
        step_ratios(case, options.pairs, threads)
    if options.part != "1":
        sweep_wall(options.cells, threads)


def step_ratios(case: Case, pairs: int, threads: int) -> None:
    """Part 1. The order within a pair alternates, so that drift does not favour one side."""
    first: list[float] = []
    later: list[float] = []
    for pair in range(pairs):
        if pair % 2:
            alone, after = our_steps(case, threads)
            bare = bare_step_s(case, threads)
        else:
            bare = bare_step_s(case, threads)
            alone, after = our_steps(case, threads)
        first.append(alone / bare)
        later.append(after / bare)
        print(
            f"pair {pair + 1:2}: bare {bare * 1e3:.2f} ms, first case {alone * 1e3:.2f} ms, "
            f"after ten others {after * 1e3:.2f} ms",
            flush=True,
        )
    print(f"first case of a launch / bare loop: {summary(first)}")
    print(f"after ten other cases  / bare loop: {summary(later)}")
    carried = [b / a for a, b in zip(first, later, strict=True)]
    print(f"after ten others / first case:      {summary(carried)}", flush=True)


def our_steps(case: Case, threads: int) -> tuple[float, float]:
    """Median steps of the case in one launch: as its first case, and after ten others."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        controller = Controller(settings(STEPS), {"": sys.executable}, threads, Path(folder))
        try:
            alone = median_step_s(controller.run(case, 0, 2))
            for other in OTHERS:
                median_step_s(controller.run(other, 0, 2))
            return alone, median_step_s(controller.run(case, 0, 2))
        finally:
            controller.stop()


def bare_step_s(case: Case, threads: int, steps: int = STEPS) -> float:
    words = [case.model, case.batch_size, threads, WARM_UP_STEPS, steps]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(BARE_LOOP), *map(str, words)),
        ],
        env=clean_environment(os.environ, threads),
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("median "):
            return float(line.removeprefix("median "))
    raise SystemExit(f"the bare loop failed:\n{done.stderr[-2000:]}")


def sweep_wall(cells: int, threads: int) -> None:
    """Part 2: steps of about 40 ms that load no core, so that only what lies around them counts."""
    model = "sleep:layers=4:forward_ms=3:backward_ms=7:mb=0.1"
    caps = [None, *range(1, cells)]
    cases = [Case(model=model, world_size=2, bucket_cap_mb=cap) for cap in caps]
    outside: list[float] = []
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        controller = Controller(settings(STEPS), {"": sys.executable}, threads, Path(folder))
        started = time.perf_counter()
        try:
            for number, case in enumerate(cases):
                case_started = time.perf_counter()
                answer = controller.run(case, 0, 2)
                step_s = median_step_s(answer)
                spent = time.perf_counter() - case_started
                if number:  # the first case waits for the launch
                    outside.append(spent - step_s * (STEPS + WARM_UP_STEPS))
        finally:
            controller.stop()
        ours = time.perf_counter() - started
    started = time.perf_counter()
    for case in cases:
        bare_step_s(case, threads)
    theirs = time.perf_counter() - started
    print(
        f"sweep of {cells} cells, launch and stop included: {ours:.1f} s; "
        f"a torchrun per cell: {theirs:.1f} s; ratio {ours / theirs:.2f}"
    )
    print(
        f"seconds per case outside its steps: median {statistics.median(outside):.2f}, "
        f"largest {max(outside):.2f}",
        flush=True,
    )


def settings(steps: int) -> Settings:
    """The timed pass alone, of exactly this many steps."""
    return Settings(
        launches=1,
        min_steps=steps,
        warm_up_steps=WARM_UP_STEPS,
        max_seconds=1e-9,
        passes=("timed",),
    )


def median_step_s(answer: LaunchResult | Failure) -> float:
    if isinstance(answer, Failure):
        raise SystemExit(answer.sentence("a case of the selfbench") + "\n" + answer.traceback)
    return statistics.median(answer.step_s)


def summary(ratios: list[float]) -> str:
    """Median, range, and the 95 % t interval of the geometric mean."""
    text = f"median {statistics.median(ratios):.3f}, range {min(ratios):.3f}-{max(ratios):.3f}"
    if len(ratios) < 3:
        return text
    from scipy.special import stdtrit

    logs = [math.log(ratio) for ratio in ratios]
    reach = stdtrit(len(logs) - 1, 0.975) * statistics.stdev(logs) / math.sqrt(len(logs))
    middle = statistics.fmean(logs)
    return (
        f"{text}, mean {math.exp(middle):.3f} "
        f"[{math.exp(middle - reach):.3f}, {math.exp(middle + reach):.3f}]"
    )


if __name__ == "__main__":
    main()
