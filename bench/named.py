"""Ranks in words: of a thousand, those of which the same is said are named in one breath."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: More are counted and not named.
MOST_RUNS = 8
MOST_ACCOUNTS = 8
MOST_TRACEBACKS = 16


def named(ranks: Sequence[int]) -> str:
    """``rank 3``, or ``ranks 0-5, 7``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    more = sum(map(len, runs[MOST_RUNS:]))
    return f"ranks {', '.join(words[:MOST_RUNS])}" + (f" and {more} more" if more else "")


def together(accounts: Iterable[tuple[int, str]], separator: str = "; ") -> str:
    """What is said of every rank: ``rank 0 in timed; ranks 1-7 in check``.

    What is said of fewest comes first where not everything can be said: that is what differs.
    """
    ranks: dict[str, list[int]] = {}
    for rank, account in accounts:
        ranks.setdefault(account, []).append(rank)
    said = list(ranks.items())
    if len(said) > MOST_ACCOUNTS:
        said.sort(key=lambda one: len(one[1]))
    words = [f"{named(numbers)} {account}" for account, numbers in said[:MOST_ACCOUNTS]]
    more = sum(len(numbers) for _, numbers in said[MOST_ACCOUNTS:])
    return separator.join([*words, *([f"{more} more ranks elsewhere"] if more else [])])


def tracebacks(of_ranks: Iterable[tuple[int, str, str]]) -> str:
    """(rank, where, stacks) of every rank; the same stacks once, whatever their addresses."""
    ranks: dict[tuple[str, str], list[int]] = {}
    texts: dict[tuple[str, str], str] = {}
    for rank, where, text in of_ranks:
        key = where, re.sub(r"0x[0-9a-fA-F]+", "0x", text)
        ranks.setdefault(key, []).append(rank)
        texts.setdefault(key, text)
    keys = list(ranks)
    if len(keys) > MOST_TRACEBACKS:
        keys.sort(key=lambda key: len(ranks[key]))
    parts = [
        f"--- {named(ranks[key])}, {key[0]} ---\n{texts[key]}" for key in keys[:MOST_TRACEBACKS]
    ]
    more = sum(len(ranks[key]) for key in keys[MOST_TRACEBACKS:])
    return "\n".join([*parts, *([f"--- {more} more ranks left out ---"] if more else [])])
