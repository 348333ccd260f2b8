"""``python -m reports history``: stores as pytest-benchmark has them, and what is said of them."""

from __future__ import annotations

import copy
import csv
import html
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from reports import history_figures, history_page
from reports.history_json import to_json
from reports.history_page import render
from reports.history_series import History, Series, history
from reports.history_store import read_store
from reports.history_text import markdown
from reports.history_words import headline, sentences, verdict
from tests.reports.builder import MACHINE, case, document, entry, outcome

Shared = Callable[[str], Path]
ROOT = Path(__file__).resolve().parents[2]
FIRST = datetime(2026, 3, 1, 10, tzinfo=timezone.utc)
NOISE = (1.0, 1.004, 0.997, 1.001, 0.999, 1.002, 0.998, 1.003)


def run(
    step_s: float,
    day: int,
    torch: str = "2.14.1+cu130",
    fields: dict[str, Any] | None = None,
    **own: Any,
) -> dict[str, Any]:
    """One file of one case: three launches around ``step_s``, on day ``day``."""
    fields = fields or case(strategy="ddp", world_size=2)
    one = entry(fields, [step_s * 0.99, step_s, step_s * 1.01])
    stamp(one, day, torch)
    made = document([one], **own)
    made["datetime"] = (FIRST + timedelta(days=day)).isoformat()
    return made


def stamp(one: dict[str, Any], day: int, torch: str) -> None:
    for launch in one["extra_info"]["result"]["launches"]:
        launch["started_unix_s"] = FIRST.timestamp() + 86400 * day + launch["launch"]
        for rank in launch["ranks"]:
            rank["software"]["torch"] = torch


def saved(folder: Path, documents: Sequence[Any]) -> Path:
    """As --benchmark-autosave has them: numbered, in a folder for the machine."""
    store = folder / ".benchmarks" / "Linux-CPython-3.11-64bit"
    store.mkdir(parents=True)
    for n, content in enumerate(documents):
        (store / f"{n + 1:04}_run.json").write_text(json.dumps(content))
    return folder


def read(*paths: Path) -> History:
    return history(read_store(paths))


def only(made: History) -> Series:
    (series,) = made.series
    return series


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reports", "history", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def shifted(first: int, second: int, factor: float = 1.1, **changes: Any) -> list[dict[str, Any]]:
    """``first`` runs at 100 ms, then ``second`` at another level, a day apart."""
    return [
        run(0.1 * NOISE[n % 8] * (factor if n >= first else 1), n, **changes)
        for n in range(first + second)
    ]


# The public cases


def b19(shared: Shared, folder: Path) -> Path:
    runs = json.loads(shared("b19_noise_then_shift.json").read_text())
    assert len(runs) == 12
    return saved(folder, runs)


def test_e06_a_dip_is_no_alarm_and_a_lasting_shift_is(shared: Shared, tmp_path: Path) -> None:
    store = b19(shared, tmp_path)
    done = command(store, "-o", tmp_path / "page.html", "--json", "-", "--fail-on-shift")
    assert done.returncode == 1, done.stderr
    (series,) = json.loads(done.stdout)["series"]
    (shift,) = series["shifts"]
    assert shift["at"] == 8
    assert shift["first"]["file"] == "0009_run.json"
    assert shift["ratio"] == pytest.approx(601.5 / 540.5, rel=1e-4)
    assert shift["worse"]
    assert not shift["of_version"]
    assert "throughput −10.1 %" in series["sentences"][0].replace("\u00a0", " ")
    assert "torch stayed 2.14.1+cu130" in series["sentences"][0]
    # Without the runs after the shift: the dip at index 4 is there, and no alarm.
    for path in sorted(store.rglob("*.json"))[8:]:
        path.unlink()
    done = command(store, "-o", tmp_path / "page.html", "--json", "-", "--fail-on-shift")
    assert done.returncode == 0
    assert json.loads(done.stdout)["series"][0]["shifts"] == []


