"""Which cells are compared, what is said of each, and what the whole comes to."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import paired
from reports.gate import BAD_INPUT, INCONCLUSIVE, NO_REGRESSION, REGRESSION
from reports.sides import NotComparable
from tests.reports.builder import (
    FACTS,
    MACHINE,
    NEWER,
    both,
    case,
    child,
    document,
    entry,
    launch_times,
    outcome,
    rank,
    under,
    versions,
)
from tests.reports.comparing import Compared, compared

Written = Callable[..., Path]
#: Eight cells, so that Holm multiplies the least p by up to 8.
SIZES = (8, 16, 24, 32, 48, 64, 96, 128)
CASES = [case(strategy="ddp", world_size=2, batch_size=size) for size in SIZES]


def name(size: int) -> str:
    return f"ddp-resnet18-w2{'' if size == 32 else f'-b{size}'}"


def eight(changes: dict[int, float], **of_changed: Any) -> list[dict[str, Any]]:
    """Eight cells, of which those in ``changes`` take so many times as long under "new"."""
    entries: list[dict[str, Any]] = []
    for n, (size, fields) in enumerate(zip(SIZES, CASES, strict=True)):
        extra = of_changed if size in changes else {}
        entries += both(fields, 0.05 + size / 1000, changes.get(size, 1.0), seed=n, **extra)
    return entries


def read(written: Written, entries: list[dict[str, Any]], **more: Any) -> Compared:
    return compared(written(versions(entries)), **more)


def two_files(
    written: Written, base: list[dict[str, Any]], new: list[dict[str, Any]], **own: Any
) -> tuple[Path, Path]:
    """``own``: keys of the second file's ``lockstep`` part."""
    return written(document(base), "base.json"), written(document(new, **own), "new.json")


def separate(median_s: float, change: float = 1.0, launches: int = 8) -> list[dict[str, Any]]:
    a, b = launch_times(median_s, launches, seed=3)
    return [
        entry(case(), a, launches=launches),
        entry(case(), [value * change for value in b], launches=launches),
    ]


def test_a_slower_case_is_found_by_pairs_of_launches(written: Written) -> None:
    found = read(written, eight({64: 1.08}, confirmed=1.08))
    a, b = launch_times(0.05 + 64 / 1000, 12, seed=SIZES.index(64) + 1000)
    row = found.by_case[name(64)]
    ratio = math.exp(np.log(np.array(b) * 1.08 / np.array(a)).mean())
    assert row["effect"] == pytest.approx(ratio)
    assert row["b"] / row["a"] == pytest.approx(ratio)
    assert row["low"] < ratio < row["high"]
    assert row["said"] == "slower, confirmed"
    assert {row["case"] for row in found.gate_rows if row["regression"]} == {name(64)}
    assert found.conclusion().status == REGRESSION
    assert name(64) in found.conclusion().headline


def test_holm_counts_every_case_before_and_the_flagged_ones_after(written: Written) -> None:
    row = read(written, eight({64: 1.08}, confirmed=1.08)).by_case[name(64)]
    # All twelve differences have one sign: 2 of 2**12 arrangements are as extreme.
    least = 2 / 2**12
    assert row["first_p_holm"] == pytest.approx(8 * least)
    assert row["p_holm"] == pytest.approx(least)
    assert row["first_pairs"] == row["pairs"] == 12


def test_nothing_slower_is_no_regression_and_no_pass(written: Written) -> None:
    found = read(written, eight({}))
    assert found.conclusion(strict=True).status == NO_REGRESSION
    assert "pass" not in found.conclusion().sentence
    assert {row["said"] for row in found.gate_rows} == {"no change"}


def test_a_faster_case_is_said_to_be(written: Written) -> None:
    found = read(written, eight({8: 0.9}))
    assert found.by_case[name(8)]["said"] == "faster"
    assert found.listed("throughput")[name(8)]["said"] == "faster"
    assert found.conclusion().status == NO_REGRESSION


def test_what_is_not_found_again_is_not_confirmed(written: Written) -> None:
    found = read(written, eight({64: 1.08}, confirmed=1.0))
    row = found.by_case[name(64)]
    assert row["said"] == "not confirmed"
    # The row shows the fresh pairs, and what they were measured again for stands beside them.
    assert row["effect"] == pytest.approx(1.0, abs=0.01)
    assert row["first_effect"] == pytest.approx(1.08, abs=0.01)
    assert found.conclusion(strict=True).status == NO_REGRESSION


