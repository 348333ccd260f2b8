from __future__ import annotations

import math
from typing import Any

import pytest

from bench.case import Case
from bench.result import Failure, LaunchResult
from bench.terminal import (
    COLUMNS,
    Layout,
    case_line,
    duration,
    ending_line,
    half_width,
    launch_line,
    legible,
    step_time_s,
)


def launch(median_s: float, times: tuple[float, ...] = (), **rank: Any) -> LaunchResult:
    fields = {"median_step_s": median_s, "ranks": [{"communication": None, **rank}], "label": None}
    return LaunchResult(0, times or (median_s,) * 20, fields)


CASE = Case(world_size=2, batch_size=32)
PIPE = Layout.of([CASE], 3)
FIGURES = {"all_reduce_s": 0.012, "overlap_ratio": 0.25, "calls_per_step": 2.0}


def test_a_finished_case_in_one_line() -> None:
    line = case_line(PIPE, CASE, [launch(0.1, communication=FIGURES)], 400.0, seconds_left=75)
    assert "100.00 ms" in line
    assert "640.0 samples/s" in line  # B02: the whole job
    assert "80% of ideal" in line  # 640 of 2 x 400
    assert "12.00 ms all-reduce   25% hidden" in line
    assert line.endswith("1 min 15 s left")
    assert "\n" not in line


def test_a_collective_shows_its_bandwidth_in_columns_of_its_own() -> None:
    made = {"model": "", "strategy": "collective", "world_size": 4, "bytes": 1_000_000}
    reduce, pairs = (Case.from_dict(made | {"collective": c}) for c in ("all_reduce", "pairs"))
    line = case_line(Layout.of([reduce], 3), reduce, [launch(0.001)], None, None)
    assert line.endswith("1.000 ms  ±0.0%   1.00 GB/s algbw   1.50 GB/s busbw")
    of_pair = [launch(0.1, rank=0, pair_s={"1": 0.01, "2": 0.02})]
    line = case_line(Layout.of([pairs], 3), pairs, of_pair, None, None)
    assert "algbw" not in line and line.endswith("50.0 MB/s busbw")
    both = Layout.of([CASE, reduce], 3, width=80)
    assert [line.split()[-1] for line in (both.heading() or "").split("\n")] == ["hidden", "busbw"]


def test_without_a_baseline_there_is_no_per_cent() -> None:
    assert "ideal" not in case_line(PIPE, CASE, [launch(0.1)], alone=None, seconds_left=None)
    one = Case(batch_size=32)
    assert "ideal" not in case_line(PIPE, one, [launch(0.1)], alone=320.0, seconds_left=None)


def test_one_rank_reduces_nothing_and_no_profile_knows_nothing() -> None:
    alone = launch(0.1, communication=FIGURES)
    line = case_line(PIPE, Case(strategy="dp", batch_size=32), [alone], None, None)
    assert "all-reduce" not in line
    assert "all-reduce" not in case_line(PIPE, CASE, [launch(0.1)], None, None)  # not profiled


def test_of_all_ranks_and_launches_the_longest_all_reduce_is_told() -> None:
    def ranks(*seconds: float) -> list[dict[str, Any]]:
        figures = {"overlap_ratio": None, "calls_per_step": 1.0}
        return [{"communication": {**figures, "all_reduce_s": each}} for each in seconds]

    launches = [launch(0.1), launch(0.1)]
    launches[0].fields["ranks"] = ranks(0.001, 0.003)
    launches[1].fields["ranks"] = ranks(0.002, 0.001)
    line = case_line(PIPE, CASE, launches, None, None)
    assert "3.000 ms all-reduce" in line
    assert "hidden" not in line


def test_more_than_ideal_is_shown_as_it_is() -> None:
    assert "160% of ideal" in case_line(PIPE, CASE, [launch(0.1)], 200.0, seconds_left=None)


def test_the_interval_comes_from_launches() -> None:
    # Logarithms -0.01, 0, 0.01: sd 0.01, t(0.975, 2) = 4.302653: 0.04303 * 0.01/sqrt(3).
    launches = [launch(math.exp(x)) for x in (-0.01, 0.0, 0.01)]
    assert step_time_s(launches) == pytest.approx(1)
    assert half_width(launches) == f"±{math.expm1(4.302653 * 0.01 / math.sqrt(3)):.1%}" == "±2.5%"


