"""Where the time of a slower case went, and what is not said of noise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports import attribution
from reports.frames import Row, rows
from tests.reports.builder import case, document, entry, launch_times, rank, under, versions
from tests.reports.comparing import Compared, compared

Written = Callable[..., Path]
TWO = case(strategy="ddp", world_size=2)


def launched(
    fields: dict[str, Any], medians: list[float], backward_s: list[float], **changes: Any
) -> dict[str, Any]:
    """``backward_s`` by launch, on the rank where it takes longest."""
    made = entry(fields, medians, launches=len(medians))
    for one, median, backward in zip(
        made["extra_info"]["result"]["launches"], medians, backward_s, strict=True
    ):
        one["ranks"] = [rank(0, median), rank(1, median)]
        for n, each in enumerate(one["ranks"]):
            each["phases"] = {"backward": {"median_s": backward - 0.001 * n}} | changes
    return made


def of_case(found: Compared) -> list[Row]:
    (row,) = {(row["case"], row["new"]) for row in rows(found.comparison.parts)}
    return [one for one in rows(found.comparison.parts) if (one["case"], one["new"]) == row]


def part(parts: list[Row], name: str) -> Row:
    return next(row for row in parts if row["part"] == name)


def slower(written: Written, growth_s: float, jitter_s: float = 0.0) -> list[Row]:
    """Twelve launches in which the step takes 10 ms more and backward ``growth_s`` more."""
    a, _ = launch_times(0.1, 12, seed=1)
    noise = np.random.default_rng(5).normal(0, jitter_s or 1e-6, 12)
    old = launched(under("old", TWO), a, [0.06] * 12)
    new = launched(
        under("new", TWO), [v + 0.01 for v in a], [0.06 + growth_s + float(e) for e in noise]
    )
    return of_case(compared(written(versions([old, new], settings={"confirm": False}))))


def test_most_of_the_growth_is_named(written: Written) -> None:
    parts = slower(written, 0.008)
    row = part(parts, "backward")
    assert row["a_s"] == pytest.approx(0.06)
    assert row["growth_s"] == pytest.approx(0.008, abs=1e-5)
    assert part(parts, "step")["growth_s"] == pytest.approx(0.01)
    said = attribution.sentences(parts)
    assert any(one.startswith("Most of the +10.0") and "backward (+8.00" in one for one in said)


def test_a_growth_within_its_noise_is_not_named(written: Written) -> None:
    parts = slower(written, 0.002, jitter_s=0.02)
    assert part(parts, "backward")["beyond_noise"] is False
    assert any(
        "No single phase stands out: none has grown by more" in one
        for one in attribution.sentences(parts)
    )


def test_a_small_part_is_not_most(written: Written) -> None:
    said = attribution.sentences(slower(written, 0.002))
    assert any("has grown most is backward: +2.00" in one for one in said)
    assert not any("Most of" in one and "phase" in one for one in said)


def test_the_noise_is_that_of_the_pairs(written: Written) -> None:
    """Launches that drift together do not hide a growth which all of them have."""
    drift = [0.001 * n for n in range(12)]
    old = launched(under("old", TWO), [0.1] * 12, [0.05 + d for d in drift])
    new = launched(under("new", TWO), [0.11] * 12, [0.052 + d for d in drift])
    made = versions([old, new], settings={"confirm": False})
    assert part(of_case(compared(written(made))), "backward")["beyond_noise"] is True
    old["extra_info"]["case"] = new["extra_info"]["case"] = TWO
    old["extra_info"]["id"] = new["extra_info"]["id"] = "ddp-resnet18-w2"
    paths = written(document([old]), "a.json"), written(document([new]), "b.json")
    assert part(of_case(compared(*paths)), "backward")["beyond_noise"] is False


def test_terms_of_the_waterfall_add_up_on_both_sides(written: Written) -> None:
    entries = []
    for torch, wrapper in (("old", 1.02), ("new", 1.12)):
        for fields, factor in (
            (case(strategy="single"), 1.0),
            (case(strategy="ddp"), wrapper),
            (TWO, wrapper * 1.1),
        ):
            a, _ = launch_times(0.1, 12, seed=2)
            entries.append(entry(under(torch, fields), [v * factor for v in a], launches=12))
    found = compared(written(versions(entries, settings={"confirm": False})))
    parts = [row for row in rows(found.comparison.parts) if row["case"] == "ddp-resnet18-w2"]
    terms = [row for row in parts if row["kind"] == attribution.WATERFALL]
    assert [row["part"] for row in terms] == [
        "single process",
        "wrapper",
        "contention",
        "waiting for the slowest rank",
        "exposed transfer",
    ]
    row = found.by_case["ddp-resnet18-w2"]
    for side in ("a", "b"):
        assert sum(term[f"{side}_s"] for term in terms) == pytest.approx(row[side])
    assert part(parts, "single process")["growth_s"] == 0
    assert part(parts, "wrapper")["growth_s"] == pytest.approx(0.01, rel=0.02)
    assert any("waterfall: wrapper" in one for one in attribution.sentences(parts))


def test_without_baselines_the_waterfall_begins_later(written: Written) -> None:
    a, _ = launch_times(0.1, 12, seed=2)
    base = case(strategy="single")
    entries = [
        entry(under("old", base), a, launches=12),
        entry(under("old", case(strategy="ddp")), a, launches=12),
        entry(under("old", TWO), a, launches=12),
        entry(under("new", TWO), [v * 1.2 for v in a], launches=12),
    ]
    found = compared(written(versions(entries, settings={"confirm": False})))
    terms = [row for row in of_case(found) if row["kind"] == attribution.WATERFALL]
    # New has no single process: both begin where new's does.
    assert [row["part"] for row in terms][:2] == [
        "mean rank without communication",
        "waiting for the slowest rank",
    ]


def test_one_launch_does_not_name_a_part(written: Written) -> None:
    parts = slower(written, 0.008)
    for row in parts:
        row["half_width_s"] = row["beyond_noise"] = None
    assert all("one launch" in one for one in attribution.sentences(parts))


def test_blank_phases_are_blank_and_not_zero(written: Written) -> None:
    a, _ = launch_times(0.1, 12, seed=1)
    old = launched(under("old", TWO), a, [0.06] * 12)
    new = launched(under("new", TWO), [v * 1.2 for v in a], [0.07] * 12)
    for one in new["extra_info"]["result"]["launches"]:
        one["ranks"][0]["phases"] = {}
    parts = of_case(compared(written(versions([old, copy.deepcopy(new)], settings={"confirm": 0}))))
    row = part(parts, "backward")
    assert (row["b_s"], row["growth_s"], row["beyond_noise"]) == (None, None, None)
    assert all(one["part"] != "optimizer" for one in parts)


def test_only_worse_cases_are_attributed(written: Written) -> None:
    a, b = launch_times(0.1, 12, seed=1)
    made = versions([entry(under("old", TWO), a, launches=12), entry(under("new", TWO), b)])
    assert rows(compared(written(made)).comparison.parts) == []
