"""The page of many cases: time, peak memory and size as the cases grow, and its use in a browser.

A whole process makes the page, from the start of an interpreter to its end. Run as
``python -m tests.selfbench.page KIND CASES SAMPLES FILE`` it writes the file that is read.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.reports import large
from tests.selfbench.traces import Cost

KINDS = {"foreign": large.foreign, "own": large.own}


def grow(sizes: list[int], samples: int) -> None:
    for kind in KINDS:
        print(f"page of a file of {kind} cases, {samples} samples each", flush=True)
        for cases in sizes:
            with tempfile.TemporaryDirectory() as folder:
                print(_line(kind, cases, samples, Path(folder)), flush=True)


def _line(kind: str, cases: int, samples: int, folder: Path) -> str:
    source, page = folder / "run.json", folder / "page.html"
    command = ["-m", "tests.selfbench.page", kind, str(cases), str(samples), str(source)]
    subprocess.run([sys.executable, *command], check=True)
    cost = Cost.of_command([sys.executable, "-m", "reports", "html", str(source), "-o", str(page)])
    if cost.error:
        return f"  {cases:6} cases: {cost.error}"
    return (
        f"  {cases:6} cases: file {source.stat().st_size / 1e6:6.1f} MB, {cost.wall_s:5.1f} s, "
        f"{cost.peak_bytes / 1e6:5.0f} MB, page {page.stat().st_size / 1e6:5.2f} MB"
        f"{_in_a_browser(page)}"
    )


def _in_a_browser(page: Path) -> str:
    """Seconds until the page is there, until it is sorted, and until it is searched."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "; no playwright"
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        return "; no Chromium"
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.set_default_timeout(120_000)
        spent = []
        for action in (
            lambda: opened.goto(page.as_uri()),
            lambda: opened.click("#all-cases thead th:nth-child(8)"),
            lambda: opened.fill("#cases-tools [name=search]", "model_1 all_reduce"),
        ):
            started = time.perf_counter()
            action()
            opened.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            spent.append(time.perf_counter() - started)
        browser.close()
    return "; opens in {:.1f} s, sorts in {:.2f} s, finds in {:.2f} s".format(*spent)


def main(kind: str, cases: str, samples: str, file: str) -> None:
    with open(file, "w") as out:
        json.dump(KINDS[kind](int(cases), int(samples)), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
