"""The cells at world size 1 of one file, to be found by what a baseline must share with a case.

Every case asks for its baselines, so that looking at each cell at world size 1 for each case would
take a time that grows with the square of the cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reports.frames import Row

#: Where nothing differs in one respect alone, this many kinds of cells are looked at for the one
#: that differs in fewest: it is named in a sentence that says why there is no baseline.
MOST_COMPARED = 100

_Key = tuple[Any, ...]


class Baselines:
    def __init__(self, cells: Sequence[Row]) -> None:
        self._of_strategy: dict[str | None, list[Row]] = {}
        for cell in cells:
            if cell["world_size"] == 1:
                self._of_strategy.setdefault(cell["strategy"], []).append(cell)
        self._fitting: dict[_Key, dict[_Key, list[Row]]] = {}
        self._but_one: dict[_Key, dict[_Key, tuple[int, Row]]] = {}
        self._nearest: dict[_Key, Row] = {}

    def any(self, strategy: str | None) -> bool:
        return strategy in self._of_strategy

    def fitting(self, cell: Row, strategy: str | None, fields: tuple[str, ...]) -> list[Row]:
        """Those that agree with ``cell`` in all ``fields``, in the order of the file."""
        index = self._fitting.get((strategy, fields))
        if index is None:
            index = self._fitting[strategy, fields] = {}
            for one in self._of_strategy.get(strategy, []):
                index.setdefault(_key(one, fields), []).append(one)
        return index.get(_key(cell, fields), [])

    def nearest(self, cell: Row, strategy: str | None, fields: tuple[str, ...]) -> Row:
        """One that differs in few of ``fields``; there must be one of the strategy."""
        asked = (strategy, fields, _key(cell, fields))
        if asked not in self._nearest:
            self._nearest[asked] = self._find(cell, strategy, fields)
        return self._nearest[asked]

    def _find(self, cell: Row, strategy: str | None, fields: tuple[str, ...]) -> Row:
        index = self._but_one.get((strategy, fields))
        if index is None:
            index = self._but_one[strategy, fields] = {}
            for position, one in enumerate(self._of_strategy[strategy]):
                for key in _but_one_keys(one, fields):
                    index.setdefault(key, (position, one))
        near = [index[key] for key in _but_one_keys(cell, fields) if key in index]
        if near:
            return min(near, key=lambda pair: pair[0])[1]
        kinds = self._fitting.get((strategy, fields), {})
        firsts = [ones[0] for ones in list(kinds.values())[:MOST_COMPARED]]
        firsts = firsts or self._of_strategy[strategy][:MOST_COMPARED]
        return min(firsts, key=lambda one: len(differing(one, cell, fields)))


def differing(one: Row, cell: Row, fields: tuple[str, ...]) -> list[str]:
    """The fields in which two cells differ. Unset, not stated and a number are three different
    caps; they differ under one name."""
    names = [name for name in fields if one[name] != cell[name]]
    caps = [name for name in names if name.startswith("bucket_cap")]
    return [name for name in names if name not in caps] + ["bucket_cap_mb"] * bool(caps)


def _key(cell: Row, fields: tuple[str, ...]) -> _Key:
    return tuple(cell[name] for name in fields)


def _but_one_keys(cell: Row, fields: tuple[str, ...]) -> Iterator[_Key]:
    """For every field the values of all others; the two of the bucket cap count as one field."""
    values = list(_key(cell, fields))
    caps = [n for n, name in enumerate(fields) if name.startswith("bucket_cap")]
    rest = [[n] for n in range(len(fields)) if n not in caps]
    for left_out in [*rest, *([caps] if caps else [])]:
        others = [value for n, value in enumerate(values) if n not in left_out]
        yield (left_out[0], *others)
