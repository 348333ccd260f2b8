"""Predictions against runs they were not fitted on: ``tox run -e predict-check``.

1. Virtual cluster: layers that wait, and a link that is computed (models/virtual_link.py); 2 and 4
   ranks, 5 bucket caps, 4 networks, of which one case is fitted and 39 are predicted.
2. Real networks: DDP with gloo over emulated links (needs root and iproute2), fitted at 1 Gbit/s
   with bucket_cap_mb 25, predicted at 200 and 500 Mbit/s and with other caps. Two models: one that
   waits in place of computing, and one that computes, whose cores both hosts share: the second
   says something on an idle machine only.
3. World size: fitted on 1 and 2 hosts, predicted on 4, over the same links.

What is fitted has its own numbers only; nothing is tuned on what is predicted. Exit status 1 where
a goal is missed.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from pathlib import Path

from bench.machine import usable_cores
from reports.predict_cost import Link
from reports.predict_fit import WORKERS, Setting
from tests.hosts_here import why_not
from tests.predict_check.judging import Goal, judge
from tests.predict_check.measuring import measure

VIRTUAL = Goal(0.03, 0.08)
REAL = Goal(0.08, 0.15)
#: 4 MiB of gradients in 8 layers, 48 ms of waiting.
SLEEP = "sleep:layers=8:mb=0.5:forward_ms=2:backward_ms=4"
#: Faster links would not be slow beside the real all-reduce over loopback, which is under each.
VIRTUAL_MBIT = (100, 200, 400, 800)
FITTED_MBIT, FITTED_CAP = 200, 2.0
#: 32 MiB of gradients in 16 layers, 112 ms of waiting.
MODELS = ("sleep:layers=16:mb=2:forward_ms=2:backward_ms=5", "transformer-s")
RATES = ("1gbit", "500mbit", "200mbit")


def main() -> None:
    parser = argparse.ArgumentParser(prog="predict_check", description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("virtual", "networks", "ranks"), help="only this part")
    parser.add_argument(
        "--model", action="append", help="of part networks; several times for several"
    )
    parser.add_argument("--keep", type=Path, help="a folder for the measured files")
    options = parser.parse_args()
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if busy > 0.3 * usable_cores():
        print(
            f"note: the machine is busy (load {busy:.1f} on {usable_cores()} cores): what is "
            "measured now is not what the same case takes a minute later, so errors are larger"
        )
    good = True
    with tempfile.TemporaryDirectory(prefix="lockstep-predict-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.part in (None, "virtual"):
            good &= virtual(folder)
        real = [
            ("networks", functools.partial(networks, folder, model))
            for model in options.model or MODELS
        ]
        for part, check in [*real, ("ranks", functools.partial(ranks, folder))]:
            if options.part not in (None, part):
                continue
            if reason := why_not():
                print(f"part {part} skipped: {reason}", flush=True)
            else:
                good &= check()
    sys.exit(0 if good else 1)


def virtual(folder: Path) -> bool:
    print(f"1. Virtual cluster: {SLEEP}, one bucket at a time", flush=True)
    found: list[Setting] = []
    for mbit in VIRTUAL_MBIT:
        found += measure(
            folder / f"virtual{mbit}.json",
            {
                "model": f"{SLEEP}:link_mbit={mbit}:link_us=100",
                "world_size": "2,4",
                "batch_size": "8",
                "bucket_cap_mb": f"unset,0.25,1,{FITTED_CAP:g},25",
            },
            *("--max-seconds", "0.5"),
            link=Link(mbit * 1e6, 1e-4),
        )
    (base,) = _like(found, 2, FITTED_MBIT * 1e6, FITTED_CAP)
    others = [one for one in found if one is not base]
    return judge([base], others, base=base, queues=1, goal=VIRTUAL)


def networks(folder: Path, model: str) -> bool:
    print(f"2. Real networks: {model}, 2 hosts, gloo over emulated links", flush=True)
    found: list[Setting] = []
    for rate in RATES:
        found += measure(
            folder / f"networks-{model.partition(':')[0]}-{rate}.json",
            {"model": model, "world_size": "2", "batch_size": "8", "bucket_cap_mb": "1,5,25,50"},
            *("--emulate", f"hosts=2,rate={rate}", "--max-seconds", "1"),
        )
    (base,) = _like(found, 2, 1e9, 25.0)
    others = [one for one in found if one is not base]
    return judge([base], others, base=base, queues=WORKERS["gloo"], goal=REAL)


def ranks(folder: Path) -> bool:
    print(f"3. World size: {SLEEP}, 1 and 2 hosts -> 4, 1 Gbit/s", flush=True)
    found = measure(
        folder / "ranks.json",
        {
            "model": SLEEP,
            "world_size": "1,2,4",
            "batch_size": "8",
            "bucket_cap_mb": "unset,1,25",
        },
        *("--emulate", "hosts=4,rate=1gbit", "--max-seconds", "2"),
    )
    fitted = [one for one in found if one.world_size < 4]
    (base,) = _like(found, 2, 1e9, None)
    others = [one for one in found if one.world_size == 4]
    return judge(fitted, others, base=base, queues=WORKERS["gloo"], goal=None)


def _like(
    found: list[Setting], world_size: int, bits_per_s: float, cap: float | None
) -> list[Setting]:
    return [
        one
        for one in found
        if (one.world_size, one.bucket_cap_mb) == (world_size, cap)
        and one.link is not None
        and one.link.bits_per_s == bits_per_s
    ]


if __name__ == "__main__":
    main()
