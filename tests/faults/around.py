"""Faults around a sweep: signals to pytest, hosts and ports that are not there, disks, rubbish.

Every one has a sweep of its own, of healthy cells.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.case import Case
from tests.faults.kinds import Fault
from tests.faults.rubbish import Rubbish
from tests.faults.sweeps import (
    GONE_WITHIN_S,
    SETTLED_S,
    Cell,
    Sweep,
    cell,
    disagreements,
    outcomes_by,
)
from tests.faults.verdict import Verdict

#: Steps of 20 ms: cells long enough to be interrupted in, of steps that load no core.
SLOW = "sleep:layers=1:forward_ms=20:backward_ms=0"
#: Of a whole sweep here; it takes about 15 s.
_MOST_SECONDS = 180
_ENDS_WITHIN_S = 5.0
_UNKNOWN_HOST_WITHIN_S = 20.0
#: With strangers at the door a sweep may take longer, but not several times as long.
_WITH_STRANGERS_S = 60.0
FILLER = "filler"
_DISK_BYTES = 2 * 2**20


def run(faults: Sequence[Fault], folder: Path) -> list[Verdict]:
    """Every fault in a sweep of its own."""
    return [_run(fault, folder) for fault in faults]


def _run(fault: Fault, folder: Path) -> Verdict:
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as ends:
        scene = Scene(Verdict(fault), folder, ends)
        SCENES[fault.kind](scene)
        if not scene.verdict.right:
            scene.verdict.problems += scene.tails()
    return scene.verdict


class Scene:
    """One fault's verdict, folder and sweeps."""

    def __init__(self, verdict: Verdict, folder: Path, ends: contextlib.ExitStack) -> None:
        self.verdict = verdict
        self.folder = folder
        self.options = verdict.fault.options
        self._ends = ends
        self._sweeps: list[Sweep] = []
        self.ended_s = 0.0  # when pytest had ended, on the monotonic clock

    def tails(self) -> list[str]:
        """What pytest printed last, for whoever reads that something is not right."""
        return [f"pytest printed, at the end:\n{each.output[-800:]}" for each in self._sweeps]

    def start(self, cells: list[Cell], *arguments: str, **keywords: Any) -> Sweep:
        sweep = Sweep(self.folder, cells, *arguments, **keywords)
        self._ends.callback(sweep.close)
        self._sweeps.append(sweep)
        return sweep

    def entered(self, context: contextlib.AbstractContextManager[Any]) -> Any:
        return self._ends.enter_context(context)

    def check(self, field: str, right: bool, problem: str) -> None:
        """A part of the verdict: right only as long as all its checks are."""
        setattr(self.verdict, field, getattr(self.verdict, field) is not False and right)
        if not right:
            self.verdict.problems.append(problem)

    def ended(self, sweep: Sweep, seconds: float = _MOST_SECONDS) -> bool:
        """Wait for pytest, then look for what it has left behind."""
        ended = sweep.wait(seconds)
        self.ended_s = time.monotonic()
        self.check("outcome_right", ended, f"pytest did not end within {seconds:g} s")
        if ended:
            self.look_for_processes(sweep, SETTLED_S)
        return ended

    def look_for_processes(self, sweep: Sweep, seconds: float) -> float:
        left, took_s = sweep.left_over(seconds)
        self.verdict.left += [process.pid for process in left]
        self.verdict.problems += [f"still there after pytest ended: {each.words}" for each in left]
        return took_s

    def check_status(self, sweep: Sweep, right: int) -> None:
        said = f"pytest ended with status {sweep.status}, not {right}"
        self.check("outcome_right", sweep.status == right, said)

    def check_files(self, sweep: Sweep) -> None:
        """Journal and final JSON can be read and say the same."""
        for problem in [*sweep.journal.problems, *disagreements(sweep.journal, sweep.document())]:
            self.check("readable", False, problem)
        torn = sweep.journal.torn()
        self.check("readable", not torn, f"the journal ends within an entry: {torn[-200:]!r}")

    def check_all_ok(self, sweep: Sweep, cells: list[Cell], field: str) -> None:
        said = _outcomes(sweep)
        wanted = {each["seed"]: "ok" for each in cells}
        self.check(field, said == wanted, f"outcomes by seed {said}, not {wanted}")

    def check_usage_error(self, sweep: Sweep) -> None:
        """One line, and nothing is measured."""
        self.check_status(sweep, 4)
        lines = [line for line in sweep.output.splitlines() if line.startswith("ERROR")]
        self.check("outcome_right", len(lines) == 1, f"{len(lines)} lines of error: {lines}")
        self.check_no_traceback(sweep)

    def check_no_traceback(self, sweep: Sweep) -> None:
        for word in ("Traceback", "INTERNALERROR"):
            self.check("outcome_right", word not in sweep.output, f"pytest printed a {word}")

    def waited_for_moment(self, sweep: Sweep) -> bool:
        """Until the moment that was drawn; False when the sweep is over before it."""

        def reached() -> bool:
            enough = len(sweep.journal.answers) >= self.options["cells"]
            return sweep.ended or (sweep.journal.begun and enough)

        in_time = sweep.watch(reached, _MOST_SECONDS)
        if in_time and not sweep.ended:
            sweep.watch(lambda: sweep.ended, self.options["delay_s"])
        self.verdict.injected = in_time and not sweep.ended
        if not self.verdict.injected:
            self.verdict.problems.append("the sweep was over before the moment came")
        return self.verdict.injected


