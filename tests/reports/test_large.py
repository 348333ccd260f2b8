"""Files of many cases: what bounds the page, and that bounds change no verdict."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from reports.baselines import Baselines, differing
from reports.bounds import MOST_ROWS, bounded
from reports.frames import Row, rows
from reports.load import load
from reports.page import render
from reports.tables import Tables, compute
from tests.reports import large

FIELDS = ("batch_size", "bucket_cap_mb", "bucket_cap_set", "precision", "model")


def tables(folder: Path, document: dict[str, Any]) -> Tables:
    path = folder / "run.json"
    path.write_text(json.dumps(document))
    return compute(load([path]))


def section(page: str, name: str) -> str:
    return page[page.index(f'<section id="{name}"') :].partition("</section>")[0]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, str]:
    made = tables(tmp_path_factory.mktemp("many"), large.own(1500, 12))
    return made, render(made)


def test_a_long_section_shows_some_rows_and_counts_the_others(many: tuple[Tables, str]) -> None:
    made, page = many
    shown, lost = bounded(made)
    assert lost["scaling"] == len(made.scaling) - len(shown.scaling) > 0
    assert len(shown.scaling) <= MOST_ROWS
    said = section(page, "scaling").replace("\u202f", "")
    assert f"{lost['scaling']} more rows of this section are not on the page" in said
    assert {row["model"] for row in rows(shown.scaling)} == {
        row["model"] for row in rows(made.scaling)
    }
    for name in ("scaling", "waterfall", "all-reduce", "buckets", "trust", "outcomes"):
        assert section(page, name).count("<tr") <= MOST_ROWS + 100, name  # heads and the gravest


def test_the_table_of_all_cases_has_them_all(many: tuple[Tables, str]) -> None:
    made, page = many
    body = section(page, "cases").partition("<tbody>")[2].partition("</tbody>")[0]
    assert body.count('<tr id="') == 1500
    assert len(made.cells) < 1500
    assert "Show the first 500" in section(page, "trust") or "Show all checks" in section(
        page, "trust"
    )


def test_the_figures_are_not_as_many_as_the_cases(many: tuple[Tables, str]) -> None:
    _, page = many
    assert 0 < page.count("<svg") <= 60


def test_links_lead_to_a_case_or_a_section(many: tuple[Tables, str]) -> None:
    _, page = many
    ids = set(re.findall(r' id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids


def test_a_small_file_loses_nothing(tmp_path: Path) -> None:
    made = tables(tmp_path, large.own(60, 12))
    shown, lost = bounded(made)
    assert set(lost.values()) == {0}
    assert shown.scaling is made.scaling
    assert "not on the page" not in render(made)


def cells(n: int, seed: int) -> list[Row]:
    drawn = random.Random(seed)
    return [
        {
            "cell": number,
            "world_size": drawn.choice((1, 1, 2)),
            "strategy": drawn.choice(("ddp", "single")),
            "batch_size": drawn.choice((8, 16, None)),
            "bucket_cap_mb": cap,
            "bucket_cap_set": cap is not None,
            "precision": drawn.choice(("fp32", "bf16")),
            "model": drawn.choice("abc"),
        }
        for number in range(n)
        for cap in [drawn.choice((None, 1.0, 25.0))]
    ]


@pytest.mark.parametrize("seed", range(20))
def test_baselines_are_those_that_looking_at_every_cell_finds(seed: int) -> None:
    own = cells(40, seed)
    found = Baselines(own)
    for cell in own:
        for strategy in ("ddp", "single"):
            ones = [o for o in own if o["world_size"] == 1 and o["strategy"] == strategy]
            assert found.any(strategy) == bool(ones)
            fitting = [one for one in ones if not differing(one, cell, FIELDS)]
            assert found.fitting(cell, strategy, FIELDS) == fitting
            if ones and not fitting:
                nearest = found.nearest(cell, strategy, FIELDS)
                fewest = min(len(differing(one, cell, FIELDS)) for one in ones)
                assert len(differing(nearest, cell, FIELDS)) == fewest
    assert not found.any("dp")


def test_baselines_are_found_without_looking_at_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the cases ask for twice the comparisons, not for four times as many."""

    class Counted(dict[str, Any]):
        reads = 0

        def __getitem__(self, name: str) -> Any:
            Counted.reads += 1
            return super().__getitem__(name)

    def reads(n: int) -> int:
        own: list[Any] = [
            Counted(one | {"strategy": "ddp", "model": str(number)})
            for number, one in enumerate(cells(n, 0))
        ]
        Counted.reads = 0
        found = Baselines(own)
        for cell in own:
            if not found.fitting(cell, "ddp", FIELDS):
                found.nearest(cell, "ddp", FIELDS)
        return Counted.reads

    assert reads(800) < 3 * reads(400)
