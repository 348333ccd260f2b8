"""axe-core in a real headless Chromium: no serious or critical violation on any page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import compare_page, history_page, predict_page, trace_page
from reports.gate import conclude
from reports.history_series import history
from reports.history_store import read_store
from reports.load import load
from reports.page import render
from reports.predict_cases import workloads
from reports.predict_cost import Link
from reports.predict_report import Asked, reports_of
from reports.tables import compute
from reports.trace_files import report_on
from tests.reports import large
from tests.reports.builder import both, case, sweep, versions
from tests.reports.predicting import ONE_BUCKET, measured, run
from tests.reports.test_browser import later
from tests.traces import gloo_trace

NAMES = ("plain", "many", "versions", "compare", "history", "trace", "predict")


def _of(*paths: Path) -> str:
    return render(compute(load(paths)))


def _compare(path: Path) -> str:
    (comparison,) = compute(load([path])).versions
    return compare_page.render(comparison, conclude(comparison))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("pages")

    def saved(name: str, document: Any) -> Path:
        path = folder / f"{name}.json"
        path.write_text(json.dumps(document))
        return path

    def made(name: str) -> str:
        if name == "plain":
            return _of(saved(name, sweep()))
        if name == "many":
            return _of(saved(name, large.own(200, 12)))
        if name in ("versions", "compare"):
            fields = case(world_size=2)
            path = saved(name, versions(both(fields, 0.1, 1.08, confirmed=1.08)))
            return _of(path) if name == "versions" else _compare(path)
        if name == "history":
            store = folder / "store"
            store.mkdir()
            for n in range(7):
                (store / f"{n}.json").write_text(json.dumps(later(sweep(), n)))
            return history_page.render(history(read_store([store])))
        if name == "predict":
            path = saved(name, run(measured(2, 25, ONE_BUCKET), measured(2, 1, 0.09)))
            links = (Link.parse("1Gbit"), Link.parse("25Gbit,20us"))
            asked = Asked((2, 8, 64), links, (None, 25.0))
            return predict_page.render(reports_of(workloads(load([path]), None), asked))
        ranks = []
        for rank in range(2):
            trace = gloo_trace()
            trace["distributedInfo"]["rank"] = rank
            ranks.append(saved(f"rank{rank}", trace))
        return trace_page.render(report_on(ranks))

    def page(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(made(name), encoding="utf-8")
        return path

    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_no_serious_violation(
    browser: Any, pages: Callable[[str], Path], name: str, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core")
    # The policy of the page lets no script in, and axe-core's neither.
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.goto(pages(name).as_uri())
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    found = axe.Axe().run(page).response["violations"]
    grave = [
        f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    context.close()
    assert grave == []
