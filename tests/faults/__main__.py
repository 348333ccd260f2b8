"""Faults of many kinds, put into real sweeps at random: ``tox run -e faults``.

After each: is every process of the failed case gone, can everything that was measured be read, is
the outcome right and the culprit's rank, phase and step named, and was the next case measured. What
is not right is printed in full and makes the exit status 1.

The faults are chosen from a seed, which is printed: ``--seed`` chooses the same ones again, and
``--number`` picks some of them.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults import around, in_case
from tests.faults.kinds import AROUND, IN_CASE, KINDS, Fault, chosen
from tests.faults.table import table
from tests.faults.verdict import Verdict

Run = Callable[[Sequence[Fault], Path], list[Verdict]]

FAULTS = 200
#: Of one kind, where only some kinds are asked for.
FAULTS_A_KIND = 5
FAULTS_A_SWEEP = 12


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    only = [name for name in KINDS if not options.only or _is_asked_for(name, options.only)]
    reason = around.why_no_mount()
    left_out = [name for name in only if KINDS[name].needs_mount] if reason else []
    only = [name for name in only if name not in left_out]
    count = options.faults or (min(FAULTS, FAULTS_A_KIND * len(only)) if options.only else FAULTS)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    faults = chosen(seed, count, only)
    if options.number:
        faults = [fault for fault in faults if fault.number in options.number]
    print(f"seed {seed}: {len(faults)} faults", flush=True)
    for name in left_out:
        print(f"left out: {name}: {reason}", flush=True)
    # A crash on purpose is nobody's business to keep.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    folder = Path(options.folder or tempfile.mkdtemp(prefix="lockstep-faults-"))
    started = time.monotonic()
    verdicts = _inject(faults, seed, folder)
    print(f"\n{table(verdicts)}\n\n{totals(verdicts)}")
    print(f"seed {seed}, {time.monotonic() - started:.0f} s")
    if all(verdict.right for verdict in verdicts):
        if not options.folder:
            shutil.rmtree(folder)
        return 0
    print(f"journals, files and what pytest printed: {folder}")
    return 1


def _inject(faults: Sequence[Fault], seed: int, folder: Path) -> list[Verdict]:
    inside = [fault for fault in faults if KINDS[fault.kind].family == IN_CASE]
    outside = [fault for fault in faults if KINDS[fault.kind].family == AROUND]
    verdicts: list[Verdict] = []

    def report(name: str, found: list[Verdict], seconds: float) -> None:
        verdicts.extend(found)
        wrong = [verdict for verdict in found if not verdict.right]
        print(f"{name}: {seconds:.0f} s, {len(wrong)} of {len(found)} not right", flush=True)
        for verdict in wrong:
            print(verdict.report(seed), flush=True)

    sweeps = groups(inside)
    for number, group in enumerate(sweeps, start=1):
        started = time.monotonic()
        found = _or_problem(group, in_case.run, folder / f"in-case-{number:02}")
        report(f"sweep {number} of {len(sweeps)}", found, time.monotonic() - started)
    for fault in outside:
        started = time.monotonic()
        found = _or_problem([fault], around.run, folder / f"around-{fault.number:03}")
        report(f"{fault.kind} {fault.options}", found, time.monotonic() - started)
    return verdicts


def _or_problem(faults: Sequence[Fault], run: Run, folder: Path) -> list[Verdict]:
    """An error of the harness costs these faults, and is no reason to lose all others."""
    try:
        return run(faults, folder)
    except Exception:
        return [Verdict(fault, problems=[traceback.format_exc()]) for fault in faults]


def groups(faults: Sequence[Fault]) -> list[list[Fault]]:
    """The faults of one sweep each.

    World sizes stay together: a launch has as many ranks as its largest cell, and a rank that is
    not needed only takes time from the others. Faults of torchrun are dealt out first: ranks
    outlive their torchrun, and a second fault of it in the same sweep may find none.
    """
    found: list[list[Fault]] = []
    for world_size in sorted({fault.world_size for fault in faults}):
        of_size = [fault for fault in faults if fault.world_size == world_size]
        dealt = sorted(of_size, key=lambda fault: not fault.kind.endswith("of torchrun"))
        count = math.ceil(len(of_size) / FAULTS_A_SWEEP)
        hands = (dealt[first::count] for first in range(count))
        found += [sorted(hand, key=lambda fault: fault.number) for hand in hands]
    return found


def totals(verdicts: Sequence[Verdict]) -> str:
    injected = sum(verdict.injected for verdict in verdicts)
    wrong = Counter(verdict.fault.kind for verdict in verdicts if not verdict.right)
    text = f"{injected} faults injected, {sum(wrong.values())} of {len(verdicts)} not right"
    return "\n".join([text, *(f"    {count} {kind}" for kind, count in wrong.most_common())])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="faults",
        description=(__doc__ or "").splitlines()[0],
        epilog="kinds: " + "; ".join(KINDS),
    )
    parser.add_argument("--faults", type=int, metavar="N", help=f"how many ({FAULTS})")
    parser.add_argument("--seed", type=int, metavar="N", help="chooses them")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="KIND",
        help=f'a kind, "{IN_CASE}" or "{AROUND}"; repeatable; {FAULTS_A_KIND} of each kind',
    )
    parser.add_argument(
        "--number",
        action="append",
        type=int,
        default=[],
        metavar="N",
        help="of the chosen ones only this; repeatable; with the same --faults and --only",
    )
    parser.add_argument("--folder", help="a new folder for journals and output, which is kept")
    options = parser.parse_args(arguments)
    for name in options.only:
        if name not in (*KINDS, IN_CASE, AROUND):
            parser.error(f"--only {name}: not known; kinds are {'; '.join(KINDS)}")
    return options


def _is_asked_for(name: str, only: Sequence[str]) -> bool:
    return name in only or KINDS[name].family in only


if __name__ == "__main__":
    sys.exit(main())
