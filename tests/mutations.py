"""Single random mutations of real trace files: ``python -m tests.mutations [TRACE …]``.

A mutated file gives figures or a `TraceError` of one line, whatever it holds; a cut one never gives
a figure, and a gzip file, whose checksum tells, none that the whole file does not give.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.ranks import match_collectives
from bench.trace import TraceError, analyse

KINDS = ("flip", "delete", "insert", "truncate", "duplicate")
SHARED = Path(
    os.environ.get("LOCKSTEP_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)
TRACES = ("dlrm_8rank_v100/rank-0.json.gz", "hta/gloo_cpu_only_rank34.json.gz")


def mutated(data: bytes, kind: str, draw: random.Random) -> bytes:
    """One change somewhere; what is cut off by "truncate" is more than white space."""
    at = draw.randrange(len(data))
    end = min(len(data), at + draw.choice((1, 1, 2, 5, 50, 1000)))
    if kind == "flip":
        return data[:at] + bytes((data[at] ^ 1 << draw.randrange(8),)) + data[at + 1 :]
    if kind == "delete":
        return data[:at] + data[end:]
    if kind == "insert":
        return data[:at] + draw.randbytes(end - at) + data[at:]
    if kind == "truncate":
        return data[: draw.randrange(len(data.rstrip()))]
    return data[:end] + data[at:]


def figures(content: bytes) -> str:
    """All that can be asked of a trace, as JSON that every reader takes."""
    trace = analyse(content, name="rank0.json")
    record = [trace.to_json(), trace.to_json(None), match_collectives([trace] * 2, True).to_json()]
    trace.totals()
    return json.dumps(record, allow_nan=False)


@dataclass
class Tally:
    """What became of the mutations, by form and kind; `faults` say how to repeat them."""

    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    same: Counter[tuple[str, str]] = field(default_factory=Counter)
    other: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def try_mutations(path: Path, count: int, seed: int, tally: Tally) -> None:
    """So many mutations of one file, plain and packed and of every kind in turn."""
    text = path.read_bytes()
    if text.startswith(b"\x1f\x8b"):
        text = gzip.decompress(text)
    whole = figures(text)
    forms = {"plain": text, "gzip": gzip.compress(text, mtime=0)}
    for number in range(count):
        form = ("plain", "gzip")[number % 2]
        kind = KINDS[number // 2 % len(KINDS)]
        content = mutated(forms[form], kind, random.Random(f"{seed} {number}"))
        what = f"{path.name}, {form}, {kind}, seed {seed}, number {number}"
        try:
            found = figures(content)
        except TraceError as error:
            tally.refused[form, kind] += 1
            if "\n" in str(error):
                tally.faults.append(f"{what}: more than one line: {error}")
            continue
        except Exception as error:  # whatever it is, it is what is looked for
            tally.faults.append(f"{what}: {type(error).__name__}: {error}")
            continue
        (tally.same if found == whole else tally.other)[form, kind] += 1
        if kind == "truncate":
            tally.faults.append(f"{what}: cut, and figures all the same")
        elif form == "gzip" and json.loads(found) != json.loads(whole):
            tally.faults.append(f"{what}: other figures in spite of the checksum")


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutations", description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path, help="trace files; default two recorded")
    parser.add_argument("--count", type=int, default=10_000, help="mutations of each file")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    faults = 0
    for path in options.traces or [SHARED / "traces" / name for name in TRACES]:
        tally, started = Tally(), time.perf_counter()
        try_mutations(path, options.count, options.seed, tally)
        spent = time.perf_counter() - started
        print(f"{path.name}: {options.count} mutations, seed {options.seed}, {spent:.0f} s")
        for form in ("plain", "gzip"):
            for kind in KINDS:
                counts = [part[form, kind] for part in (tally.refused, tally.same, tally.other)]
                print(
                    "    {:5} {:9} refused {:5}, same figures {:5}, other {:5}".format(
                        form, kind, *counts
                    )
                )
        print(f"    faults: {len(tally.faults)}")
        print("".join(f"    {fault}\n" for fault in tally.faults), end="", flush=True)
        faults += len(tally.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