@pytest.mark.parametrize("how", ["none", "incomplete"])
def test_flagged_and_not_measured_again_is_inconclusive(written: Written, how: str) -> None:
    again = {} if how == "none" else {"confirmed": 1.08, "complete": False}
    found = read(written, eight({64: 1.08}, **again))
    assert found.by_case[name(64)]["said"] == "flagged, confirmation missing"
    assert found.by_case[name(64)]["judged_on"] == "pairs"
    assert found.conclusion().status == NO_REGRESSION
    assert "1 case flagged but not measured again" in found.conclusion().sentence
    assert found.conclusion().headline == "No confirmed regression"
    assert found.conclusion(strict=True).status == INCONCLUSIVE


def test_a_run_that_was_not_to_measure_again_alarms_at_once(written: Written) -> None:
    made = versions(eight({64: 1.08}), settings={"confirm": False})
    found = compared(written(made))
    assert found.by_case[name(64)]["said"] == "slower, unconfirmed"
    assert found.conclusion().status == REGRESSION


def test_only_the_flagged_are_judged_on_their_second_measurement(written: Written) -> None:
    """A case that was measured again and is not flagged (with a larger delta) stays as it was."""
    found = read(written, eight({64: 1.08}, confirmed=1.5), delta=0.2)
    row = found.by_case[name(64)]
    assert row["first_pairs"] is None
    assert row["effect"] == pytest.approx(1.08, abs=0.01)
    assert not row["regression"]


def test_a_case_between_no_change_and_slower_is_inconclusive(written: Written) -> None:
    found = read(written, eight({64: 1.03}))
    assert found.by_case[name(64)]["said"] == "inconclusive"
    assert found.conclusion().status == NO_REGRESSION
    assert "1 case inconclusive" in found.conclusion().sentence
    assert found.conclusion(strict=True).status == INCONCLUSIVE


def test_launches_without_a_partner_do_not_count(written: Written) -> None:
    a, b = both(CASES[0], 0.1, 1.05)
    del b["extra_info"]["result"]["launches"][3]
    found = read(written, [a, b])
    (row,) = found.gate_rows
    assert row["pairs"] == 11
    assert "1 launches of A and 0 of B have no partner" in row["note"]


def test_too_few_pairs_are_said_before_the_table(written: Written) -> None:
    entries = [one for fields in CASES for one in both(fields, 0.1, 1.3, launches=6)]
    found = read(written, entries)
    # 2 / 2**6 times 8 cases is 0.25; 2 / 2**9 times 8 is 0.03.
    assert "it takes 9 pairs of launches" in str(found.comparison.too_few)
    assert "there are 6" in str(found.comparison.too_few)
    assert {row["verdict"] for row in found.gate_rows} == {paired.INCONCLUSIVE}
    # All are a third slower, and none could have been called so: that is no silence to trust.
    assert found.conclusion().status == BAD_INPUT
    assert read(written, eight({})).comparison.too_few is None


def test_fewer_than_five_pairs_are_a_smoke_test(written: Written) -> None:
    found = read(written, both(CASES[0], 0.1, 2.0, launches=4))
    assert found.by_case[name(8)]["said"] == "smoke, no verdict"
    assert found.conclusion().status == BAD_INPUT


def test_identical_launches_have_an_interval_of_no_width(written: Written) -> None:
    fields = CASES[0]
    entries = [entry(under(torch, fields), [0.1] * 12, launches=12) for torch in ("old", "new")]
    (row,) = read(written, entries).gate_rows
    assert (row["effect"], row["low"], row["high"]) == (1.0, 1.0, 1.0)
    assert row["said"] == "no change"
    entries[1] = entry(under("new", fields), [0.11] * 12, launches=12)
    found = compared(written(versions(entries, settings={"confirm": False})))
    assert found.gate_rows[0]["said"] == "slower, unconfirmed"


def test_children_of_a_launch_are_one_value(written: Written) -> None:
    fields = CASES[0]
    old = [[0.10, 0.20, 0.11] for _ in range(12)]
    new = [[0.11, 0.12, 0.05] for _ in range(12)]
    entries = [
        entry(under(torch, fields), children=own) for torch, own in (("old", old), ("new", new))
    ]
    (row,) = read(written, entries).gate_rows
    assert (row["a"], row["b"]) == (pytest.approx(0.11), pytest.approx(0.11))
    assert row["pairs"] == 12


