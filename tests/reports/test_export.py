"""Exports: what other tools and people's own analysis get, read back by what they are for."""

from __future__ import annotations

import html
import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports.export import per_launch
from reports.export_markdown import cases
from reports.export_table import COLUMNS, launch_table
from reports.frames import rows
from reports.load import load
from reports.stats import with_estimates
from reports.tables import compute
from tests.reports.builder import case, child, document, entry, outcome, sweep
from tests.reports.test_command_line import refusal, reports

Written = Callable[..., Path]
DDP = case(strategy="ddp", world_size=2)
TIMES = [0.10, 0.12, 0.11, 0.15]


def exported(*entries: dict[str, Any], **own: Any) -> tuple[list[dict[str, Any]], list[str]]:
    made, notes = per_launch(document(list(entries), **own))
    return made["benchmarks"], notes


def test_a_round_is_a_launch() -> None:
    ((made,), notes) = exported(entry(DDP, TIMES))
    stats = made["stats"]
    assert notes == []
    assert stats["data"] == TIMES
    assert (stats["rounds"], stats["iterations"]) == (4, 1)
    assert stats["stddev"] == pytest.approx(statistics.stdev(TIMES))
    assert stats["mean"] == pytest.approx(0.12) and stats["ops"] == pytest.approx(1 / 0.12)
    assert (stats["min"], stats["max"]) == (0.10, 0.15)
    assert stats["median"] == pytest.approx(0.115) and stats["iqr"] == pytest.approx(0.03)


def test_it_has_every_statistic_that_pytest_benchmark_writes() -> None:
    """Those of a file written by pytest-benchmark, in its order."""
    ((made,), _) = exported(entry(DDP, TIMES))
    assert list(made["stats"]) == [
        *("min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers"),
        *("stddev_outliers", "outliers", "ld15iqr", "hd15iqr", "ops", "total", "data"),
        "iterations",
    ]


def test_all_else_stays_as_it_was() -> None:
    before = document([entry(DDP, TIMES)])
    after, _ = per_launch(before)
    assert {key: after[key] for key in after if key != "benchmarks"} == {
        key: before[key] for key in before if key != "benchmarks"
    }
    (old,), (new,) = before["benchmarks"], after["benchmarks"]
    assert {key: new[key] for key in new if key not in ("stats", "extra_info")} == {
        key: old[key] for key in old if key not in ("stats", "extra_info")
    }
    assert new["extra_info"]["case"] == old["extra_info"]["case"]
    assert new["extra_info"]["result"]["launches"] == old["extra_info"]["result"]["launches"]


def test_a_launch_of_several_children_is_their_median() -> None:
    """Not the median of all its steps; and flagged cases' second measurement is no round."""
    children = [[0.10, 0.13, 0.11], [0.12, 0.1192, 0.1201]]
    ((made,), _) = exported(entry(DDP, children=children, confirmation=[0.2, 0.2]))
    assert made["stats"]["data"] == [0.11, 0.12]
    assert "child_of_round" not in made["extra_info"]["result"]


def test_our_own_reports_read_the_same_step_times(written: Written) -> None:
    content = document([entry(DDP, TIMES), entry(case(), children=[[0.1, 0.3, 0.2]] * 2)])
    made, _ = per_launch(content)
    before, after = (
        rows(with_estimates(records.cells, records.launches))
        for records in (load([written(content)]), load([written(made, "launches.json")]))
    )
    names = ("id", "step_s", "step_low_s", "step_high_s", "throughput_samples_per_s")
    assert [{name: row[name] for name in names} for row in after] == [
        {name: row[name] for name in names} for row in before
    ]


def test_what_is_left_out_is_said() -> None:
    broken = case(world_size=4)
    nothing = entry(case(world_size=8), 0.1)
    nothing["extra_info"]["result"]["launches"] = []
    nothing["stats"] = {}
    made, notes = exported(
        entry(DDP, TIMES),
        entry(broken, TIMES),
        nothing,
        outcomes=[outcome(DDP), outcome(broken, "failed")],
    )
    assert [one["param"] for one in made] == ["ddp-resnet18-w2"]
    assert notes == [
        "test_scaling[ddp-resnet18-w4] is left out: it failed after it was timed",
        "test_scaling[ddp-resnet18-w8] is left out: the file has no step time of it",
    ]


