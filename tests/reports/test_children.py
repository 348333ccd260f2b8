"""Several children per launch, second measurements and several interpreters in one file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import findings
from reports.frames import rows
from reports.load import Records, load
from reports.page import render
from reports.stats import with_estimates
from reports.tables import Tables, compute
from tests.reports.builder import (
    both,
    case,
    child,
    document,
    entry,
    launch,
    outcome,
    rank,
    sweep,
    under,
    versions,
)

Written = Callable[..., Path]


def read(written: Written, *entries: dict[str, Any]) -> Records:
    return load([written(document(list(entries)))])


def test_a_launch_is_worth_the_median_of_its_children(written: Written) -> None:
    of_launch = [[0.10, 0.13, 0.11], [0.12, 0.1192, 0.1201]]
    records = read(written, entry(case(), children=of_launch))
    (cell,) = rows(with_estimates(records.cells, records.launches))
    assert cell["launch_medians_s"] == {0: 0.11, 1: 0.12}
    assert cell["step_s"] == pytest.approx(math.sqrt(0.11 * 0.12))
    first, second = rows(records.launches)
    # The median of all steps of a launch would be another number.
    assert statistics.median(second["step_s"]) != pytest.approx(0.12)
    assert [statistics.median(run) for run in first["child_step_s"]] == of_launch[0]
    assert first["children"] == 3
    # The passes after the timed one are those of the child that ran first.
    assert second["first_child_step_s"] == 0.12


def test_steps_of_children_that_cannot_be_told_apart_are_no_run(written: Written) -> None:
    made = entry(case(), children=[[0.10, 0.13, 0.11]])
    del made["extra_info"]["result"]["child_of_round"]
    records = read(written, made)
    (row,) = rows(records.launches)
    assert row["child_step_s"] == []
    assert len(row["step_s"]) == 63
    (cell,) = rows(with_estimates(records.cells, records.launches))
    assert cell["step_s"] == 0.11
    # Order statistics of one run would be the interval of something else.
    assert cell["step_low_s"] is None


def test_drift_is_that_of_a_child_and_not_of_the_children_in_a_row(written: Written) -> None:
    made = entry(case(), children=[[0.10, 0.12, 0.14]])
    table = compute(load([written(document([made]))])).trust
    (drift,) = [row for row in rows(table) if row["check"] == "drift"]
    assert abs(drift["value"]) < 0.02
    assert "in the child that drifts most" in drift["sentence"]


def test_a_launch_takes_the_median_of_what_its_children_state(written: Written) -> None:
    own = [child(0.1, first_step_s=3.0, peak_bytes=7), child(0.1, first_step_s=1.0, peak_bytes=5)]
    own.append(child(0.1, first_step_s=2.0, peak_bytes=None))
    records = read(written, entry(case(), launch_changes={"children": own}))
    row = rows(records.launches)[0]
    assert row["first_step_s"] == 2.0
    assert row["peak_bytes"] is None


def test_without_children_it_is_the_largest_rank_or_blank(written: Written) -> None:
    two = [rank(0, 0.1, first_step_s=0.5), rank(1, 0.1, first_step_s=0.7)]
    row = rows(read(written, entry(case(), launch_changes={"ranks": two})).launches)[0]
    assert row["first_step_s"] == 0.7
    assert row["peak_bytes"] == 400_000_001
    assert row["init_s"] == 0.05
    two[0]["first_step_s"] = None
    row = rows(read(written, entry(case(), launch_changes={"ranks": two})).launches)[0]
    assert row["first_step_s"] is None


def test_confirmations_stand_apart(written: Written) -> None:
    made = entry(case(), 0.1, launches=2, confirmation=[0.2, 0.3], complete=False)
    records = read(written, made)
    assert [row["launch"] for row in rows(records.launches)] == [0, 1]
    again = rows(records.confirmations)
    assert [(row["launch"], row["median_step_s"]) for row in again] == [(2, 0.2), (3, 0.3)]
    assert [row["complete"] for row in again] == [False, False]
    assert [row["launch"] for row in rows(records.confirmation_ranks)] == [2, 3]
    (cell,) = rows(with_estimates(records.cells, records.launches))
    assert cell["step_s"] == pytest.approx(0.1)


def test_hostile_children_and_confirmations_are_blanks(written: Written) -> None:
    made = entry(case(), 0.1, launches=2)
    result = made["extra_info"]["result"]
    result["launches"][0] |= {"children": [{"median_step_s": "x"}, 3]}
    result["launches"][1] |= {"children": "none"}
    result["confirmation"] = {"launches": [None, {"launch": "a"}], "complete": "yes"}
    records = read(written, made)
    (again,) = rows(records.confirmations)
    assert again["complete"] is None
    assert again["median_step_s"] is None
    compute(records)


def test_the_pair_name_is_the_id_without_the_label(written: Written) -> None:
    fields = case(world_size=2, batch_size=16)
    gone = outcome(under("b/2", case(strategy="dp")), "failed")
    made = document([entry(under("a-torch_x", fields)), entry(fields)], outcomes=[gone])
    records = load([written(made)])
    one, other = rows(records.cells)
    assert one["pair_name"] == other["pair_name"] == "ddp-resnet18-w2-b16"
    assert one["id"] == "ddp-resnet18-w2-b16-torch_a-torch_x"
    assert one["definition"] == other["definition"]
    assert [row["pair_name"] for row in rows(records.outcomes)] == ["dp-resnet18-w1"]


def two_labels() -> dict[str, Any]:
    """A whole sweep measured twice, under two labels of one and the same torch."""
    base = sweep()["benchmarks"]
    entries = []
    for torch, change in (("old", 1.0), ("new", 1.5)):
        for one in base:
            medians = [each["median_step_s"] for each in one["extra_info"]["result"]["launches"]]
            fields = under(torch, one["extra_info"]["case"])
            entries.append(entry(fields, [median * change for median in medians]))
    return versions(entries)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    import json

    path = tmp_path_factory.mktemp("labels") / "run.json"
    path.write_text(json.dumps(two_labels()))
    return compute(load([path]))


def test_efficiency_takes_its_baseline_under_the_same_label(mixed: Tables) -> None:
    by_label: dict[str, list[Any]] = {}
    for row in rows(mixed.scaling):
        ratios = (row["kind"], row["world_size"], row["single_ratio"], row["same_ratio"])
        by_label.setdefault(row["torch"], []).append(ratios)
        assert row["series"].startswith(f"torch={row['torch']}, ")
    old, new = sorted(by_label["old"], key=str), sorted(by_label["new"], key=str)
    assert len(old) == len(new) > 5
    for one, other in zip(old, new, strict=True):
        assert one[:2] == other[:2]
        # All of new takes 1.5 times as long, its baselines too.
        assert one[2:] == pytest.approx(other[2:])


def test_settings_waterfalls_and_strategies_keep_labels_apart(mixed: Tables) -> None:
    for group in {row["group"] for row in rows(mixed.buckets)}:
        own = [row for row in rows(mixed.buckets) if row["group"] == group]
        assert len({row["id"].rpartition("-torch_")[2] for row in own}) == 1
        assert any(row["is_default"] for row in own)
        assert "torch=" in group
    terms = {row["id"]: row for row in rows(mixed.waterfall)}
    for id, row in terms.items():
        if id.endswith("-torch_new"):
            old = terms[id.replace("-torch_new", "-torch_old")]
            assert row["begins"] == old["begins"]
            assert row["begins_s"] == pytest.approx(1.5 * old["begins_s"])


def test_ddp_meets_data_parallel_under_its_own_label(written: Written) -> None:
    gpu = {"device": "cuda", "world_size": 2}
    entries = [
        entry(under(torch, case(strategy=strategy, **gpu)), step_s)
        for torch, strategy, step_s in (
            ("a", "ddp", 0.1),
            ("a", "dp", 0.2),
            ("b", "ddp", 0.3),
            ("b", "dp", 0.9),
        )
    ]
    table = compute(load([written(versions(entries))])).strategies
    found = {row["model"]: row["ratio"] for row in rows(table)}
    assert found == {"resnet18 under a": pytest.approx(2), "resnet18 under b": pytest.approx(3)}


def test_every_label_has_a_verdict_of_its_own(mixed: Tables) -> None:
    assert [row["model"] for row in rows(mixed.best)] == [
        "resnet18 under old",
        "resnet18 under new",
    ]
    found = findings.of_models(mixed, "run.json")
    assert [one.model for one in found] == ["resnet18 under old", "resnet18 under new"]
    for one in found:
        other = "new" if one.model.endswith("old") else "old"
        assert f"torch={other}" not in " ".join([one.headline, *one.sentences])
        assert any("scaling to" in sentence for sentence in one.sentences)


def test_long_ids_keep_their_label_in_figures(written: Written) -> None:
    fields = case(
        strategy="ddp",
        world_size=2,
        bucket_cap_mb=12.5,
        gradient_as_bucket_view=True,
        find_unused_parameters=True,
        data="loader",
    )
    page = render(compute(load([written(versions(both(fields, 0.1)))])))
    assert "torch_old" in page.partition("All-reduce time: ")[2].partition("</svg>")[0]


def test_the_profiler_is_compared_with_the_child_it_watched(written: Written) -> None:
    slow = launch(0, case(), [0.1], profiled_step_s=0.21)
    slow |= {"median_step_s": 0.1, "children": [child(0.2), child(0.1), child(0.09)]}
    made = entry(case(), 0.1, launches=1)
    made["extra_info"]["result"]["launches"] = [slow]
    tables = compute(load([written(document([made]))]))
    (check,) = [row for row in rows(tables.trust) if row["check"] == "profiler"]
    assert check["value"] == pytest.approx(1.05)
    assert not any("profiler" in words for words in rows(tables.cells)[0]["warnings"])
