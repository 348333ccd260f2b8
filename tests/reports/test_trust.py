"""What must be said beside a number before anyone trusts it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import findings, words
from reports.frames import Row, rows
from reports.load import load
from reports.page import render
from reports.stats import throughput_ratio, with_estimates
from reports.tables import Tables, compute
from tests.reports.builder import case, document, entry, rank, steps, sweep

Written = Callable[..., Path]


def made(written: Written, *entries: dict[str, Any], **own: Any) -> Tables:
    return compute(load([written(document(list(entries), **own))]))


def at(tables: Tables, world_size: int) -> Row:
    return next(row for row in rows(tables.scaling) if row["world_size"] == world_size)


def foreign(**params: Any) -> dict[str, Any]:
    stats = {"median": 0.1, "data": [0.1] * 3}
    return {"name": "test", "group": "g", "params": params, "stats": stats}


def with_threads(fields: dict[str, Any], threads: int) -> dict[str, Any]:
    ranks = [rank(n, 0.1, threads=threads) for n in range(fields["world_size"])]
    return entry(fields, 0.1, launch_changes={"ranks": ranks})


def test_b01_unequal_threads_per_rank_are_no_baseline(written: Written) -> None:
    tables = made(written, with_threads(case(), 2), with_threads(case(world_size=2), 1))
    row = at(tables, 2)
    assert row["same_ratio"] is None
    assert "threads_per_rank (2 there, 1 here)" in row["same_reason"]
    equal = made(written, with_threads(case(), 1), with_threads(case(world_size=2), 1))
    assert at(equal, 2)["same_ratio"] == pytest.approx(0.5 * 2)


def test_more_threads_than_cores_is_no_evidence(written: Written) -> None:
    tables = made(written, with_threads(case(), 3), with_threads(case(world_size=4), 3))
    assert at(tables, 1)["oversubscribed"] is False  # 3 threads on 8 cores
    assert at(tables, 4)["oversubscribed"] is True  # 12 threads
    assert "no evidence about scaling" in " ".join(findings.how_sure(tables, "run.json"))


def test_one_process_with_several_devices_counts_its_threads_once(written: Written) -> None:
    fields = case(strategy="dp", world_size=8, device="cuda")
    tables = made(written, entry(fields, 0.1, launch_changes={"ranks": [rank(0, 0.1, threads=4)]}))
    (cell,) = rows(tables.cells)
    assert cell["oversubscribed"] is False


@pytest.mark.parametrize(
    ("checks", "words_"),
    [
        ({"parameters_equal": False}, "Parameters differ between ranks"),
        ({"gradients_match": False, "gradient_relative_error": 0.5}, "Gradients do not match"),
        (
            {"reduced_bytes_equal_gradient_bytes": False, "reduced_bytes_per_step": 12},
            "(12 reduced, 46,758,048 of gradients)",
        ),
    ],
)
def test_a_failed_check_is_named_and_wins_nothing(
    written: Written, checks: dict[str, Any], words_: str
) -> None:
    tables = made(
        written,
        entry(case(), 0.1),
        entry(case(world_size=2), 0.01, launch_changes={"checks": checks}),
    )
    assert words_ in render(tables)
    (best,) = rows(tables.best)
    assert best["id"] == "ddp-resnet18-w1"
    assert best["left_out"] == 1


def test_a_baseline_in_conflict_is_none(written: Written) -> None:
    tables = made(written, entry(case(), 0.1), entry(case(), 0.2), entry(case(world_size=2), 0.125))
    row = at(tables, 2)
    assert row["same_ratio"] is None
    assert "two entries with different results" in row["same_reason"]


def test_an_absent_bucket_cap_is_not_an_unset_one(written: Written) -> None:
    shared = {"strategy": "ddp", "batch_size": 8}
    entries = [
        foreign(world_size=1, **shared),
        foreign(world_size=2, bucket_cap_mb=None, **shared),
        foreign(world_size=4, bucket_cap_mb=25, **shared),
    ]
    tables = compute(load([written({"benchmarks": entries})]))
    assert [row["bucket_cap_set"] for row in rows(tables.cells)] == [None, False, True]
    assert "bucket_cap_mb (not stated there, unset here)" in at(tables, 2)["same_reason"]
    assert "bucket_cap_mb (not stated there, 25 here)" in at(tables, 4)["same_reason"]


def test_unknown_params_keep_cases_apart(written: Written) -> None:
    shared = {"strategy": "ddp", "batch_size": 8, "bucket_cap_mb": None}
    entries = [
        foreign(world_size=1, hook="none", **shared),
        foreign(world_size=2, hook="fp16", **shared),
    ]
    tables = compute(load([written({"benchmarks": entries})]))
    assert at(tables, 2)["same_ratio"] is None
    assert "other" in at(tables, 2)["same_reason"]


def test_two_files_of_one_case_are_neither_conflict_nor_series(
    written: Written, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = written(document([entry(case(), 0.1)]), "a/run.json")
    two = written(document([entry(case(), 0.2), entry(case(world_size=2), 0.2)]), "b/run.json")
    tables = compute(load([one, two]))
    cells = rows(tables.cells)
    assert not any(cell["conflict"] for cell in cells)
    assert [cell["file"] for cell in cells] == [str(one), str(two), str(two)]
    assert at(tables, 2)["same_ratio"] == pytest.approx(1)  # its own file's baseline


def test_above_100_per_cent_on_one_rank_needs_an_interval(written: Written) -> None:
    """Half of all cases that are as fast as one process come out above it."""
    even = made(
        written,
        entry(case(strategy="single"), [0.1, 0.102, 0.098]),
        entry(case(), [0.1, 0.0995, 0.099]),
    )
    ddp = next(row for row in rows(even.scaling) if row["strategy"] == "ddp")
    assert ddp["single_ratio"] > 1
    assert ddp["above_one"] is False


def test_the_verdict_quotes_the_case_with_both_baselines(written: Written) -> None:
    """Not the fastest of many settings: that one is lucky as well as fast."""
    tables = made(
        written,
        entry(case(strategy="single"), 0.08),
        entry(case(), 0.1),
        entry(case(world_size=2), 0.11),
        entry(case(world_size=2, bucket_cap_mb=25), 0.105),
    )
    (quoted,) = rows(tables.largest)
    assert quoted["id"] == "ddp-resnet18-w2"
    (finding,) = findings.of_models(tables, "run.json")
    text = " ".join(finding.sentences).replace(words.SPACE, " ")
    assert "72.7 % against one process" in text
    assert "90.9 % against ddp on one rank" in text


def test_the_verdict_names_what_the_best_cannot_be_told_from(written: Written) -> None:
    jitter = [1.0, 1.03, 0.97]
    tables = made(
        written,
        entry(case(world_size=2), 0.1),
        entry(case(world_size=2, bucket_cap_mb=25), [0.101 * j for j in jitter]),
        entry(case(world_size=2, bucket_cap_mb=1), 0.2),
    )
    (best,) = rows(tables.best)
    assert best["id"] == "ddp-resnet18-w2"
    assert best["tied"] == ["ddp-resnet18-w2-cap25"]


def test_launches_that_differ_are_not_paired(written: Written) -> None:
    cells = made(
        written,
        entry(case(), [0.1, 0.11, 0.09]),
        entry(case(world_size=2), [0.1, 0.11]),
    ).cells
    one, two = rows(cells)
    ratio = throughput_ratio(two, one)
    assert ratio is not None
    assert ratio.value == pytest.approx(2 * one["step_s"] / two["step_s"])
    assert ratio.low is not None
    assert ratio.low < ratio.value < (ratio.high or 0)
    # Welch by hand: the half-width is t(freedom) * sqrt(sum of variances of the means).
    logs = [[math.log(value) for value in cell["launch_medians_s"].values()] for cell in (one, two)]
    shares = [_variance(log) / len(log) for log in logs]
    freedom = sum(shares) ** 2 / (shares[0] ** 2 / 2 + shares[1] ** 2 / 1)
    t = math.log((ratio.high or 0) / ratio.value) / math.sqrt(sum(shares))
    assert 1 < freedom < 3
    assert 3.18 < t < 12.71  # Student's t at 97.5 % for 3 and for 1 degrees of freedom


def _variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def test_one_launch_each_adds_both_intervals(written: Written) -> None:
    tables = made(
        written,
        entry(case(), launches=[steps(0.1, 41)]),
        entry(case(world_size=2), launches=[steps(0.1, 41, seed=1)]),
    )
    one, two = rows(tables.cells)
    ratio = throughput_ratio(two, one)
    assert ratio is not None
    assert ratio.interval_from == "one launch"
    wider = two["throughput_high_samples_per_s"] / two["throughput_samples_per_s"]
    assert (ratio.high or 0) / ratio.value > wider
    assert "restart noise is not in the interval" in render(tables)


def test_launches_without_their_rounds_keep_their_medians(written: Written) -> None:
    one = entry(case(), [0.1, 0.11, 0.12])
    del one["extra_info"]["result"]["launch_of_round"]
    (cell,) = rows(made(written, one).cells)
    assert cell["launch_medians_s"] == pytest.approx({0: 0.1, 1: 0.11, 2: 0.12})
    assert cell["step_s"] == pytest.approx((0.1 * 0.11 * 0.12) ** (1 / 3))


def test_a_record_of_which_parts_are_missing_still_has_a_page(written: Written) -> None:
    """Every part of a record in turn: missing, null, and of the wrong type."""
    whole = document([entry(case(), 0.1), entry(case(world_size=2), 0.11)])
    places = [
        ("lockstep",),
        *(("lockstep", name) for name in whole["lockstep"]),
        *(("lockstep", "machine", name) for name in whole["lockstep"]["machine"]),
        ("machine_info",),
        ("benchmarks", 1, "stats"),
        ("benchmarks", 1, "extra_info"),
        ("benchmarks", 1, "group"),
        ("benchmarks", 1, "extra_info", "result"),
        *(
            ("benchmarks", 1, "extra_info", "result", name)
            for name in whole["benchmarks"][1]["extra_info"]["result"]
        ),
        *(
            ("benchmarks", 1, "extra_info", "result", "launches", 0, name)
            for name in whole["benchmarks"][1]["extra_info"]["result"]["launches"][0]
        ),
        *(
            ("benchmarks", 1, "extra_info", "result", "launches", 0, "ranks", 0, name)
            for name in rank(0, 0.1)
        ),
        *(("benchmarks", 1, "extra_info", "case", name) for name in case()),
    ]
    for place in places:
        for wrong in ("missing", None, "text", [1, "x", None], {"a": 1}, -3, True):
            content = copy.deepcopy(whole)
            holder: Any = content
            for name in place[:-1]:
                holder = holder[name]
            if wrong == "missing":
                del holder[place[-1]]
            else:
                holder[place[-1]] = wrong
            loaded = load([written(content)])
            assert len(with_estimates(loaded.cells, loaded.launches)) == 2, (place, wrong)


@pytest.mark.parametrize("wrong", [None, "text", [1, "x", None], {"a": 1}])
def test_a_page_of_broken_records(written: Written, wrong: Any) -> None:
    content = document([entry(case(), 0.1), entry(case(world_size=2), 0.11)])
    content["lockstep"] = dict.fromkeys(content["lockstep"], wrong)
    content["lockstep"]["interpreters"] = {"": {"torchvision": wrong}}
    content["lockstep"]["state"] = {"before": {"load_1min": 10**400}, "after": wrong}
    result = content["benchmarks"][1]["extra_info"]["result"]
    for launch in result["launches"]:
        launch["buckets"] = launch["checks"] = launch["across_ranks"] = wrong
    assert "Verdict" in render(compute(load([written(content)])))


def test_the_same_records_give_the_same_page(written: Written) -> None:
    path = written(sweep())
    assert render(compute(load([path]))) == render(compute(load([path])))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0393, "39.3 ms"),
        (1.25, "1.25 s"),
        (0.00018, "180 µs"),
        (0.0, "0 ms"),
        (None, "–"),
        (0.9999, "1000 ms"),
    ],
)
def test_times_in_words(value: float | None, text: str) -> None:
    assert words.seconds(value).replace(words.SPACE, " ").replace("\u202f", "") == text


def test_intervals_in_words_name_their_unit_once() -> None:
    assert words.between(0.678, 0.8, words.percent).replace(words.SPACE, " ") == "67.8 to 80.0 %"
    assert words.between(None, 0.8, words.percent) == ""
    assert words.between(989.0, 1067.0, words.plain).replace("\u202f", "") == "989 to 1067"
