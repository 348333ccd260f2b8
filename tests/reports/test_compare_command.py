"""``python -m reports compare`` as a shell, a pipe and GitHub Actions see it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from reports.command import parse_delta
from reports.compare_markdown import escaped
from tests.reports.builder import (
    FACTS,
    NEWER,
    both,
    case,
    document,
    entry,
    outcome,
    under,
    versions,
)
from tests.reports.comparing import by_metric, refusal, run

Written = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[2]
SLOWER = case(strategy="ddp", world_size=2, bucket_cap_mb=25, gradient_as_bucket_view=True)
HOSTILE = (
    "<script>alert(1)</script>",
    "a|b | c",
    "[x](http://example.invalid)",
    "![i](http://example.invalid/x.png)",
    "`code` *bold* _it_ ~~gone~~ **b** __init__",
    "www.example.invalid http://example.invalid me@example.invalid",
    "# heading\n- item\n1. one",
    "1. one",
    "- item",
    "&lt; &#60; \\| $x$ :smile:",
    "@everyone #1",
)


def regressed(**of_slower: Any) -> dict[str, Any]:
    return versions(both(SLOWER, 0.1, 1.08, **({"confirmed": 1.08} | of_slower)))


def test_exit_statuses(written: Written) -> None:
    fine = written(versions(both(case(), 0.1)), "fine.json")
    assert run(fine).exit_code == 0
    assert run(fine, "--strict").exit_code == 0
    assert run(written(regressed(), "slower.json")).exit_code == 1
    unsure = written(versions(both(case(), 0.1, 1.03)), "unsure.json")
    assert run(unsure).exit_code == 0
    assert run(unsure, "--strict").exit_code == 3
    assert run(written(versions(both(case(), 0.1, launches=3)), "smoke.json")).exit_code == 2


def test_a_shell_sees_the_status(written: Written) -> None:
    command = [sys.executable, "-m", "reports", "compare", str(written(regressed()))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == ""
    assert "Exit status 1: 1 case is slower, confirmed in fresh launches." in " ".join(
        done.stdout.split()
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit_and_say_it_all(written: Written, columns: int) -> None:
    entries = both(SLOWER, 0.1, 1.08, confirmed=1.08) + both(case(strategy="single"), 0.05)
    done = run(written(versions(entries)), columns=columns)
    assert max(map(len, done.stdout.splitlines())) <= columns
    assert "\x1b" not in done.stdout
    assert "A: old, torch 2.9.1+cpu, Python 3.11.7" in done.stdout
    assert "torchvision 0.24.1+cpu → 0.29.1+cpu" in done.text
    assert "12 fresh" in done.stdout
    assert "flagged at +8." in done.stdout
    (line,) = [one for one in done.stdout.splitlines() if "12 fresh" in one]
    # One line for each case where there is room, two where there is not.
    assert ("slower, confirmed" in line) == (columns == 120)


def test_the_conclusion_is_last_and_too_few_pairs_come_first(written: Written) -> None:
    entries = [
        one for size in (8, 16, 32, 64) for one in both(case(batch_size=size), 0.1, 1.5, launches=6)
    ]
    text = run(written(versions(entries))).text
    assert text.index("Insufficient samples: with 4 cases") < text.index("95 % interval")
    assert text.endswith("4 cases could not have been called slower with so few pairs of launches.")


def test_json_is_strict_and_whole(written: Written, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run(written(regressed()), "--json", out)
    assert done.exit_code == 1

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    found = json.loads(out.read_text(), parse_constant=refused)
    assert (found["status"], found["gate"], found["delta"]) == (1, "step_time", 0.03)
    assert found["new"][0]["interpreter"]["torch"] == "2.14.1+cpu"
    assert {row["what"] for row in found["new"][0]["differences"]} == {"torchvision", "BLAS"}
    (row,) = by_metric(found, "step_time")
    assert row["gate"] is True
    assert row["effect"] == pytest.approx(1.08, abs=0.01)
    assert row["unit"] == "s"
    assert len(by_metric(found, "throughput")) == 1
    assert found["attribution"][0]["parts"][0]["part"] == "step"
    assert found["attribution"][0]["sentences"]


def test_standard_output_is_one_document_alone(written: Written) -> None:
    path = written(regressed())
    done = run(path, "--json", "-")
    assert json.loads(done.stdout)["status"] == 1
    assert done.stderr.startswith("Slower in step time")
    done = run(path, "--markdown", "-")
    assert done.stdout.startswith("## Slower in step time: ")
    assert done.exit_code == 1
    line = refusal(path, "--json", "-", "--markdown", "-")
    assert "give one of them a file" in line


def test_pages_and_files_are_written_whatever_the_status(written: Written, tmp_path: Path) -> None:
    page, summary = tmp_path / "page.html", tmp_path / "summary.md"
    done = run(written(regressed()), "--html", page, "--markdown", summary)
    assert done.exit_code == 1
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "slower, confirmed" in text
    assert "Exit status 1" in text
    assert "slower, confirmed" in summary.read_text()
    done = run(written(regressed()), "--json", tmp_path / "no" / "such.json")
    assert done.exit_code == 2
    assert (
        "cannot be written (No such file or directory); choose another with --json" in done.stderr
    )


def test_markdown_is_a_table_with_the_rest_beside_it(written: Written) -> None:
    broken = under("new", case(strategy="all_reduce", world_size=2))
    entries = both(SLOWER, 0.1, 1.08, confirmed=1.08)
    entries.append(entry(under("old", case(strategy="all_reduce", world_size=2)), launches=12))
    ended = [outcome(one["extra_info"]["case"]) for one in entries]
    ended.append(outcome(broken, "crashed", reason="SIGSEGV"))
    done = run(written(versions(entries, outcomes=ended)), "--markdown", "-")
    tokens = MarkdownIt("commonmark").enable("table").parse(done.stdout)
    kinds = [token.type for token in tokens]
    assert kinds[0] == "heading_open"
    assert kinds.count("table_open") >= 2
    texts = [token.content for token in tokens if token.type == "inline"]
    assert any("slower, confirmed" in text for text in texts)
    assert any("crashed under new (SIGSEGV)" in text for text in texts)
    assert any("torchvision 0.24.1+cpu" in text for text in texts)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_in_markdown(name: str) -> None:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    plain = " ".join(name.split())
    page = f"{escaped(name)}\n\n| a | b |\n| - | - |\n| {escaped(name)} | 1 |\n"
    paragraph, *rest = [token for token in parser.parse(page) if token.type == "inline"]
    cells = [token for token in rest if token.content not in ("a", "b", "1")]
    assert len(rest) == 4
    for token in (paragraph, *cells):
        assert {child.type for child in token.children or []} <= {"text", "text_special"}
        assert "".join(child.content for child in token.children or []) == plain
    # Readers that make links of addresses and of names see no address and no name.
    assert not any(part in escaped(name) for part in ("http://", "www.", "@"))


def test_hostile_names_in_a_whole_summary(written: Written, tmp_path: Path) -> None:
    new = "<b>|`"
    entries = both(SLOWER, 0.1, 1.08, confirmed=1.08)
    for one in entries[1:]:
        one["extra_info"]["case"]["torch"] = new
    facts = FACTS | NEWER | dict(zip(("torch", "blas", "openmp"), HOSTILE, strict=False))
    path = written(versions(entries, interpreters={"old": FACTS, new: facts}))
    out, page = tmp_path / "out.md", tmp_path / "page.html"
    done = run(path, "--markdown", out, "--html", page)
    assert done.exit_code in (1, 2)
    assert "\x1b" not in done.stdout
    assert "<script" not in out.read_text()
    assert "<script" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--metric", "step"], "'step' is no metric"),
        (["--metric", "all reduce tim"], "did you mean 'all_reduce_time'?"),
        (["--delta", "3"], "3 per cent is 3% or 0.03"),
        (["--delta", "x"], "--delta x: is no number; write 3% or 0.03"),
        (["--delta", "nan"], "must lie between 0 and 1"),
        (["--base", "older"], "did you mean 'old'?"),
        (["--new", "old"], "choose another with --base"),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    written: Written, arguments: list[str], words: str
) -> None:
    assert words in refusal(written(regressed()), *arguments)


def test_files_that_make_no_sense_are_one_line(written: Written, tmp_path: Path) -> None:
    path = written(document([entry(case(), 0.1)]))
    assert "no such file" in refusal(path, tmp_path / "none.json")
    assert "holds no comparison; give a second file" in refusal(path)
    other = written({"benchmarks": []}, "empty.json")
    assert "no data" in refusal(path, other)
    assert "3 files" in refusal(path, path, path)


def test_deltas() -> None:
    assert parse_delta("3%") == parse_delta(" 3 % ") == pytest.approx(0.03)
    assert parse_delta("0.03") == 0.03
    assert not math.isnan(parse_delta("1e-3"))


def test_delta_moves_the_verdict(written: Written) -> None:
    path = written(versions(both(SLOWER, 0.1, 1.05), settings={"confirm": False}))
    assert run(path).exit_code == 1
    assert run(path, "--delta", "10%").exit_code == 0
    assert "no change" in run(path, "--delta", "10%").text


def test_another_metric_may_be_the_gate(written: Written) -> None:
    path = written(regressed())
    done = run(path, "--metric", "throughput")
    assert done.exit_code == 1
    assert "Slower in throughput" in done.text
    done = run(path, "--metric", "init")
    assert done.exit_code == 0
