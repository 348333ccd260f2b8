"""Run bench/worker/probe.py under an interpreter and read what it says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from bench.wire import PROBE_MARK

PROBE_TIMEOUT_S = 180.0


class ProbeError(Exception):
    """An interpreter that did not say what it has, in one line."""


def run_probe(
    python: str,
    models: Iterable[str],
    environment: Mapping[str, str],
    timeout_s: float = PROBE_TIMEOUT_S,
) -> dict[str, Any]:
    """What an interpreter has. Raises ProbeError."""
    try:
        done = subprocess.run(
            [python, "-m", "bench.worker.probe", *models],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except OSError as error:
        raise ProbeError(f"cannot start {python}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ProbeError(f"{python} did not say within {timeout_s:g} s what it has") from None
    for line in done.stdout.splitlines():
        if line.startswith(PROBE_MARK):
            return dict(json.loads(line[len(PROBE_MARK) :]))
    raise ProbeError(
        f"{python} could not say what it has (exit status {done.returncode}): "
        f"{last_line(done.stderr)}"
    )


def last_line(text: str) -> str:
    """The last line that says something: where a traceback names its error."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" =-\t")]
    return lines[-1] if lines else "it printed nothing"
