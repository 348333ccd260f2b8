"""Keeping what the analysis needs of a Chrome/Kineto trace's events.

One pass turns the events into plain ranges in whole nanoseconds; the events themselves are not
kept. Odd events are counted and left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from bench.classify import (
    PHASE_MARK,
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
        digits = value[:-4] + value[-3:] if value[-4:-3] == "." and len(value) <= 23 else ""
        if digits.isdigit() and digits.isascii():
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


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, copy or memory fill on a GPU, and the id that names its launch."""

    start_ns: int
    end_ns: int
    correlation: int | None


@dataclass
class Scan:
    """One pass over the events: what is kept of them, in the file's order.

    Times are the events' own: the file's base time stands after them.
    """

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
    # The marked phases of steps, by name; they are no work of anybody's.
    phases: list[tuple[int, int, str]] = field(default_factory=list)
    _threads: dict[Thread, Thread] = field(default_factory=dict)
    _messages: dict[Message, Message] = field(default_factory=dict)
    odd_events: int = 0
    bad_times: int = 0
    bad_step_times: int = 0

    def read(self, events: Iterable[Any]) -> None:
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

    def forget(self) -> None:
        """Let go of everything that takes memory."""
        for kept in (
            *(self.compute, self.memory, self.communication, self.launches, self.around),
            *(self.gloo, self.operators, self.enqueues, self.windows, self.phases),
        ):
            kept.clear()

    def _times(self, event: dict[str, Any]) -> Range | None:
        start_ns, duration_ns = time_ns(event.get("ts")), time_ns(event.get("dur"))
        if start_ns is None or duration_ns is None or duration_ns < 0:
            self.bad_times += 1
            return None
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
            self.communication.append((kernel, name, self._one(message_of_args(args))))
        else:
            self.compute.append(kernel)

    def _range(self, event: dict[str, Any], category: str, name: str, args: dict[str, Any]) -> None:
        step = _STEP.search(name) if "ProfilerStep" in name else None
        if step is not None:
            times = self._times(event)
            self.step_threads.add(self._thread(event))
            if times is None:
                self.bad_step_times += 1
            else:
                self.windows.append((*times, int(step[1])))
            return
        if name.startswith(PHASE_MARK):
            times = self._times(event)
            if times is not None:
                self.phases.append((*times, name.removeprefix(PHASE_MARK)))
            return
        wrapper = name == "record_param_comms" or name.startswith(("nccl:", "rccl:"))
        gloo = name.startswith("gloo:")
        if category == "user_annotation" and not wrapper and not gloo:
            return
        times = self._times(event)
        if times is None:
            return
        thread = self._thread(event)
        if gloo:
            self.gloo.append((*times, thread, self._one(message_of_range(name, args))))
        elif wrapper:
            named = name != "record_param_comms"
            message = message_of_range(name, args) if named else message_of_args(args)
            self.around[thread].append((*times, self._one(message)))
        elif is_enqueue(name):
            self.enqueues[thread].append((*times, kind_of(name.partition("::")[2])))
        elif is_compute_op(name):
            self.operators[thread].append(times)

    def _launch(self, event: dict[str, Any], name: str, args: dict[str, Any]) -> None:
        correlation = count_of(args.get("correlation"))
        start_ns = time_ns(event.get("ts"))
        if correlation is not None and start_ns is not None:
            is_kernel = "launchkernel" in name.lower() or "launchcooperative" in name.lower()
            self.launches.setdefault(correlation, (start_ns, self._thread(event), is_kernel))

    # A trace has few threads and few kinds of message, and very many events: one object each.

    def _thread(self, event: dict[str, Any]) -> Thread:
        thread = str(event.get("pid")), str(event.get("tid"))
        return self._threads.setdefault(thread, thread)

    def _one(self, message: Message) -> Message:
        return self._messages.setdefault(message, message)
