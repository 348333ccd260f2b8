"""pytest's edge: cells as tests, one line per case in the terminal, the JSON."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from bench.case import Case
from bench.closing import Written
from bench.journal import require_room
from bench.matrix import BENCHMARKS
from bench.options import add_options
from bench.record import ReplayTimer, case_warnings, extra_info, replay
from bench.result import Failure, LaunchResult
from bench.screen import Screen
from bench.session import Session
from bench.settings import Settings, emulation_text
from bench.terminal import case_line, ending_line, launch_line

BENCH = Path(__file__).parent / "bench"
SESSION = pytest.StashKey[Session]()
TIMER = pytest.StashKey[ReplayTimer]()
CASE = pytest.StashKey[Case]()
PUT_ELSEWHERE = pytest.StashKey[Path]()
SCREEN = pytest.StashKey[Screen]()

#: pytest-benchmark's options for its own table and files: whoever gives one wants to see it.
WANTS_TABLES = (
    *("columns", "sort", "group-by", "name", "time-unit", "histogram", "verbose"),
    *("compare", "cprofile"),
)


#: Options of which the command that measures one cell again needs each that was given.
WHERE_RANKS_ARE = ("launcher", "nodes", "ranks", "token_file")


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    xdist = hasattr(config, "workerinput") or config.getoption("dist", "no") != "no"
    if xdist and _bench_is_asked_for(config):
        raise pytest.UsageError(
            "Lockstep measures one case at a time: run it without pytest-xdist (-n 0)"
        )
    if _only_bench_is_asked_for(config) and not _tables_are_wanted(config):
        # As with --benchmark-quiet: its tables pool the steps of all launches, and are wide.
        config.option.benchmark_quiet = True


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    config = session.config
    if not _bench_is_asked_for(config):
        return
    try:
        settings = Settings.from_pytest(config, sys.executable)
        if _is_disabled(config):
            settings = settings.one_step()
        command = shlex.join(["pytest", *map(str, config.invocation_params.args)])
        screen = Screen(config)
        prepared = Session.prepare(settings, command, screen.say)
        if not config.option.collectonly:
            try:
                prepared.claim()
                prepared.origin.set_up()
            except BaseException:
                prepared.close()
                raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else "the results cannot be written: "
        raise pytest.UsageError(f"{where}{error.strerror}") from None
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[SESSION] = prepared
    config.stash[SCREEN] = screen
    config.addinivalue_line("filterwarnings", "ignore:Benchmark fixture was not used at all")
    for word in sorted(
        {
            word
            for cells in prepared.cells.values()
            for case in cells
            for word in (case.strategy, case.backend, case.device)
        }
    ):
        config.addinivalue_line("markers", f"{word}: cells whose strategy, backend or device it is")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    session = metafunc.config.stash.get(SESSION, None)
    if session is None or BENCH not in metafunc.definition.path.parents:
        return
    cells = session.cells[metafunc.function.__name__.removeprefix("test_")]
    metafunc.parametrize("case", [_parameter(case, session) for case in cells])


def _parameter(case: Case, session: Session) -> Any:
    marks = [getattr(pytest.mark, word) for word in (case.strategy, case.backend, case.device)]
    reason = session.why_not(case)
    if reason:
        marks.append(pytest.mark.skip(reason=reason))
    return pytest.param(case, id=case.id, marks=marks)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SESSION not in config.stash:
        return
    if any(_case_of(item) for item in items):
        # A benchmark without a cell in this matrix: pytest would call it skipped.
        items[:] = [item for item in items if _case_of(item) or BENCH not in item.path.parents]
    for item in items:
        case = _case_of(item)
        if case is not None:
            item.stash[CASE] = case
            item.stash[TIMER] = timer = ReplayTimer()
            # pytest-benchmark's documented way to another timer, and to groups.
            item.add_marker(pytest.mark.benchmark(timer=timer, group=case.model or case.collective))
    # In the order of the matrix: what others are compared with comes first.
    items.sort(key=lambda item: _benchmark_of(item) if CASE in item.stash else -1)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    """All launches but the last run before the first item; the items are the last one. Where
    interpreters are compared all launches do, and the confirmation of what looks slower.

    After a Ctrl-C the items still run, to hand over what has been measured, and measure nothing.
    """
    config = session.config
    prepared = config.stash.get(SESSION, None)
    if prepared is None or config.option.collectonly or config.getoption("benchmark_skip"):
        return (yield)
    selected = [item.stash[CASE] for item in session.items if CASE in item.stash]
    screen = config.stash[SCREEN]
    prepared.layout = screen.layout(selected, prepared.settings.launches)
    cases = [case for case in selected if not prepared.why_not(case)]
    if not cases:
        return (yield)

    def report(
        block: Sequence[Case], launch: int, answers: Mapping[str, LaunchResult | Failure]
    ) -> None:
        left = sweep.seconds_left()
        screen.say(launch_line(prepared.layout, block, launch, answers, left))

    def showing(block: Sequence[Case], launch: int) -> AbstractContextManager[None]:
        return screen.showing(sweep, block, launch)

    sweep = prepared.open(cases, report, screen.say, showing)
    with sweep.interrupt.listening():
        sweep.before_items()
        prepared.confirm(screen.say)
        result = yield
    if sweep.interrupt.asked:
        raise KeyboardInterrupt("the sweep was interrupted; --resume goes on with it")
    return result


@pytest.fixture
def measure(
    benchmark: Any, request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> Callable[[Case], None]:
    """Run a case's last launch and hand all its launches to pytest-benchmark."""
    session, screen = pytestconfig.stash[SESSION], pytestconfig.stash[SCREEN]
    item, rerun = request.node, _rerun(request.node, pytestconfig)

    def run(case: Case) -> None:
        assert session.sweep is not None
        answer = session.sweep.last_launch(case)
        if isinstance(answer, Failure):
            sentence = answer.sentence(case.id, rerun)
            session.note_outcome(case, answer.outcome, answer.message, answer, rerun)
            said = answer.sentence(case.id)
            screen.say(ending_line(session.layout, case.id, answer.outcome, said), item)
            if pytestconfig.get_verbosity() > 0 and answer.traceback:
                sentence += "\n" + answer.traceback
            pytest.fail(sentence, pytrace=False)
        if not answer:
            pytest.skip("the sweep was interrupted before this cell was measured")
        if benchmark.disabled:
            benchmark.pedantic(lambda: None)
            said = "one step ran; nothing measured"
            screen.say(ending_line(session.layout, case.id, "", said), item)
            return
        warnings = case_warnings(case, answer, session.cores)
        if len(answer) < session.settings.launches:
            warnings.append(
                f"only {len(answer)} of {session.settings.launches} launches: the sweep was "
                "interrupted"
            )
        benchmark.extra_info.update(extra_info(case, answer, warnings, session.confirmation(case)))
        replay(benchmark, item.stash[TIMER], answer)
        left = session.sweep.seconds_left()
        screen.say_numbers(case_line(session.layout, case, answer, session.alone(case), left), item)
        label = answer[0].fields.get("label")
        for remark in ([str(label)] if label else []) + warnings:
            screen.say(f"    {remark}", item)

    return run