def test_an_interval_that_says_nothing_takes_no_room() -> None:
    # t(0.975, 1) is 12.706: half of ln 1.2 times that is 1.158.
    assert half_width([launch(0.1), launch(0.12)]) == f"±{math.expm1(1.1583):.0%}" == "±218%"
    assert half_width([launch(0.1), launch(0.2)]) == "±>999%"
    assert half_width([launch(1e-9), launch(1e300)]) == "±>999%"


def test_one_launch_has_the_interval_of_its_steps_or_none() -> None:
    assert half_width([launch(0.1, (0.1,) * 20)]) == "±0.0%"
    # 40 swinging steps: the 14th from either end are 4.3 and 5.6, the median is 4.95.
    times = tuple(t for i in range(20) for t in (3 + i / 10, 3 + (39 - i) / 10))
    assert half_width([launch(4.95, times)]) == f"±{(5.6 - 4.3) / 2 / 4.95:.1%}" == "±13.1%"
    assert half_width([launch(0.1, (0.1, 0.2))]) == "± ?"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.000268, "0.268 ms"),
        (0.0393, "39.30 ms"),
        (0.99998, "999.98 ms"),
        (1.0, "1.00 s"),
        (61.5, "61.50 s"),
    ],
)
def test_times_have_three_digits_and_one_width(seconds: float, text: str) -> None:
    line = case_line(PIPE, CASE, [launch(seconds)], None, None)
    assert line.startswith(f"{CASE.id}  {text:>9}  ")


NAMES = ("mlp", "transformer-s", "torchvision:convnext_base@224", "m" * 70)
CASES = [Case(model=name, world_size=n) for name in NAMES for n in (1, 2)]


def sweep_of(layout: Layout) -> list[str]:
    """The lines of cases whose numbers are of very different lengths."""
    lines = []
    for n, case in enumerate(CASES):
        figures = {"all_reduce_s": 10.0**-n, "overlap_ratio": n / 7, "calls_per_step": 2.0}
        step_s = 10.0 ** (2 - n)
        alone = case.batch_size / step_s / (1.5 - n / 7)  # 50 to 150 per cent of ideal
        made = launch(step_s, communication=figures)
        lines.append(case_line(layout, case, [made], alone, None))
    return lines


def ends(line: str, texts: tuple[str, ...]) -> list[int]:
    return [line.index(text) + len(text) for text in texts]


def test_columns_stand_still_over_a_sweep_in_a_pipe() -> None:
    lines = sweep_of(Layout.of(CASES, 3))
    assert not any("\n" in line for line in lines)
    assert len({line.index(" samples/s") for line in lines}) == 1
    assert len({line.index(" all-reduce") for line in lines if "all-reduce" in line}) == 1
    assert len({line.index(" hidden") for line in lines if "hidden" in line}) == 1


def test_one_name_beyond_all_others_takes_no_room_from_them() -> None:
    layout = Layout.of([*CASES, Case(model="m" * 300)], 3)
    assert case_line(layout, CASE, [launch(0.1)], None, None).index("100.00 ms") < 110


@pytest.mark.parametrize("width", [80, 100, 120, 160, 240])
def test_no_line_of_numbers_is_wider_than_the_terminal(width: int) -> None:
    layout = Layout.of(CASES, 3, width=width, time_left=False)
    numbers = []
    for case, line in zip(CASES, sweep_of(layout), strict=True):
        *name, last = line.split("\n")
        # A name without room is whole, on a line of its own.
        assert name in ([], [case.id])
        assert name or last.startswith(case.id)
        assert len(last) <= width
        numbers.append(last)
    columns = {line.index("%") for line in numbers if "%" in line}
    assert len(columns) == 1  # of the interval, the first column with one
    heading = layout.heading()
    assert (heading is None) == layout.wordy
    if heading is not None:
        assert len(heading) <= width
        assert heading.split() == ["case", *(column.heading for column in COLUMNS)]
        assert heading.index("±") == columns.pop()
        assert "samples/s" not in "".join(numbers)
    else:
        assert all("samples/s" in line for line in numbers)


def test_with_room_words_stand_beside_the_numbers_and_else_above() -> None:
    short = [CASE]
    assert Layout.of(short, 3, width=120).wordy
    assert not Layout.of(short, 3, width=80).wordy
    # At 80 columns the names of the quick matrix's usual cases fit beside their numbers.
    layout = Layout.of([Case(model="a_name_of_19_letters", world_size=2)], 3, width=80)
    line = case_line(layout, Case(model="cifar_cnn", world_size=2), [launch(0.1)], None, None)
    assert "\n" not in line


