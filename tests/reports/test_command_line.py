from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reports.builder import case, document, outcome, sweep

Written = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[2]


def reports(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reports", *arguments], cwd=ROOT, capture_output=True, text=True
    )


def refusal(*arguments: str) -> str:
    done = reports(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_the_path_of_the_page_is_printed_last(written: Written, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = reports("html", str(written(sweep())), "-o", str(page))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(page)
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty (0 bytes), so there is no data"),
        ('{\n"benchmarks": [', "broken JSON at line 2, column"),
        ("[1, 2]", "has no list of benchmarks"),
        ('{"benchmarks": []}', "no data, its list of benchmarks is empty"),
        ('{"benchmarks": [{"params": {"n": 1}}]}', "none of its 1 benchmarks has params named"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    line = refusal("html", str(path), "-o", str(tmp_path / "page.html"))
    assert line.startswith(f"error: {path}: ")
    assert message in line
    assert not (tmp_path / "page.html").exists()


def test_files_that_are_not_there_or_no_text(tmp_path: Path) -> None:
    assert "no such file" in refusal("html", str(tmp_path / "none.json"))
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    assert "is not UTF-8 text (byte 0)" in refusal("html", str(binary))


def test_d11_files_of_disabled_benchmarks(shared: Callable[[str], Path]) -> None:
    assert "no data" in refusal("html", str(shared("b13_empty.json")))
    assert "no data" in refusal("html", str(shared("b14_zero_bytes.json")))


def test_a_page_that_cannot_be_written(written: Written, tmp_path: Path) -> None:
    line = refusal("html", str(written(sweep())), "-o", str(tmp_path / "no" / "such" / "page.html"))
    assert "cannot be written (No such file or directory)" in line


def test_a_sweep_in_which_nothing_could_run_has_a_page(written: Written, tmp_path: Path) -> None:
    nccl = case(backend="nccl", device="cuda", world_size=2)
    content = document([], outcomes=[outcome(nccl, "skipped", reason="needs 2 GPUs, found 0")])
    page = tmp_path / "page.html"
    assert reports("html", str(written(content)), "-o", str(page)).returncode == 0
    assert "needs 2 GPUs, found 0" in page.read_text()
