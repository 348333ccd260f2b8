"""What this machine can tell, asked of itself: ``tox run -e selftest``.

1. The same interpreter against itself over a small matrix, for some minutes: how much launches of
   one and the same job differ, what change would be found, and whether any is found where there
   is none.
2. A planted slowdown: one model of known times out of four is 5 % slower under "new". Whether it is
   found and confirmed, and nothing else is.

It ends with advice: how many launches a comparison needs here.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.selftest.analysis import advice, noise, table
from tests.selftest.planted import SLOWER

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PLANTED = 1.05
#: More than fit: a run is ended when its time is over.
_MOST_LAUNCHES = 200


def main() -> None:
    parser = argparse.ArgumentParser(prog="selftest", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15, help="for part 1")
    parser.add_argument("--launches", type=int, default=9, help="of part 2")
    parser.add_argument("--part", choices=("same", "planted"), help="only this part")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter to ask (default: this one)"
    )
    options = parser.parse_args()
    right = True
    with tempfile.TemporaryDirectory(prefix="lockstep-selftest-") as folder:
        if options.part != "planted":
            same(options.python, options.minutes, Path(folder) / "same.json")
        if options.part != "same":
            right = planted(options.python, options.launches, Path(folder))
    sys.exit(0 if right else 1)


def same(python: str, minutes: float, json_path: Path) -> None:
    print(f"1. The same interpreter against itself, {minutes:g} minutes", flush=True)
    document = sweep(
        json_path,
        ["--torch", f"a={python}", "--torch", f"b={python}", "--no-confirm"],
        ["--matrix", str(HERE / "same.toml"), "--launches", str(_MOST_LAUNCHES)],
        # What a case may take is divided among the launches: as much as in twelve of them.
        ["--max-seconds", str(6 * _MOST_LAUNCHES / 12), "--passes", "timed"],
        seconds=60 * minutes,
    )
    found = noise(document, "a", "b")
    for line in [*table(found), "", *advice(found)]:
        print(line)
    print(flush=True)


def planted(python: str, launches: int, folder: Path) -> bool:
    print(f"2. One of four models is {PLANTED - 1:.0%} slower under new", flush=True)
    slower = folder / "slower-python"
    slower.write_text(f'#!/bin/sh\n{SLOWER}={PLANTED} exec "{python}" "$@"\n')
    slower.chmod(0o755)
    matrix = folder / "planted.toml"
    matrix.write_text(
        (HERE / "planted.toml")
        .read_text()
        .replace("model = [", f"model = [\n    {json.dumps(str(HERE / 'planted.py'))},")
    )
    document = sweep(
        folder / "planted.json",
        ["--torch", f"old={python}", "--torch", f"new={slower}"],
        ["--matrix", str(matrix), "--launches", str(launches), "--passes", "timed"],
    )
    compared = subprocess.run(
        [sys.executable, "-m", "reports", "compare", str(folder / "planted.json")], cwd=ROOT
    )
    once_more = {
        entry["extra_info"]["case"]["model"]
        for entry in document["benchmarks"]
        if "confirmation" in entry["extra_info"]["result"]
    }
    right = compared.returncode == 1 and once_more == {str(HERE / "planted.py")}
    print("found, and nothing else" if right else "NOT FOUND as it was planted", flush=True)
    return right


def sweep(
    json_path: Path, *arguments: Sequence[str], seconds: float | None = None
) -> dict[str, Any]:
    """Run ``pytest bench``, interrupted after ``seconds``; the file it leaves."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "bench", f"--benchmark-json={json_path}"),
            *("-p", "no:cacheprovider", *(word for words in arguments for word in words)),
        ],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    ends = None if seconds is None else time.monotonic() + seconds
    printed = []
    try:
        for line in process.stdout:
            printed.append(line)
            if line.startswith(("launch", "confirm")):
                print("  " + line.rstrip()[:118], flush=True)
            if ends is not None and time.monotonic() > ends:
                process.send_signal(signal.SIGINT)
                ends = None
        process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    if not json_path.exists():
        sys.exit("".join(printed[-30:]) + "\nthe sweep left no results")
    return dict(json.loads(json_path.read_text()))


if __name__ == "__main__":
    main()
