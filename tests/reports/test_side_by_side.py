"""Several files on one page: side by side, and never mixed."""

from __future__ import annotations

import copy
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.special import stdtrit

from reports import side_by_side
from reports.frames import Row, rows
from reports.load import load
from reports.page import SECTIONS, render
from reports.side_by_side import SideBySide
from reports.tables import compute
from tests.reports.builder import FACTS, MACHINE, both, case, document, entry, sweep, versions

Written = Callable[..., Path]
Shared = Callable[[str], Path]
DDP = case(strategy="ddp", world_size=2)
LATER = "2026-11-02T10:00:00+00:00"


def beside(*paths: Path) -> SideBySide:
    found = compute(load(paths)).beside
    assert found is not None
    return found


def of(found: SideBySide, letter: str) -> list[Row]:
    return [row for row in rows(found.cases) if row["letter"] == letter]


def run(*entries: dict[str, Any], torch: str = "2.14.1+cpu", **own: Any) -> dict[str, Any]:
    """A run on another day."""
    made = document(copy.deepcopy(list(entries)), **own) | {"datetime": LATER}
    for one in made["benchmarks"]:
        for launch in one["extra_info"]["result"]["launches"]:
            for rank in launch["ranks"]:
                rank["software"]["torch"] = torch
    return made


def page(*paths: Path) -> str:
    return render(compute(load(paths)))


def section(text: str) -> str:
    assert '<section id="files"' in text
    return text.split('<section id="files"')[1].split("</section>")[0]


def test_one_file_has_no_such_section(written: Written) -> None:
    path = written(sweep())
    assert compute(load([path])).beside is None
    assert 'id="files"' not in page(path)
    assert [name for name, _, _ in SECTIONS][:2] == ["verdict", "files"]


def test_two_versions_on_one_machine_have_a_ratio(written: Written) -> None:
    a, b = [0.10, 0.11, 0.105], [0.12, 0.13, 0.118]
    first = written(document([entry(DDP, a)]), "a.json")
    second = written(run(entry(DDP, b), torch="2.15.0+cpu"), "b.json")
    found = beside(first, second)
    (base,), (new,) = of(found, "A"), of(found, "B")
    assert (base["ratio"], base["reason"], base["kind"]) == (None, None, None)
    assert (new["kind"], new["against"]) == (side_by_side.OTHER_TORCH, "A")
    # Welch's interval on the logarithms: launches of two runs are no pairs.
    logs = [[math.log(x) for x in side] for side in (a, b)]
    means = [statistics.fmean(side) for side in logs]
    parts = [statistics.variance(side) / 3 for side in logs]
    freedom = sum(parts) ** 2 / sum(part**2 / 2 for part in parts)
    half = stdtrit(freedom, 0.975) * math.sqrt(sum(parts))
    change = means[0] - means[1]
    assert new["ratio"] == pytest.approx(math.exp(change))
    assert new["low_ratio"] == pytest.approx(math.exp(change - half))
    assert new["high_ratio"] == pytest.approx(math.exp(change + half))
    text = section(page(first, second))
    assert "against A" in text
    assert "python -m reports compare a.json b.json" in text


def test_the_same_version_again_is_a_repeated_run(written: Written) -> None:
    found = beside(
        written(document([entry(DDP, 0.10)]), "a.json"), written(run(entry(DDP, 0.12)), "b.json")
    )
    (new,) = of(found, "B")
    assert (new["kind"], new["against"]) == (side_by_side.REPEATED, "A")
    assert new["ratio"] == pytest.approx(10 / 12)
    # Both stay: no mean of the two anywhere.
    assert [row["step_s"] for row in rows(found.cases)] == pytest.approx([0.10, 0.12])


def test_a_copy_of_a_file_is_no_second_run(written: Written) -> None:
    content = document([entry(DDP, 0.10)])
    paths = written(content, "a.json"), written(content, "b.json")
    (new,) = of(beside(*paths), "B")
    assert (new["kind"], new["ratio"]) == (side_by_side.COPY, None)
    assert "copy of A, no second run" in section(page(*paths))


def test_one_run_with_two_results_is_a_conflict(written: Written) -> None:
    paths = (
        written(document([entry(DDP, 0.10)]), "a.json"),
        written(document([entry(DDP, 0.12)]), "b.json"),
    )
    (new,) = of(beside(*paths), "B")
    assert (new["kind"], new["ratio"]) == (side_by_side.CONFLICT, None)
    text = section(page(*paths))
    assert "conflict with A: one run, and other numbers" in text
    assert '<small class="bad">' in text


