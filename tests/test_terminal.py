from __future__ import annotations

import math
from typing import Any

import pytest

from bench.case import Case
from bench.result import Failure, LaunchResult
from bench.terminal import case_line, duration, half_width, launch_line, step_time_s


def launch(median_s: float, times: tuple[float, ...] = (), **rank: Any) -> LaunchResult:
    fields = {"median_step_s": median_s, "ranks": [{"communication": None, **rank}], "label": None}
    return LaunchResult(0, times or (median_s,) * 20, fields)


CASE = Case(world_size=2, batch_size=32)


def test_a_finished_case_in_one_line() -> None:
    figures = {"all_reduce_s": 0.012, "overlap_ratio": 0.25, "calls_per_step": 2.0}
    line = case_line(CASE, [launch(0.1, communication=figures)], alone=400.0, seconds_left=75)
    assert "100.00 ms" in line
    assert "640.0 samples/s" in line  # B02: the whole job
    assert "80% of ideal" in line  # 640 of 2 x 400
    assert "all-reduce 12.00 ms, 25% hidden" in line
    assert line.endswith("1 min 15 s left")
    assert "\n" not in line


def test_without_a_baseline_there_is_no_per_cent() -> None:
    assert "ideal" not in case_line(CASE, [launch(0.1)], alone=None, seconds_left=None)
    one = Case(batch_size=32)
    assert "ideal" not in case_line(one, [launch(0.1)], alone=320.0, seconds_left=None)


def test_a_label_is_in_the_line_and_one_rank_reduces_nothing() -> None:
    figures = {"all_reduce_s": 0.012, "overlap_ratio": 0.25, "calls_per_step": 2.0}
    alone = launch(0.1, communication=figures)
    alone.fields["label"] = "not parallel: plain module"
    line = case_line(Case(strategy="dp", batch_size=32), [alone], None, None)
    assert "not parallel: plain module" in line
    assert "all-reduce" not in line
    assert "all-reduce" not in case_line(CASE, [launch(0.1)], None, None)  # not profiled


def test_of_all_ranks_and_launches_the_longest_all_reduce_is_told() -> None:
    def ranks(*seconds: float) -> list[dict[str, Any]]:
        figures = {"overlap_ratio": None, "calls_per_step": 1.0}
        return [{"communication": {**figures, "all_reduce_s": each}} for each in seconds]

    launches = [launch(0.1), launch(0.1)]
    launches[0].fields["ranks"] = ranks(0.001, 0.003)
    launches[1].fields["ranks"] = ranks(0.002, 0.001)
    assert "all-reduce 3.00 ms" in case_line(CASE, launches, None, None)
    assert "hidden" not in case_line(CASE, launches, None, None)


def test_more_than_ideal_is_shown_as_it_is() -> None:
    assert "160% of ideal" in case_line(CASE, [launch(0.1)], alone=200.0, seconds_left=None)


def test_the_interval_comes_from_launches() -> None:
    # Logarithms -0.01, 0, 0.01: sd 0.01, t(0.975, 2) = 4.302653: 0.04303 * 0.01/sqrt(3).
    launches = [launch(math.exp(x)) for x in (-0.01, 0.0, 0.01)]
    assert step_time_s(launches) == pytest.approx(1)
    assert half_width(launches) == f"±{math.expm1(4.302653 * 0.01 / math.sqrt(3)):.1%}" == "±2.5%"


def test_one_launch_has_the_interval_of_its_steps_or_none() -> None:
    assert half_width([launch(0.1, (0.1,) * 20)]) == "±0.0%"
    # 40 swinging steps: the 14th from either end are 4.3 and 5.6, the median is 4.95.
    times = tuple(t for i in range(20) for t in (3 + i / 10, 3 + (39 - i) / 10))
    assert half_width([launch(4.95, times)]) == f"±{(5.6 - 4.3) / 2 / 4.95:.1%}" == "±13.1%"
    assert half_width([launch(0.1, (0.1, 0.2))]) == "± ?"


def test_a_launch_that_failed_says_so() -> None:
    failure = Failure(phase="wrap", message="no", rank=1)
    line = launch_line([CASE], 0, 3, {CASE.id: failure}, None)
    assert line.startswith("launch 1/3  ddp-mlp-w2")
    assert "rank 1 failed in wrap of ddp-mlp-w2: no" in line


def test_interpreters_share_a_line() -> None:
    block = [CASE.replace(torch="old"), CASE.replace(torch="new")]
    answers: dict[str, LaunchResult | Failure] = {
        block[0].id: launch(0.1),
        block[1].id: launch(0.108),
    }
    line = launch_line(block, 4, 3, answers, 90)
    assert " ".join(line.split()) == (
        "confirm 2/3 ddp-mlp-w2 old 100.00 ms new 108.00 ms +8.0% 1 min 30 s left"
    )
    answers[block[1].id] = Failure(phase="wrap", message="no", rank=1)
    line = launch_line(block, 0, 3, answers, None)
    assert "old   100.00 ms" in line
    assert "new failed: rank 1 failed in wrap of ddp-mlp-w2-torch_new: no" in line
    assert "%" not in line


def test_durations() -> None:
    assert [duration(0.4), duration(59.6), duration(125)] == ["0 s", "1 min 00 s", "2 min 05 s"]
