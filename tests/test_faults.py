"""The harness of tests/faults itself; what it finds is its own affair (``tox run -e faults``)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.matrix import read_matrix
from tests.faults import in_case
from tests.faults.__main__ import groups
from tests.faults.around import SCENES
from tests.faults.kinds import AROUND, IN_CASE, KINDS, STEPS, Fault, chosen
from tests.faults.model import DEEDS
from tests.faults.sweeps import Journal, cell, disagreements, matrix
from tests.faults.table import table
from tests.faults.verdict import Verdict


def test_a_seed_always_chooses_the_same_faults() -> None:
    assert chosen(7, 200) == chosen(7, 200)
    assert chosen(7, 200) != chosen(8, 200)


def test_of_200_faults_165_are_inside_a_case_and_every_kind_is_there() -> None:
    faults = chosen(1, 200)
    assert [fault.number for fault in faults] == list(range(1, 201))
    families = Counter(KINDS[fault.kind].family for fault in faults)
    assert families == {IN_CASE: 165, AROUND: 35}
    assert {fault.kind for fault in faults} == set(KINDS)


@pytest.mark.parametrize("count", [1, 5, 37, 1000])
def test_as_many_faults_as_asked_for(count: int) -> None:
    assert len(chosen(3, count)) == count
    assert {fault.kind for fault in chosen(3, count, ["os._exit(0)"])} == {"os._exit(0)"}


def test_every_kind_can_be_done() -> None:
    assert {name for name, kind in KINDS.items() if kind.family == IN_CASE} == set(DEEDS)
    assert {name for name, kind in KINDS.items() if kind.family == AROUND} == set(SCENES)


def test_a_fault_is_at_a_place_that_every_case_comes_to() -> None:
    for fault in chosen(5, 3000, [name for name in KINDS if KINDS[name].family == IN_CASE]):
        assert 0 <= fault.rank < fault.world_size
        assert (fault.step is not None) == (fault.phase in STEPS)
        assert fault.step is None or fault.step < STEPS[fault.phase]
        if fault.strategy != "ddp":
            assert fault.phase != "no-communication" and fault.where != "step_fn"
        if fault.where == "optimizer":
            assert fault.phase != "check"


def test_a_matrix_keeps_the_order_of_its_cells(tmp_path: Path) -> None:
    cells = [cell("/a b/fault_001.py", "ddp", 3), cell("mlp", "all_reduce", 2, seed=1)]
    path = tmp_path / "matrix.toml"
    path.write_text(matrix(cells))
    tables = read_matrix(str(path))["scaling"]
    assert [{name: values[0] for name, values in each.items()} for each in tables] == cells


def test_faults_of_torchrun_are_dealt_out_to_many_sweeps() -> None:
    faults = [fault for fault in chosen(9, 200) if KINDS[fault.kind].family == IN_CASE]
    sweeps = groups(faults)
    assert sorted(fault.number for each in sweeps for fault in each) == [f.number for f in faults]
    for each in sweeps:
        assert len(each) <= 12 and len({fault.world_size for fault in each}) == 1
        assert [fault.number for fault in each] == sorted(fault.number for fault in each)
        assert sum(fault.kind.endswith("of torchrun") for fault in each) <= 2


TRUTH = {"rank": 1, "phase": "timed", "step": 3}


def entry(**fields: Any) -> dict[str, Any]:
    failure = {"outcome": "failed", "type": "ValueError", "message": "", **TRUTH, **fields}
    return {"type": "failure", "failure": failure}


def judged(kind: str, entry: dict[str, Any]) -> Verdict:
    verdict = Verdict(Fault(1, kind), injected=True)
    in_case.judge(verdict, entry, TRUTH)
    return verdict


def test_what_is_right_is_right() -> None:
    assert judged("no message", entry()).right
    assert judged("os._exit(3)", entry(outcome="crashed", step=None)).right
    assert judged("SIGKILL of torchrun", {"type": "launch_result"}).right
    assert judged(
        "SIGKILL of torchrun", entry(outcome="crashed", rank=0, message="the launcher is gone")
    ).right


@pytest.mark.parametrize(
    ("kind", "wrong", "field"),
    [
        ("no message", {"outcome": "crashed"}, "outcome_right"),
        ("no message", {"type": "TypeError"}, "outcome_right"),
        ("no message", {"rank": 0}, "rank_right"),
        ("no message", {"phase": "warm-up"}, "phase_right"),
        ("no message", {"step": 2}, "step_right"),
        ("no message", {"step": None}, "step_right"),
        ("os._exit(3)", {"outcome": "crashed", "step": 2}, "step_right"),
        ("SIGKILL of torchrun", {"outcome": "crashed", "message": "gone"}, "outcome_right"),
    ],
)
def test_what_is_wrong_is_wrong_and_said(kind: str, wrong: dict[str, Any], field: str) -> None:
    verdict = judged(kind, entry(**wrong))
    assert getattr(verdict, field) is False
    assert not verdict.right
    report = verdict.report(seed=12)
    assert "seed 12" in report and "phase timed, step 3" in report


def test_a_fault_that_did_not_happen_is_not_right() -> None:
    verdict = Verdict(Fault(1, "no message"))
    assert not verdict.right
    assert "did not happen" in verdict.report(1)


def test_the_table_counts_what_could_be_checked() -> None:
    fault = Fault(1, "no message")
    verdicts = [
        Verdict(fault, injected=True, outcome_right=True, rank_right=True, seconds=1.0),
        Verdict(fault, injected=True, outcome_right=False, rank_right=None, seconds=3.0, left=[7]),
        Verdict(Fault(2, "os._exit(0)")),
    ]
    rows = [line.split("  ") for line in table(verdicts).splitlines()]
    cells = [[part.strip() for part in row if part.strip()] for row in rows]
    assert cells[0][:4] == ["kind of fault", "injected", "outcome right", "rank right"]
    nothing = ["-"] * 4
    row = ["no message", "2/2", "1/2", "1/1", *nothing, "1", "2.00", "3.00"]
    assert row in cells
    assert ["os._exit(0)", "0/1", "-", "-", *nothing, "0", "-", "-"] in cells
    assert cells[-1] == ["all", "2/3", *row[2:]]


def test_a_journal_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.jsonl"
    journal = Journal(path)
    assert journal.more() == []
    path.write_text('{"type": "header"}\n{"type": "fail')
    assert journal.more() == [{"type": "header"}]
    assert journal.begun and journal.torn() == b'{"type": "fail'
    path.write_text('{"type": "header"}\n{"type": "failure"}\nrubbish\n')
    assert journal.more() == [{"type": "failure"}]
    assert len(journal.problems) == 1 and journal.torn() == b""


def test_journal_and_final_json_must_agree(tmp_path: Path) -> None:
    fields = {"median_step_s": 0.5}
    result = {"launch": 0, "step_s": [0.5, 0.25], "fields": fields}
    lines: list[dict[str, Any]] = [
        {"type": "launch_result", "id": "a", "launch_result": result},
        {"type": "failure", "id": "b", "failure": {"outcome": "crashed"}},
    ]
    path = tmp_path / "run.journal.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    journal = Journal(path)
    journal.more()
    outcomes = [
        {"id": "a", "outcome": "ok", "failure": None},
        {"id": "b", "outcome": "crashed", "failure": {"outcome": "crashed"}},
    ]
    benchmark = {
        "stats": {"data": [0.5, 0.25]},
        "extra_info": {"id": "a", "result": {"launches": [fields]}},
    }
    document = {"benchmarks": [benchmark], "lockstep": {"outcomes": outcomes}}
    assert disagreements(journal, document) == []
    assert disagreements(journal, None)
    assert disagreements(journal, {**document, "benchmarks": []})
    assert disagreements(journal, {**document, "lockstep": {"outcomes": outcomes[:1]}})
    other = {**benchmark, "stats": {"data": [0.5, 0.26]}}
    assert disagreements(journal, {**document, "benchmarks": [other]})


def test_three_faults_for_real(tmp_path: Path) -> None:
    faults = [
        Fault(
            *(1, "exception in backward", 1, 2, "ddp", "backward", "profiled", 4),
            {"type": "KeyError", "message": "a sample", "hook": True},
        ),
        Fault(2, "SIGKILL of the child", 0, 2, "all_reduce", "optimizer", "timed", 2),
        Fault(3, "MemoryError", 1, 2, "ddp", "build", "build"),
    ]
    verdicts = in_case.run(faults, tmp_path)
    assert [verdict.problems for verdict in verdicts] == [[], [], []]
    assert all(verdict.right for verdict in verdicts)
    checked = [v.rank_right and v.phase_right and v.step_right for v in verdicts]
    assert checked == [True, True, True]
