"""Trace files -> figures of every rank and across ranks. One file in memory at a time.

The JSON of ``python -m reports trace --json``; times in seconds, sizes in bytes, ratios 0 to 1,
bandwidths in bytes per second, null for what is not known:

    schema      1
    ranks       list, in the order of the files that could be read:
      file, label, rank, world_size, backend     null where the file does not say
      device                                     "gpu" or "cpu"
      whole_steps, dropped_steps
      problem     text where several ranks take part and no communication was found, else null;
                  then every communication figure is null
      mean        like a step, means over whole steps; null without a whole step
      steps       list: step, step_s, compute_s, copies_s, idle_s, unknown_s,
                  communication {calls, bytes, union_s, summed_s, exposed_s, overlap_ratio},
                  kinds {name of the kind: the same six}
      calls       list, the collectives of a step in order where all steps have the same ones:
                  kind, bytes, dtype, group, duration_s (mean, waiting included), busbw_bytes_per_s
      whole_file  communication, kinds, compute_s, busy_s, span_s, kernels
      notes       list of sentences
    across      null for a single rank, else
      labels, collectives, matched_steps, estimate, clock_error_s, aligned, ends_within_s
      transfer_s, wait_s [by rank]               means per step
      last_in [by rank]                          collectives that the rank was the last to join
      slowest     null or position, share, last_in, of
      kinds       {name: collectives, transfer_s, duration_s [by rank], wait_s [by rank]}, sums
      steps       list: step, transfer_s, wait_s [by rank]
      calls       list: kind, bytes, transfer_s, busbw_bytes_per_s
      notes       list of sentences
    unreadable  list of sentences, one for each file that gives no figure
    notes       list of sentences about the files
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.classify import count_of
from bench.trace import RankTrace, TraceError, analyse, rank_in_name
from bench.trace_json import TraceFile
from reports import words
from reports.trace_across import (
    LEAST_OF_A_RANK,
    MOST_COLLECTIVES,
    AcrossFigures,
    across_figures,
    for_matching,
)
from reports.trace_figures import RankFigures, rank_figures

SCHEMA = 1
#: From here on a file, or how many there are, is worth a word before the work begins.
LARGE_BYTES = 200_000_000
LARGE_PACKED_BYTES = 20_000_000
MANY_FILES = 16


@dataclass(frozen=True)
class TraceReport:
    """The figures of all files; its JSON is described above."""

    ranks: tuple[RankFigures, ...]
    across: AcrossFigures | None
    unreadable: tuple[str, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "ranks": [rank.to_json() for rank in self.ranks],
            "across": self.across.to_json() if self.across else None,
            "unreadable": list(self.unreadable),
            "notes": list(self.notes),
        }


def size_notes(files: Sequence[Path]) -> list[str]:
    """What to know before the analysis begins: it may take long."""
    notes = []
    for file in files:
        try:
            size = file.stat().st_size
            with file.open("rb") as opened:
                packed = opened.read(2) == b"\x1f\x8b"
        except (OSError, ValueError):
            continue  # the analysis says what is wrong with it
        if size > (LARGE_PACKED_BYTES if packed else LARGE_BYTES):
            form = " of gzip" if packed else ""
            notes.append(f"{shown(file)} is large: {size / 1e6:.0f} MB{form}")
    if len(files) > MANY_FILES:
        notes.append(f"{len(files)} files, read one after another")
    if notes and len(files) > 1:
        notes[-1] += "; --rank N takes the file of one rank alone"
    return notes


def report_on(
    files: Sequence[Path],
    *,
    rank: int | None = None,
    same_clock: bool = True,
    refused: Callable[[str], None] = lambda sentence: None,
) -> TraceReport:
    """The figures of all `files`, or of those of one rank.

    `refused` is called with one line for each file that cannot be read, as soon as that is known.
    """
    most = max(LEAST_OF_A_RANK, MOST_COLLECTIVES // max(1, len(files)))
    # Packed: small objects that stay, scattered over the memory of a trace, would hold all of it.
    packed: list[bytes] = []
    unreadable: list[str] = []
    others: set[int] = set()
    for position, file in enumerate(files):
        try:
            if rank is not None:
                stated = rank_ahead(file)
                if stated is not None and stated != rank:
                    others.add(stated)
                    continue
            trace = analyse(file, name=shown(file))
        except TraceError as error:
            unreadable.append(" ".join(words.clean(str(error)).split()))
            refused(unreadable[-1])
            continue
        if rank is not None and rank != (position if trace.rank is None else trace.rank):
            others.add(position if trace.rank is None else trace.rank)
            continue
        packed.append(
            pickle.dumps((rank_figures(trace, shown(file), ""), for_matching(trace, most)))
        )
        del trace
    kept: list[tuple[RankFigures, RankTrace]] = [pickle.loads(one) for one in packed]
    ranks = [figures for figures, _ in kept]
    if rank is not None and not ranks and not unreadable:
        found = ", ".join(map(str, sorted(others)))
        unreadable.append(f"no file is of rank {rank}; there are ranks {found}")
        refused(unreadable[-1])
    labels, notes = _labels(ranks)
    return TraceReport(
        ranks=tuple(
            replace(figures, label=label) for figures, label in zip(ranks, labels, strict=True)
        ),
        across=across_figures([outline for _, outline in kept], labels, same_clock)
        if len(kept) > 1
        else None,
        unreadable=tuple(unreadable),
        notes=tuple(notes),
    )


def rank_ahead(file: Path) -> int | None:
    """The rank that a file states before its first event, or in its name; None where neither does.

    Raises `TraceError` where the file's beginning is no trace.
    """
    trace = TraceFile(file, shown(file), [])
    next(iter(trace.events()), None)
    info = trace.header.get("distributedInfo")
    stated = count_of(info.get("rank")) if isinstance(info, dict) else None
    return rank_in_name(str(file)) if stated is None else stated


def _labels(ranks: Sequence[RankFigures]) -> tuple[list[str], list[str]]:
    """What each file is called, and what there is to say about that."""
    times = Counter(figures.rank for figures in ranks if figures.rank is not None)
    notes = []
    for number, count in sorted(times.items()):
        if count > 1:
            files = ", ".join(figures.file for figures in ranks if figures.rank == number)
            notes.append(f"{count} files say that they are of rank {number}: {files}")
    unnamed = [figures.file for figures in ranks if figures.rank is None]
    if len(ranks) > 1 and len(unnamed) == len(ranks):
        notes.append("no file says which rank it is of: they count in the order given")
        return [f"rank {position}" for position in range(len(ranks))], notes
    if len(ranks) > 1 and unnamed:
        notes.append(f"files that do not say which rank they are of: {', '.join(unnamed)}")
    names = [
        figures.file if figures.rank is None or times[figures.rank] > 1 else f"rank {figures.rank}"
        for figures in ranks
    ]
    return _told_apart(names), notes


def _told_apart(names: Sequence[str]) -> list[str]:
    """File names without the folder, where that is enough to tell them apart."""
    short = [Path(name).name or name for name in names]
    names = short if len(set(short)) == len(set(names)) else list(names)
    times = Counter(names)
    return [
        f"{name} (file {position + 1})" if times[name] > 1 else name
        for position, name in enumerate(names)
    ]


def shown(file: Path) -> str:
    """The name of a file as text that every output can hold."""
    return os.fsencode(file).decode("utf-8", errors="replace")
