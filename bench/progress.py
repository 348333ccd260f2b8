"""The bar under a sweep's lines, on a terminal: what is measured, how far it is, how long it takes.

It is drawn once before a measurement and wiped off after it. Nothing redraws it meanwhile: a
thread, a spinner or a clock would take turns with the ranks. So whatever pytest prints between two
measurements stands where the bar was, and nothing of it remains at the end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment, Segments

from bench.terminal import duration, legible

_NARROWEST_BAR, _WIDEST_BAR = 8, 40
_GAP = "  "
_WIPE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


def is_for_a_bar(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether someone sits before ``stream`` who sees a line change: it is no pipe, no CI log for
    which a terminal is pretended, and no terminal that cannot go back in a line."""
    return (
        stream.isatty()
        and environment.get("TERM", "") not in ("", "dumb", "unknown")
        and not environment.get("CI")
    )


class Bar:
    """On ``stream``, a terminal; ``around`` is entered for each writing, as pytest captures
    streams."""

    def __init__(
        self,
        stream: TextIO,
        around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        *,
        color: bool = True,
    ) -> None:
        self._around = around
        # None: whether there are colours is NO_COLOR's and the terminal's to say.
        no_color = None if color else True
        self._console = Console(file=stream, force_terminal=True, no_color=no_color)

    @contextlib.contextmanager
    def shown(
        self, what: str, done: int = 0, total: int = 0, seconds_left: float | None = None
    ) -> Iterator[None]:
        """The bar, with ``done`` of ``total`` filled, for as long as this is entered; without a
        total only ``what`` is being done."""
        with self._around():
            line = self._line(what, done, total, seconds_left)
            self._console.print(line, end="", soft_wrap=True)
            self._console.file.flush()
        try:
            yield
        finally:
            with self._around():
                self._console.control(_WIPE)
                self._console.file.flush()

    def _line(self, what: str, done: int, total: int, seconds_left: float | None) -> Segments:
        room = self._console.width - 1  # after the last column some terminals begin a new line
        what = legible(what, self._console.encoding)
        if not total:
            return Segments([Segment(what[:room])])
        far = f"{done}/{total}{_GAP}"
        if seconds_left is not None:
            far += f"{duration(seconds_left)} left{_GAP}"
        # The bar comes first, where it stands still, and what differs in length comes last.
        width = min(_WIDEST_BAR, (room - len(far)) // 3)
        if width < _NARROWEST_BAR:
            return Segments([Segment(f"{far}{_shortened(what, room - len(far))}"[:room])])
        made = ProgressBar(total=total, completed=done, width=width, complete_style="green")
        bar = [*self._console.render(made)]
        # Without colours rich draws only what is done.
        rest = " " * (width - sum(len(part.text) for part in bar))
        name = _shortened(what, room - width - len(_GAP) - len(far))
        return Segments([*bar, Segment(f"{rest}{_GAP}{far}{name}")])


def _shortened(name: str, longest: int) -> str:
    """With what is too long left out in the middle: both ends of a case's name tell it apart."""
    if len(name) <= longest:
        return name
    if longest < 5:
        return ""
    half = (longest - 2) // 2
    return f"{name[: longest - 2 - half]}..{name[-half:]}"
