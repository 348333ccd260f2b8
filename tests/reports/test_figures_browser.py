"""Figures in a real headless Chromium: colours, contrast of text, and room on a narrow screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.load import load
from reports.page import render
from reports.tables import compute
from tests.reports.builder import both, case, entry, sweep, versions
from tests.reports.timelines import timeline

#: What a page may allow at most: no style attribute has any effect.
_STRICT = "default-src 'none'"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every figure there is: a sweep, its timelines, and two interpreters."""
    folder = tmp_path_factory.mktemp("figures")
    swept = sweep()
    for made in swept["benchmarks"]:
        size = made["extra_info"]["case"]["world_size"]
        if size > 1:
            for launch in made["extra_info"]["result"]["launches"]:
                launch["timeline"] = timeline(size, calls=9)
    swept["benchmarks"] += [
        entry(case(strategy=strategy, world_size=2, device="cuda"), median)
        for strategy, median in (("ddp", 0.1), ("dp", 0.13))
    ]
    paired = versions(
        both(case(strategy="ddp", world_size=2), 0.1, 1.08, confirmed=1.08)
        + both(case(strategy="ddp", model="a_model_with_quite_a_long_name" * 2), 0.1, 0.9, seed=1)
    )
    for name, document in (("run.json", swept), ("versions.json", paired)):
        (folder / name).write_text(json.dumps(document))
    page = render(compute(load([folder / "run.json", folder / "versions.json"])))
    (folder / "page.html").write_text(page, encoding="utf-8")
    return folder / "page.html"


@pytest.mark.parametrize("width", [360, 1280])
def test_every_word_of_a_figure_is_on_the_screen_and_readable(
    browser: Any, page_file: Path, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(page_file.as_uri())
    found = page.evaluate(
        """() => [...document.querySelectorAll('figure svg')].map(svg => ({
            name: svg.querySelector('title').textContent,
            words: [...svg.querySelectorAll('text')].map(text => {
                const box = text.getBoundingClientRect();
                const scale = text.getScreenCTM().a || text.getScreenCTM().b;
                const size = parseFloat(getComputedStyle(text).fontSize) * Math.abs(scale);
                return [text.textContent, box.left, box.right, size];
            }),
        }))"""
    )
    assert len(found) >= 12
    for figure in found:
        for text, left, right, size in figure["words"]:
            assert left >= -0.5, (figure["name"], text)
            assert right <= width + 0.5, (figure["name"], text, right)
            assert size >= 8, (figure["name"], text, size)
    page.close()


def test_figures_need_no_style_attribute(browser: Any, page_file: Path) -> None:
    """Under a policy that lets none through, bars have their colours and words their size."""
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(page_file.as_uri())
    assert page.query_selector("figure [style]") is None
    drawn = page.inner_html("#waterfall figure")
    alone = f'<meta http-equiv="Content-Security-Policy" content="{_STRICT}"><body>{drawn}</body>'
    page.set_content(alone)
    fills = page.evaluate(
        "[...new Set([...document.querySelectorAll('path')].map(p => getComputedStyle(p).fill))]"
    )
    assert "rgb(213, 94, 0)" in fills  # what is lost
    sizes = page.evaluate(
        "[...document.querySelectorAll('text')].map(text => getComputedStyle(text).fontSize)"
    )
    assert "16px" not in sizes
    assert complaints == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_in_figures_have_the_colour_of_the_text_around(
    browser: Any, page_file: Path, scheme: str
) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(page_file.as_uri())
    colours = page.evaluate(
        """() => [...document.querySelectorAll('figure svg')].flatMap(svg =>
            [...svg.querySelectorAll('g[id*=xtick] text')].map(
                text => [getComputedStyle(text).fill, getComputedStyle(document.body).color]))"""
    )
    assert colours
    for fill, ink in colours:
        assert fill == ink
    page.close()
