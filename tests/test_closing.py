from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from bench.closing import MOST_NAMED, Written, broken, counts, places, verdict
from tests.reports.builder import sweep


def outcomes(*names: str, reason: str | None = None) -> dict[str, dict[str, Any]]:
    return {
        f"case-{n}": {"id": f"case-{n}", "outcome": name, "reason": reason, "rerun": f"pytest {n}"}
        for n, name in enumerate(names)
    }


def test_outcomes_are_counted_in_one_order() -> None:
    found = outcomes("skipped", "ok", "timed out", "ok", "skipped", "crashed")
    assert counts(found) == "2 ok, 1 timed out, 1 crashed, 2 skipped"
    assert counts(outcomes("something new", "ok")) == "1 ok, 1 something new"


def test_what_broke_is_named_with_its_command() -> None:
    found = outcomes("ok", "failed", "skipped", reason="no memory\nin a traceback")
    assert broken(found) == ["failed: case-1: no memory", "    pytest 1"]
    assert broken(outcomes("crashed")) == ["crashed: case-0: no message", "    pytest 0"]
    long = broken(outcomes("failed", reason="x" * 500))
    assert long[0].endswith("x...") and len(long[0]) < 130


def test_of_many_some_are_named() -> None:
    lines = broken(outcomes(*["failed"] * (MOST_NAMED + 3)))
    assert len(lines) == 2 * MOST_NAMED + 1
    assert lines[-1] == "3 more broke; all are in the results and on the page"


def test_paths_are_listed_with_commands_that_take_them(tmp_path: Path) -> None:
    results = tmp_path / "my results" / "run.json"
    traces = tmp_path / "run.traces"
    traces.mkdir()
    (traces / "a.rank0.json.gz").touch()
    lines = places(
        Written(results, results.with_suffix(".journal.jsonl"), traces, ".benchmarks"),
        comparing=True,
    )
    names, texts = zip(*(line.split(": ", 1) for line in lines), strict=True)
    assert [*names] == ["results", "journal", "traces", "page", "compare", "saved", "history"]
    assert len({line.index(text.strip()) for line, text in zip(lines, texts, strict=True)}) == 1
    said = dict(zip(names, map(str.strip, texts), strict=True))
    assert said["traces"] == f"{traces} (1 file)"
    assert shlex.split(said["page"]) == [
        *("python", "-m", "reports", "html", str(results)),
        *("-o", str(results.with_suffix(".html"))),
    ]
    assert shlex.split(said["compare"]) == ["python", "-m", "reports", "compare", str(results)]


def test_where_nothing_was_written_it_says_what_would_be() -> None:
    (line,) = places(Written(), comparing=False)
    assert "nothing was written" in line and "--benchmark-json=FILE" in line


def test_the_verdict_is_that_of_the_page(tmp_path: Path) -> None:
    results = tmp_path / "run.json"
    results.write_text(json.dumps(sweep()))
    lines = verdict(results, 80)
    assert lines[0].startswith("resnet18: ")
    assert "Weak scaling to 4 ranks" in " ".join(lines)
    assert "How sure is this?" in lines
    assert all(len(line) <= 80 for line in lines)


def test_a_verdict_that_cannot_be_had_costs_nothing_else(tmp_path: Path) -> None:
    assert verdict(tmp_path / "missing.json", 80) == []
    (tmp_path / "run.json").write_text(json.dumps(sweep()))
    assert verdict(tmp_path / "run.json", 80, timeout_s=0.001) == []
