"""The checks of "Can these numbers be believed": verdicts by hand, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.frames import Row, rows
from reports.load import load
from reports.page import render
from reports.tables import Tables, compute
from reports.trust import MOST_SHOWN
from reports.trust_case import drift_ratio, lag_1
from tests.reports.builder import case, communication, document, entry, rank, sweep

Written = Callable[..., Path]
HOSTILE = [None, "text", [1, "x"], {"a": 1}, True, 10**400, float("nan"), -3]


def made(written: Written, *entries: dict[str, Any], **own: Any) -> Tables:
    return compute(load([written(document(list(entries), **own))]))


def check(tables: Tables, name: str, cell: int | None = 0) -> Row:
    (row,) = [row for row in rows(tables.trust) if row["check"] == name and row["cell"] == cell]
    return row


def of_launch(world_size: int = 1, launches: int = 3, **changes: Any) -> dict[str, Any]:
    fields = case(world_size=world_size)
    return entry(fields, 0.1, launches=launches, launch_changes=changes)


def ranks(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [rank(n, 0.1, **own) for n, own in enumerate(changes)]


def explained(ratio: Any) -> dict[str, Any]:
    return {"communication": communication(0.05, 0.02) | {"explained_ratio": ratio}}


def state(**changes: Any) -> dict[str, Any]:
    return {
        "load_1min": 0.2,
        "cpu_s": 1000.0,
        "steal_s": 10.0,
        "cpu_mhz": 3000.0,
        "calibration_s": 0.010,
        "pressure": {"cpu": 0.01, "memory": 0.0, "io": 0.0},
    } | changes


def machine(written: Written, before: Any, after: Any) -> Tables:
    return made(written, of_launch(), state={"before": before, "after": after})


@pytest.mark.parametrize(
    ("profiled_s", "verdict"),
    [(0.105, "ok"), (0.115, "look"), (0.14, "bad"), (0.09, "ok"), (None, "not known")],
)
def test_the_profiler_slow_down(written: Written, profiled_s: Any, verdict: str) -> None:
    row = check(made(written, of_launch(profiled_step_s=profiled_s)), "profiler")
    assert row["verdict"] == verdict
    if profiled_s is not None:
        assert row["value"] == pytest.approx(profiled_s / 0.1)


@pytest.mark.parametrize(
    ("ratios", "verdict", "lowest"),
    [
        ((0.95, 0.90), "ok", 0.90),
        ((0.95, 0.70), "look", 0.70),
        ((0.69, 0.95), "bad", 0.69),
        ((None, None), "not known", None),
        ((None, 0.95), "not known", 0.95),  # the other rank may be far below
        ((None, 0.5), "bad", 0.5),
    ],
)
def test_the_explained_share_is_that_of_the_lowest_rank(
    written: Written, ratios: tuple[Any, Any], verdict: str, lowest: float | None
) -> None:
    tables = made(written, of_launch(2, ranks=ranks(*map(explained, ratios))))
    row = check(tables, "explained")
    assert row["verdict"] == verdict
    assert row["value"] == (None if lowest is None else pytest.approx(lowest))


def own_times(forward: Any, backward: Any, all_reduce: Any, overlap: Any) -> dict[str, Any]:
    return {
        "ddp_own_times": {
            "forward_s": forward,
            "backward_s": backward,
            "all_reduce_s": all_reduce,
            "overlap_s": overlap,
        }
    }


def test_ddp_on_one_rank_is_its_forward_and_backward(written: Written) -> None:
    """Ours are 30 and 60 ms."""
    alike = made(written, of_launch(ranks=ranks(own_times(0.035, 0.065, None, None))))
    row = check(alike, "DDP's own times")
    assert row["verdict"] == "ok"
    assert row["value"] == pytest.approx(100 / 90 - 1)
    unlike = made(written, of_launch(ranks=ranks(own_times(0.020, 0.040, 0.050, 0.010))))
    row = check(unlike, "DDP's own times")
    assert row["verdict"] == "look"
    assert row["value"] == pytest.approx(60 / 90 - 1)
    assert "samples few iterations, lags one behind" in row["sentence"]


def test_on_several_ranks_ddp_counts_its_all_reduce_apart(written: Written) -> None:
    """40 ms of all-reduce, 15 of them beside computing: 30 + 40 + 25 of our 90 ms; worst rank."""
    own = ranks(own_times(0.03, 0.06, 0.02, 0.02), own_times(0.03, 0.04, 0.04, 0.015))
    row = check(made(written, of_launch(2, ranks=own)), "DDP's own times")
    assert row["value"] == pytest.approx(95 / 90 - 1)
    assert row["verdict"] == "ok"
    own = ranks(own_times(0.03, 0.06, None, None), own_times(0.03, 0.04, 0.04, None))
    row = check(made(written, of_launch(2, ranks=own)), "DDP's own times")
    assert row["verdict"] == "not known"


@pytest.mark.parametrize("wrong", HOSTILE)
def test_hostile_records_are_not_known(written: Written, wrong: Any) -> None:
    of_rank = {
        "ddp_own_times": wrong,
        "communication": {"explained_ratio": wrong, "exposed_s": wrong},
    }
    own = of_launch(2, ranks=ranks(of_rank, of_rank), profiled_step_s=wrong)
    broken = state(**dict.fromkeys(state(), wrong))
    tables = made(written, own, state={"before": broken, "after": broken})
    table = {row["check"]: row["verdict"] for row in rows(tables.trust)}
    for name in ("profiler", "explained", "DDP's own times", "exposed communication"):
        assert table[name] == "not known", name
    assert table["machine"] == "not known"  # nothing is left of the state
    render(tables)


def test_the_exposed_time_is_compared_for_ddp_on_several_ranks(written: Written) -> None:
    def tables(exposed_s: float) -> Tables:
        own = ranks(*[{"communication": communication(0.05, exposed_s)}] * 2)
        return made(written, of_launch(2, ranks=own))

    # The step without communication is 78 ms on the mean rank: 22 of 100 ms are exposed.
    assert check(tables(0.021), "exposed communication")["verdict"] == "ok"
    unlike = check(tables(0.011), "exposed communication")
    assert unlike["verdict"] == "look"
    assert unlike["value"] == pytest.approx(0.5)
    assert "exposed communication" not in [
        row["check"] for row in rows(made(written, of_launch()).trust)
    ]


def test_lag_1_by_hand() -> None:
    """Of -1 and 1 in turn, n times: -(n - 1) / n; of two halves: (n - 3) / n."""
    assert lag_1([0.1, 0.2] * 10) == pytest.approx(-19 / 20)
    assert lag_1([0.1] * 10 + [0.2] * 10) == pytest.approx(17 / 20)
    assert lag_1([0.1, 0.2] * 5) is None
    assert lag_1([0.1] * 20) is None
    assert lag_1([]) is None


def test_drift_by_hand() -> None:
    """Thirds of 5 of 16 steps; what lies between does not count."""
    assert drift_ratio([0.1] * 5 + [9.0] * 6 + [0.12] * 5) == pytest.approx(0.2)
    assert drift_ratio([0.1] * 11) is None


def test_correlation_and_drift_of_a_case(written: Written) -> None:
    halves = [0.1] * 10 + [0.2] * 10
    tables = made(written, entry(case(), launches=[halves, halves[::-1]]))
    correlation, drift = check(tables, "correlated steps"), check(tables, "drift")
    assert correlation["value"] == pytest.approx(17 / 20)
    assert correlation["verdict"] == drift["verdict"] == "bad"
    assert "about 8" in correlation["sentence"]  # (1 - 0.85) / (1 + 0.85)
    assert drift["value"] == pytest.approx(1)
    assert "slower" in drift["sentence"]


def test_correlation_is_that_of_a_mean_launch_and_drift_that_of_the_worst(written: Written) -> None:
    flat, halves = [0.1, 0.11] * 10, [0.1] * 10 + [0.107] * 10
    tables = made(written, entry(case(), launches=[flat, halves]))
    assert check(tables, "correlated steps")["value"] == pytest.approx((17 - 19) / 20 / 2)
    assert check(tables, "correlated steps")["verdict"] == "ok"
    assert check(tables, "drift")["value"] == pytest.approx(0.07)
    assert check(tables, "drift")["verdict"] == "look"


@pytest.mark.parametrize(
    ("medians", "verdict"),
    [([0.1, 0.104], "ok"), ([0.1, 0.11, 0.105], "look"), ([0.12, 0.1], "bad"), ([0.1], None)],
)
def test_the_spread_between_launches(
    written: Written, medians: list[float], verdict: str | None
) -> None:
    row = check(made(written, entry(case(), medians)), "launches")
    assert row["verdict"] == (verdict or "not known")
    if verdict is not None:
        assert row["value"] == pytest.approx(max(medians) / min(medians) - 1)


@pytest.mark.parametrize(
    ("name", "before", "after", "verdict", "value"),
    [
        ("load", {"load_1min": 1.6}, {}, "ok", 0.2),  # of 8 cores
        ("load", {"load_1min": 2.4}, {}, "look", 0.3),
        ("load", {"load_1min": 4.8}, {"load_1min": 0.0}, "bad", 0.6),
        ("load", {}, {"load_1min": 16.0}, "ok", 0.025),  # its own
        ("load", {"load_1min": None}, {}, "not known", None),
        ("steal", {}, {"cpu_s": 1100.0, "steal_s": 10.5}, "ok", 0.005),
        ("steal", {}, {"cpu_s": 1100.0, "steal_s": 12.0}, "look", 0.02),
        ("steal", {}, {"cpu_s": 1100.0, "steal_s": 20.0}, "bad", 0.1),
        ("steal", {}, {"cpu_s": 1000.0, "steal_s": 20.0}, "not known", None),
        ("steal", {}, {"cpu_s": 1100.0, "steal_s": 1.0}, "not known", None),  # began anew
        ("steal", {}, {"cpu_s": 1100.0, "steal_s": None}, "not known", None),
        ("clock rate", {}, {"cpu_mhz": 2910.0}, "ok", -0.03),
        ("clock rate", {}, {"cpu_mhz": 2700.0}, "look", -0.1),
        ("clock rate", {}, {"cpu_mhz": 2400.0}, "bad", -0.2),
        ("clock rate", {"cpu_mhz": 0.0}, {}, "not known", None),
        ("fixed work", {}, {"calibration_s": 0.0104}, "ok", 0.04),
        ("fixed work", {}, {"calibration_s": 0.011}, "look", 0.1),
        ("fixed work", {}, {"calibration_s": 0.013}, "bad", 0.3),
        ("fixed work", {}, {"calibration_s": None}, "not known", None),
    ],
)
def test_the_state_of_the_machine(
    written: Written,
    name: str,
    before: dict[str, Any],
    after: dict[str, Any],
    verdict: str,
    value: float | None,
) -> None:
    row = check(machine(written, state(**before), state(**after)), name, cell=None)
    assert row["verdict"] == verdict
    assert row["value"] == (None if value is None else pytest.approx(value))


def test_pressure(written: Written) -> None:
    busy = {"cpu": 0.2, "memory": 0.4, "io": 0.05}
    tables = machine(written, state(), state(pressure=busy))
    verdicts = {
        name: check(tables, f"{name} pressure", None)["verdict"]
        for name in ("CPU", "memory", "disk")
    }
    assert verdicts == {"CPU": "ok", "memory": "bad", "disk": "ok"}  # the CPU's is the run's own
    tables = machine(written, state(pressure=busy), state())
    assert check(tables, "CPU pressure", None)["verdict"] == "look"
    tables = machine(written, state(pressure={"cpu": 7}), state(pressure=None))
    assert check(tables, "CPU pressure", None)["verdict"] == "not known"
    assert check(tables, "memory pressure", None)["verdict"] == "not known"


def test_an_old_file_still_has_a_page_that_claims_nothing(written: Written) -> None:
    stats = {"median": 0.1, "data": [0.1] * 3}
    foreign = {
        "name": "test",
        "group": "g",
        "params": {"world_size": 2, "strategy": "ddp", "batch_size": 8},
        "stats": stats,
    }
    tables = compute(load([written({"benchmarks": [foreign]})]))
    assert {row["verdict"] for row in rows(tables.trust)} == {"not known"}
    assert "Can these numbers be believed" in render(tables)


def test_the_page_shows_the_gravest_first_and_not_all(written: Written) -> None:
    document_ = sweep()
    for one in document_["benchmarks"]:
        for launch in one["extra_info"]["result"]["launches"]:
            launch["profiled_step_s"] = launch["median_step_s"] * 1.5
    tables = compute(load([written(document_)]))
    page = render(tables)
    section = page[page.index('<section id="trust"') : page.index('<section id="machine"')]
    shown, all_ = section.split("Show all checks")
    assert shown.count("<tr>") - 1 == MOST_SHOWN
    assert shown.index("mean little") < shown.index("</table>")
    assert all_.count("<tr>") - 1 == len(tables.trust)
    bad = sum(row["verdict"] == "bad" for row in rows(tables.trust))
    assert f"{bad} bad" in shown
    assert all(row["sentence"].endswith(".") for row in rows(tables.trust))
    assert not any(math.isnan(row["value"] or 0) for row in rows(tables.trust))
