from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import journal
from bench.case import Case
from bench.journal import Journal, differences, read, usable
from bench.result import Failure, LaunchResult

HEADER: dict[str, Any] = {
    "version": "0.1.0",
    "settings": {"min_steps": 20, "matrix": "quick"},
    "machine": {"cpu": "x", "boot_id": "a", "environment": {"NCCL_DEBUG": "INFO"}},
    "interpreters": {"": {"torch": "2.14.1", "executable": "/py"}},
}
#: Numbers that only survive if every bit does.
STEPS = (0.1 + 0.2, 1 / 3, 5e-324, 123456.78900000001)


def result(launch: int) -> LaunchResult:
    return LaunchResult(launch, STEPS, {"median_step_s": 1 / 3, "ranks": [{"rank": 0}]})


def written(path: Path, *entries: tuple[Case, int, LaunchResult | Failure]) -> Journal:
    made = Journal(path, lambda line: None)
    made.begin(HEADER)
    for entry in entries:
        made.append(*entry)
    return made


def test_a_line_is_on_disk_as_soon_as_it_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.jsonl"
    made = written(path)
    for number in range(3):
        made.append(Case(), number, result(number))
        lines = path.read_bytes().splitlines(keepends=True)
        assert len(lines) == number + 2
        assert lines[-1].endswith(b"\n")
        assert json.loads(lines[-1])["launch"] == number


def test_what_is_read_is_what_was_written_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "j"
    failure = Failure(phase="timed", message="no", rank=1, step=3, traceback="here")
    written(path, (Case(), 0, result(0)), (Case(seed=1), 0, failure))
    recorded = read(path)
    assert recorded.answers == {(Case().id, 0): result(0), (Case(seed=1).id, 0): failure}
    assert recorded.header == {"type": "header", "schema": 1, **HEADER}
    assert recorded.warnings == []


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_cut_off_and_said(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    made = written(path, (Case(), 0, result(0)), (Case(), 1, result(1)))
    whole = path.read_bytes()
    os.truncate(path, len(whole) - cut)
    recorded = read(path)
    assert set(recorded.answers) == {(Case().id, 0)}
    assert "the last line was torn" in recorded.warnings[0]
    made.append(Case(), 1, result(1))  # and what is appended now does not meet half a line
    assert path.read_bytes() == whole
    assert read(path).warnings == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no journal"),
        (b'{"type": "launch_result"}\n', "is no journal"),
        (b'{"type": "header"}\nrubbish\n{"type": "end"}\n', "line 2 is not JSON"),
        (b'{"type": "header"}\n[]\n', "line 2 is no JSON object"),
        (b'{"type": "header"}\n{"type": "failure", "id": "x", "launch": 0}\n', "line 2"),
        (b"\xff\xfe\n", "line 1 is not JSON"),
    ],
)
def test_what_is_no_journal_is_refused_in_a_line(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "j"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as refused:
        read(path)
    assert "\n" not in str(refused.value)


def test_an_unfinished_journal_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "j"
    said: list[str] = []
    for _ in range(2):
        made = Journal(path, said.append)
        made.begin(HEADER)
        made.append(Case(), 0, result(0))
    assert said == [f"the journal of a run that was not finished is kept as {path}.1"]
    assert len(read(tmp_path / "j.1").answers) == 1
    made.end(complete=True)
    Journal(path, said.append).begin(HEADER)  # a finished one is replaced, as the JSON is
    assert len(said) == 1


class FullDisk:
    """Lets ``room`` bytes through and then says what a full disk says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        honest = os.fsync

        def fsync(fileno: int) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            honest(fileno)

        monkeypatch.setattr(os, "fsync", fsync)


def test_a_full_disk_costs_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    said: list[str] = []
    path = tmp_path / "j"
    made = Journal(path, said.append)
    made.begin(HEADER)
    made.append(Case(), 0, result(0))
    disk.full = True
    made.append(Case(), 1, result(1))
    made.append(Case(), 2, result(2))
    assert len(read(path).answers) == 1  # no half line either
    assert said == [f"{path}: No space left on device; going on in memory, and trying again"]
    disk.full = False
    made.append(Case(), 3, result(3))
    assert [launch for _, launch in read(path).answers] == [0, 1, 2, 3]
    assert said[1:] == [f"{path} can be written again; nothing was lost"]
    assert made.end(complete=True) == 0
    assert journal.is_finished(path)


@pytest.mark.skipif(
    os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="mounting a small disk needs root",
)
@pytest.mark.parametrize("taken", range(300, 4400, 650))
def test_a_real_full_disk_leaves_no_half_line(tmp_path: Path, taken: int) -> None:
    """Wherever in a page of the file the disk ends."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        path, filler = disk / "j", disk / "filler"
        made = Journal(path, lambda line: None)
        made.begin(HEADER)
        made.append(Case(), 0, LaunchResult(0, (), {"filler": "x" * taken}))
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 1000):
                pass
        before = path.read_bytes()
        made.append(Case(), 1, LaunchResult(1, (), {"filler": "y" * 5000}))
        assert path.read_bytes() == before
        filler.unlink()
        made.append(Case(), 2, result(2))
        recorded = read(path)
        assert [launch for _, launch in recorded.answers] == [0, 1, 2]
        assert not recorded.warnings
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_stays_full_leaves_what_can_be_put_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch)
    path = tmp_path / "j"
    made = written(path, (Case(), 0, result(0)))
    disk.full = True
    made.append(Case(), 1, result(1))
    assert made.end(complete=True) == 1
    assert not journal.is_finished(path)
    disk.full = False
    made.save_pending(tmp_path / "rest")
    path.write_bytes(path.read_bytes() + (tmp_path / "rest").read_bytes())
    assert len(read(path).answers) == 2


