"""pytest's terminal as a sweep uses it: lines past the capturing, a bar meanwhile, the closing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import closing
from bench.case import Case
from bench.closing import Written
from bench.progress import Bar, is_for_a_bar
from bench.session import Session
from bench.sweep import Sweep
from bench.terminal import Layout, legible

_PROSE_WIDTH = 100


class Screen:
    """``-q`` takes its lines away and leaves the closing, ``-qq`` takes all of it."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._verbosity = config.get_verbosity() if self._reporter is not None else -2
        #: The file of the item that said our last line.
        self._our_line_in: Path | None = None
        self._heading: str | None = None
        self._bar: Bar | None = None
        with self._uncaptured():
            if self._verbosity >= 0 and is_for_a_bar(sys.stderr):
                color = config.getoption("color") != "no"
                self._bar = Bar(sys.stderr, self._uncaptured, color=color)

    def layout(self, cases: Sequence[Case], launches: int) -> Layout:
        """For the lines of these cases: as wide as the terminal, or as COLUMNS says in a pipe."""
        is_terminal = self._reporter is not None and bool(self._reporter.isatty)
        width = shutil.get_terminal_size().columns if _columns() or is_terminal else None
        with self._uncaptured():
            made = Layout.of(
                cases,
                launches,
                width=width,
                time_left=self._bar is None,
                encoding=sys.stdout.encoding,
            )
        self._heading = made.heading()
        return made

    def say(self, line: str, item: pytest.Item | None = None) -> None:
        """Lines of their own, seen at once also in a pipe."""
        reporter = self._reporter
        if self._verbosity < 0:
            return
        with self._uncaptured():
            same_file = item is not None and self._our_line_in == item.path
            if same_file and self._verbosity == 0:
                reporter.currentfspath = None  # or write_line would end a line that has ended
            for each in legible(line, sys.stdout.encoding).split("\n"):
                reporter.write_line(each)
            reporter.flush()
            # pytest names a file before its tests, once: it must not think the line is still open.
            reporter.currentfspath = item.path if item is not None else None
            self._our_line_in = reporter.currentfspath

    def say_numbers(self, line: str, item: pytest.Item) -> None:
        """The line of a case; the first one comes with the heading, where there is one."""
        if self._heading is not None:
            self.say(self._heading, item)
            self._heading = None
        self.say(line, item)

    @contextlib.contextmanager
    def showing(self, sweep: Sweep, block: Sequence[Case], launch: int) -> Iterator[None]:
        """The bar, on a terminal, while ``block`` is measured."""
        if self._bar is None:
            yield
            return
        self._end_line()
        kind = "launch" if launch < sweep.launches else "confirm"
        name = block[0].id if len(block) == 1 else block[0].replace(torch="").id
        what = f"{kind} {launch % sweep.launches + 1}/{sweep.launches}  {name}"
        with self._bar.shown(what, *sweep.progress(), sweep.seconds_left()):
            yield

    def end_lines(self) -> None:
        """Nobody need end a line of ours: all have ended."""
        if self._verbosity > -2 and self._our_line_in is not None:
            self._reporter.currentfspath = None

    def close(self, session: Session, written: Written, *, interrupted: bool) -> None:
        """The closing words: the verdict, what became of the cells, and where everything is."""
        if self._verbosity < -1:
            return
        reporter = self._reporter
        broken = closing.broken(session.outcomes)
        sentences: list[str] = []
        if written.results is not None and session.has_good and not interrupted:
            sentences = self._verdict(written.results)
        with self._uncaptured():
            reporter.write_sep("-", "Lockstep")
            self._write(sentences)
            self._write([closing.counts(session.outcomes)], red=bool(broken), green=not broken)
            self._write([*broken, *closing.places(written, comparing=session.settings.comparing)])
            reporter.flush()

    def _verdict(self, results: Path) -> list[str]:
        width = min(shutil.get_terminal_size().columns, _PROSE_WIDTH)
        if self._bar is None:
            return closing.verdict(results, width)
        with self._bar.shown("reading the results ..."):
            return closing.verdict(results, width)

    def _write(self, lines: Sequence[str], **markup: bool) -> None:
        for line in lines:
            self._reporter.write_line(legible(line, sys.stdout.encoding), **markup)

    def _end_line(self) -> None:
        """A bar takes a whole line: what pytest has begun, the name of a file or test, ends."""
        reporter = self._reporter
        with self._uncaptured():
            has_ended = self._verbosity == 0 and reporter.currentfspath == self._our_line_in
            if bool(reporter.isatty) and not has_ended:
                reporter.ensure_newline()
            reporter.flush()

    @contextlib.contextmanager
    def _uncaptured(self) -> Iterator[None]:
        if self._capture is None:
            yield
            return
        with self._capture.global_and_fixture_disabled():
            yield


def _columns() -> bool:
    return os.environ.get("COLUMNS", "").isdigit()