def test_e04_cu_cpu_and_rocm_are_never_one_series(shared: Shared) -> None:
    made = read(*(shared(f"b09_version_{n:02}.json") for n in (4, 5, 6)))
    of_family = {
        one.where.family: [point.version.raw for point in one.points] for one in made.series
    }
    assert of_family == {
        "cu": ["2.14.1+cu130"],
        "cpu": ["2.14.1+cpu"],
        "rocm": ["2.14.0+rocm7.2"],
    }
    assert not any(one.shifts for one in made.series)


def test_e01_and_e02_versions_in_order_with_their_own_text(shared: Shared, tmp_path: Path) -> None:
    made = read(*(shared(f"b09_version_{n:02}.json") for n in range(14)))
    shown = {
        (one.where.family, one.where.channel): [version.shown for version in one.versions]
        for one in made.series
    }
    assert shown == {
        ("cu", "release"): ["2.9.1+cu128", "2.10.0+cu128", "2.14.1+cu130"],
        ("cu", "nightly"): ["2.15.0.dev20261001+cu130"],
        ("unknown", "source"): ["2.15.0a0+git1a2b3c4"],
        ("cpu", "release"): ["2.14.1+cpu"],
        ("rocm", "release"): ["2.14.0+rocm7.2"],
        ("unknown", "rc"): ["2.14.0rc3"],
        ("cu", "source"): ["2.0.0.nv23.05", "2.9.0a0+50eac811a6.nv25.09"],
        ("rocm", "source"): ["2.7.0a0+rocm7.0.0.dev0.515115ea", "3.4.0+gitb2c0ea43+rocm7.1.0"],
        ("unknown", "unknown"): ["version not stated", "unknown"],
    }
    page = render(made)
    for text in ("2.0.0.nv23.05", "3.4.0+gitb2c0ea43+rocm7.1.0", "version not stated"):
        assert text in page


def test_e08_time_and_rate_have_their_own_direction(tmp_path: Path) -> None:
    def rate(value: float, day: int) -> dict[str, Any]:
        made = run(0.1, day)
        (one,) = made["benchmarks"]
        one["params"] = {"world_size": 2, "batch_size": 32, "strategy": "ddp"}
        one["extra_info"] = {"throughput_samples_per_s": value}
        one["stats"] = {}
        return made

    rates = [rate((600 if n < 6 else 660) * NOISE[n % 8], n) for n in range(12)]
    (tmp_path / "rate").mkdir()
    by_rate = only(read(saved(tmp_path / "rate", rates)))
    (tmp_path / "time").mkdir()
    by_time = only(read(saved(tmp_path / "time", shifted(6, 6))))
    assert (by_rate.metric, by_rate.lower_is_better) == ("throughput_samples_per_s", False)
    assert (by_time.metric, by_time.lower_is_better) == ("step_s", True)
    assert by_rate.shifts[0].shift.ratio == pytest.approx(1.1, rel=0.01)
    assert by_time.shifts[0].shift.ratio == pytest.approx(1.1, rel=0.01)
    assert (by_rate.shifts[0].worse, by_time.shifts[0].worse) == (False, True)
    assert (by_rate.standing, by_time.standing is None) == (None, False)


# The store


