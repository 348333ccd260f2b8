from __future__ import annotations

import html

import pytest

from reports.markdown import escaped, table

MARKUP = "<b>|`code`*em*[a](b)\\~~s~~![i](u)#1 @who :smile: www.example.org _em_ $x$ &amp;"


@pytest.mark.parametrize("text", [MARKUP, "1. one", "12) two", "- item", "+ item", "=== =", "+5 %"])
def test_text_is_read_as_it_is_and_is_no_markup(text: str) -> None:
    shown = escaped(text)
    assert html.unescape(shown) == text
    references = shown.replace("&#", "")
    assert not set("<>|`*[]\\~!#@$&") & set(references)
    assert shown[0] not in "-+=" and not shown.startswith(("1. ", "12) "))
    assert "www." not in shown and ":smile" not in shown


def test_what_begins_nothing_stays_readable() -> None:
    assert escaped("all_reduce of ddp-mlp-w2: 1.5 ms") == "all_reduce of ddp-mlp-w2: 1.5 ms"


def test_a_cell_does_not_end_early_and_numbers_stay_readable() -> None:
    made = table(("case", "time", "notes"), [("a|b", "1.5 ms", "two\nlines"), ("c", "-1 %", "")])
    head, rule, first, second = made.splitlines()
    assert head == "| case | time | notes |"
    assert rule == "| :-- | --: | --: |"
    assert first == "| a&#124;b | 1.5 ms | two lines |"
    assert second == "| c | -1 % |  |"
    assert table(("case", "notes"), [], text=("notes",)).splitlines()[1] == "| :-- | :-- |"
