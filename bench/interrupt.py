"""Ctrl-C, and a polite SIGTERM: what is being measured ends at once, what was measured is kept."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupt:
    """While it is entered, the first signal only interrupts a measurement, and is remembered; the
    second interrupts whatever is going on."""

    def __init__(self) -> None:
        self.asked = False
        self._measuring = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Outside the main thread, where Python takes no signals, this changes nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._take) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Here, and only here, the first signal raises KeyboardInterrupt."""
        if self.asked:
            raise KeyboardInterrupt
        self._measuring = True
        try:
            yield
        finally:
            self._measuring = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or self._measuring:
            raise KeyboardInterrupt
