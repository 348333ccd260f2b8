"""What gradient_as_bucket_view saves, by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import words
from reports.frames import Row, rows
from reports.load import load
from reports.page import render
from reports.tables import Tables, compute
from tests.reports.builder import case, document, entry, rank

Written = Callable[..., Path]
MB = 1_000_000


def peaks(view: bool, *of_launch: tuple[Any, Any], kind: str = "device", **fields: Any) -> Any:
    """A case of two ranks, with each launch's peak of either rank, MB."""
    measured = entry(
        case(world_size=2, gradient_as_bucket_view=view, **fields), launches=len(of_launch)
    )
    for one, of_ranks in zip(measured["extra_info"]["result"]["launches"], of_launch, strict=True):
        one["gradient_bytes"] = 50 * MB
        one["ranks"] = [
            rank(n, 0.1, memory={"peak_bytes": peak, "kind": kind})
            for n, peak in enumerate(of_ranks)
        ]
    return measured


def made(written: Written, *entries: dict[str, Any]) -> Tables:
    return compute(load([written(document(list(entries)))]))


def only(tables: Tables) -> Row:
    (row,) = rows(tables.bucket_memory)
    return row


def said(row: Row) -> str:
    return words.saved(row).replace(words.SPACE, " ")


def test_the_largest_rank_and_the_median_launch(written: Written) -> None:
    tables = made(
        written,
        peaks(False, (300 * MB, 290 * MB), (310 * MB, 320 * MB), (305 * MB, 200 * MB)),
        peaks(True, (250 * MB, 260 * MB), (258 * MB, 100 * MB), (100 * MB, 400 * MB)),
    )
    row = only(tables)
    assert row["off_peak_bytes"] == 305 * MB  # of 300, 320 and 305
    assert row["on_peak_bytes"] == 260 * MB  # of 260, 258 and 400
    assert row["saved_bytes"] == 45 * MB
    assert row["saved_ratio"] == pytest.approx(0.9)
    assert said(row) == "saved 45.0 MB of 50.0 MB of gradients (90 %)"
    assert said(row) in render(tables).replace(words.SPACE, " ")
    assert "which is coarse" not in render(tables)


def test_memory_of_a_process_is_labelled(written: Written) -> None:
    sizes = (300 * MB, 300 * MB)
    tables = made(written, peaks(False, sizes, kind="rss"), peaks(True, sizes, kind="rss"))
    assert only(tables)["saved_bytes"] == 0
    page = render(tables)
    assert "which is coarse" in page
    assert "resident, of the process" in page


def test_more_memory_is_shown_as_it_is(written: Written) -> None:
    row = only(
        made(
            written,
            peaks(False, (300 * MB, 300 * MB)),
            peaks(True, (303 * MB, 300 * MB)),
        )
    )
    assert row["saved_bytes"] == -3 * MB
    assert said(row) == "took 3.00 MB more, with 50.0 MB of gradients"


def test_only_otherwise_equal_cases_are_compared(written: Written) -> None:
    sizes = (300 * MB, 300 * MB)
    tables = made(written, peaks(False, sizes), peaks(True, sizes, bucket_cap_mb=25))
    assert rows(tables.bucket_memory) == []


@pytest.mark.parametrize("wrong", [None, "text", 0, -3, [1], True, 0.5])
def test_an_unknown_peak_is_blank(written: Written, wrong: Any) -> None:
    tables = made(written, peaks(False, (wrong, wrong)), peaks(True, (300 * MB, 300 * MB)))
    row = only(tables)
    assert row["saved_bytes"] is row["saved_ratio"] is None
    assert said(row) == "not known: peak memory is not known"
    render(tables)


def test_memory_of_two_kinds_is_not_compared(written: Written) -> None:
    sizes = (300 * MB, 300 * MB)
    row = only(made(written, peaks(False, sizes, kind="rss"), peaks(True, sizes)))
    assert row["saved_bytes"] is None
    assert row["reason"] == "peak memory of two kinds"


@pytest.mark.parametrize("wrong", [None, "text", 0, -3])
def test_unknown_gradients_leave_the_bytes(written: Written, wrong: Any) -> None:
    sizes = (300 * MB, 300 * MB)
    off, on = peaks(False, sizes), peaks(True, (290 * MB, 290 * MB))
    for one in (off, on):
        one["extra_info"]["result"]["launches"][0]["gradient_bytes"] = wrong
    row = only(made(written, off, on))
    assert row["saved_bytes"] == 10 * MB
    assert row["saved_ratio"] is None
    assert said(row) == "saved 10.0 MB; the bytes of the gradients are not known"