def _outcomes(sweep: Sweep) -> dict[int, str]:
    outcomes = outcomes_by(sweep.document(), "seed")
    return {seed: outcome["outcome"] for seed, outcome in outcomes.items()}


def _slow_cells(count: int) -> list[Cell]:
    return [cell(SLOW, seed=seed) for seed in range(1, count + 1)]


def interrupted(number: signal.Signals) -> Callable[[Scene], None]:
    """Ends at once; what is finished is in the JSON, what is not is skipped and says why."""

    def scene_(scene: Scene) -> None:
        cells = _slow_cells(8)
        sweep = scene.start(cells, "--launches", str(scene.options["launches"]))
        if not scene.waited_for_moment(sweep):
            return
        sent_s = time.monotonic()
        if scene.options["group"]:
            sweep.signal_group(number)
        else:
            sweep.process.send_signal(number)
        if not scene.ended(sweep, 60):
            return
        scene.verdict.seconds = seconds = scene.ended_s - sent_s
        late = f"pytest ended after {seconds:.1f} s, not within {_ENDS_WITHIN_S:g} s"
        scene.check("outcome_right", seconds <= _ENDS_WITHIN_S, late)
        scene.check_status(sweep, 2)
        scene.check_no_traceback(sweep)
        scene.check_files(sweep)
        answers = sweep.journal.answers
        finished = {e["case"]["seed"] for e in answers if e["type"] == "launch_result"}
        outcomes = outcomes_by(sweep.document(), "seed")
        for each in cells:
            outcome = outcomes.get(each["seed"], {})
            said, reason = outcome.get("outcome"), str(outcome.get("reason"))
            if each["seed"] in finished:
                right = said == "ok"
            else:
                right = said == "skipped" and "interrupted" in reason
            where = "finished" if each["seed"] in finished else "not measured"
            problem = f"cell {each['seed']}, {where}: outcome {said!r}, reason {reason!r}"
            scene.check("outcome_right", right, problem)

    return scene_


def killed_and_resumed(scene: Scene) -> None:
    """All ranks are gone; --resume takes over what the journal holds and measures the rest."""
    cells = _slow_cells(8)
    sweep = scene.start(cells)
    if not scene.waited_for_moment(sweep):
        return
    sweep.process.kill()
    sweep.process.wait()
    scene.verdict.seconds = scene.look_for_processes(sweep, GONE_WITHIN_S)
    sweep.journal.more()
    for problem in sweep.journal.problems:
        scene.check("readable", False, problem)
    held = {}
    for entry in sweep.journal.answers:
        if entry["type"] == "launch_result":
            held[entry["case"]["seed"]] = entry["launch_result"]
        else:
            scene.check("outcome_right", False, f"a cell failed before the signal: {entry}")
    again = scene.start(cells, "--resume")
    # The journal is read when all is over: a wrong --resume may begin it anew.
    with contextlib.suppress(subprocess.TimeoutExpired):
        again.process.wait(_MOST_SECONDS)
    if not scene.ended(again, 1):
        return
    again.journal.more()
    scene.check_status(again, 0)
    scene.check_files(again)
    scene.check_all_ok(again, cells, "next_measured")
    document = again.document() or {"benchmarks": []}
    entries = {each["extra_info"]["case"]["seed"]: each for each in document["benchmarks"]}
    for seed, launch in held.items():
        found = entries.get(seed)
        taken_over = (
            found is not None
            and found["stats"].get("data") == launch["step_s"]
            and found["extra_info"]["result"]["launches"] == [launch["fields"]]
        )
        problem = f"cell {seed} was finished before; the final JSON does not hold those numbers"
        scene.check("outcome_right", taken_over, problem)