def pytest_report_teststatus(report: Any, config: pytest.Config) -> Any:
    if SESSION not in config.stash or "/bench/" not in f"/{report.nodeid}":
        return None
    words = {"passed": "OK", "failed": "FAILED", "skipped": "SKIPPED"}
    if report.skipped or (report.when == "call" and report.outcome in words):
        # The case has a line of its own; a letter would only break it.
        return report.outcome, "", words[report.outcome]
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    """Every cell ends with an outcome; a cell is ok only when its whole test was."""
    report = yield
    session = item.config.stash.get(SESSION, None)
    if session is None or CASE not in item.stash:
        return report
    case, rerun = item.stash[CASE], _rerun(item, item.config)
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        session.note_outcome(case, "skipped", reason, None, rerun)
        said = ending_line(session.layout, case.id, "skipped", reason)
        item.config.stash[SCREEN].say(said, item)
    elif report.failed and session.outcomes.get(case.id, {}).get("outcome") in (None, "ok"):
        failure = Failure(
            phase=report.when,
            message=str(call.excinfo.value),
            type=call.excinfo.type.__name__,
            traceback=report.longreprtext,
        )
        session.note_outcome(case, failure.outcome, failure.message, failure, rerun)
    elif report.when == "call" and report.passed:
        session.note_outcome(case, "ok", None, None, rerun)
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]
) -> None:
    session = config.stash.get(SESSION, None)
    if session is None:
        return
    output_json["lockstep"] = session.record()
    entries = output_json["benchmarks"]
    for entry in entries:
        case = entry["extra_info"].get("case")
        if case is not None:
            entry["params"] = dict(case)  # PyTorch's names, for whoever reads params
    # pytest-benchmark keeps the numbers of a test that fails after it has measured.
    output_json["benchmarks"] = [
        entry for entry in entries if session.is_good(entry["extra_info"].get("id"))
    ]
    if session.settings.json_path is not None:
        # Without room there, half a file would stand in the place of an older whole one.
        config._benchmarksession.json = _place_for(config, output_json)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    """pytest-benchmark writes no file when nothing was measured: then the outcomes would be lost,
    and a file of an earlier run would stand there as if it were this one's."""
    config = session.config
    prepared = config.stash.get(SESSION, None)
    if prepared is None:
        return (yield)
    nothing_good = bool(prepared.outcomes) and not prepared.has_good
    if (
        nothing_good
        and prepared.settings.json_path is not None
        and not config.getoption("benchmark_disable")
    ):
        document = {"machine_info": {}, "benchmarks": [], "lockstep": prepared.record()}
        path = _place_for(config, document)
        path.write_text(json.dumps(document, allow_nan=False, indent=4))
    journal_is_whole = prepared.finish(config.stash[SCREEN].say)
    measured = not (
        _is_disabled(config) or config.option.collectonly or config.getoption("benchmark_skip")
    )
    below = prepared.shortfalls() if measured else []
    for line in below:
        config.stash[SCREEN].say(line)
    config.stash[SCREEN].end_lines()
    result = yield
    written = journal_is_whole and PUT_ELSEWHERE not in config.stash
    if session.exitstatus == 0 and (below or not written):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


