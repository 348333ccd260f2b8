"""Faults inside a case: many faulty cells in one sweep, a healthy one after each."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults.kinds import CASE_TIMEOUT_S, KINDS, Fault, Kind
from tests.faults.sweeps import (
    GONE_WITHIN_S,
    LOOK_EVERY_S,
    SETTLED_S,
    Cell,
    Left,
    Sweep,
    cell,
    disagreements,
    lives,
    outcomes_by,
)
from tests.faults.verdict import Verdict

#: Of one case with its relaunch, on a machine that has other things to do.
_MOST_SECONDS_A_CASE = CASE_TIMEOUT_S + 40

MODEL_FILE = """\
\"\"\"A model with one fault in it; tests/faults/model.py does it.\"\"\"

from tests.faults.model import FaultyModel

made = FaultyModel(**{arguments!r})
build, batch, loss, optimizer = made.build, made.batch, made.loss, made.optimizer
step_fn = made.step_fn
"""


def run(faults: Sequence[Fault], folder: Path) -> list[Verdict]:
    """The faults in one sweep; those that did not have their turn in it in a further one."""
    verdicts: list[Verdict] = []
    left = list(faults)
    while left:
        found = _run(left, folder / f"sweep-{len(faults) - len(left)}")
        over = [verdict for verdict in found if verdict.over]
        if not over:  # none of them has a turn: more sweeps would change nothing
            return verdicts + found
        verdicts += over
        left = [verdict.fault for verdict in found if not verdict.over]
    return verdicts


def _run(faults: Sequence[Fault], folder: Path) -> list[Verdict]:
    folder.mkdir(parents=True)
    with contextlib.closing(Sweep(folder, _cells(faults, folder))) as sweep:
        watched = {_model(fault, folder): _Watched(fault, sweep) for fault in faults}
        deadline = time.monotonic() + 60 + 2 * len(faults) * _MOST_SECONDS_A_CASE
        while not sweep.ended and time.monotonic() < deadline:
            _look(sweep, watched)
        ended = sweep.ended
        left = sweep.left_over(SETTLED_S)[0] if ended else []
        _look(sweep, watched)
        while any(each.looking for each in watched.values()):
            _look(sweep, watched)
        verdicts = [each.verdict() for each in watched.values()]
        _blame(verdicts, left, _problems_of(sweep, ended))
    return verdicts


def _look(sweep: Sweep, watched: dict[str, _Watched]) -> None:
    seen_unix_s = time.time()
    for entry in sweep.journal.more():
        model = entry.get("case", {}).get("model")
        if model in watched:
            watched[model].entered(entry, seen_unix_s)
    for each in watched.values():
        each.look()
    time.sleep(LOOK_EVERY_S)


def _blame(verdicts: list[Verdict], left: list[Left], problems: list[str]) -> None:
    """A process that outlives pytest belongs to the fault that noted it; what is wrong with a
    sweep as a whole, and processes that nobody knows, are put down to its last fault."""
    last = ([verdict for verdict in verdicts if verdict.over] or verdicts)[-1]
    last.problems += problems
    for process in left:
        of = next((v for v in verdicts if process.pid in v.pids), last)
        of.problems.append(f"still there after pytest ended: {process.words}")
        if process.pid not in of.left:
            of.left.append(process.pid)


def _problems_of(sweep: Sweep, ended: bool) -> list[str]:
    document = sweep.document()
    problems = [*sweep.journal.problems, *disagreements(sweep.journal, document)]
    if torn := sweep.journal.torn():
        problems.append(f"the journal ends within an entry: {torn[:200]!r}")
    outcomes = outcomes_by(document, "model").values()
    right = int(any(outcome["outcome"] not in ("ok", "skipped") for outcome in outcomes))
    if not ended:
        problems.append("pytest did not end in time")
    elif sweep.status != right:
        problems.append(
            f"pytest ended with status {sweep.status}, not {right}:\n{sweep.output[-3000:]}"
        )
    return problems


def _cells(faults: Sequence[Fault], folder: Path) -> list[Cell]:
    cells: list[Cell] = []
    for fault in faults:
        path = Path(_model(fault, folder))
        arguments = asdict(fault)
        del arguments["world_size"], arguments["strategy"]
        path.write_text(MODEL_FILE.format(arguments=arguments))
        cells.append(cell(str(path), fault.strategy, fault.world_size))
        cells.append(cell("mlp", fault.strategy, fault.world_size, seed=fault.number))
    return cells


def _model(fault: Fault, folder: Path) -> str:
    return str(folder / f"fault_{fault.number:03}.py")


class _Watched:
    """One fault while its sweep runs."""

    def __init__(self, fault: Fault, sweep: Sweep) -> None:
        self.fault = fault
        self.sweep = sweep
        self.entry: dict[str, Any] | None = None
        self.seen_unix_s = 0.0
        self.looking = False
        self.left: list[dict[str, Any]] = []

    def entered(self, entry: dict[str, Any], seen_unix_s: float) -> None:
        """The case's line is in the journal: from now on its processes must go."""
        self.entry = entry
        self.seen_unix_s = seen_unix_s
        self.looking = True

    def look(self) -> None:
        if not self.looking:
            return
        self.left = [noted for noted in self._noted() if lives(noted)]
        self.looking = bool(self.left) and time.time() - self.seen_unix_s < GONE_WITHIN_S

    def _noted(self) -> list[dict[str, Any]]:
        """The case's children, and the grandchild where there is one."""
        number = self.fault.number
        paths = [
            *self.sweep.notes.glob(f"{number}-rank-*.json"),
            *self.sweep.notes.glob(f"{number}-grandchild.json"),
        ]
        return [{"name": path.stem, **json.loads(path.read_text())} for path in paths]

    def verdict(self) -> Verdict:
        verdict = Verdict(self.fault)
        path = self.sweep.notes / f"{self.fault.number}-fault.json"
        truth = json.loads(path.read_text()) if path.exists() else None
        verdict.injected = truth is not None
        not_now = (self.sweep.notes / f"{self.fault.number}-not-now.json").exists()
        verdict.over = not not_now and (truth is not None or self.entry is not None)
        verdict.pids = [noted["pid"] for noted in self._noted()]
        verdict.left = [noted["pid"] for noted in self.left]
        verdict.problems += [
            f"still there {GONE_WITHIN_S:g} s after the case was over: {noted}"
            for noted in self.left
        ]
        if truth is None:
            if verdict.over:
                verdict.problems.append(f"there is no note of it: {_short(self.entry, 1000)}")
            return verdict
        if self.entry is None:
            verdict.outcome_right = verdict.readable = False
            verdict.problems.append("the case is not in the journal")
        else:
            verdict.seconds = self.seen_unix_s - truth["unix_s"]
            judge(verdict, self.entry, truth)
            self._judge_document(verdict)
        self._judge_next(verdict)
        return verdict

    def _judge_document(self, verdict: Verdict) -> None:
        assert self.entry is not None
        outcome = outcomes_by(self.sweep.document(), "model").get(self.entry["case"]["model"])
        said = outcome["outcome"] if outcome else None
        written = outcome_of(self.entry)
        verdict.readable = said == written
        if not verdict.readable:
            verdict.problems.append(f"{written!r} in the journal, {said!r} in the final JSON")

    def _judge_next(self, verdict: Verdict) -> None:
        seed = self.fault.number
        journalled = [
            entry
            for entry in self.sweep.journal.answers
            if entry["case"]["seed"] == seed and entry["case"]["model"] == "mlp"
        ]
        outcome = outcomes_by(self.sweep.document(), "seed").get(seed, {})
        verdict.next_measured = [entry["type"] for entry in journalled] == [
            "launch_result"
        ] and outcome.get("outcome") == "ok"
        if not verdict.next_measured:
            verdict.problems.append(
                f"the next case was not measured: {_short(journalled)}, outcome {_short(outcome)}"
            )


