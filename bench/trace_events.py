"""Reading a Chrome/Kineto trace and keeping what the analysis needs of its events.

JSON or gzip of it, an object with `traceEvents` or the bare list. One pass turns the events into
plain ranges in whole nanoseconds; the events themselves are not kept. Odd events are counted and
left out; a file that is cut or damaged is refused.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from bench.classify import (
    Message,
    count_of,
    is_communication_kernel,
    is_compute_op,
    is_enqueue,
    is_no_kernel,
    kind_of,
    message_of_args,
    message_of_range,
)
from bench.intervals import Range

# Ten thousand years: anything longer is a damaged number.
_LARGEST_NS = 10_000 * 366 * 86_400 * 10**9

_STEP = re.compile(r"ProfilerStep\s*#?\s*([0-9]{1,18})$")
_COPIES = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")
_OPERATORS = ("cpu_op", "operator")

Thread = tuple[str, str]


class TraceError(ValueError):
    """A trace that gives no figure; one line that names the file and, where known, the position."""


def read_trace(path: str | Path, source: str, notes: list[str]) -> Any:
    """The parsed JSON of a file; what was mended is added to `notes`. Raises `TraceError`."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{source}: cannot be read: {reason}") from error
    return parse_trace(content, source, notes)


def parse_trace(content: bytes, source: str, notes: list[str]) -> Any:
    """The parsed JSON of a file's bytes, gzip or not. Raises `TraceError`."""
    if content[:2] == b"\x1f\x8b":
        content = _gunzip(content, source)
    if not content.strip():
        raise TraceError(f"{source}: empty file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = content.decode("utf-8-sig", errors="replace")
        notes.append(f"bytes that are not UTF-8, the first at byte {error.start}, were replaced")
    try:
        # Numbers with a point stay text: a float holds no nanoseconds of a time since 1970.
        return json.loads(text, strict=False, parse_float=str)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        what = "cut or damaged JSON" if at_end else "damaged JSON"
        raise TraceError(
            f"{source}: {what}: {error.msg} at line {error.lineno} column {error.colno} "
            f"(character {error.pos} of {len(text)})"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise TraceError(f"{source}: damaged JSON: {reason}") from error


def _gunzip(content: bytes, source: str) -> bytes:
    parts: list[bytes] = []
    rest = content
    while rest.strip(b"\0"):
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(rest))
        except zlib.error as error:
            position = len(content) - len(rest)
            raise TraceError(
                f"{source}: damaged gzip member at byte {position}: {error}"
            ) from error
        if not member.eof:
            raise TraceError(
                f"{source}: cut gzip file: it ends at byte {len(content)}, after "
                f"{sum(map(len, parts))} bytes of text"
            )
        rest = member.unused_data
    return b"".join(parts)


def base_time_ns(value: Any) -> int | None:
    """`baseTimeNanoseconds` where it is a usable number, else None."""
    try:
        base_ns = int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None
    return base_ns if base_ns is not None and abs(base_ns) <= _LARGEST_NS else None


def time_ns(value: Any) -> int | None:
    """Microseconds as a number or its text, to whole nanoseconds; None where it is no time."""
    nanoseconds: int
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        nanoseconds = value * 1000
    elif isinstance(value, float):
        if not abs(value) <= _LARGEST_NS:
            return None
        # Whole and fractional part apart: their product with 1000 would not fit a float.
        whole = int(value)
        nanoseconds = whole * 1000 + round((value - whole) * 1000)
    elif isinstance(value, str):
        whole_text, _, fraction = value.partition(".")
        digits = whole_text + fraction
        if len(fraction) == 3 and len(digits) <= 22 and digits.isascii() and digits.isdigit():
            nanoseconds = int(digits)
        else:
            try:
                number = Decimal(value.strip())
            except InvalidOperation:
                return None
            if not number.is_finite() or number.adjusted() > 24:
                return None
            nanoseconds = round(number * 1000)
    else:
        return None
    return nanoseconds if abs(nanoseconds) <= _LARGEST_NS else None


@dataclass(frozen=True)
class Kernel:
    """A kernel, copy or memory fill on a GPU, and the id that names its launch."""

    start_ns: int
    end_ns: int
    correlation: int | None


@dataclass
class Scan:
    """One pass over the events: what is kept of them, in the file's order."""

    base_ns: int
    compute: list[Kernel] = field(default_factory=list)
    memory: list[Kernel] = field(default_factory=list)
    communication: list[tuple[Kernel, str, Message]] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    # By correlation id: when, on which thread, and whether it must have given a kernel.
    launches: dict[int | None, tuple[int, Thread, bool]] = field(default_factory=dict)
    # CPU ranges around the launch of a collective, by thread.
    around: dict[Thread, list[tuple[int, int, Message]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    gloo: list[tuple[int, int, Thread, Message]] = field(default_factory=list)
    operators: dict[Thread, list[Range]] = field(default_factory=lambda: defaultdict(list))
    enqueues: dict[Thread, list[tuple[int, int, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    step_threads: set[Thread] = field(default_factory=set)
    windows: list[tuple[int, int, int]] = field(default_factory=list)
    odd_events: int = 0
    bad_times: int = 0
    bad_step_times: int = 0

    def read(self, events: list[Any]) -> None:
        """Sort the events by what they are; odd ones are counted and left out."""
        for event in events:
            if not isinstance(event, dict):
                self.odd_events += 1
                continue
            phase = event.get("ph")
            if phase != "X":
                self.odd_events += not isinstance(phase, str)
                continue
            category, name = event.get("cat"), event.get("name")
            if not isinstance(category, str) or not isinstance(name, str):
                self.odd_events += 1
                continue
            category = category.lower()
            args = event.get("args")
            if not isinstance(args, dict):
                args = {}
            if category == "kernel" or category in _COPIES:
                self._kernel(event, category, name, args)
            elif category in _OPERATORS or category == "user_annotation":
                self._range(event, category, name, args)
            elif category.endswith(("runtime", "driver")):
                self._launch(event, name, args)

    def _times(self, event: dict[str, Any]) -> Range | None:
        start_ns, duration_ns = time_ns(event.get("ts")), time_ns(event.get("dur"))
        if start_ns is None or duration_ns is None or duration_ns < 0:
            self.bad_times += 1
            return None
        start_ns += self.base_ns
        return start_ns, start_ns + duration_ns

    def _kernel(
        self, event: dict[str, Any], category: str, name: str, args: dict[str, Any]
    ) -> None:
        if category == "kernel" and is_no_kernel(name):
            return
        times = self._times(event)
        if times is None:
            return
        kernel = Kernel(*times, count_of(args.get("correlation")))
        if category != "kernel":
            self.memory.append(kernel)
            return
        device = args.get("device", event.get("pid"))
        self.devices.add(str(device))
        if is_communication_kernel(name, args):
            self.communication.append((kernel, name, message_of_args(args)))
        else:
            self.compute.append(kernel)

    def _range(self, event: dict[str, Any], category: str, name: str, args: dict[str, Any]) -> None:
        step = _STEP.search(name)
        if step is not None:
            times = self._times(event)
            self.step_threads.add(_thread(event))
            if times is None:
                self.bad_step_times += 1
            else:
                self.windows.append((*times, int(step[1])))
            return
        wrapper = name == "record_param_comms" or name.startswith(("nccl:", "rccl:"))
        gloo = name.startswith("gloo:")
        if category == "user_annotation" and not wrapper and not gloo:
            return
        times = self._times(event)
        if times is None:
            return
        thread = _thread(event)
        if gloo:
            self.gloo.append((*times, thread, message_of_range(name, args)))
        elif wrapper:
            named = name != "record_param_comms"
            message = message_of_range(name, args) if named else message_of_args(args)
            self.around[thread].append((*times, message))
        elif is_enqueue(name):
            self.enqueues[thread].append((*times, kind_of(name.partition("::")[2])))
        elif is_compute_op(name):
            self.operators[thread].append(times)

    def _launch(self, event: dict[str, Any], name: str, args: dict[str, Any]) -> None:
        correlation = count_of(args.get("correlation"))
        start_ns = time_ns(event.get("ts"))
        if correlation is not None and start_ns is not None:
            is_kernel = "launchkernel" in name.lower() or "launchcooperative" in name.lower()
            self.launches.setdefault(
                correlation, (start_ns + self.base_ns, _thread(event), is_kernel)
            )


def _thread(event: dict[str, Any]) -> Thread:
    return str(event.get("pid")), str(event.get("tid"))