def test_two_entries_in_a_file_are_both_shown_and_not_compared(written: Written) -> None:
    paths = (
        written(document([entry(DDP, 0.10), entry(DDP, 0.14)]), "a.json"),
        written(run(entry(DDP, 0.12)), "b.json"),
    )
    found = beside(*paths)
    assert [row["step_s"] for row in of(found, "A")] == pytest.approx([0.10, 0.14])
    (new,) = of(found, "B")
    assert (new["ratio"], new["reason"]) == (None, "several entries in A")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": MACHINE | {"host": "bench-2"}}, "host 'bench-1' and 'bench-2'"),
        ({"machine": MACHINE | {"cpu": "Other CPU"}}, "CPU 'Example CPU 8c' and 'Other CPU'"),
        ({"machine": MACHINE | {"environment": {}}}, "OMP_NUM_THREADS '4' and unset"),
        ({"machine": MACHINE | {"gpus": [{"name": "H100"}]}}, "GPUs none and 'H100'"),
    ],
)
def test_other_machines_are_not_compared(
    written: Written, change: dict[str, Any], said: str
) -> None:
    found = beside(
        written(document([entry(DDP, 0.10)]), "a.json"),
        written(run(entry(DDP, 0.12), **change), "b.json"),
    )
    (new,) = of(found, "B")
    assert (new["ratio"], new["against"]) == (None, None)
    assert new["reason"] == "not comparable with A, see above"
    (sentence,) = found.apart
    assert sentence.startswith("B is not compared with A: ") and said in sentence
    assert new["step_s"] == pytest.approx(0.12)  # it is there all the same


def test_other_builds_are_not_compared(written: Written) -> None:
    first = written(document([entry(DDP, 0.10)]), "a.json")
    second = written(run(entry(DDP, 0.12), torch="2.15.0+cu130"), "b.json")
    (new,) = of(beside(first, second), "B")
    assert (new["ratio"], new["reason"]) == (None, "other builds of torch, cpu and cu")


def test_other_threads_and_failed_checks_are_not_compared(written: Written) -> None:
    first = written(document([entry(DDP, 0.10)]), "a.json")
    threads = run(entry(DDP, 0.12))
    for launch in threads["benchmarks"][0]["extra_info"]["result"]["launches"]:
        for rank in launch["ranks"]:
            rank["threads"] = 2
    failed = run(entry(DDP, 0.12, launch_changes={"checks": {"parameters_equal": False}}))
    reasons = [
        of(beside(first, written(content, "b.json")), "B")[0]["reason"]
        for content in (threads, failed)
    ]
    assert "threads per rank 1 and 2" in reasons[0]
    assert reasons[1] == "a check of the result failed in B"


def test_what_is_another_case_is_no_pair(written: Written) -> None:
    """Backend, label of the interpreter, or any field: another series."""
    first = written(document([entry(DDP, 0.10)]), "a.json")
    others = [
        case(strategy="ddp", world_size=2, backend="nccl", device="cuda"),
        case(strategy="ddp", world_size=2, bucket_cap_mb=25),
        case(strategy="ddp", world_size=2, torch="new"),
    ]
    found = beside(first, written(run(*[entry(one, 0.12) for one in others]), "b.json"))
    assert rows(found.cases) == []
    assert (found.alone, found.other_labels) == ({"A": 1, "B": 3}, 1)
    assert "No case is in several" in section(page(first, written(run(entry(others[0], 0.1)), "b")))


def test_other_labels_are_no_pair_and_said(written: Written) -> None:
    first = written(document([entry(case(torch="old", world_size=2), 0.10)]), "a.json")
    second = written(run(entry(case(torch="new", world_size=2), 0.12)), "b.json")
    found = beside(first, second)
    assert rows(found.cases) == []
    assert (found.alone, found.other_labels) == ({"A": 1, "B": 1}, 1)
    assert "Of these 1 are in several files under other labels" in section(page(first, second))


def test_labels_stay_apart(written: Written) -> None:
    first = written(versions(both(DDP, 0.1, 1.1)), "a.json")
    second = versions(both(DDP, 0.2, 1.1, seed=1)) | {"datetime": LATER}
    found = beside(first, written(second, "b.json"))
    assert [row["case"] for row in of(found, "B")] == [
        "ddp-resnet18-w2-torch_old",
        "ddp-resnet18-w2-torch_new",
    ]
    assert [row["ratio"] for row in of(found, "B")] == pytest.approx([0.5, 0.5], rel=0.05)