def test_a_case_without_numbers_says_why_in_the_column_of_numbers() -> None:
    layout = Layout.of(CASES[:4], 3, width=100)
    first = ending_line(layout, CASES[0].id, "skipped", "no GPU")
    second = ending_line(layout, CASES[3].id, "failed", "rank 1 failed")
    assert first.index("skipped: no GPU") == second.index("failed: rank 1 failed")
    assert ending_line(layout, CASES[0].id, "", "one step ran").endswith("  one step ran")
    long = "rank 1 failed " * 20
    assert ending_line(layout, CASES[0].id, "failed", long) == f"{CASES[0].id}  failed: {long}"


def test_a_launch_that_failed_says_so() -> None:
    failure = Failure(phase="wrap", message="no", rank=1)
    line = launch_line(PIPE, [CASE], 0, {CASE.id: failure}, None)
    assert line.startswith("launch  1/3  ddp-mlp-w2")
    assert "rank 1 failed in wrap of ddp-mlp-w2: no" in line


def test_interpreters_share_a_line() -> None:
    block = [CASE.replace(torch="old"), CASE.replace(torch="newer")]
    layout = Layout.of(block, 12)
    answers: dict[str, LaunchResult | Failure] = {
        block[0].id: launch(0.1),
        block[1].id: launch(0.108),
    }
    line = launch_line(layout, block, 13, answers, 90)
    assert " ".join(line.split()) == (
        "confirm 2/12 ddp-mlp-w2 old 100.00 ms newer 108.00 ms +8.0% 1 min 30 s left"
    )
    other = launch_line(layout, [c.replace(model="x") for c in block], 0, {}, 90)
    assert other.startswith("launch   1/12  ddp-x-w2")
    # The same columns, whatever the label and the number.
    answers[block[1].id] = launch(0.00108)
    again = launch_line(layout, block, 0, answers, None)
    assert again.index("ddp-mlp") == line.index("ddp-mlp")
    assert ends(again, ("100.00 ms", "1.080 ms", "%")) == ends(
        line, ("100.00 ms", "108.00 ms", "%")
    )

    answers[block[1].id] = Failure(phase="wrap", message="no", rank=1)
    line = launch_line(layout, block, 0, answers, None)
    assert "old   100.00 ms" in line
    assert "newer failed: rank 1 failed in wrap of ddp-mlp-w2-torch_newer: no" in line
    assert "%" not in line


def test_lines_of_launches_keep_to_the_terminal() -> None:
    blocks = [[case.replace(torch=label) for label in ("t29", "t214")] for case in CASES]
    layout = Layout.of([case for block in blocks for case in block], 12, width=80, time_left=False)
    for block in blocks:
        answers: dict[str, LaunchResult | Failure] = {case.id: launch(0.123456) for case in block}
        *name, last = launch_line(layout, block, 11, answers, None).split("\n")
        assert len(last) <= 80
        assert (name[0] if name else last).startswith(
            f"launch  12/12  {block[0].replace(torch='').id}"
        )


def test_what_an_encoding_cannot_hold_is_spelled() -> None:
    assert legible("±3 %", "utf-8") == "±3 %"
    assert legible("±3 % … −2\u00a0µs", "ascii") == "+-3 % ... -2 us"
    assert legible("modèle", "latin-1") == "modèle"
    assert legible("模型", "ascii") == "\\u6a21\\u578b"
    assert legible("±", None) == legible("±", "no such encoding") == "+-"
    layout = Layout.of([CASE], 3, width=80, encoding="ascii")
    assert (layout.heading() or "").isascii()
    intervals = [(0.1, 0.1), (0.1, 0.101), (0.1, 0.11), (0.1, 0.2)]
    lines = [case_line(layout, CASE, [*map(launch, two)], 400.0, None) for two in intervals]
    assert all(line.isascii() for line in lines)
    assert [line.count("+-") for line in lines] == [1, 1, 1, 1]
    assert len({line.index("%") for line in lines}) == 1


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.6, 125, 3600, 9000)] == [
        *("0 s", "1 min 00 s", "2 min 05 s", "1 h 00 min", "2 h 30 min")
    ]
