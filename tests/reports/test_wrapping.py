"""Prose for a terminal."""

from __future__ import annotations

from reports import words
from reports.terminal import PROSE_WIDTH, prose, text, wrapped


def test_a_number_stays_with_its_unit() -> None:
    sentence = f"it took 12{words.SPACE}ms"
    assert wrapped(sentence, 12, "") == ["it took", "  12 ms"]  # 13 letters in all
    assert wrapped(sentence, 13, "") == ["it took 12 ms"]


def test_a_long_name_stays_in_one_piece() -> None:
    name = "x-" * 80
    assert wrapped(f"of {name} this") == ["  of", f"    {name}", "    this"]


def test_no_line_is_longer_than_can_be_read() -> None:
    lines = wrapped("word " * 100, width=1000)
    assert max(map(len, lines)) <= PROSE_WIDTH
    assert all(line.startswith("    ") for line in lines[1:])


def test_names_are_text() -> None:
    """Neither markup of rich's nor an escape sequence of the terminal's."""
    assert prose("[red]x[/red] \x1b[31m").plain == "  [red]x[/red] \\x1b[31m"
    assert prose("[red]x[/red]").spans == []
    assert text("a\nb\x07", "bold").plain == "a\nb\\x07"