def _place_for(config: pytest.Config, document: dict[str, Any]) -> Path:
    """The JSON's own path, or another where that has no room."""
    path = config.stash[SESSION].settings.json_path
    assert path is not None
    try:
        require_room(path, len(json.dumps(document, indent=4)))
        return path
    except OSError as error:
        other = Path(tempfile.mkdtemp(prefix="lockstep-kept-")) / path.name
        config.stash[SCREEN].say(
            f"{path}: {error.strerror}; the results are written to {other} instead"
        )
        config.stash[PUT_ELSEWHERE] = other
        return other


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is None or not session.outcomes or _is_disabled(config):
        return
    settings, sweep = session.settings, session.sweep
    journal = settings.journal_path
    results = config.stash.get(PUT_ELSEWHERE, settings.json_path)
    storage = config.getoption("benchmark_storage").removeprefix("file://")
    saved = config.getoption("benchmark_save") or config.getoption("benchmark_autosave")
    written = Written(
        results=results if results is not None and results.exists() else None,
        journal=journal if journal is not None and journal.exists() else None,
        traces=settings.traces_folder,
        # Another kind of storage is no folder, and its address can hold a password.
        storage=os.path.normpath(storage) if saved and "://" not in storage else None,
    )
    interrupted = sweep is not None and sweep.interrupt.asked
    config.stash[SCREEN].close(session, written, interrupted=interrupted)


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is not None:
        session.close()


def _bench_is_asked_for(config: pytest.Config) -> bool:
    """Whether any path on the command line is bench/, lies in it, or holds it."""
    for argument in config.args:
        path = (config.invocation_params.dir / argument.split("::")[0]).resolve()
        if path == BENCH or BENCH in path.parents or path in BENCH.parents:
            return True
    return False


def _is_disabled(config: pytest.Config) -> bool:
    """Whether everything is to run once and nothing to be measured."""
    disabled = config.getoption("benchmark_disable") and not config.getoption("benchmark_enable")
    return bool(disabled)


def _only_bench_is_asked_for(config: pytest.Config) -> bool:
    """Whether no test but ours can run."""
    paths = [
        (config.invocation_params.dir / argument.split("::")[0]).resolve()
        for argument in config.args
    ]
    return bool(paths) and all(path == BENCH or BENCH in path.parents for path in paths)


def _tables_are_wanted(config: pytest.Config) -> bool:
    """Whether an option of theirs was given, wherever pytest takes options from."""
    given = [
        *map(str, config.invocation_params.args),
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        *map(str, config.getini("addopts")),
    ]
    wanted = tuple(f"--benchmark-{name}" for name in WANTS_TABLES)
    return any(argument.startswith(wanted) for argument in given)


def _case_of(item: pytest.Item) -> Case | None:
    case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
    return case if isinstance(case, Case) else None


def _benchmark_of(item: pytest.Item) -> int:
    return BENCHMARKS.index(item.path.stem.removeprefix("test_"))


def _rerun(item: pytest.Item, config: pytest.Config) -> str:
    """The command that measures this cell alone."""
    settings = config.stash[SESSION].settings
    words = ["pytest", item.nodeid, "--matrix", settings.matrix]
    for axis in settings.axes:
        words += ["--axis", axis]
    for label, python in settings.pythons.items():
        words += ["--torch", f"{label}={python}"] if label else []
    usual = Settings()
    for name in ("master_addr", "master_port", "data_root", *WHERE_RANKS_ARE):
        if getattr(settings, name) != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(settings, name))]
    if settings.bind != usual.bind:
        words += ["--bind", "{}:{}".format(*settings.bind)]
    if settings.emulate is not None:
        words += ["--emulate", emulation_text(settings.emulate)]
    if settings.case_timeout_s is not None:
        words += ["--case-timeout", f"{settings.case_timeout_s:g}"]
    return shlex.join(words)