def outcome_of(entry: dict[str, Any]) -> str:
    return str(entry["failure"]["outcome"]) if entry["type"] == "failure" else "ok"


def judge(verdict: Verdict, entry: dict[str, Any], truth: dict[str, Any]) -> None:
    """The journal's entry against what the fault's note says."""
    kind: Kind = KINDS[verdict.fault.kind]
    outcome = outcome_of(entry)
    failure = entry.get("failure") or {}
    wanted_type = verdict.fault.options.get("type", kind.type)
    type_right = outcome == "ok" or wanted_type in (None, failure.get("type"))
    names_right = (
        outcome == "ok"
        or not kind.names
        or any(name in failure.get("message", "") for name in kind.names)
    )
    verdict.outcome_right = outcome in kind.outcomes and type_right and names_right
    if outcome != "ok" and kind.outcomes != ("ok",):  # else there is nobody to blame
        if kind.blames_rank:
            verdict.rank_right = failure.get("rank") == truth["rank"]
        if kind.says_phase:
            verdict.phase_right = failure.get("phase") == truth["phase"]
        if kind.step != "unchecked":
            allowed = [truth["step"]] if kind.step == "right" else [truth["step"], None]
            verdict.step_right = failure.get("step") in allowed
    checked = (
        verdict.outcome_right,
        verdict.rank_right,
        verdict.phase_right,
        verdict.step_right,
    )
    if False in checked:
        wanted = f"outcome {' or '.join(kind.outcomes)}"
        if wanted_type:
            wanted += f", type {wanted_type}"
        if kind.names:
            wanted += f", message with {' or '.join(kind.names)}"
        verdict.problems += [
            f"right:  {wanted}; rank {truth['rank']}, phase {truth['phase']}, step {truth['step']}",
            f"said:   outcome {outcome}; rank {failure.get('rank')}, "
            f"phase {failure.get('phase')}, step {failure.get('step')}, "
            f"{failure.get('type')}: {_short(failure.get('message'), 600)}",
        ]


def _short(value: Any, most: int = 300) -> str:
    text = ascii(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