def test_metrics_take_the_launch_value_each(written: Written) -> None:
    def measured(torch: str, factor: float) -> dict[str, Any]:
        ranks = [rank(0, 0.1), rank(1, 0.1)]
        for n, one in enumerate(ranks):
            one["communication"] = {
                "all_reduce_s": (0.02 + 0.01 * n) * factor,
                "exposed_s": (0.005 + 0.001 * n) * factor,
            }
        own = [child(0.1, peak_bytes=1e9 * factor, first_step_s=0.5 * factor, init_s=1 * factor)]
        fields = under(torch, case(world_size=2, batch_size=16))
        changes = {"ranks": ranks, "children": own}
        return entry(fields, [0.1] * 6, launches=6, launch_changes=changes)

    found = read(written, [measured("old", 1.0), measured("new", 1.1)])
    expected = {
        "step_time": (0.1, 0.1),
        "throughput": (320.0, 320.0),
        "all_reduce_time": (0.03, 0.033),
        "exposed_communication": (0.006, 0.0066),
        "peak_memory": (1e9, 1.1e9),
        "first_step": (0.5, 0.55),
        "init": (1.0, 1.1),
    }
    for metric, (a, b) in expected.items():
        (row,) = found.listed(metric).values()
        assert (row["a"], row["b"]) == (pytest.approx(a), pytest.approx(b)), metric
    assert next(iter(found.listed("peak_memory").values()))["said"] == "more"


def test_a_gate_on_memory_needs_no_second_measurement(written: Written) -> None:
    """A run measures again what is slower, and not what takes more memory."""
    entries = both(CASES[0], 0.1)
    for one in entries[1]["extra_info"]["result"]["launches"]:
        for each in one["ranks"]:
            each["memory"]["peak_bytes"] *= 1.2
    assert read(written, entries).conclusion().status == NO_REGRESSION
    found = read(written, entries, gate="peak_memory")
    assert found.gate_rows[0]["said"] == "more, unconfirmed"
    assert found.conclusion().status == REGRESSION
    assert "More in peak memory" in found.conclusion().headline


def test_peaks_of_two_kinds_are_not_compared(written: Written) -> None:
    entries = both(CASES[0], 0.1)
    for one in entries[1]["extra_info"]["result"]["launches"]:
        for each in one["ranks"]:
            each["memory"]["kind"] = "device"
    row = read(written, entries).listed("peak_memory")[name(8)]
    assert row["effect"] is None
    assert row["note"] == "peak memory of two kinds"


def test_a_rank_without_a_time_leaves_the_launch_blank(written: Written) -> None:
    entries = both(CASES[0], 0.1)
    entries[1]["extra_info"]["result"]["launches"][0]["ranks"][1]["communication"] = None
    assert read(written, entries).listed("all_reduce_time")[name(8)]["pairs"] == 11


def test_a_time_of_zero_has_no_ratio_and_is_said(written: Written) -> None:
    entries = both(CASES[0], 0.1)
    for each in entries[1]["extra_info"]["result"]["launches"][0]["ranks"]:
        each["communication"]["exposed_s"] = 0.0
    row = read(written, entries).listed("exposed_communication")[name(8)]
    assert row["pairs"] == 11
    assert "exposed communication is 0 in 1 launches" in row["note"]


def test_non_finite_times_are_launches_without_a_value(written: Written) -> None:
    entries = both(CASES[0], 0.1)
    result = entries[1]["extra_info"]["result"]
    for n, value in ((0, math.nan), (1, math.inf), (2, -1.0)):
        result["launches"][n]["median_step_s"] = value
        kept = [k for k, launch in enumerate(result["launch_of_round"]) if launch != n]
        entries[1]["stats"]["data"] = [entries[1]["stats"]["data"][k] for k in kept]
        result["launch_of_round"] = [result["launch_of_round"][k] for k in kept]
    (row,) = read(written, entries).gate_rows
    assert row["pairs"] == 9


