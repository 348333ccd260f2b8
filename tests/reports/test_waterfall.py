"""The loss waterfall: terms by hand, their sum, and what is blank."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.frames import Row, rows
from reports.load import load
from reports.page import render
from reports.tables import Tables, compute
from reports.waterfall import TERMS
from tests.reports.builder import case, communication, document, entry, rank

Written = Callable[..., Path]


def made(written: Written, *entries: dict[str, Any]) -> Tables:
    return compute(load([written(document(list(entries)))]))


def two_ranks(
    step_s: float | list[float] = 0.110,
    slowest_s: float | None = 0.100,
    mean_s: float | None = 0.096,
    exposed_s: tuple[float, float] = (0.012, 0.016),
    launches: int = 3,
    **fields: Any,
) -> dict[str, Any]:
    ranks = [rank(n, 0.1, communication=communication(0.05, exposed_s[n])) for n in range(2)]
    changes = {
        "no_communication_step_s": slowest_s,
        "no_communication_mean_step_s": mean_s,
        "ranks": ranks,
    }
    fields = case(**{"strategy": "ddp", "world_size": 2} | fields)
    return entry(fields, step_s, launches=launches, launch_changes=changes)


def only(tables: Tables) -> Row:
    (row,) = rows(tables.waterfall)
    return row


def the_sum(row: Row) -> float:
    known = [row[f"{term}_s"] for term in TERMS if row[f"{term}_s"] is not None]
    return row["begins_s"] + sum(known)


def test_the_terms_by_hand(written: Written) -> None:
    row = only(
        made(
            written,
            entry(case(strategy="single"), 0.080),
            entry(case(), 0.084),
            two_ranks(),
        )
    )
    assert row["begins"] == "single process"
    assert row["begins_s"] == pytest.approx(0.080)
    assert row["wrapper_s"] == pytest.approx(0.004)
    assert row["contention_s"] == pytest.approx(0.012)
    assert row["wait_s"] == pytest.approx(0.004)
    assert row["transfer_s"] == pytest.approx(0.010)
    assert row["transfer_ratio"] == pytest.approx(10 / 110)
    assert math.isclose(the_sum(row), row["step_s"], rel_tol=1e-12)
    assert row["begins_reason"] is None
    assert row["notes"] == []


def test_the_sum_is_the_measured_step_whatever_the_numbers(written: Written) -> None:
    drawn = random.Random(7)
    for _ in range(20):
        times = [[drawn.uniform(0.01, 1) for _ in range(3)] for _ in range(3)]
        measured = two_ranks(times[2])
        for one in measured["extra_info"]["result"]["launches"]:
            one["no_communication_step_s"] = drawn.uniform(0.01, 1)
            one["no_communication_mean_step_s"] = drawn.uniform(0.01, 1)
        tables = made(
            written, entry(case(strategy="single"), times[0]), entry(case(), times[1]), measured
        )
        row = only(tables)
        assert math.isclose(the_sum(row), row["step_s"], rel_tol=1e-12)
        cell = next(one for one in rows(tables.cells) if one["cell"] == row["cell"])
        assert row["step_s"] == cell["step_s"]
        assert row["step_s"] == pytest.approx(math.prod(times[2]) ** (1 / 3))


def test_strong_scaling_starts_at_the_batch_of_one_rank(written: Written) -> None:
    """The single process at the global batch computes twice what a rank does."""
    row = only(
        made(
            written,
            entry(case(strategy="single", batch_size=32), 0.160),
            entry(case(strategy="single", batch_size=16), 0.080),
            entry(case(batch_size=16), 0.084),
            two_ranks(batch_size=16, scaling="strong"),
        )
    )
    assert row["begins_s"] == pytest.approx(0.080)
    assert row["wrapper_s"] == pytest.approx(0.004)


def test_without_the_single_process_it_begins_at_ddp_on_one_rank(written: Written) -> None:
    row = only(made(written, entry(case(), 0.084), two_ranks()))
    assert row["begins"] == "DDP on 1 rank"
    assert row["begins_reason"] == "no case of a single process at world size 1 in this file"
    assert row["wrapper_s"] is row["wrapper_ratio"] is None
    assert row["contention_s"] == pytest.approx(0.012)
    assert math.isclose(the_sum(row), row["step_s"], rel_tol=1e-12)


def test_without_ddp_on_one_rank_both_terms_before_are_blank(written: Written) -> None:
    """The single process is there, but its distance would mix two terms."""
    tables = made(
        written,
        entry(case(strategy="single"), 0.080),
        entry(case(precision="bf16"), 0.084),
        two_ranks(),
    )
    row = only(tables)
    assert row["begins"] == "mean rank without communication"
    assert "precision (bf16 there, fp32 here)" in row["begins_reason"]
    assert row["wrapper_s"] is row["contention_s"] is None
    assert row["wait_s"] == pytest.approx(0.004)
    assert math.isclose(the_sum(row), row["step_s"], rel_tol=1e-12)
    assert "precision (bf16 there, fp32 here)" in render(tables)


def test_a_record_without_the_mean_over_ranks_has_the_last_term_only(written: Written) -> None:
    row = only(made(written, entry(case(), 0.084), two_ranks(mean_s=None)))
    assert row["begins"] == "slowest rank without communication"
    assert "no mean over ranks" in row["begins_reason"]
    assert row["wait_s"] is row["contention_s"] is row["exposed_by_pass_s"] is None
    assert row["transfer_s"] == pytest.approx(0.010)
    assert row["exposed_agrees"] is None


def test_a_negative_term_is_shown_and_noise_is_said(written: Written) -> None:
    noisy = [0.080, 0.060, 0.100]
    tables = made(
        written,
        entry(case(strategy="single"), [0.081, 0.090, 0.080]),
        entry(case(), noisy),
        two_ranks(0.110, slowest_s=0.120, mean_s=0.115),
    )
    row = only(tables)
    assert row["wrapper_s"] < 0
    assert row["wrapper_within_noise"] is True
    assert row["transfer_s"] == pytest.approx(-0.010)
    assert row["transfer_within_noise"] is False
    above, noise = row["notes"]
    assert above.startswith("exposed transfer is below 0 by more than the noise")
    assert noise.startswith("within noise") and "wrapper" in noise
    assert "−10.0" in render(tables)  # in the table and the figure, not clipped


def test_the_noise_of_a_term_is_paired_by_launch(written: Written) -> None:
    """Half of Student's t interval of the three differences 9, 10 and 11 ms."""
    measured = two_ranks([0.109, 0.210, 0.311])
    for n, one in enumerate(measured["extra_info"]["result"]["launches"]):
        one["no_communication_step_s"] = 0.1 * (n + 1)
    row = only(made(written, measured))
    assert row["transfer_half_width_s"] == pytest.approx(4.302653 * 0.001 / math.sqrt(3))
    assert row["transfer_within_noise"] is False


