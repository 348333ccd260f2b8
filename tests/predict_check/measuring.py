"""Sweeps whose cases are predicted, and the settings read from them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from reports.load import load
from reports.predict_cases import workloads
from reports.predict_cost import Link
from reports.predict_fit import Setting

ROOT = Path(__file__).resolve().parents[2]


def measure(
    json_path: Path, axes: Mapping[str, str], *options: str, link: Link | None = None
) -> list[Setting]:
    """Run ``pytest bench`` on these axes, and read its cases of ddp; ``link``: what joins the
    ranks, where the file does not say it."""
    started = time.monotonic()
    arguments = [word for name, values in axes.items() for word in ("--axis", f"{name}={values}")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "bench", f"--benchmark-json={json_path}"),
            *("-p", "no:cacheprovider", "-k", "test_scaling", "--launches", "1"),
            *("--axis", "strategy=ddp", "--axis", "backend=gloo", "--axis", "scaling=weak"),
            *("--axis", "device=cpu", "--passes", "timed,no_communication"),
            *("--min-steps", "10", "--warm-up-steps", "4", *arguments, *options),
        ],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"a sweep failed with exit status {done.returncode}:\n{done.stdout[-4000:]}")
    found = workloads(load([json_path]), link)
    print(
        f"  {sum(len(one.settings) for one in found)} cases of {axes['model']} measured in "
        f"{time.monotonic() - started:.0f} s ({' '.join(options) or 'this machine'})",
        flush=True,
    )
    return [setting for one in found for setting in one.settings]
