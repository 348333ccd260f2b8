"""One sweep under pytest: what there is to measure, the machine it runs on, and how it went."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench import interpreters, journal, machine, matrix, min_busbw, regression
from bench.case import DEFAULT, Case
from bench.controller import Controller
from bench.journal import Journal, Recorded
from bench.matrix import Facts
from bench.origins import Origin
from bench.record import confirmed
from bench.result import SCHEMA, VERSION, Failure, LaunchResult
from bench.settings import Settings
from bench.sweep import Report, Showing, Sweep, unseen, whole_blocks_only
from bench.terminal import Layout, throughput
from bench.topology import Topology
from models.names import is_file, is_module

#: Begins the name of a sweep's own folder; the number of its process follows.
_FOLDER = "lockstep-sweep-"


@dataclass
class Session:
    """Built before collection; the sweep itself is opened when the first cell is to run."""

    settings: Settings
    command: str
    interpreters: dict[str, dict[str, Any]]
    facts: dict[str, Facts]
    topology: Topology
    origin: Origin
    cells: dict[str, list[Case]]
    cores: int
    gpus: int
    threads_per_rank: int
    machine: dict[str, Any]
    before: dict[str, Any]
    #: By model that is a file of the user's: a digest of it.
    definitions: dict[str, str | None] = field(default_factory=dict)
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: What happened on the way that a reader must know, one sentence each.
    notes: list[str] = field(default_factory=list)
    recorded: Recorded | None = None
    sweep: Sweep | None = None
    controller: Controller | None = None
    layout: Layout = field(default_factory=lambda: Layout(0))
    _folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def prepare(
        cls, settings: Settings, command: str, say: Callable[[str], None] = print
    ) -> Session:
        """Ask the interpreters what they have and lay out the cells.

        Raises ValueError, in one line, for options that are refused.
        """
        origin = Origin(settings)
        try:
            return cls._prepare(settings, command, origin, say)
        except BaseException:
            origin.close()
            raise

    @classmethod
    def _prepare(
        cls, settings: Settings, command: str, origin: Origin, say: Callable[[str], None]
    ) -> Session:
        groups = matrix.read_matrix(settings.matrix)
        axes = matrix.parse_axes(settings.axes)
        named = [*axes.get("model", [])] or [
            model
            for tables in groups.values()
            for table in tables
            for model in table.get("model", [])
        ]
        own = sorted({model for model in named if is_file(str(model)) or is_module(str(model))})
        asked = origin.ask(own, say)
        found, topology = asked.interpreters, asked.topology
        of_label = {
            label: topology.known_to(facts)
            for label, facts in interpreters.facts(found, topology.cores[0]).items()
        }
        cells = interpreters.lay_out(groups, axes, of_label)
        runnable = [
            case
            for group in cells.values()
            for case in group
            if not matrix.why_not(case, of_label[case.torch])
        ]
        topology = topology.settled(runnable)
        # GPUs and driver are the machine's; a build that cannot use them does not see them.
        most = max(found.values(), key=lambda about: len(about["gpus"]))
        return cls(
            settings=settings,
            command=command,
            interpreters=found,
            facts={label: topology.known_to(facts) for label, facts in of_label.items()},
            topology=topology,
            cells=cells,
            cores=topology.all_cores,
            gpus=len(most["gpus"]),
            threads_per_rank=topology.threads_per_rank(runnable),
            machine=machine.describe()
            | {"gpus": most["gpus"], "driver": most["driver"], "environment": asked.environment},
            before=machine.state(),
            definitions={
                name: model["sha256"]
                for about in found.values()
                for name, model in about["models"].items()
            },
            origin=origin,
        )

    def why_not(self, case: Case) -> str | None:
        return matrix.why_not(case, self.facts[case.torch])

    def claim(self) -> None:
        """Find out before anything is measured whether results can be written, and read what an
        earlier run has left to go on from.

        Raises ValueError or OSError, in one line.
        """
        path, json_path = self.settings.journal_path, self.settings.json_path
        if path is None or json_path is None:
            return
        launches = sum(map(len, self.cells.values())) * self.settings.launches
        for file in (json_path, path):
            journal.claim(file, launches)
        if not self.settings.resume or not path.exists() or not path.stat().st_size:
            return  # nothing to go on from: a new run
        self.recorded = journal.read(path)
        differences = journal.differences(self.recorded.header, self._header())
        if differences:
            raise ValueError(
                f"--resume: {path} was measured under other conditions: {'; '.join(differences)}. "
                "Measure anew without --resume, or into another file"
            )
        if journal.rebooted(self.recorded.header, self._header()):
            self.notes.append("the machine was started anew between the parts of this run")

    def open(
        self,
        cases: list[Case],
        report: Report,
        say: Callable[[str], None],
        showing: Showing = unseen,
    ) -> Sweep:
        """Ready to measure exactly these cases."""
        _remove_folders_of_the_dead()
        self._folder = tempfile.TemporaryDirectory(
            prefix=f"{_FOLDER}{os.getpid()}-", ignore_cleanup_errors=True
        )
        kept = Journal(self.settings.journal_path, say)
        found: dict[str, dict[int, LaunchResult]] = {}
        if self.recorded is None:
            kept.begin(self._header())
        else:
            found, warnings = journal.usable(self.recorded, cases, self.definitions)
            whole_blocks_only(found, cases)
            self.notes += [*self.recorded.warnings, *warnings]
            kept.go_on(self._header())
            self.notes.append(
                f"{sum(map(len, found.values()))} launches of {len(found)} cells were taken from "
                f"{self.settings.journal_path}"
            )
        folder = Path(self._folder.name)
        controller = Controller(
            self.settings,
            dict(self.settings.pythons),
            self.threads_per_rank,
            folder,
            self.origin.source(self.topology.ranks_of_hosts, folder),
            self.topology.one_machine,
        )
        self.controller = controller
        self.sweep = Sweep(
            controller,
            kept,
            self.settings.launches,
            cases,
            report,
            children=self.settings.children_per_launch,
            order_seed=self.settings.order_seed,
            answers={case_id: dict(answers) for case_id, answers in found.items()},
            definitions=self.definitions,
            showing=showing,
        )
        pairs = regression.pairs_of(self.sweep, self.settings.base)
        few = regression.too_few(self.settings.launches, len(pairs))
        self.notes += [few] if few else []
        for note in self.notes:
            say(note)
        return self.sweep

    def confirm(self, say: Callable[[str], None]) -> None:
        """Say how the interpreters compare; measure what looks slower once more."""
        sweep = self.sweep
        if sweep is None or not sweep.comparing or sweep.interrupt.asked:
            return
        compared = regression.compare(sweep, self.settings.base)
        if not compared:
            return
        flagged = regression.flagged(compared)
        say(regression.heading(compared))
        for each in compared:
            say(regression.line(each, self.layout))
        if not flagged or not self.settings.confirm:
            return
        look = "1 looks" if len(flagged) == 1 else f"{len(flagged)} look"
        say(f"{look} slower: measured once more, in {sweep.launches} fresh pairs")
        ids = {each.base.id for each in flagged}
        sweep.confirm(block for block in sweep.blocks if any(case.id in ids for case in block))
        for each in regression.confirm(sweep, flagged):
            say(regression.line(each, self.layout, ", on the fresh pairs alone"))

    def confirmation(self, case: Case) -> dict[str, Any] | None:
        """The record of the case's confirmation; None where it was not measured once more."""
        sweep = self.sweep
        if sweep is None or not any(case in block for block in sweep.confirming):
            return None
        return confirmed(sweep.confirmation(case), sweep.launches)

    def finish(self, say: Callable[[str], None]) -> bool:
        """The last chance for lines the disk refused; whether the journal holds everything."""
        if self.sweep is None:
            return True
        lost = self.sweep.journal.end(self.sweep.complete)
        if not lost:
            return True
        refuge = Path(tempfile.mkdtemp(prefix="lockstep-kept-")) / "rest.journal.jsonl"
        try:
            self.sweep.journal.save_pending(refuge)
        except OSError as error:
            say(f"{lost} lines of the journal could be written nowhere ({error})")
            return False
        say(
            f"{lost} lines of the journal could not be written to {self.settings.journal_path} "
            f"and are in {refuge}: append them to it before you --resume"
        )
        return False

    def close(self) -> None:
        try:
            if self.sweep is not None:
                self.sweep.controller.stop()
        finally:
            self.origin.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def alone(self, case: Case) -> float | None:
        """Samples per second of the same job on one rank, where this sweep has measured it."""
        if not case.trains:
            return None
        baseline = _one_rank(case)
        if self.sweep is None or baseline not in self.sweep.cells:
            return None
        launches = self.sweep.good(baseline)
        if len(launches) < self.settings.launches:
            return None
        return throughput(baseline, launches)

    def shortfalls(self) -> list[str]:
        """Who has less than --min-busbw, a line each; none where nothing is asked for."""
        least = self.settings.min_busbw_bytes_per_s
        if least is None:
            return []
        if self.sweep is None:
            return min_busbw.shortfalls([], lambda case: [], least)
        return min_busbw.shortfalls(self.sweep.cells, self.sweep.good, least)

    def note_outcome(
        self, case: Case, outcome: str, reason: str | None, failure: Failure | None, rerun: str
    ) -> None:
        self.outcomes[case.id] = {
            "id": case.id,
            "case": case.to_dict(),
            "outcome": outcome,
            "reason": reason,
            "failure": failure.to_dict() if failure else None,
            "rerun": rerun,
        }

    def is_good(self, case_id: str | None) -> bool:
        """Whether a benchmark's numbers count: no cell of ours, or one that ended well."""
        return case_id is None or self.outcomes.get(case_id, {}).get("outcome") == "ok"

    @property
    def has_good(self) -> bool:
        return any(outcome["outcome"] == "ok" for outcome in self.outcomes.values())

    def record(self) -> dict[str, Any]:
        """The top-level ``lockstep`` of the JSON."""
        largest = self._largest_world_size()
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "settings": self._settings(),
            "machine": self.machine,
            "hosts": self.origin.hosts(self.topology, self.machine, self.interpreters, largest),
            "state": {"before": self.before, "after": machine.state()},
            "interpreters": self.interpreters,
            "outcomes": list(self.outcomes.values()),
            "warnings": [
                *machine.warnings(
                    self.machine,
                    self.before,
                    gpus=self.gpus,
                    launches=self.settings.launches,
                    largest_world_size=largest,
                    threads_per_rank=self.threads_per_rank,
                    cores=self.cores,
                ),
                *self.notes,
                *self._dropped(),
            ],
        }

    def _dropped(self) -> list[str]:
        if self.controller is None or not self.controller.dropped:
            return []
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.controller.dropped.items())
        return [f"connections of strangers were turned away: {reasons}"]

    def _header(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "settings": self._settings(),
            "machine": self.machine,
            "interpreters": self.interpreters,
            "hosts": self.origin.summary(),
        }

    def _largest_world_size(self) -> int:
        cases = self.sweep.cells if self.sweep else []
        return max((case.processes for case in cases), default=1)

    def _settings(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "matrix": settings.matrix,
            "axes": list(settings.axes),
            "launches": settings.launches,
            "children": settings.children_per_launch,
            "order_seed": settings.order_seed,
            "confirm": settings.confirm,
            "min_steps": settings.min_steps,
            "warm_up_steps": settings.warm_up_steps,
            "precision": settings.precision,
            "max_seconds": settings.max_seconds,
            "profiled_steps": settings.profiled_steps,
            "passes": list(settings.passes),
            "isolation": settings.isolation,
            "min_busbw_bytes_per_s": settings.min_busbw_bytes_per_s,
            "case_timeout_s": settings.case_limit_s,
            "launch_timeout_s": settings.launch_timeout_s,
            "launcher": settings.launcher,
            "nodes": settings.nodes if settings.launcher is not None else None,
            "ranks": settings.ranks if settings.ranks == "external" else None,
            "emulate": dataclasses.asdict(settings.emulate) if settings.emulate else None,
            "ranks_of_hosts": list(self.topology.ranks_of_hosts) or None,
            "hosts_are_one_machine": self.topology.one_machine or None,
            "seed": 0,
            "threads_per_rank": self.threads_per_rank,
            "largest_world_size": self._largest_world_size(),
            "command": self.command,
        }


def _remove_folders_of_the_dead() -> None:
    """A sweep that was killed could not remove its own folder."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        pid = folder.name.removeprefix(_FOLDER).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)  # another user's stays


def _one_rank(case: Case) -> Case:
    """The baseline of a case: weak scaling keeps the batch per rank, strong the global batch."""
    batch_size = case.global_batch_size if case.scaling == "strong" else case.batch_size
    return case.replace(
        world_size=1, batch_size=batch_size, scaling="weak", placement=DEFAULT.placement
    )
