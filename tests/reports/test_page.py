"""The page as its readers use it, in a real headless Chromium: the table of all cases, links,
dark mode, paper, and what a Content-Security-Policy must keep out."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.frames import rows
from reports.load import load
from reports.page import SECTIONS, render
from reports.tables import Tables, compute
from tests.reports import large
from tests.reports.builder import case, document, entry, outcome, sweep
from tests.reports.hostile import HOSTILE, as_shown, hostile

CASES = "#all-cases tbody tr"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Tables]]:
    """Pages by name, with the tables they are made from; each is made once."""
    folder = tmp_path_factory.mktemp("pages")
    documents = {
        "plain": sweep,
        "hostile": lambda: hostile(sweep()),
        "many": lambda: large.own(240, 20),
    }
    known: dict[str, tuple[Path, Tables]] = {}

    def page(name: str) -> tuple[Path, Tables]:
        if name not in known:
            source = folder / f"{name}.json"
            source.write_text(json.dumps(documents[name]()))
            tables = compute(load([source]))
            path = folder / f"{name}.html"
            path.write_text(render(tables), encoding="utf-8")
            known[name] = path, tables
        return known[name]

    return page


@pytest.fixture
def opened(
    browser: Any, made: Callable[[str], tuple[Path, Tables]]
) -> Iterator[Callable[..., Any]]:
    """Opens a page in a context of its own; afterwards nothing was complained of or asked for."""
    contexts = []
    complaints: list[str] = []
    asked: list[str] = []

    def page(name: str, anchor: str = "", **settings: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | settings)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        one = context.new_page()
        one.on("console", lambda message: complaints.append(message.text))
        one.on("pageerror", lambda error: complaints.append(str(error)))
        address = made(name)[0].as_uri()
        one.on(
            "request",
            lambda request: asked.append(request.url) if address not in request.url else None,
        )
        one.goto(address + anchor)
        return one

    yield page
    for context in contexts:
        context.close()
    assert complaints == []
    assert asked == []


def column(page: Any, title: str, under: str = "") -> list[str]:
    """The first line of every cell of the column, as the rows stand now."""
    heads = [" ".join(one.split()) for one in page.locator("#all-cases thead th").all_inner_texts()]
    wanted = f"{title} {under}".strip()
    place = next(n for n, head in enumerate(heads) if head.startswith(wanted))
    cells = page.locator(f"{CASES} > :nth-child({place + 1})").all_inner_texts()
    return [cell.split("\n")[0] for cell in cells]


def head(page: Any, wanted: str) -> Any:
    return page.locator("#all-cases thead th").filter(has_text=re.compile(f"^{wanted}")).first


def sort(page: Any, wanted: str, direction: str = "asc") -> None:
    """Clicks the head of the column, and waits until its rows stand in their new order."""
    head(page, wanted).click()
    page.locator(f"#all-cases thead th.dt-ordering-{direction}").wait_for()


def copied(page: Any) -> list[dict[str, str]]:
    page.evaluate("document.querySelector('#cases-tools output').value = ''")
    page.click("#cases-tools [name=copy]")
    page.locator("#cases-tools output", has_text="rows copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    return list(csv.DictReader(io.StringIO(text)))


def test_the_sections_come_in_their_order(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    shown = page.evaluate("[...document.querySelectorAll('main > section')].map(one => one.id)")
    order = [name for name, _, _ in SECTIONS]
    assert shown == [name for name in order if name in shown]
    assert order[:4] == ["verdict", "files", "scaling", "waterfall"]
    assert order[-5:] == ["cases", "outcomes", "trust", "machine", "definitions"]
    links = page.locator("body > nav a").evaluate_all("all => all.map(one => one.hash.slice(1))")
    assert links == shown
    for name in shown:
        assert page.locator(f"#{name}").inner_text().count("\n") >= 1  # none is empty


def test_the_first_screen_answers(opened: Callable[..., Any]) -> None:
    for width in (1280, 360):
        page = opened("plain", viewport={"width": width, "height": 900})
        answers = page.locator("#verdict .answers div")
        assert answers.count() == 4
        for answer in answers.all():
            box = answer.bounding_box()
            assert box["y"] + box["height"] <= 900, answer.inner_text()
        text = page.inner_text("#verdict").replace("\u00a0", " ")
        assert "80.0 %\nof ideal on 4 ranks, against one process" in text
        assert "ddp on 4 ranks\n" in text
        assert "exposed transfer\n" in text or "contention\n" in text


def test_cases_are_sorted_and_blanks_are_last(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    for ascending in (True, False):
        sort(page, "step", "asc" if ascending else "desc")
        values = column(page, "step")
        known = [float(value) for value in values if value != "–"]
        assert len(known) > 10
        assert known == sorted(known, reverse=not ascending)
        assert values[len(known) :] == ["–"] * 3  # those that were skipped or failed
    sort(page, "case")
    assert column(page, "case") == sorted(column(page, "case"), key=str.lower)


def test_cases_are_searched_and_chosen(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    total = page.locator(CASES).count()
    page.fill("#cases-tools [name=search]", "all_reduce w4")
    assert column(page, "case") == ["all_reduce-resnet18-w4"]
    assert page.inner_text("#cases-tools output") == f"1 of {total}"
    page.fill("#cases-tools [name=search]", "")
    page.select_option("label:has-text('Strategy') select", "all_reduce")
    assert len(column(page, "case")) == 3
    page.select_option("label:has-text('World size') select", "2")
    assert column(page, "case") == ["all_reduce-resnet18-w2"]
    page.select_option("label:has-text('Strategy') select", "")
    page.select_option("label:has-text('World size') select", "")
    page.select_option("label:has-text('Outcome') select", "failed")
    assert column(page, "case") == ["ddp-resnet18-w2-static"]
    page.fill("#cases-tools [name=search]", "no such case")
    assert "no case fits" in page.inner_text("#all-cases")


def test_columns_are_chosen(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    page.click("#cases-tools summary")
    page.uncheck("text=p90, p99, ms")
    assert not any("p90" in one for one in page.locator("#all-cases th").all_inner_texts())
    assert "step_p90_s" not in copied(page)[0]
    page.check("text=p90, p99, ms")
    assert "step_p90_s" in copied(page)[0]


def test_what_is_copied_are_the_exact_numbers_as_they_stand(
    opened: Callable[..., Any], made: Callable[[str], tuple[Path, Tables]]
) -> None:
    page = opened("plain")
    page.fill("#cases-tools [name=search]", "ddp")
    sort(page, "throughput")
    found = copied(page)
    assert [one["case"] for one in found] == column(page, "case")
    cells = {row["id"]: row for row in rows(made("plain")[1].cells)}
    assert len(found) > 10
    for one in found:
        cell = cells.get(one["case"])
        for name in ("step_s", "step_low_s", "step_high_s", "throughput_samples_per_s"):
            assert one[name] == "" if cell is None else float(one[name]) == cell[name]
        assert one["outcome"] == ("ok" if cell else "skipped") or "static" in one["case"]


def test_nothing_that_is_copied_is_a_formula(opened: Callable[..., Any]) -> None:
    page = opened("hostile")
    found = copied(page)
    text = HOSTILE[16]
    assert text.startswith("=")
    assert any(one["case"] == f"'{text}" for one in found)
    assert not any(value[:1] in ("=", "+", "@") for one in found for value in one.values())


def test_a_link_to_a_case_turns_to_its_page(opened: Callable[..., Any]) -> None:
    page = opened("many")
    assert page.locator(CASES).count() == 50
    last = json.loads(page.inner_text("#cases-data"))["rows"][-1][0][0]
    page.fill("#cases-tools [name=search]", "nothing of the kind")
    page.evaluate("""() => {
        const link = document.querySelector("#outcomes a[href^='#ended-']");
        [...document.querySelectorAll("#outcomes a")].at(-1).click();
    }""")
    row = page.locator("tr.here")
    row.wait_for()
    box = row.bounding_box()
    assert 0 <= box["y"] < 900
    assert page.input_value("#cases-tools [name=search]") == ""
    assert last  # the table holds more than what is shown
    target = page.evaluate("location.hash")
    page = opened("many", anchor=target)  # the address alone leads there too
    page.locator("tr.here").wait_for()
    assert page.locator("tr.here").get_attribute("id") == target[1:]


def test_a_failed_case_tells_how_and_how_to_run_it_again(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    page.click("#outcomes a:has-text('ddp-resnet18-w2-static')")
    row = page.locator("tr.here")
    assert "failed\ntimed, step 17, rank 1" in row.inner_text()
    assert "RuntimeError: Expected to have finished reduction" in row.inner_text()
    assert "Traceback" not in row.inner_text()
    row.locator("summary:has-text('details')").click()
    assert "Traceback (most recent call last)" in row.inner_text()
    row.locator("summary:has-text('rerun')").click()
    command = row.locator("code.command")
    assert command.inner_text() == "pytest bench -k 'ddp-resnet18-w2-static'"
    command.click()  # one click selects all of it
    assert page.evaluate("getSelection().toString()") == command.inner_text()


def test_every_case_has_its_command(made: Callable[[str], tuple[Path, Tables]]) -> None:
    path, tables = made("plain")
    page = path.read_text(encoding="utf-8")
    for row in rows(tables.records.outcomes):
        assert f'<code class="command">{row["rerun"].replace(chr(39), "&#39;")}</code>' in page


def test_without_javascript_all_numbers_are_there(opened: Callable[..., Any]) -> None:
    page = opened("many", java_script_enabled=False)
    assert page.locator(CASES).count() == 240
    assert page.locator("#all-cases").is_visible()
    assert not page.locator("#cases-tools").is_visible()
    assert page.locator(CASES).last.locator("td").nth(7).inner_text() != ""


@pytest.mark.parametrize("name", ["plain", "hostile", "many"])
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_wider_than_the_screen(
    opened: Callable[..., Any], name: str, width: int
) -> None:
    page = opened(name, viewport={"width": width, "height": 900})
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_is_dark_and_paper_is_light(opened: Callable[..., Any]) -> None:
    luminance = """() => {
        const rgb = getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number);
        const ink = getComputedStyle(document.querySelector("figure svg text")).fill;
        return [Math.max(...rgb.slice(0, 3)), Math.max(...ink.match(/[0-9]+/g).map(Number))];
    }"""
    page = opened("plain", color_scheme="dark")
    back, ink = page.evaluate(luminance)
    assert back < 60 and ink > 180
    page.emulate_media(media="print")
    back, ink = page.evaluate(luminance)
    assert back == 255 and ink < 60
    light = opened("plain", color_scheme="light")
    back, ink = light.evaluate(luminance)
    assert back > 240 and ink < 90


@pytest.mark.parametrize("name", ["plain", "many", "hostile"])
def test_on_paper_no_table_is_cut(opened: Callable[..., Any], name: str) -> None:
    page = opened(name, viewport={"width": 1032, "height": 700})  # A4 landscape less its margins
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    cut = page.evaluate("""() => [...document.querySelectorAll("table")].filter(one => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && box.right > document.documentElement.clientWidth + 1;
    }).map(one => one.innerText.slice(0, 60))""")
    assert cut == []
    assert not page.locator("body > nav").is_visible()
    assert not page.locator("#cases-tools").is_visible()
    assert page.locator(CASES).count() >= (240 if name == "many" else 15)


def test_it_prints_to_pdf_with_all_cases(opened: Callable[..., Any]) -> None:
    page = opened("many")
    paper = page.pdf(prefer_css_page_size=True)
    assert paper.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) > 10
    page.locator(CASES).nth(50).wait_for(state="detached")
    assert page.locator(CASES).count() == 50


def test_the_policy_lets_nothing_in(
    browser: Any, made: Callable[[str], tuple[Path, Tables]]
) -> None:
    """What has come into the page all the same, by some mistake, does nothing."""
    page = browser.new_page()
    asked: list[str] = []
    blocked: list[str] = []
    page.goto(made("plain")[0].as_uri())
    page.on("requestfinished", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: blocked.append(request.failure))
    page.evaluate("""() => {
        const put = (html) => document.body.insertAdjacentHTML("beforeend", html);
        put('<p id="a" style="color: rgb(1, 2, 3)">a</p><style>#a{color: rgb(1, 2, 3)}</style>');
        put('<img src="http://example.invalid/x.png" onerror="window.pwned=1">');
        put('<a id="b" href="javascript:window.pwned=1">b</a>');
        put('<iframe src="data:text/html,x"></iframe><object data="x"></object>');
        const script = document.createElement("script");
        script.textContent = "window.pwned = 1";
        document.body.append(script);
        document.getElementById("b").click();
    }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("getComputedStyle(document.getElementById('a')).color") != "rgb(1, 2, 3)"
    assert asked == []
    assert set(blocked) == {"csp"}
    page.close()


