"""The bar on a real pseudo-terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from bench.progress import Bar, is_for_a_bar
from tests.terminals import screen

TERMINAL = {"TERM": "xterm"}


class Terminal:
    def __init__(self) -> None:
        self.leader, follower = pty.openpty()
        self.stream: TextIO = os.fdopen(follower, "w", encoding="utf-8")

    def written(self) -> str:
        """What has come since the last time; a pseudo-terminal hands it over piece by piece."""
        self.stream.flush()
        found = b""
        while select.select([self.leader], [], [], 0.2)[0]:
            found += os.read(self.leader, 65536)
        return found.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self.leader)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    made = Terminal()
    yield made
    made.close()


def test_a_bar_is_drawn_once_and_leaves_nothing(terminal: Terminal) -> None:
    bar = Bar(terminal.stream)
    terminal.stream.write("a line before\n")
    with bar.shown("launch 1/3  ddp-mlp-w2", 3, 12, 75):
        drawn = terminal.written()
        assert "\x1b[?25" not in drawn  # a killed run would leave the terminal without a cursor
        line = screen(drawn)[-1]
        assert line.startswith("━━━")
        assert line.endswith("━  3/12  1 min 15 s left  launch 1/3  ddp-mlp-w2")
        assert len(line) < 80
        # Nobody draws while the ranks are measured.
        assert threading.active_count() == 1 or not [
            each for each in threading.enumerate() if "rich" in type(each).__module__
        ]
        assert terminal.written() == ""
    after = terminal.written()
    terminal.stream.write("a line after\n")
    assert screen(drawn + after + terminal.written()) == ["a line before", "a line after", ""]


def test_it_is_wiped_after_an_error_too(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), Bar(terminal.stream).shown("case", 1, 2, None):
        raise KeyboardInterrupt
    assert screen(terminal.written()) == [""]


def test_how_much_is_filled(terminal: Terminal) -> None:
    lengths = []
    for done in (0, 6, 12):
        with Bar(terminal.stream, color=False).shown("case", done, 12):
            line = screen(terminal.written())[-1]
        terminal.written()
        lengths.append(line.count("━") + line.count("╸"))
        assert line.index(f"  {done}/12  case") == 24  # as wide, filled or not
    assert lengths == [0, 12, 24]


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize("name", ["short", "torchvision:" + "long" * 40 + "-w2"])
def test_it_fits_every_width(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: int, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with Bar(terminal.stream).shown(name, 7, 1200, 4000):
        line = screen(terminal.written())[-1]
    assert len(line) < columns
    if columns > 20:
        assert "7/1200  1 h 06 min left" in line


def test_colors_are_the_users_to_switch_off(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Bar(terminal.stream).shown("case", 1, 2):
        assert "\x1b[38;" in terminal.written()
    terminal.written()
    with Bar(terminal.stream, color=False).shown("case", 1, 2):
        assert "\x1b[" not in terminal.written()
    terminal.written()
    monkeypatch.setenv("NO_COLOR", "1")
    with Bar(terminal.stream).shown("case", 1, 2):
        assert "\x1b[" not in terminal.written()


def test_a_terminal_without_unicode_gets_another_bar(terminal: Terminal) -> None:
    name = os.ttyname(terminal.stream.fileno())
    with open(name, "w", encoding="ascii") as plain, Bar(plain).shown("modèle ±", 1, 2, 3):
        line = screen(terminal.written())[-1]
    assert line.isascii()
    assert "---" in line


def test_who_gets_a_bar(terminal: Terminal) -> None:
    assert is_for_a_bar(terminal.stream, TERMINAL)
    assert not is_for_a_bar(io.StringIO(), TERMINAL)
    assert not is_for_a_bar(terminal.stream, {"TERM": "dumb"})
    assert not is_for_a_bar(terminal.stream, {})
    assert not is_for_a_bar(terminal.stream, TERMINAL | {"CI": "true"})
    assert is_for_a_bar(terminal.stream, TERMINAL | {"CI": ""})
    # Colours can be forced into a pipe; a bar cannot.
    assert not is_for_a_bar(io.StringIO(), TERMINAL | {"FORCE_COLOR": "1"})
