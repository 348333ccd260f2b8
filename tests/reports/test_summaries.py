"""The verdict as text and as Markdown, and the page opened: what the commands print and write."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from reports import summary_markdown
from reports.__main__ import app
from reports.load import load
from reports.tables import compute
from tests.reports.builder import both, case, document, entry, outcome, sweep, versions

Written = Callable[..., Path]
HOSTILE = "<img src=x onerror=alert(1)> | @everyone [x](javascript:1) `a`"


def run(*arguments: object, columns: int = 80, **environment: str) -> Any:
    names = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb", **environment}
    return CliRunner().invoke(app, [*map(str, arguments)], env=names, catch_exceptions=False)


def summary(*paths: Path) -> str:
    return summary_markdown.render(compute(load(paths)))


def test_the_verdict_in_sentences(written: Written) -> None:
    done = run("verdict", written(sweep()))
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("resnet18: ")
    assert "at best" in lines[0]
    assert "How sure is this?" in lines
    assert all(len(line) <= 80 for line in lines)
    assert "Weak scaling to 4 ranks (ddp, gloo, batch 32 per rank): efficiency is" in " ".join(
        done.stdout.split()
    )
    assert "run.json" not in done.stdout  # one file needs no name


def test_a_short_verdict_is_bounded(written: Written) -> None:
    models = [entry(case(model=f"m{n}"), 0.1) for n in range(9)]
    path = written(document(models))
    assert len(run("verdict", path).stdout.splitlines()) > 40
    short = run("verdict", "--short", path).stdout
    assert len(short.splitlines()) <= 25
    assert "and 5 more models" in short


def test_a_verdict_of_interpreters_begins_with_the_comparison(written: Written) -> None:
    content = versions(both(case(strategy="ddp", world_size=2), 0.1, 1.1, confirmed=1.1))
    path = written(content)
    short = run("verdict", "--short", path).stdout
    assert "under new: " in short and "interval of the best" not in short
    first = " ".join(run("verdict", path).stdout.split())
    assert first.startswith("new against old in run.json: Slower in step time: ddp-resnet18-w2.")


def test_a_verdict_of_several_files_names_each(written: Written) -> None:
    out = run("verdict", written(sweep(), "a.json"), written(sweep(), "b.json")).stdout
    assert [line for line in out.splitlines() if line.endswith(".json")] == ["a.json", "b.json"]


def test_a_verdict_without_a_result(written: Written) -> None:
    skipped = document([], outcomes=[outcome(case(), "skipped", reason="needs 2 GPUs")])
    assert run("verdict", written(skipped)).stdout.splitlines()[0] == "No case has a result."


@pytest.mark.parametrize("command", ["verdict", "open", "html"])
def test_bad_input_is_one_line(command: str, tmp_path: Path) -> None:
    done = run(command, tmp_path / "missing.json")
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and "no such file" in line


def test_a_summary_has_verdict_scaling_warnings_and_source(written: Written) -> None:
    text = summary(written(sweep()))
    lines = text.splitlines()
    assert lines[0].startswith("## resnet18: ")
    assert "Weak scaling:" in lines and "Strong scaling:" in lines
    (heading,) = {line for line in lines if line.startswith("| series")}
    assert "efficiency over one process" in heading
    rows = [line for line in lines if line.startswith("| ddp, gloo, batch 32 per rank |")]
    assert [line.split("|")[2].strip() for line in rows] == ["1", "2", "4"]
    assert "## How sure is this?" in lines
    assert any(line.startswith("- ddp-resnet18-w2-static: failed: ") for line in lines)
    assert "- 2 skipped: needs 2 GPUs, found 0" in lines
    assert (
        lines[-1] == "- run.json, bench-1, Example CPU 8c, torch 2.14.1+cpu, 2026-11-01 10&#58;00"
    )


def test_a_summary_is_bounded(written: Written) -> None:
    cells = [
        entry(case(model=f"m{m}", world_size=n, batch_size=b), 0.1)
        for m in range(9)
        for b in range(1, 9)
        for n in (1, 2, 4)
    ]
    bad = [
        outcome(case(model=f"b{n}"), "failed", failure={"message": "no", "phase": "wrap"})
        for n in range(40)
    ]
    text = summary(written(document(cells, outcomes=bad)))
    assert "and 3 more models" in text
    assert "12 more rows are on the page." in text
    assert "35 more broke; they are on the page." in text
    assert len(text.splitlines()) < 250


def test_what_scales_best_is_not_left_out(written: Written) -> None:
    slow = [entry(case(world_size=n, batch_size=b), 1.0) for b in range(1, 9) for n in (1, 2, 4)]
    best = [entry(case(world_size=n, batch_size=64), 0.01) for n in (1, 2, 4)]
    text = summary(written(document([*slow, *best])))
    assert text.count("batch 64 per rank |") == 3


def test_hostile_names_are_text_in_a_summary(written: Written) -> None:
    content = document([entry(case(model=HOSTILE), 0.1), entry(case(model=HOSTILE, world_size=2))])
    content["lockstep"]["machine"] = content["lockstep"]["machine"] | {"host": HOSTILE}
    content["lockstep"]["outcomes"] = [
        outcome(case(model=HOSTILE), "failed", failure={"message": HOSTILE, "phase": HOSTILE})
    ]
    text = summary(written(content))
    for sign in ("<img", "@everyone", "](", "`"):
        assert sign not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_html_writes_a_summary_beside_the_page(written: Written, tmp_path: Path) -> None:
    page, out = tmp_path / "page.html", tmp_path / "out.md"
    path = written(sweep())
    done = run("html", path, "-o", page, "--markdown", out)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [str(page)]
    assert out.read_text() == summary(path)
    piped = run("html", path, "-o", page, "--markdown", "-")
    assert piped.stdout == out.read_text()
    assert piped.stderr.splitlines() == [str(page)]


@pytest.mark.parametrize("option", ["-o", "--markdown"])
def test_results_are_not_written_over(written: Written, tmp_path: Path, option: str) -> None:
    path = written(sweep())
    before = path.read_text()
    other = ["-o", str(tmp_path / "page.html")] if option != "-o" else []
    done = run("html", path, *other, option, path)
    assert done.exit_code == 2
    assert done.stderr.strip() == (
        f"error: {path}: is to be read; choose another file with {option}"
    )
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("compare", option) for option in ("--json", "--markdown", "--html")),
        *(("history", option) for option in ("-o", "--json", "--markdown")),
        ("trace", "--html"),
    ],
)
def test_no_command_writes_over_what_it_reads(written: Written, command: str, option: str) -> None:
    path = written(sweep())
    before = path.read_text()
    done = run(command, path, option, path)
    assert done.exit_code == 2
    assert f"error: {path}: is to be read; choose another file with {option}" in done.stderr
    assert path.read_text() == before


def browser(folder: Path, status: int = 0) -> tuple[str, Path]:
    """(for BROWSER, where it keeps what it was asked to open)"""
    asked, script = folder / "asked", folder / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}\nexit {status}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return f"{script} %s", asked


def open_in(folder: Path, *arguments: object, **environment: str) -> Any:
    """``reports open`` in a process of its own: webbrowser looks for browsers once."""
    import subprocess
    import sys

    root = Path(__file__).resolve().parents[2]
    kept = {"PATH": "", "PYTHONPATH": str(root), "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "reports", "open", *map(str, arguments)],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
    )


def test_open_makes_the_page_and_opens_it(written: Written, tmp_path: Path) -> None:
    command, asked = browser(tmp_path)
    path = written(sweep(), "my run.json")
    done = open_in(tmp_path, path, BROWSER=command)
    assert (done.returncode, done.stderr) == (0, "")
    page = tmp_path / "my run.html"
    assert done.stdout.splitlines() == [str(page)]
    assert asked.read_text() == page.as_uri()
    assert page.read_text().startswith("<!doctype html>")


def test_where_there_is_no_browser_the_page_is_named(written: Written, tmp_path: Path) -> None:
    path, page = written(sweep()), tmp_path / "page.html"
    done = open_in(tmp_path, path, "-o", page)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [str(page)]
    assert done.stderr.startswith("note: no browser could be opened here")
    assert page.exists()


def test_open_takes_the_newest_results(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    for n, name in enumerate(("old.json", "new.json", "compared.json")):
        content = {"rows": []} if name == "compared.json" else sweep()
        (results / name).write_text(json.dumps(content))
        os.utime(results / name, (1000 + n, 1000 + n))
    done = open_in(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["results/new.html"]
    notes = done.stderr.splitlines()
    assert notes[0].startswith("note: left out: results/compared.json: is JSON, but has no list")


@pytest.mark.parametrize("content", [None, "{}"])
def test_open_without_any_results_is_one_line(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "a.json").write_text(content)
    done = open_in(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("error: results: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command", ["html", "open", "verdict", "trace", "compare", "export", "history"]
)
def test_help_is_tidy(command: str) -> None:
    assert command in run("--help", columns=100).stdout
    done = run(command, "--help", columns=100)
    assert done.exit_code == 0
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    for word in ("[default: (dynamic)]", "None", "TEXT"):
        assert word not in done.stdout