def test_one_that_ran_and_then_failed_is_never_silent(written: Written) -> None:
    entries = eight({})
    gone = entries.pop(1)  # the first case, under "new"
    ended = [outcome(one["extra_info"]["case"]) for one in entries]
    failed = outcome(gone["extra_info"]["case"], "crashed", reason="rank 1 died of SIGSEGV\nat x")
    found = compared(written(versions(entries, outcomes=[*ended, failed])))
    row = found.uncompared[name(8)]
    assert row["kind"] == "failed"
    assert row["sentence"] == "crashed under new (rank 1 died of SIGSEGV)"
    assert found.conclusion().status == BAD_INPUT
    assert "1 case that ran before failed under new" in found.conclusion().sentence
    # A regression beside it is the graver news, and both are said.
    entries = [one for one in eight({64: 1.08}, confirmed=1.08) if one["param"] != gone["param"]]
    ended = [outcome(one["extra_info"]["case"]) for one in entries]
    found = compared(written(versions(entries, outcomes=[*ended, failed])))
    assert found.conclusion().status == REGRESSION
    assert "failed under new" in found.conclusion().sentence


def test_one_that_failed_after_it_was_timed_has_failed(written: Written) -> None:
    entries = eight({})
    ended = [outcome(one["extra_info"]["case"]) for one in entries]
    ended[1] |= {"outcome": "failed", "reason": "gradients differ"}
    found = compared(written(versions(entries, outcomes=ended)))
    assert found.uncompared[name(8)]["sentence"] == "failed under new (gradients differ)"
    assert name(8) not in found.by_case


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("ok", None, "missing"),
        ("ok", "skipped", "skipped"),
        (None, "ok", "new"),
        ("failed", "ok", "no baseline"),
        ("skipped", "failed", "on neither side"),
    ],
)
def test_cases_on_one_side_are_listed_and_strictly_not_let_pass(
    written: Written, old: str | None, new: str | None, kind: str
) -> None:
    entries, ended = eight({}), []
    for torch, how in (("old", old), ("new", new)):
        fields = under(torch, case(strategy="all_reduce", world_size=2))
        if how == "ok":
            entries.append(entry(fields, 0.1, launches=12))
        elif how is not None:
            ended.append(outcome(fields, how, reason="as it was"))
    ended += [outcome(one["extra_info"]["case"]) for one in entries]
    found = compared(written(versions(entries, outcomes=ended)))
    assert {case: row["kind"] for case, row in found.uncompared.items()} == {
        "all_reduce-resnet18-w2": kind
    }
    assert found.conclusion().status == NO_REGRESSION
    assert "1 not compared" in found.conclusion().sentence
    assert found.conclusion(strict=True).status == INCONCLUSIVE


def test_two_entries_for_one_case_are_not_chosen_between(written: Written) -> None:
    entries = both(CASES[0], 0.1)
    twin = copy.deepcopy(entries[1])
    found = read(written, [*entries, twin])
    row = found.uncompared[name(8)]
    assert row["kind"] == "ambiguous"
    assert "2 entries under new" in row["sentence"]


def test_several_new_labels_are_judged_together(written: Written) -> None:
    entries = []
    for fields in CASES[:2]:
        a, b = both(fields, 0.1, 1.1)
        c = copy.deepcopy(b)
        c["extra_info"]["case"]["torch"] = "newest"
        c["extra_info"]["id"] = c["extra_info"]["id"].replace("torch_new", "torch_newest")
        entries += [a, b, c]
    facts = {"old": FACTS, "new": FACTS | NEWER, "newest": FACTS | {"torch": "2.15.0+cpu"}}
    path = written(versions(entries, interpreters=facts, settings={"confirm": False}))
    found = compared(path)
    assert [(row["case"], row["new"]) for row in found.gate_rows] == [
        (name(8), "new"),
        (name(16), "new"),
        (name(8), "newest"),
        (name(16), "newest"),
    ]
    assert {row["p_holm"] for row in found.gate_rows} == {4 * 2 / 2**12}
    one = compared(path, base="new", new="newest")
    assert {row["effect"] for row in one.gate_rows} == {1.0}
    assert one.comparison.sides.base.label == "new"


