"""``python -m reports predict`` on constructed files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reports import predict_words
from reports.__main__ import app
from reports.entry import is_case
from reports.load import load
from tests.reports.builder import case, document, entry
from tests.reports.predicting import ONE_BUCKET, measured, run

Written = Callable[..., Path]


def predict(*arguments: object) -> Result:
    done = CliRunner().invoke(app, ["predict", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def refusal(*arguments: object) -> str:
    done = predict(*arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line


def test_tables_sentences_and_what_lies_beyond(written: Written) -> None:
    path = written(run(measured(2, 25, ONE_BUCKET)))
    done = predict(path, "--world-size", "2,8", "--link", "1Gbit", "--bucket-cap-mb", "25,1")
    assert done.exit_code == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "predicted from ddp-mlp-w2-cap25, measured on 2 ranks" in text
    assert "gradients (4.19 MB of 4 parameters) are ready from 30.0 ms to 60.0 ms" in text
    assert "The measured link has 1 Gbit/s; payload gets 9" in text
    assert "taken as independent" in text
    assert "needs 3 measured world sizes, found 1" in text
    assert "Best bucket_cap_mb over 1 Gbit/s" in text
    assert "For 90 % efficiency (bucket_cap_mb 25)" in text
    # The measured case itself, and beside it what was measured.
    assert "101 ms (" in text


def test_json_holds_every_case_and_the_baselines(written: Written) -> None:
    path = written(run(measured(2, 25, ONE_BUCKET), measured(1, 25, 0.066)))
    links = ("--link", "1Gbit", "--link", "25Gbit,20us")
    done = predict(path, "--world-size", "2,64", *links, "--bucket-cap-mb", "unset,25", "--json")
    (found,) = json.loads(done.stdout)["predictions"]
    assert found["fitted_on"] == ["ddp-mlp-w2-cap25"]
    assert found["world_sizes_measured"] == [1, 2]
    assert found["network"]["share_ratio"] == pytest.approx(0.945, abs=0.02)
    cases = found["cases"]
    assert len(cases) == 8
    own = next(one for one in cases if one["bucket_cap_mb"] == 25 and one["beyond"] == [])
    assert own["measured_s"] == pytest.approx(ONE_BUCKET)
    assert own["step_s"] == pytest.approx(ONE_BUCKET, rel=0.01)
    assert own["perfect_overlap_s"] <= own["step_s"] <= own["no_overlap_s"] * 1.001
    far = [one for one in cases if one["world_size"] == 64 and one["link"]["latency_s"] == 2e-5]
    assert all(set(one["beyond"]) >= {"ranks", "link"} for one in far)
    assert all(one["low_s"] <= one["step_s"] <= one["high_s"] for one in cases)
    assert {one["world_size"] for one in found["optima"]} == {2, 64}


def test_the_page_has_a_table_and_two_figures(written: Written, tmp_path: Path) -> None:
    path, page = (
        written(run(measured(2, 25, ONE_BUCKET), measured(2, 1, 0.09))),
        tmp_path / "p.html",
    )
    done = predict(path, "--world-size", "2,8", "--link", "1Gbit", "--html", page)
    assert done.exit_code == 0
    html = page.read_text()
    assert html.count("<svg") == 2
    assert "<script" not in html
    for heading in predict_words.HEADINGS:
        assert heading in html


def test_intervals_above_100_percent_are_drawn_whole(written: Written, tmp_path: Path) -> None:
    path, page = written(run(measured(2, 25, ONE_BUCKET))), tmp_path / "p.html"
    predict(path, "--world-size", "2", "--link", "400Gbit", "--html", page)
    efficiency = page.read_text().partition("</svg>")[0]
    (band,) = re.findall(
        r'FillBetween.*? d="([^"]+)".*?<use [^>]* y="([^"]+)"', efficiency, re.DOTALL
    )
    heights = [float(y) + float(band[1]) for y in re.findall(r"[ML] \S+ (\S+)", band[0])]
    (top,) = {float(y) for y in re.findall(r'<rect x="\S+" y="(\S+)"', efficiency)}
    assert min(heights) > top  # where the axes begin; downwards is larger


def test_workloads_of_one_model_are_told_apart_by_their_cases(
    written: Written, tmp_path: Path
) -> None:
    viewed = measured(2, 25, ONE_BUCKET)
    viewed["extra_info"]["case"]["gradient_as_bucket_view"] = True
    viewed["extra_info"]["id"] += "-view"
    path, page = written(run(measured(2, 25, ONE_BUCKET), viewed)), tmp_path / "p.html"
    done = predict(path, "--world-size", "2", "--link", "1Gbit", "--html", page)
    assert done.exit_code == 0
    headings = re.findall(r"<h2[^>]*>([^<]*)", page.read_text())
    assert headings == ["mlp: ddp-mlp-w2-cap25", "mlp: ddp-mlp-w2-cap25-view"]


def test_the_measured_link_is_asked_for_where_the_file_does_not_know_it(written: Written) -> None:
    path = written(run(measured(2, 25, ONE_BUCKET), bits_per_s=None))
    assert "say which network with --link" in refusal(path)
    known = predict(path, "--measured-link", "1Gbit", "--json")
    assert json.loads(known.stdout)["predictions"][0]["network"]["share_ratio"] < 1
    unknown = predict(path, "--link", "10Gbit", "--json")
    assert json.loads(unknown.stdout)["predictions"][0]["network"]["share_ratio"] is None


def test_what_cannot_be_predicted_says_how_to_measure_it(written: Written) -> None:
    single = written(document([entry(case(strategy="single"))]), "single.json")
    assert "no case of ddp in the file; measure one with" in refusal(single)
    old = entry(case(strategy="ddp", world_size=2))
    assert "does not say when gradients are ready" in refusal(written(document([old]), "old.json"))
    reason = {"gradient_ready": {"reason": "the model brings its own step_fn"}}
    own = entry(case(strategy="ddp", world_size=2), launch_changes=reason)
    assert "brings its own step_fn" in refusal(written(document([own]), "own.json"))
    damaged = written(run(measured(2, 25, 0.1, bytes=[1, 2])), "damaged.json")
    assert "is damaged" in refusal(damaged)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--link", "fast"), "as in 25Gbit,20us"),
        (("--world-size", "0"), "write numbers of ranks"),
        (("--world-size", "two"), "write numbers of ranks"),
        (("--bucket-cap-mb", "-1"), "write caps in MiB or unset"),
        (("--compression", "2"), "be 1 at most"),
        (("--model", "resnet18"), "the file has mlp"),
        (("--case", "ddp-mlp-w4"), "the file has ddp-mlp-w2-cap25"),
    ],
)
def test_wrong_words_are_one_line(written: Written, arguments: tuple[str, str], said: str) -> None:
    assert said in refusal(written(run(measured(2, 25, ONE_BUCKET))), *arguments)


def test_the_frame_of_ready_gradients(written: Written) -> None:
    path = written(run(measured(2, 25, ONE_BUCKET)))
    ready = load([path]).ready
    assert len(ready) == 3  # a row a launch
    assert ready["ready_s"][0] == (0.03, 0.04, 0.05, 0.06)
    assert ready["dtypes"][0] == ("float32",) * 4
    assert ready["silent_step_s"][0] == ((0.064, 0.065, 0.067),) * 2
    assert is_case(json.loads(path.read_text())["benchmarks"][0])