def test_what_is_no_result_is_left_out_and_named(tmp_path: Path) -> None:
    store = saved(tmp_path, shifted(4, 0))
    machine = store / ".benchmarks" / "Linux-CPython-3.11-64bit"
    (machine / "package.json").write_text('{"name": "x"}')
    (machine / "0009_cut.json").write_text('{"benchmarks": [')
    (machine / "0010_other.json").write_text('{"benchmarks": [{"params": {"n": 1}}]}')
    (machine / "run.journal.jsonl").write_text("{}\n")
    made = read(store)
    assert made.files == 4
    (note,) = made.notes
    assert note.startswith("3 files left out: ")
    assert "package.json: is no pytest-benchmark file" in note
    assert "0009_cut.json: broken JSON at line 1" in note
    assert "0010_other.json: has no data-parallel case" in note
    assert "jsonl" not in note


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no .json file in it"),
        ("{}", "no pytest-benchmark file of data-parallel cases among 1 .json files"),
    ],
)
def test_folders_without_results(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    assert_refused(message, tmp_path)


def test_bad_files_and_options(tmp_path: Path) -> None:
    assert_refused("none.json: no such file", tmp_path / "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    assert_refused("bad.json: is no pytest-benchmark file", bad)
    bad.write_text('{"benchmarks": []}')
    assert_refused("no data, its list of benchmarks is empty", bad)
    bad.write_text("")
    assert_refused("bad.json: empty (0 bytes)", bad)
    bad.write_text(json.dumps(run(0.1, 0)))
    assert_refused("--delta 3: must lie between 0 and 1", bad, "--delta", "3")
    assert_refused("both want standard output", bad, "--json", "-", "--markdown", "-")
    assert_refused("choose another with --json", bad, "--json", tmp_path / "no" / "x.json")


def assert_refused(message: str, *arguments: str | Path) -> None:
    folder = next(path for path in arguments if isinstance(path, Path))
    page = (folder if folder.is_dir() else folder.parent) / "page.html"
    done = command(*arguments, "-o", page)
    assert done.returncode == 2, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_a_run_in_two_files_is_counted_once(tmp_path: Path) -> None:
    """The store and --benchmark-json of one run: its time of writing and stats.data differ."""
    runs = shifted(4, 0)
    again = copy.deepcopy(runs[2])
    again["datetime"] = (datetime.fromisoformat(again["datetime"]) + timedelta(hours=5)).isoformat()
    del again["benchmarks"][0]["stats"]["data"]
    store = saved(tmp_path, runs)
    (store / "results").mkdir()
    (store / "results" / "run.json").write_text(json.dumps(again))
    made = read(store)
    assert len(only(made).points) == 4
    assert made.notes == ("1 result is in 0003_run.json and again in run.json: counted once",)
    # Given twice, or as a folder and a file in it: read once, and nothing to be said.
    assert read(store / ".benchmarks", *sorted(store.rglob("0*.json"))).notes == ()


def test_other_suites_results_are_copies_at_one_time_only(shared: Shared, tmp_path: Path) -> None:
    one = json.loads(shared("b10_machine_a.json").read_text())
    moment = datetime.fromisoformat(one["datetime"])

    def later(**by: float) -> dict[str, Any]:
        return one | {"datetime": (moment + timedelta(**by)).isoformat()}

    made = read(saved(tmp_path, [one, later(milliseconds=3), later(days=1), later(days=2)]))
    assert len(only(made).points) == 3  # equal numbers on three days are three runs
    assert len(made.notes) == 1


# What is one series, and what is not


def test_nothing_joins_machines_threads_channels_or_cases(tmp_path: Path) -> None:
    runs = [
        run(0.1, 0),
        run(0.1, 1, machine=MACHINE | {"host": "bench-2"}),
        run(0.1, 2, machine=MACHINE | {"cpu": "Other CPU"}),
        run(0.1, 3, torch="2.14.1+cpu"),
        run(0.1, 4, torch="2.15.0.dev20261001+cu130"),
        run(0.1, 5, fields=case(strategy="ddp", world_size=4)),
        run(0.1, 6, fields=case(strategy="ddp", world_size=2, bucket_cap_mb=25)),
        run(0.1, 7, fields=case(strategy="ddp", world_size=2, model="vgg11")),
    ]
    threads = run(0.1, 8)
    for launch in threads["benchmarks"][0]["extra_info"]["result"]["launches"]:
        for rank in launch["ranks"]:
            rank["threads"] = 2
    gpu = run(0.1, 9)
    for launch in gpu["benchmarks"][0]["extra_info"]["result"]["launches"]:
        for rank in launch["ranks"]:
            rank["device_name"] = "Example GPU"
    made = read(saved(tmp_path, [*runs, threads, gpu]))
    assert len(made.series) == 10
    assert all(len(one.points) == 1 for one in made.series)


def test_cuda_tags_of_one_family_are_one_series_and_said(tmp_path: Path) -> None:
    old, new = shifted(5, 0, torch="2.9.1+cu128"), shifted(0, 5, torch="2.13.0+cu130")
    for n, one in enumerate(new):
        stamp(one["benchmarks"][0], 10 + n, "2.13.0+cu130")
        one["datetime"] = (FIRST + timedelta(days=10 + n)).isoformat()
    series = only(read(saved(tmp_path, [*old, *new])))
    (marked,) = series.shifts
    assert marked.of_version
    assert "With torch 2.9.1+cu128 -> 2.13.0+cu130." in sentences(series)[0]


def labelled(day: int, versions: dict[str, str], values: dict[str, float]) -> dict[str, Any]:
    """One run of several interpreters."""
    entries = []
    for label, torch in versions.items():
        one = entry(
            case(strategy="ddp", world_size=2, torch=label),
            [values[label] * f for f in (0.99, 1.0, 1.01)],
        )
        stamp(one, day, torch)
        entries.append(one)
    made = document(entries, interpreters={label: {"torch": v} for label, v in versions.items()})
    made["datetime"] = (FIRST + timedelta(days=day)).isoformat()
    return made


def test_every_label_is_a_point_of_its_version(tmp_path: Path) -> None:
    versions = {"old": "2.13.0+cpu", "new": "2.14.1+cpu"}
    runs = [
        labelled(n, versions, {"old": 0.1 * NOISE[n], "new": 0.112 * NOISE[n]}) for n in range(5)
    ]
    series = only(read(saved(tmp_path, runs)))
    assert series.case == "ddp-resnet18-w2"
    assert [point.version.raw for point in series.points] == ["2.13.0+cpu"] * 5 + ["2.14.1+cpu"] * 5
    assert [point.label for point in series.points] == ["old"] * 5 + ["new"] * 5
    (marked,) = series.shifts
    assert marked.shift.at == 5
    assert marked.of_version


def test_labels_with_the_same_torch_are_one_run_of_it(tmp_path: Path) -> None:
    """Two labels of three runs do not make six runs, and the run's value is between theirs."""
    versions = {"a": "2.14.1+cpu", "b": "2.14.1+cpu"}
    runs = [labelled(n, versions, {"a": 0.1, "b": 0.121}) for n in range(3)]
    series = only(read(saved(tmp_path, runs)))
    assert len(series.points) == 6
    assert list(series.runs) == pytest.approx([0.11] * 3, rel=1e-3)
    assert series.too_few


def test_a_version_is_not_blamed_for_what_the_machine_did(tmp_path: Path) -> None:
    """The machine became slower after seven runs that hold both versions, which are alike. In the
    order of versions the old one's last runs are slow and the new one's first are fast."""
    versions = {"old": "2.13.0+cpu", "new": "2.14.1+cpu"}
    runs = []
    for n in range(12):
        level = 0.1 if n < 7 else 0.12
        runs.append(labelled(n, versions, dict.fromkeys(versions, level * NOISE[n % 8])))
    series = only(read(saved(tmp_path, runs)))
    assert [marked.shift.at for marked in series.shifts] == [7, 12, 19]
    assert not any(marked.of_version for marked in series.shifts)
    assert "the two versions differ by +0.0 % only" in sentences(series)[1].replace("\u00a0", " ")


def test_a_commit_that_changed_at_the_shift_is_said(tmp_path: Path) -> None:
    runs = shifted(5, 5)
    for n, one in enumerate(runs):
        one["commit_info"] = {"id": ("a" if n < 5 else "b") * 40}
    (sentence,) = sentences(only(read(saved(tmp_path, runs))))
    assert "Machine or code (commit aaaaaaaaaa -> bbbbbbbbbb)" in sentence


# What is said


def test_too_few_runs(tmp_path: Path) -> None:
    made = read(saved(tmp_path, shifted(3, 2, factor=2)))
    assert verdict(only(made)) == "too few runs to tell (5, at least 6 needed)"
    assert "1 series with too few runs to tell (5 files)" in headline(made)


def test_conflicts_and_results_that_do_not_count(tmp_path: Path) -> None:
    runs = shifted(6, 0)
    runs[0]["benchmarks"].append(run(0.3, 0)["benchmarks"][0])  # two results for one case
    runs[1]["lockstep"]["outcomes"][0]["outcome"] = "failed"
    runs[1]["lockstep"]["outcomes"][0]["reason"] = "gradients differ"
    broken = case(strategy="ddp", world_size=8)
    runs[2]["lockstep"]["outcomes"].append(
        outcome(broken, "failed", failure={"phase": "timed", "message": "out of memory"})
    )
    runs[2]["lockstep"]["outcomes"].append(
        outcome(case(strategy="dp", world_size=2), "skipped", reason="needs 2 GPUs")
    )
    made = read(saved(tmp_path, runs))
    series = only(made)
    assert len(series.points) == 4
    assert series.notes == (
        "two results for one case in 0001_run.json: neither is counted",
        "1 of 5 results left out: not counted: the case failed after it was timed",
    )
    text = markdown(made)
    assert "out of memory" in text
    assert "gradients differ" in text
    assert "needs 2 GPUs" not in text


def test_intervals_stand_where_there_are_several_launches(tmp_path: Path) -> None:
    runs = shifted(3, 0)
    result = runs[1]["benchmarks"][0]["extra_info"]["result"]
    result["launches"] = result["launches"][:1]
    first, second, _ = only(read(saved(tmp_path, runs))).points
    assert first.launches == 3
    assert first.low is not None and first.high is not None
    # Student's t on the three launches' logarithms, by hand: t(2) = 4.302653.
    logs = [math.log(0.1 * f) for f in (0.99, 1.0, 1.01)]
    mean = sum(logs) / 3
    half = 4.302653 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    assert first.value == pytest.approx(math.exp(mean), rel=1e-9)
    assert (first.low, first.high) == pytest.approx(
        (math.exp(mean - half), math.exp(mean + half)), rel=1e-5
    )
    assert (second.launches, second.low, second.high) == (1, None, None)


def test_exit_status_of_fail_on_shift(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    recovered = [*shifted(6, 6), *(run(0.1 * NOISE[n], 12 + n) for n in range(6))]
    for name, runs, status in (
        ("worse", shifted(6, 6), 1),
        ("better", shifted(6, 6, factor=0.9), 0),
        ("steady", shifted(12, 0), 0),
        ("recovered", recovered, 0),
    ):
        (tmp_path / name).mkdir()
        store = saved(tmp_path / name, runs)
        if status:
            assert command(store, "-o", page).returncode == 0  # advice, unless it is asked for
        done = command(store, "-o", page, "--fail-on-shift")
        assert done.returncode == status, (name, done.stdout)
        assert done.stdout.splitlines()[-1] == str(page)


def test_the_exports_agree(tmp_path: Path) -> None:
    store = saved(tmp_path, shifted(6, 6))
    out = tmp_path / "out"
    out.mkdir()
    folder = out / "csv"
    done = command(
        store / ".benchmarks",
        *("-o", out / "p.html", "--json", out / "h.json"),
        *("--markdown", "-", "--csv", folder),
    )
    assert done.returncode == 0, done.stderr
    made = json.loads((out / "h.json").read_text())
    assert made == json.loads(json.dumps(to_json(read(store / ".benchmarks")), allow_nan=False))
    (series,) = made["series"]
    assert done.stdout == markdown(read(store / ".benchmarks"))
    assert done.stderr.splitlines() == [str(out / "p.html")]
    assert "| ddp-resnet18-w2 | 12 | 2.14.1+cu130 | 110 ms | +10.0 % | worse: " in done.stdout
    # What apache-otava needs: the columns its configuration names, numbers, and times in order.
    config = json.loads((folder / "otava.yaml").read_text())
    assert config["test_groups"] == {"lockstep": ["series-1"]}
    test = config["tests"]["series-1"]
    assert test["type"] == "csv"
    assert test["metrics"] == {"step_s": {"column": "step_s", "direction": -1}}
    with open(test["file"], newline="") as file:
        table = list(csv.DictReader(file))
    assert {test["time_column"], *test["attributes"], "step_s"} == set(table[0])
    assert [float(row["step_s"]) for row in table] == series["runs"]
    times = [datetime.fromisoformat(row["time"]) for row in table]
    assert times == sorted(times)


def test_a_page_draws_the_first_series_and_lists_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_page, "MOST_DRAWN", 3)
    fields = [case(strategy="ddp", world_size=2, batch_size=n + 1) for n in range(5)]
    runs = []
    for day in range(2):
        entries = [entry(one, 0.1) for one in fields]
        for one in entries:
            stamp(one, day, "2.14.1+cu130")
        made = document(entries)
        made["datetime"] = (FIRST + timedelta(days=day)).isoformat()
        runs.append(made)
    page = render(read(saved(tmp_path, runs)))
    assert page.count("<svg") == 3
    assert "The first 3 series are drawn" in page
    assert "The other 2 are in the table" in page
    for one in fields:
        assert f"ddp-resnet18-w2-b{one['batch_size']}<" in page


def test_names_do_not_become_markdown_or_html(tmp_path: Path) -> None:
    hostile = "<script>x</script>|`[a](http://b) ![c](d) **e**"
    runs = shifted(3, 3, torch=hostile)
    for one in runs:
        one["benchmarks"][0]["extra_info"]["id"] = hostile
        one["lockstep"]["machine"] = MACHINE | {"host": hostile}
    made = read(saved(tmp_path, runs))
    text = markdown(made)
    assert "<" not in text
    shown = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert not re.search("<(script|a|img|strong|code)[ >]", shown.partition("</p>")[2])
    cells = re.findall("<td.*?>(.*?)</td>", shown)
    assert html.unescape(cells[0]) == hostile  # and the bar in it begins no other cell
    assert "<script>" not in render(made)
    done = command(tmp_path, "-o", tmp_path / "p.html")
    assert "<script>x</script>|`[a]" in done.stdout  # a terminal shows it as it is


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("hours", [0.01, 1, 7, 50, 71, 24 * 12, 24 * 80, 24 * 400, 24 * 3000])
def test_every_span_of_dates_has_an_axis(tmp_path: Path, hours: float) -> None:
    runs = shifted(3, 0)
    runs[2]["datetime"] = (FIRST + timedelta(days=1, hours=hours)).isoformat()
    runs[0]["datetime"] = runs[1]["datetime"]
    drawn = history_figures.over_dates(only(read(saved(tmp_path, runs))), "x")
    assert drawn is not None
    assert drawn.count('id="x-xtick_') >= 2


def test_what_is_drawn_over_what(tmp_path: Path) -> None:
    """Over versions with several, over dates with several; a text alternative with the numbers."""
    (tmp_path / "one").mkdir()
    one = only(read(saved(tmp_path / "one", shifted(6, 6))))
    assert history_figures.over_versions(one, "x") is None
    by_date = history_figures.over_dates(one, "x") or ""
    assert "+10.0\u00a0% worse" in by_date
    assert "torch 2.14.1+cu130: 12 results, 99.7\u00a0ms to 110\u00a0ms." in by_date
    # Later versions measured first: the shift is marked over versions, and over dates it is not.
    (tmp_path / "two").mkdir()
    runs = shifted(6, 0, torch="2.14.1+cpu") + [
        run(0.09 * NOISE[n], 10 + n, torch="2.13.0+cpu") for n in range(6)
    ]
    two = only(read(saved(tmp_path / "two", runs)))
    assert "+11.1\u00a0% worse" in (history_figures.over_versions(two, "x") or "")
    assert "% worse</text>" not in (history_figures.over_dates(two, "x") or "")


def test_no_dates_no_commits(tmp_path: Path) -> None:
    """Files stripped of both: in the order of their names, over versions only, and said."""
    runs = shifted(4, 4)
    for one in runs:
        del one["datetime"], one["commit_info"]
    made = read(saved(tmp_path, runs))
    series = only(made)
    assert series.shifts[0].first.file == "0005_run.json"
    assert history_figures.over_dates(series, "x") is None
    assert history_figures.over_versions(series, "x") is not None
    assert "results without a date come before those that have one" in made.notes
    assert "no date" in render(made)
