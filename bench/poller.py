"""Waits for many sources again and again, at a cost that does not grow with the silent ones."""

from __future__ import annotations

import selectors
from collections.abc import Iterable
from typing import Any


class Poller:
    """Sources (anything with ``fileno``) by name. `wire.ready` is for a few, or for once."""

    def __init__(self, sources: Iterable[tuple[Any, Any]] = ()) -> None:
        """``sources``: pairs of a source and its name."""
        self._selector = selectors.DefaultSelector()
        for source, name in sources:
            self._selector.register(source, selectors.EVENT_READ, name)

    def __len__(self) -> int:
        return len(self._selector.get_map())

    def remove(self, source: Any) -> None:
        self._selector.unregister(source)

    def ready(self, timeout_s: float) -> list[Any]:
        """The names of those that can be read within ``timeout_s``."""
        return [key.data for key, _ in self._selector.select(max(0.0, timeout_s))]

    def close(self) -> None:
        self._selector.close()