def test_one_launch_has_no_restart_noise_to_tell() -> None:
    made, notes = exported(entry(DDP, [0.1]), entry(case(), TIMES))
    assert made[0]["stats"]["stddev"] == 0
    assert notes == [
        "1 of 2 cases have one launch: their stddev of 0 is not known, not none; measure with "
        "--launches 2 or more"
    ]


def test_pytest_benchmark_compares_them(written: Written, tmp_path: Path) -> None:
    paths = []
    for name, factor in (("base", 1.0), ("new", 1.5)):
        path = tmp_path / f"{name}-launches.json"
        source = written(document([entry(DDP, [time * factor for time in TIMES])]), f"{name}.json")
        assert reports("export", str(source), "--per-launch", str(path)).returncode == 0
        paths.append(str(path))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest_benchmark", "compare", *paths),
            *("--columns=mean,stddev,rounds", "--time-unit=ms"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    base, new = (line for line in done.stdout.splitlines() if line.startswith("test_scaling["))
    assert "base-lau" in base or "base-launches" in base
    numbers = base.split(")", 1)[1].split()
    assert numbers[0] == "120.0000" and "21.6025" in numbers
    assert new.split(")", 1)[1].split()[0] == "180.0000"


def test_a_table_has_a_row_per_case_and_launch(written: Written) -> None:
    broken = case(strategy="ddp", world_size=4)
    children = [[0.10, 0.13, 0.11]]
    made = document(
        [entry(DDP, TIMES, confirmation=[0.2]), entry(case(strategy="single"), children=children)],
        outcomes=[
            outcome(DDP),
            outcome(broken, "failed", failure={"type": "OSError", "message": "no space"}),
        ],
    )
    found = rows(launch_table(load([written(made)])))
    assert [(row["id"], row["launch"], row["step_s"], row["confirmation"]) for row in found] == [
        *(("ddp-resnet18-w2", n, time, False) for n, time in enumerate(TIMES)),
        ("single-resnet18-w1", 0, 0.11, False),
        ("ddp-resnet18-w2", 4, 0.2, True),
        ("ddp-resnet18-w4", None, None, None),
    ]
    first, last = found[0], found[-1]
    assert first["throughput_samples_per_s"] == pytest.approx(64 / 0.10)
    # Of the slowest rank: builder.launch gives the first rank the longer all-reduce.
    assert first["all_reduce_s"] == pytest.approx(0.05) and first["world_size"] == 2
    assert found[4]["children"] == 3 and found[4]["all_reduce_s"] is None
    assert (last["outcome"], last["reason"]) == ("failed", "OSError: no space")
    assert last["host"] == first["host"] == "bench-1"
    assert last["world_size"] == 4


def test_a_rank_without_a_figure_may_be_the_slowest(written: Written) -> None:
    made = entry(DDP, [0.1])
    made["extra_info"]["result"]["launches"][0]["ranks"][1]["communication"] = None
    (row,) = rows(launch_table(load([written(document([made]))])))
    assert row["all_reduce_s"] is None


def test_csv_is_read_back_as_it_was(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    source = written(sweep())
    done = reports("export", str(source), "--csv", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    expected = launch_table(load([source]))
    found = pd.read_csv(path)
    assert list(found.columns) == list(COLUMNS)
    assert found["step_s"].dropna().tolist() == expected["step_s"].dropna().tolist()
    assert found["id"].tolist() == expected["id"].tolist()
    assert reports("export", str(source), "--csv", "-").stdout == path.read_text()


def test_several_files_are_one_table(written: Written) -> None:
    paths = [written(document([entry(DDP, TIMES)]), f"{name}.json") for name in ("a", "b")]
    found = launch_table(load(paths))
    assert found["file"].tolist() == ["a.json"] * 4 + ["b.json"] * 4


def test_parquet_keeps_values_and_kinds(written: Written, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    path = tmp_path / "out.parquet"
    source = written(sweep())
    assert reports("export", str(source), "--parquet", str(path)).returncode == 0
    expected = launch_table(load([source]))
    found = pd.read_parquet(path)
    assert found.dtypes.astype(str).to_dict() == expected.dtypes.astype(str).to_dict()
    assert rows(found) == rows(expected)


def test_parquet_without_pyarrow_says_what_to_install(written: Written, tmp_path: Path) -> None:
    if importlib.util.find_spec("pyarrow") or importlib.util.find_spec("fastparquet"):
        pytest.skip("there is a library for Parquet")
    line = refusal("export", str(written(sweep())), "--parquet", str(tmp_path / "out.parquet"))
    assert "needs pyarrow, which is not installed; pip install pyarrow" in line
    assert not (tmp_path / "out.parquet").exists()


def test_markdown_is_the_table_of_cases(written: Written) -> None:
    noisy = [0.98, 1.01, 1.0]
    content = document(
        [
            entry(case(strategy="single"), [0.1 * factor for factor in noisy]),
            entry(DDP, [0.125 * factor for factor in noisy], label="odd <b>|label"),
            entry(case(strategy="ddp", world_size=4), [0.2]),
        ],
        outcomes=[outcome(case(backend="nccl", device="cuda"), "skipped", reason="needs 1 GPU")],
    )
    text = cases(compute(load([written(content)])))
    head, rule, single, ddp, four, blank, skipped = text.splitlines()
    assert len({line.count(" | ") for line in (head, single, four)}) == 1
    assert rule == "| :-- | --: | --: | --: | --: | --: | --: | :-- |"
    cells = [cell.strip() for cell in ddp.strip("| ").split(" | ")]
    assert cells[0] == "ddp-resnet18-w2"
    assert cells[1] == "125 ms" and "to" in cells[2]
    # 64 samples in 125 ms over twice 32 in 100 ms; both have the same noise in each launch.
    assert cells[4] == "80.0 % (80.0 to 80.0 %)"
    assert cells[5] == "–" and cells[6] == "3"
    assert "odd <b>|label." in html.unescape(cells[7]) and "<" not in cells[7]
    assert "One launch: restart noise is not in the interval." in four
    assert (blank, skipped) == ("", "- ddp-resnet18-w1-nccl-cuda: skipped: needs 1 GPU")


def test_markdown_of_several_files_names_them(written: Written) -> None:
    paths = [written(document([entry(DDP, TIMES)]), f"{name}.json") for name in ("a_1", "b")]
    done = reports("export", *map(str, paths), "--markdown", "-")
    assert done.returncode == 0, done.stderr
    headings = [line for line in done.stdout.splitlines() if line.startswith("#")]
    assert headings == ["### a_1.json", "### b.json"]


def test_files_of_other_suites_are_exported_too(shared: Callable[[str], Path]) -> None:
    path = shared("b01_weak_scaling.json")
    before = json.loads(path.read_text())
    made, notes = per_launch(before)
    assert len(made["benchmarks"]) == len(before["benchmarks"]) > 0
    assert notes[0].startswith(f"{len(made['benchmarks'])} of {len(made['benchmarks'])} cases")
    table = launch_table(load([path]))
    assert len(table) == len(before["benchmarks"]) and table["step_s"].notna().all()
    assert "–" in cases(compute(load([path])))


def test_refusals(written: Written, tmp_path: Path) -> None:
    source, out = str(written(sweep())), str(tmp_path / "out")
    content = Path(source).read_text()
    assert "nothing to write" in refusal("export", source)
    assert "is to be read; choose another file with --csv" in refusal(
        "export", source, "--csv", source
    )
    assert "--per-launch is for one FILE" in refusal("export", source, source, "--per-launch", out)
    assert "--csv and --markdown both want standard output" in refusal(
        "export", source, "--csv", "-", "--markdown", "-"
    )
    assert f"both want {out}" in refusal("export", source, "--csv", out, "--markdown", out)
    assert "give it a file" in refusal("export", source, "--parquet", "-")
    assert "no such file" in refusal("export", out, "--csv", "-")
    nowhere = str(tmp_path / "no" / "such.json")
    assert "cannot be written (No such file or directory); choose another with" in refusal(
        "export", source, "--per-launch", nowhere
    )
    assert Path(source).read_text() == content


def test_children_of_unknown_memory_leave_it_blank(written: Written) -> None:
    made = entry(DDP, children=[[0.1, 0.1, 0.1]])
    launch = made["extra_info"]["result"]["launches"][0]
    launch["children"] = [child(0.1), child(0.1, peak_bytes=None), child(0.1)]
    (row,) = rows(launch_table(load([written(document([made]))])))
    assert row["peak_bytes"] is None and row["init_s"] == 0.05
