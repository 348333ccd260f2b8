"""Figures: what each has, whatever it draws: words, presentation attributes, bounds, colours."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reports import (
    drawing,
)
from reports.drawing import (
    COST_COLOUR,
    GAIN_COLOUR,
    PHASE_COLOURS,
    colour_of,
    named_apart,
    spread_apart,
)
from reports.page import render
from reports.svg import INK
from reports.svg_style import presented
from reports.tables import Tables
from tests.reports.builder import (
    case,
    entry,
)
from tests.reports.drawn import Drawn
from tests.reports.tables_of import one_file

Written = Callable[..., Path]


def every_figure(tables: Tables) -> dict[str, str]:
    from reports.figure_catalogue import choices

    return {f"{one.name} {one.model}": svg for one in choices(tables) if (svg := one.draw())}


def test_no_style_attribute_and_nothing_that_reaches_out(swept: Tables) -> None:
    found = every_figure(swept)
    assert len(found) >= 9
    for name, svg in found.items():
        assert "style=" not in svg, name
        assert "<style" not in svg, name
        assert INK not in svg, name
        assert set(re.findall(r'(?:xlink:)?href="(.)', svg)) <= {"#"}, name


def test_every_figure_has_a_title_and_says_its_numbers(swept: Tables) -> None:
    for name, svg in every_figure(swept).items():
        drawn = Drawn(svg)
        assert drawn.title.strip(), name
        assert re.search(r"[0-9]", drawn.desc), name
        assert drawn.root.get("role") == "img"


def test_style_becomes_attributes_and_unknown_style_is_an_error() -> None:
    said = presented({"style": "font: bold 9.2px 'DejaVu Sans', x; text-anchor: end", "x": "1"})
    assert said == {"font-weight": "bold", "font-size": "9.2", "text-anchor": "end", "x": "1"}
    said = presented({"style": "font-size: 8px; font-family: 'A', 'B'; fill: #fff; opacity: .5"})
    assert said == {"font-size": "8", "fill": "#fff", "opacity": ".5"}
    with pytest.raises(ValueError, match="behavior"):
        presented({"style": "behavior: url(x)"})


def test_a_page_has_a_bounded_number_of_figures(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reports.page.MOST_FIGURES", 2)
    monkeypatch.setattr("reports.figure_sections.MOST_FIGURES", 2)
    entries = [
        entry(case(model=f"m{n}", strategy="ddp", world_size=size), 0.1)
        for n in range(5)
        for size in (1, 2)
    ]
    page = render(one_file(written, entries))
    for name in ("scaling", "waterfall", "phases", "all-reduce", "memory", "step-times"):
        numbers = set(re.findall(rf'id="{name}-([0-9]+)-(?:throughput-)?title"', page))
        assert numbers == {"0", "1"}, name
    assert "No figure: the page has 2 of this kind." in page
    assert "Figures of the first 2 models; “All cases” has the 3 others too." in page


def test_series_are_named_by_what_tells_them_apart() -> None:
    labels = ["ddp, gloo, batch 32 per rank", "all_reduce, gloo, batch 32 per rank"]
    names, common = named_apart(labels)
    assert (list(names.values()), common) == (["ddp", "all_reduce"], "gloo, batch 32 per rank")
    one_has_more = ["ddp, gloo, batch 8", "ddp, gloo, batch 8, static_graph=True"]
    assert named_apart(one_has_more) == ({label: label for label in one_has_more}, "")
    assert named_apart(labels[:1]) == ({labels[0]: "ddp"}, "gloo, batch 32 per rank")


def test_names_at_the_ends_of_lines_keep_their_order_and_their_distance() -> None:
    places = spread_apart([1.0, 1.0, 1.2, 5.0, 9.0, 9.1], 0.5)
    assert all(b - a >= 0.5 - 1e-9 for a, b in itertools.pairwise(places))
    assert places[3] == 5.0
    assert sum(places[:3]) == pytest.approx(3.2)
    assert sum(places[4:]) == pytest.approx(18.1)


def test_one_colour_per_strategy_and_none_twice() -> None:
    colours = [colour_of(name) for name in (*drawing._COLORBLIND, "other")]
    other = [*dict.fromkeys(PHASE_COLOURS.values()), COST_COLOUR, GAIN_COLOUR]
    assert len({*colours, *other}) == len(colours) + len(other)
