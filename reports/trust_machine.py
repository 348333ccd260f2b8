"""Checks of the machine's state before and after a run (bench/machine.py ``state``)."""

from __future__ import annotations

from collections.abc import Callable

from reports import words
from reports.frames import Row
from reports.judged import judged, unknown, verdict

#: Load per core before anything of the run began: at a half, every second core was taken.
LOOK_LOAD, BAD_LOAD = 0.25, 0.50
#: Share of time in which some task waited (Linux PSI): a tenth is as much as most effects.
LOOK_PRESSURE, BAD_PRESSURE = 0.10, 0.30
#: Share of CPU time that the hypervisor gave to others: none on a machine of one's own.
LOOK_STEAL, BAD_STEAL = 0.01, 0.05
#: Relative change of the clock rate, and of the time of a fixed piece of work: it is a change of
#: every step time by as much.
LOOK_CHANGE, BAD_CHANGE = 0.05, 0.15


def of_file(file: Row) -> list[Row]:
    """The checks of one file: check, verdict, value and sentence."""
    before, after = file["state_before"] or {}, file["state_after"] or {}
    if not before and not after:
        return [unknown("machine", "The state of the machine was not recorded.")]
    return [
        _load(before, after, file["cores"]),
        *(_pressure(name, before, after) for name in ("cpu", "memory", "io")),
        _steal(before, after),
        _clock_rate(before, after),
        _calibration(before, after),
    ]


def _load(before: Row, after: Row, cores: int | None) -> Row:
    """Before only: the load after a run is its own."""
    load, later = before.get("load_1min"), after.get("load_1min")
    if load is None or cores is None:
        return unknown("load", "The load per core before the run is not known.")
    value = load / cores
    sentence = f"Load before the run was {value:.2f} per core"
    if later is not None:
        sentence += f" ({later / cores:.2f} after it, of which most is its own)"
    return judged("load", verdict(value, LOOK_LOAD, BAD_LOAD), value, sentence + ".")


def _pressure(name: str, before: Row, after: Row) -> Row:
    """A run makes CPU pressure of its own, and so only that before it counts; a run has no memory
    or disk to wait for, and there both do."""
    shown = "CPU" if name == "cpu" else "disk" if name == "io" else name
    key, check = f"pressure_{name}", f"{shown} pressure"
    first, last = before.get(key), after.get(key)
    if first is None or (last is None and name != "cpu"):
        return unknown(check, f"How long tasks waited for {shown} is not known.")
    value = first if name == "cpu" or last is None else max(first, last)
    later = "" if last is None else f" and {words.percent(last)} after it"
    own = ", of which most is its own" if name == "cpu" and later else ""
    sentence = (
        f"Tasks waited for {shown} during {words.percent(first)} of the time before the run"
        f"{later}{own}."
    )
    return judged(check, verdict(value, LOOK_PRESSURE, BAD_PRESSURE), value, sentence)


def _steal(before: Row, after: Row) -> Row:
    """(after.steal_s - before.steal_s) / (after.cpu_s - before.cpu_s)"""
    known = [state.get(name) for name in ("steal_s", "cpu_s") for state in (before, after)]
    if None not in known:
        stolen = after["steal_s"] - before["steal_s"]
        total = after["cpu_s"] - before["cpu_s"]
        if total > 0 and 0 <= stolen <= total:  # else the counters began anew meanwhile
            value = stolen / total
            sentence = f"The hypervisor took {words.percent(value)} of the CPU time during the run."
            return judged("steal", verdict(value, LOOK_STEAL, BAD_STEAL), value, sentence)
    return unknown("steal", "How much CPU time the hypervisor took is not known.")


def _clock_rate(before: Row, after: Row) -> Row:
    return _change(
        "clock rate",
        (before.get("cpu_mhz"), after.get("cpu_mhz")),
        "The CPU's clock rate before and after is not known.",
        lambda first, last: f"The CPU's clock rate went from {first:.0f} to {last:.0f} MHz",
    )


def _calibration(before: Row, after: Row) -> Row:
    return _change(
        "fixed work",
        (before.get("calibration_s"), after.get("calibration_s")),
        "The time of a fixed piece of work is not known.",
        lambda first, last: (
            f"A fixed piece of work took {words.seconds(first)} before the run and "
            f"{words.seconds(last)} after it"
        ),
    )


def _change(
    check: str,
    values: tuple[float | None, float | None],
    not_known: str,
    say: Callable[[float, float], str],
) -> Row:
    """Of a value before and after the run, which should be the same: last / first - 1."""
    first, last = values
    if first is None or last is None or min(first, last) <= 0:
        return unknown(check, not_known)
    change = last / first - 1
    sentence = f"{say(first, last)} ({words.signed_percent(change)})."
    return judged(check, verdict(abs(change), LOOK_CHANGE, BAD_CHANGE), change, sentence)