def test_hostile_names_stay_text(opened: Callable[..., Any]) -> None:
    page = opened("hostile")
    names = page.evaluate("""() => [...document.querySelectorAll("#all-cases tbody th")]
        .map(one => one.firstChild.textContent)""")
    for text in HOSTILE:
        assert as_shown(text) in names
    for text in HOSTILE[:6]:
        page.fill("#cases-tools [name=search]", text)
        assert page.locator(CASES).count() >= 1
    page.fill("#cases-tools [name=search]", "")
    for select in page.locator("#cases-tools select").all():
        for option in select.locator("option").all()[:30]:
            select.select_option(option.get_attribute("value"))
        select.select_option("")
    for one in ("step", "case", "notes", "outcome"):
        head(page, one).click()
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    found = page.evaluate(
        """() => [...document.querySelectorAll("body *")].map(one => one.localName)"""
    )
    assert set(found).isdisjoint(("img", "iframe", "object", "embed", "form", "base", "link"))
    assert "49" not in page.inner_text("#machine")


def test_what_is_inside_the_page_is_strict_json(made: Callable[[str], tuple[Path, Tables]]) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    for name in ("plain", "hostile", "many"):
        page = made(name)[0].read_text(encoding="utf-8")
        (text,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
        assert "<" not in text
        data = json.loads(text, parse_constant=refuse)
        assert all(len(row) == len(data["columns"]) for row in data["rows"])


def test_numbers_that_are_none_are_blanks(tmp_path: Path, browser: Any) -> None:
    nothing = document([entry(case(), 0.1)])
    (one,) = nothing["benchmarks"]
    one["stats"] = {"data": [float("nan"), float("inf")], "median": float("nan")}
    for launch in one["extra_info"]["result"]["launches"]:
        launch["median_step_s"] = float("nan")
    (tmp_path / "run.json").write_text(json.dumps(nothing))
    page = render(compute(load([tmp_path / "run.json"])))
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    opened = browser.new_page()
    opened.goto((tmp_path / "page.html").as_uri())
    assert column(opened, "step") == column(opened, "efficiency") == ["–"]
    assert not re.search(r"\b(nan|inf|infinity)\b", opened.inner_text("body").lower())
    opened.close()


def test_a_section_that_has_nothing_to_say_is_absent(tmp_path: Path) -> None:
    skipped = document([], outcomes=[outcome(case(), "skipped", reason="no GPU")])
    (tmp_path / "run.json").write_text(json.dumps(skipped))
    page = render(compute(load([tmp_path / "run.json"])))
    shown = re.findall(r'<section id="([a-z-]+)"', page)
    assert shown == ["verdict", "cases", "outcomes", "trust", "machine", "definitions"]
    assert "no GPU" in page