def _between_singles(*cells: Cell) -> list[Cell]:
    """Cells that need a rendezvous, and before and after them one that needs none."""
    return [cell("mlp", "single", 1, seed=1), *cells, cell("mlp", "single", 1, seed=9)]


def _check_between(scene: Scene, sweep: Sweep, phase: str | None, words: list[list[str]]) -> None:
    """The cells between the singles failed, with one word of each list in the message."""
    scene.verdict.injected = sweep.journal.begun
    outcomes = outcomes_by(sweep.document(), "seed")
    scene.check_status(sweep, 1)
    scene.check_files(sweep)
    for seed, outcome in outcomes.items():
        if seed in (1, 9):
            field = "next_measured" if seed == 9 else "outcome_right"
            scene.check(field, outcome["outcome"] == "ok", f"cell {seed}: {outcome}")
            continue
        failure = outcome["failure"] or {}
        message = str(failure.get("message"))
        said = f"cell {seed}: {outcome['outcome']} in {failure.get('phase')}: {message[:600]}"
        right = outcome["outcome"] == "failed" and all(
            any(word in message for word in either) for either in words
        )
        scene.check("outcome_right", right, f"right: failed, with {words}; said: {said}")
        if phase is not None:
            scene.check("phase_right", failure.get("phase") == phase, f"not in {phase}: {said}")
    wanted = {each["seed"] for each in sweep.cells}
    missing = f"outcomes of the cells {sorted(wanted - set(outcomes))} are missing"
    scene.check("next_measured", set(outcomes) == wanted, missing)


def port_taken(scene: Scene) -> None:
    taken = scene.entered(socket.create_server(("", 0)))
    port = taken.getsockname()[1]
    cells = _between_singles(cell("mlp", seed=2), cell("mlp", "all_reduce", seed=3))
    sweep = scene.start(cells, "--master-port", str(port))
    if scene.ended(sweep):
        hosts = ["127.0.0.1", "localhost", socket.gethostname()]
        _check_between(scene, sweep, "rendezvous", [[str(port)], hosts])


def unknown_host(scene: Scene) -> None:
    host = "no-such-host.invalid"
    sweep = scene.start(_between_singles(cell("mlp", seed=2)), "--master-addr", host)
    # The first single cell is there when the ranks have been started: from then on it counts.
    sweep.watch(lambda: sweep.ended or len(sweep.journal.answers) >= 1, _MOST_SECONDS)
    began_s = time.monotonic()
    sweep.watch(lambda: sweep.ended or len(sweep.journal.answers) >= 2, _MOST_SECONDS)
    scene.verdict.seconds = seconds = time.monotonic() - began_s
    late = f"failed after {seconds:.1f} s, not within {_UNKNOWN_HOST_WITHIN_S:g} s"
    scene.check("outcome_right", seconds <= _UNKNOWN_HOST_WITHIN_S, late)
    if scene.ended(sweep):
        _check_between(scene, sweep, None, [[host]])


def unknown_interface(scene: Scene) -> None:
    variable = {"GLOO_SOCKET_IFNAME": "eth99"}
    sweep = scene.start(_between_singles(cell("mlp", seed=2)), environment=variable)
    if scene.ended(sweep):
        _check_between(scene, sweep, "init", [["GLOO_SOCKET_IFNAME=eth99"]])


def why_no_mount() -> str | None:
    """Why no small disk can be mounted here; None where one can."""
    try:
        with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder) / "disk"):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None)
        return f"mounting a tmpfs needs root: {said.decode().strip() if said else error}"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own that is soon full. What was written to it is kept beside it."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield folder
    finally:
        kept = folder.with_name(f"{folder.name}-kept")
        shutil.copytree(folder, kept, ignore=shutil.ignore_patterns(FILLER))
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def fill(disk: Path) -> Path:
    """Take all the space there is; what to remove to give it back."""
    filler = disk / FILLER
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while file.write(bytes(65536)):
            pass
    return filler


def disk_full_before(scene: Scene) -> None:
    disk = scene.entered(small_disk(scene.folder / "disk"))
    fill(disk)
    sweep = scene.start(_slow_cells(1), results=disk / "run.json")
    scene.verdict.injected = True
    if scene.ended(sweep):
        scene.check_usage_error(sweep)


