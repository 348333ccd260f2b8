"""The page in a real headless Chromium."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reports import history_page
from reports.history_series import history
from reports.history_store import read_store
from reports.load import load
from reports.page import render
from reports.tables import compute
from tests.reports.builder import sweep

HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '"><svg/onload=window.pwned=1>',
    "javascript:window.pwned=1",
    "</style><script>window.pwned=1</script>",
    "{{ 7*7 }}",
    "http://example.invalid/x.png",
)
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs Chromium")
    with api.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, args=_FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A plain sweep and one with hostile names: the page of one file, and the history of seven."""
    made = {}
    for name, document in (("plain", sweep()), ("hostile", hostile(sweep()))):
        folder = tmp_path_factory.mktemp(name)
        (folder / "run.json").write_text(json.dumps(document))
        made[name] = folder / "page.html"
        page = render(compute(load([folder / "run.json"])))
        made[name].write_text(page, encoding="utf-8")
        for n in range(7):
            (folder / f"{n}.json").write_text(json.dumps(later(document, n)))
        made[f"{name} history"] = folder / "history.html"
        page = history_page.render(history(read_store([folder])))
        made[f"{name} history"].write_text(page, encoding="utf-8")
    return made


def later(document: dict[str, Any], n: int) -> dict[str, Any]:
    """The first cases of the sweep ``n`` days later; from the third day on they take longer."""
    document = copy.deepcopy(document) | {"datetime": f"2026-11-{n + 2:02}T10:00:00+00:00"}
    document["benchmarks"] = document["benchmarks"][:8]
    for entry in document["benchmarks"]:
        factor = (1.2 if n > 2 else 1.0) * (1 + 0.002 * n)
        stats = entry["stats"]
        stats["data"] = [step * factor for step in stats["data"]]
        for launch in entry["extra_info"]["result"]["launches"]:
            launch["median_step_s"] *= factor
            launch["started_unix_s"] += 86400 * n
    return document


def hostile(document: dict[str, Any]) -> dict[str, Any]:
    """Every place of the file that is a name, a reason or a version, with something active."""
    document = copy.deepcopy(document)
    for n, entry in enumerate(document["benchmarks"]):
        text = HOSTILE[n % len(HOSTILE)]
        entry["name"] = entry["group"] = entry["extra_info"]["id"] = text
        entry["extra_info"]["case"]["model"] = text
        entry["extra_info"]["result"]["warnings"] = [text]
        for launch in entry["extra_info"]["result"]["launches"]:
            for rank in launch["ranks"]:
                rank["host"] = rank["software"]["torch"] = text
    own = document["lockstep"]
    own["machine"] = own["machine"] | {"host": HOSTILE[0], "cpu": HOSTILE[1]}
    own["settings"]["command"] = HOSTILE[2]
    own["warnings"] = list(HOSTILE)
    for n, outcome in enumerate(own["outcomes"]):
        outcome["reason"] = outcome["rerun"] = outcome["id"] = HOSTILE[n % len(HOSTILE)]
    return document


@pytest.mark.parametrize("names", ["plain", "hostile", "plain history", "hostile history"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_quiet_and_fits(
    browser: Any,
    pages: dict[str, Path],
    names: str,
    width: int,
    scheme: str,
) -> None:
    path = pages[names]
    complaints: list[str] = []
    requests: list[str] = []
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=True
    )
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    for summary in page.query_selector_all("summary"):
        summary.evaluate("node => node.parentElement.open = true")
    assert complaints == []
    assert requests == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.pwned") is None
    assert page.query_selector_all("script, img, iframe, object, [onerror], [onload]") == []
    for link in page.query_selector_all("a, use"):
        target = link.get_attribute("href") or link.get_attribute("xlink:href") or ""
        assert target.startswith("#")
        assert page.query_selector(f"[id='{target[1:]}']") is not None
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(ids) == len(set(ids))
    context.close()


def test_what_the_page_says(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["plain"].as_uri())
    text = page.inner_text("body")
    titles = [node.inner_text() for node in page.query_selector_all("h2")]
    assert titles[0] == "Verdict"
    assert "Skipped and failed" in titles
    assert "needs 2 GPUs, found 0" in text
    assert "no comparison, DataParallel is parallel on accelerators only" in text
    assert "not parallel: plain module" in text
    for figure in page.query_selector_all("figure svg"):
        assert figure.get_attribute("aria-label") or figure.query_selector("title, desc")
    assert len(page.query_selector_all("figure svg")) >= 5
    page.close()


def test_what_a_history_says(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["plain history"].as_uri())
    titles = [node.inner_text() for node in page.query_selector_all("h2")]
    assert titles[:3] == ["Lasting shifts", "Series", "All series"]
    first = page.inner_text("#verdict")
    assert "worse, from 3.json of 2026-11-05 on" in first
    assert "Machine or code" in first
    figures = page.query_selector_all("figure svg")
    assert len(figures) >= 8
    for figure in figures:
        assert "results" in figure.query_selector("desc").text_content()
    page.close()