def test_labels_are_chosen_by_name(written: Written) -> None:
    path = written(versions(both(CASES[0], 0.1)))
    with pytest.raises(NotComparable, match="no interpreter of that label; did you mean 'new'"):
        compared(path, new="neww")
    with pytest.raises(NotComparable, match="are the same; choose two labels"):
        compared(path, base="new", new="new")
    with pytest.raises(NotComparable, match="choose another with --base"):
        compared(path, new="old")
    assert compared(path, base="new").comparison.sides.news[0].label == "old"
    lone = written(document([entry(case(), 0.1)]), "lone.json")
    with pytest.raises(NotComparable, match="pytest bench --torch old=PYTHON --torch new=PYTHON"):
        compared(lone)
    with pytest.raises(NotComparable, match="several interpreters \\(old and new\\); choose one"):
        compared(path, lone)
    with pytest.raises(NotComparable, match="3 files: give one"):
        compared(path, lone, lone)
    with pytest.raises(NotComparable, match="one interpreter, without a label; leave --new out"):
        compared(lone, lone, new="x")
    assert compared(path, lone, base="old", force=True).comparison.sides.base.name == (
        "old in run.json"
    )


def test_separate_runs_are_no_pairs(written: Written) -> None:
    a, b = separate(0.1, 1.3)
    found = compared(*two_files(written, [a], [b]))
    (row,) = found.gate_rows
    assert row["judged_on"] == "separate runs"
    assert row["said"] == "slower, unconfirmed"
    assert row["p"] == pytest.approx(2 / math.comb(16, 8))
    assert found.conclusion().status == REGRESSION
    assert "separate runs are not confirmed" in found.conclusion().sentence
    # What is common to both launches does not cancel: the interval is wider than that of pairs.
    of_pairs = both(case(), 0.1, 1.3, launches=8, seed=3)
    (paired_row,) = read(written, of_pairs).gate_rows
    assert row["high"] - row["low"] > 1.5 * (paired_row["high"] - paired_row["low"])


def test_separate_runs_need_more_launches(written: Written) -> None:
    a, b = separate(0.1, 1.3, launches=4)
    found = compared(*two_files(written, [a], [b]))
    # 2 / C(8, 4) is 0.029, but fewer than five launches are a smoke test.
    assert "it takes 5 launches on each side" in str(found.comparison.too_few)
    assert found.conclusion().status == BAD_INPUT


def test_a_case_matches_under_another_label(written: Written) -> None:
    a, b = separate(0.1)
    one = versions([a], interpreters={"": FACTS})
    a["extra_info"]["case"]["torch"], a["extra_info"]["id"] = "old", "ddp-resnet18-w1-torch_old"
    other = written(document([b]), "new.json")
    found = compared(written(one), other, force=True)
    assert list(found.by_case) == ["ddp-resnet18-w1"]


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"host": "bench-2"}, "host 'bench-1' and 'bench-2'"),
        ({"cpu": "Other CPU"}, "CPU 'Example CPU 8c' and 'Other CPU'"),
        ({"physical_cores": 4}, "cores 8 and 4"),
        ({"gpus": [{"name": "H200"}]}, "GPUs none and 'H200'"),
        ({"memory_bytes": 32_000_000_000}, "memory 64.0 GB and 32.0 GB"),
        ({"environment": {"OMP_NUM_THREADS": "2"}}, "OMP_NUM_THREADS '4' and '2'"),
        ({"environment": MACHINE["environment"] | {"NCCL_DEBUG": "INFO"}}, "NCCL_DEBUG"),
    ],
)
def test_another_machine_is_refused_by_name(
    written: Written, machine: dict[str, Any], words: str
) -> None:
    a, b = separate(0.1)
    paths = two_files(written, [a], [b], machine=MACHINE | machine)
    with pytest.raises(NotComparable) as refused:
        compared(*paths)
    assert words in str(refused.value).replace("\u00a0", " ")
    assert "\n" not in str(refused.value)
    forced = compared(*paths, force=True)
    assert [row["said"] for row in forced.gate_rows] == ["forced: no change"]


def test_the_same_machine_under_another_kernel_is_the_same(written: Written) -> None:
    a, b = separate(0.1)
    machine = MACHINE | {"memory_bytes": 63_900_000_000, "os": "Linux 6.8", "boot_id": "0ther"}
    found = compared(*two_files(written, [a], [b], machine=machine))
    assert any("another boot" in words for words in found.warnings)
    same = compared(*two_files(written, [a], [b]))
    assert same.warnings == []