def test_one_launch_cannot_tell_noise(written: Written) -> None:
    row = only(made(written, two_ranks(0.110, slowest_s=0.120, launches=1)))
    assert row["transfer_half_width_s"] is row["transfer_within_noise"] is None
    assert "one launch cannot tell" in row["notes"][0]


def test_the_profiler_and_the_other_pass_are_compared(written: Written) -> None:
    """0.110 - 0.096 = 14 ms, as the mean of 12 and 16 ms is; against 10 it is 29 % more."""
    alike = only(made(written, two_ranks()))
    assert alike["exposed_by_profiler_s"] == pytest.approx(0.014)
    assert alike["exposed_by_pass_s"] == pytest.approx(0.014)
    assert alike["exposed_agrees"] is True
    tables = made(written, two_ranks(exposed_s=(0.008, 0.012)))
    unlike = only(tables)
    assert unlike["exposed_difference_ratio"] == pytest.approx(4 / 14)
    assert unlike["exposed_agrees"] is False
    assert "they differ by 28.6" in unlike["exposed_words"]
    assert "they differ by 28.6" in render(tables)


def test_who_has_a_waterfall(written: Written) -> None:
    tables = made(
        written,
        entry(case(), 0.084),
        entry(case(strategy="all_reduce", world_size=2), 0.1),
        two_ranks(slowest_s=None, mean_s=None),
    )
    assert rows(tables.waterfall) == []
    assert 'id="waterfall-0-title"' not in render(tables)


@pytest.mark.parametrize("wrong", ["text", [1], {"a": 1}, -3, 0, True, float("nan")])
def test_hostile_passes_are_blank(written: Written, wrong: Any) -> None:
    tables = made(written, entry(case(), 0.084), two_ranks(mean_s=wrong))
    assert only(tables)["wait_s"] is None
    render(tables)
    assert rows(made(written, two_ranks(slowest_s=wrong)).waterfall) == []


def test_the_figure_says_its_numbers(written: Written) -> None:
    page = render(made(written, entry(case(strategy="single"), 0.08), two_ranks()))
    section = page[page.index('<section id="waterfall"') : page.index('<section id="all-reduce"')]
    spoken = section[section.index("<desc") : section.index("</desc>")].replace("\u00a0", " ")
    assert "waiting for the slowest rank +4.00 ms, exposed transfer +10.0 ms" in spoken
    assert "measured step 110 ms" in spoken
