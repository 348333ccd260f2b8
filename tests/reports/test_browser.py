"""The page in a real headless Chromium."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from reports import history_page
from reports.history_series import history
from reports.history_store import read_store
from reports.load import load
from reports.page import SCRIPTS, render
from reports.tables import compute
from tests.reports.builder import (
    FACTS,
    NEWER,
    both,
    case,
    entry,
    outcome,
    sweep,
    under,
    versions,
)
from tests.reports.hostile import HOSTILE, hostile


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A plain sweep, one of two interpreters and those with hostile names, as pages; and the
    history of seven."""
    made = {}
    documents = {
        "plain": sweep(),
        "hostile": hostile(sweep()),
        "versions": two_interpreters("new"),
        "hostile versions": two_interpreters(HOSTILE[0], hostile_facts=True),
    }
    for name, document in documents.items():
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
    for one in document["benchmarks"]:
        factor = (1.2 if n > 2 else 1.0) * (1 + 0.002 * n)
        stats = one["stats"]
        stats["data"] = [step * factor for step in stats["data"]]
        for launch in one["extra_info"]["result"]["launches"]:
            launch["median_step_s"] *= factor
            launch["started_unix_s"] += 86400 * n
    return document


def two_interpreters(new: str, hostile_facts: bool = False) -> dict[str, Any]:
    """A slower case, confirmed; one that is not; one that failed under the second interpreter."""
    slower = case(strategy="ddp", world_size=2, bucket_cap_mb=25, gradient_as_bucket_view=True)
    entries = both(slower, 0.1, 1.08, confirmed=1.08) + both(case(strategy="single"), 0.1, 1.0)
    broken = case(strategy="ddp", world_size=4)
    entries.append(entry(under("old", broken), 0.1, launches=12))
    facts = dict(FACTS | NEWER)
    reason = "ran out of memory"
    if hostile_facts:
        facts |= {name: HOSTILE[n] for n, name in enumerate(("torch", "python", "blas", "openmp"))}
        facts[HOSTILE[1]] = list(HOSTILE)
        reason = HOSTILE[4]
    for each in entries:
        if each["extra_info"]["case"]["torch"] == "new":
            each["extra_info"]["case"]["torch"] = new
    ended = [outcome(each["extra_info"]["case"]) for each in entries]
    ended.append(outcome(under(new, broken), "crashed", reason=reason, rerun=HOSTILE[0]))
    return versions(entries, outcomes=ended, interpreters={"old": FACTS, new: facts})


def is_on_a_page(page: Any, target: str) -> bool:
    """Whether following the link turns to a page of the table of cases that has its target."""
    page.evaluate("target => { location.hash = target }", target)
    page.wait_for_timeout(50)
    return page.query_selector(f"[id='{target[1:]}']") is not None


@pytest.mark.parametrize(
    "names",
    [
        *("plain", "hostile", "versions", "hostile versions"),
        *("plain history", "hostile history"),
    ],
)
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
    assert page.query_selector_all("img, iframe, object, [onerror], [onload], [onmouseover]") == []
    # The page's own scripts are those that its policy names by their hashes; data are no script.
    scripts = page.query_selector_all("script:not([type='application/json'])")
    assert len(scripts) == (0 if "history" in names else len(SCRIPTS))
    assert page.query_selector_all("[src], [style*=url]") == []
    for link in page.query_selector_all("a, use"):
        target = link.get_attribute("href") or link.get_attribute("xlink:href") or ""
        assert target.startswith("#")
        assert page.query_selector(f"[id='{target[1:]}']") is not None or is_on_a_page(page, target)
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


def test_the_section_of_versions(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["versions"].as_uri())
    section = page.query_selector("#versions")
    text = section.inner_text()
    assert "Slower in step time: ddp-resnet18-w2-cap25-view" in text
    assert "slower, confirmed" in text
    assert "ddp-resnet18-w4, failed: crashed under new (ran out of memory)" in text
    assert "mkl 2024.2" in text
    assert "Where the time of ddp-resnet18-w2-cap25-view went" in text
    titles = [node.inner_text() for node in page.query_selector_all("h2")]
    assert titles.index("Versions") == titles.index("All cases") - 1
    # The gate's table stands open; other metrics are folded.
    assert len([one for one in section.query_selector_all("table") if one.is_visible()]) == 2
    page.goto(pages["plain"].as_uri())
    assert page.query_selector("#versions") is None
    page.close()