def test_failures_and_changed_cells_are_measured_anew(tmp_path: Path) -> None:
    path = tmp_path / "j"
    changed, own = Case(seed=2), Case(model="my.py")
    made = written(
        path,
        (Case(), 0, result(0)),
        (Case(), 1, Failure(phase="timed", message="no")),
        (Case(seed=1), 0, result(0)),
        (changed, 0, result(0)),
    )
    made.append(own, 0, result(0), "digest then")
    recorded = read(path)
    recorded.cases[changed.id]["batch_size"] = 64  # the id meant another cell then
    found, warnings = usable(recorded, [Case(), changed, own], {"my.py": "digest now"})
    assert found == {Case().id: {0: result(0)}}
    assert len(warnings) == 2
    assert "its definition has changed" in warnings[0]
    assert "model my.py has changed" in warnings[1]
    found, _ = usable(recorded, [own], {"my.py": "digest then"})
    assert found == {own.id: {0: result(0)}}


def header(**changes: Any) -> dict[str, Any]:
    return {"schema": 1, **HEADER, **changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 2}, ["schema was 1, is 2"]),
        ({"settings": {"min_steps": 5, "matrix": "quick"}}, ["settings.min_steps was 20, is 5"]),
        ({"settings": {"min_steps": 20, "matrix": "full"}}, []),  # other cells, the same measuring
        ({"interpreters": {"": {"torch": "2.9.1"}}}, ["torch was '2.14.1', is '2.9.1'"]),
        ({"interpreters": {"": {"torch": "2.14.1", "executable": "/other"}}}, []),
        (
            {"machine": {"cpu": "y", "boot_id": "b", "environment": {}}},
            [
                "machine.cpu was 'x', is 'y'",
                "machine.environment.NCCL_DEBUG was 'INFO', is None",
            ],
        ),
    ],
)
def test_what_was_measured_under_other_conditions_is_told(
    changes: dict[str, Any], words: list[str]
) -> None:
    assert differences(header(), header(**changes)) == words


def test_a_reboot_is_told_apart_from_another_machine() -> None:
    other_boot = header(machine={**HEADER["machine"], "boot_id": "b"})
    assert differences(header(), other_boot) == []
    assert journal.rebooted(header(), other_boot)
    assert not journal.rebooted(header(), header())


def test_a_place_that_cannot_be_written_is_found_before(tmp_path: Path) -> None:
    journal.claim(tmp_path / "new" / "run.json", 3)
    assert list((tmp_path / "new").iterdir()) == []  # and leaves nothing
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        journal.claim(tmp_path / "file" / "run.json", 3)
    with pytest.raises(OSError):
        journal.claim(tmp_path, 3)


def test_too_little_room_is_found_before(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        journal.require_room(tmp_path / "run.json", 2**60)


def test_without_a_path_nothing_is_kept() -> None:
    made = Journal(None)
    made.begin(HEADER)
    made.append(Case(), 0, result(0))
    assert made.end(complete=True) == 0