def test_what_is_not_known_of_a_machine_is_said(written: Written) -> None:
    a, b = separate(0.1)
    machine = {k: v for k, v in MACHINE.items() if k not in ("gpus", "memory_bytes")}
    found = compared(*two_files(written, [a], [b], machine=machine))
    assert "not known: memory and GPUs in new.json" in " ".join(found.warnings)


def test_other_threads_definitions_and_settings_are_refused(written: Written) -> None:
    a, b = separate(0.1)

    def refused(change: Callable[[dict[str, Any]], None]) -> str:
        other = document([copy.deepcopy(b)])
        change(other)
        with pytest.raises(NotComparable) as found:
            compared(written(document([a]), "base.json"), written(other, "new.json"))
        return str(found.value)

    def threads(made: dict[str, Any]) -> None:
        for one in made["benchmarks"][0]["extra_info"]["result"]["launches"]:
            for each in one["ranks"]:
                each["threads"] = 2

    def parameters(made: dict[str, Any]) -> None:
        for one in made["benchmarks"][0]["extra_info"]["result"]["launches"]:
            one["parameters"] = 7

    def definition(made: dict[str, Any]) -> None:
        made["benchmarks"][0]["extra_info"]["case"]["seed"] = 5

    def warm_up(made: dict[str, Any]) -> None:
        made["lockstep"]["settings"]["warm_up_steps"] = 3

    def model_file(made: dict[str, Any]) -> None:
        made["lockstep"]["interpreters"][""]["models"] = {"my.py": {"sha256": "b" * 64}}

    assert "threads per rank 1 and 2 (ddp-resnet18-w1)" in refused(threads)
    assert "the number of parameters of ddp-resnet18-w1" in refused(parameters)
    assert "the definition of ddp-resnet18-w1: seed 0 and 5" in refused(definition)
    assert "warm_up_steps 10 and 3" in refused(warm_up)
    of_a = document([a])
    of_a["lockstep"]["interpreters"][""]["models"] = {"my.py": {"sha256": "a" * 64}}
    of_b = document([b])
    model_file(of_b)
    with pytest.raises(NotComparable, match=r"the file of the model my\.py"):
        compared(written(of_a, "base.json"), written(of_b, "new.json"))


def test_a_field_of_a_later_version_is_at_its_default_in_an_older_file(written: Written) -> None:
    a, b = separate(0.1)
    del a["extra_info"]["case"]["broadcast_buffers"]
    assert len(compared(*two_files(written, [a], [b])).gate_rows) == 1


def test_what_else_differs_between_the_interpreters(written: Written) -> None:
    facts = FACTS | NEWER | {"cuda": "13.0", "compiler": None, "gloo": "yes"}
    found = compared(
        written(versions(both(CASES[0], 0.1), interpreters={"old": FACTS, "new": facts}))
    )
    (versus,) = found.comparison.news
    assert {row["what"]: (row["a"], row["b"]) for row in versus.differences} == {
        "torchvision": ("0.24.1+cpu", "0.29.1+cpu"),
        "CUDA": ("none", "13.0"),
        "BLAS": ("mkl 2024.2", "mkl 2025.1"),
        "compiler": ("GCC 11.2", "not known"),
        "gloo": ("not known", "yes"),
    }


def test_builds_are_told_apart_with_and_without_a_local_version(written: Written) -> None:
    def warned(torch: str, **facts: Any) -> bool:
        new = FACTS | NEWER | {"torch": torch} | facts
        found = compared(
            written(versions(both(CASES[0], 0.1), interpreters={"old": FACTS, "new": new}))
        )
        return any("builds differ" in words for words in found.warnings)

    assert not warned("2.14.1+cpu")
    assert not warned("2.14.1")
    assert warned("2.14.1+cu130")
    assert warned("2.14.1", cuda="13.0")
    assert warned("2.14.1", hip="6.4")
    assert warned("2.14.1+rocm6.4")


def test_hostile_facts_and_settings_stay_data(written: Written) -> None:
    made = versions(
        both(CASES[0], 0.1), interpreters={"old": [1], "new": {"torch": 3, "gpus": [{}, None]}}
    )
    made["lockstep"]["settings"] |= {"confirm": "yes", "warm_up_steps": []}
    made["lockstep"]["machine"] = MACHINE | {"environment": [], "boot_id": 7}
    found = compared(written(made))
    assert len(found.gate_rows) == 1