def test_a_third_file_is_compared_with_the_one_it_can_be(written: Written) -> None:
    elsewhere = MACHINE | {"host": "bench-2"}
    third = run(entry(DDP, 0.15), machine=elsewhere) | {"datetime": "2026-11-03T10:00:00+00:00"}
    found = beside(
        written(document([entry(DDP, 0.10)]), "a.json"),
        written(run(entry(DDP, 0.12), machine=elsewhere), "b.json"),
        written(third, "c.json"),
    )
    (second,), (last,) = of(found, "B"), of(found, "C")
    assert second["reason"] == "not comparable with A, see above"
    assert (last["kind"], last["against"]) == (side_by_side.REPEATED, "B")
    assert last["ratio"] == pytest.approx(12 / 15)


def test_what_differs_between_the_files_is_listed(written: Written) -> None:
    other = {"": FACTS | {"blas": "openblas"}}
    found = beside(
        written(document([entry(DDP, 0.10)], interpreters={"": FACTS}), "a.json"),
        written(run(entry(DDP, 0.12), interpreters=other), "b.json"),
    )
    assert ("BLAS", ["mkl 2024.2", "openblas"]) in found.differences
    assert "host" not in [what for what, _ in found.differences]


def test_many_files_and_cases_say_what_is_left_out(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "MOST_CASES", 5)
    cells = [entry(case(strategy="ddp", world_size=2, batch_size=n), 0.1) for n in range(1, 9)]
    paths = [
        written(run(*cells) | {"datetime": f"2026-11-{n + 1:02}T10:00:00"}, f"{n}.json")
        for n in range(6)
    ]
    found = beside(*paths)
    assert found.letters == ["A", "B", "C", "D"]
    assert len(found.files) == 6
    assert {row["case"] for row in of(found, "A")} == {f"ddp-resnet18-w2-b{n}" for n in range(1, 6)}
    assert found.more_cases == 3
    text = section(page(*paths))
    assert "2 more have no column" in text
    assert "3 more cases are in several files" in text


def test_public_files_of_two_machines(shared: Shared) -> None:
    paths = shared("b10_machine_a.json"), shared("b10_machine_b.json")
    found = beside(*paths)
    (new,) = of(found, "B")
    assert (new["ratio"], new["throughput_samples_per_s"]) == (None, 492.0)
    (sentence,) = found.apart
    assert "host 'host-a' and 'host-b'" in sentence and "Example CPU 16c" in sentence
    assert "&#39;host-b&#39;" in section(page(*paths))


def test_public_files_of_other_builds(shared: Shared) -> None:
    """cu, cpu and rocm are never a change of version; two cu builds are."""
    names = [f"b09_version_{n:02}.json" for n in (0, 4, 5, 6)]
    found = beside(*map(shared, names))
    assert [(row["letter"], row["against"], row["reason"]) for row in rows(found.cases)] == [
        ("A", None, None),
        ("B", "A", None),
        ("C", None, "other builds of torch, cu and cpu"),
        ("D", None, "other builds of torch, cu and rocm"),
    ]


def test_public_files_with_mixed_backends(shared: Shared) -> None:
    found = beside(shared("b18_mixed_backends.json"), shared("b10_machine_a.json"))
    assert rows(found.cases) == []


def test_every_figure_of_several_files_names_its_file(written: Written) -> None:
    paths = written(sweep(), "first.json"), written(sweep() | {"datetime": LATER}, "second.json")
    text = page(*paths)
    for name in ("scaling", "waterfall", "all-reduce", "buckets"):
        part = text.split(f'<section id="{name}"')[1].split("</section>")[0]
        # Each block is a heading and what stands under it.
        blocks = re.split(r"<h[345][^>]*>", part)[1:]
        drawn = [block for block in blocks if "<figure>" in block]
        assert len(drawn) >= 2, name
        for block in drawn:
            heading = block.split("</h")[0]
            assert ("in first.json" in heading) != ("in second.json" in heading), heading


def test_hostile_names_stay_text(written: Written) -> None:
    hostile = "<script>alert(1)</script>"
    first = document([entry(DDP, 0.1)], machine=MACHINE | {"host": hostile})
    second = run(entry(DDP, 0.1), machine=MACHINE | {"environment": {hostile: hostile}})
    text = page(written(first, "a.json"), written(second, "<img src=x>.json"))
    assert hostile not in text and "<img src=x>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in section(text)