def disk_full_during(frees: bool) -> Callable[[Scene], None]:
    """The sweep goes on. With space again before the end everything is on disk at the end;
    without, the terminal says where it was put instead."""

    def scene_(scene: Scene) -> None:
        cells = _slow_cells(7)
        disk = scene.entered(small_disk(scene.folder / "disk"))
        sweep = scene.start(cells, results=disk / "run.json")
        enough = scene.options["cells"]
        sweep.watch(lambda: sweep.ended or len(sweep.journal.answers) >= enough, _MOST_SECONDS)
        scene.verdict.injected = not sweep.ended
        filler = fill(disk)
        if frees:
            # The terminal tells how far it is; the journal cannot.
            until = Case.from_dict(cells[enough + 2]).id
            sweep.watch(lambda: sweep.ended or until in sweep.output, 60)
            scene.check("outcome_right", not sweep.ended, "the sweep did not go on")
            filler.unlink()
        if not scene.ended(sweep):
            return
        says_so = re.search(r"(?i)no space left|disk (is )?full|(not|n't) (be )?writ", sweep.output)
        scene.check("outcome_right", says_so is not None, "the terminal does not say so")
        scene.check_no_traceback(sweep)
        if frees:
            scene.check_status(sweep, 0)
            scene.check_files(sweep)
            scene.check_all_ok(sweep, cells, "next_measured")
            return
        scene.check("outcome_right", sweep.status != 0, "pytest ended with status 0")
        seeds = {each["seed"] for each in cells}
        elsewhere = _named_files(sweep.output, disk)
        scene.check(
            "readable",
            any(seeds <= _seeds_in(path) for path in elsewhere),
            f"of the files that the terminal names {[str(path) for path in elsewhere]} none holds "
            "all cells",
        )

    return scene_


def _named_files(output: str, disk: Path) -> list[Path]:
    """The files elsewhere than on ``disk`` that the text names; of a folder those in it."""
    found: list[Path] = []
    for word in set(re.findall(r"/[^\s'\",;:()]+", output)):
        path = Path(word.rstrip("."))
        if disk in path.parents:
            continue
        with contextlib.suppress(OSError):  # of a word that is no path
            found += [path] if path.is_file() else [p for p in path.glob("*.json*") if p.is_file()]
    return [path for path in found if path.suffix in (".json", ".jsonl")]


def _seeds_in(path: Path) -> set[int]:
    """The cells that a final JSON or a journal holds as measured."""
    text = path.read_text(errors="replace")
    try:
        benchmarks = json.loads(text)["benchmarks"]
        return {each["extra_info"]["case"]["seed"] for each in benchmarks}
    except (ValueError, KeyError, TypeError):
        pass
    seeds = set()
    for line in text.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            if entry["type"] == "launch_result":
                seeds.add(entry["case"]["seed"])
    return seeds


def unwritable(scene: Scene) -> None:
    (scene.folder / "file").write_text("")
    (scene.folder / "folder.json").mkdir()
    results = {
        "below a file": scene.folder / "file" / "run.json",
        "below /proc": Path("/proc/lockstep/run.json"),
        "in /proc": Path("/proc/run.json"),
        "a folder": scene.folder / "folder.json",
    }[scene.options["path"]]
    sweep = scene.start(_slow_cells(1), results=results)
    scene.verdict.injected = True
    if scene.ended(sweep):
        scene.check_usage_error(sweep)


def rubbish(scene: Scene) -> None:
    """Strangers at the controller's port cost no case anything."""
    cells = _slow_cells(6)
    sweep = scene.start(cells)
    started_s = time.monotonic()
    with Rubbish(sweep.process.pid, scene.verdict.fault.number) as strangers:
        ended = scene.ended(sweep)
    scene.verdict.injected = strangers.connections > 0
    scene.verdict.seconds = seconds = scene.ended_s - started_s
    late = f"the sweep took {seconds:.0f} s, not less than {_WITH_STRANGERS_S:g} s"
    scene.check("outcome_right", seconds <= _WITH_STRANGERS_S, late)
    if ended:
        scene.check_status(sweep, 0)
        scene.check_files(sweep)
        scene.check_all_ok(sweep, cells, "next_measured")
    if not scene.verdict.right:
        scene.verdict.problems.append(f"strangers connected {strangers.connections} times")


SCENES: dict[str, Callable[[Scene], None]] = {
    "SIGINT of pytest": interrupted(signal.SIGINT),
    "SIGTERM of pytest": interrupted(signal.SIGTERM),
    "SIGKILL of pytest, --resume": killed_and_resumed,
    "master port taken": port_taken,
    "master address unknown": unknown_host,
    "GLOO_SOCKET_IFNAME unknown": unknown_interface,
    "disk full before": disk_full_before,
    "disk full for a while": disk_full_during(frees=True),
    "disk full for good": disk_full_during(frees=False),
    "results path unwritable": unwritable,
    "rubbish on the controller's port": rubbish,
}
