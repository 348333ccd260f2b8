"""Which step the work in a trace belongs to, and which steps are whole.

Work belongs to the ProfilerStep during which the CPU launched it: GPU kernels by the correlation id
of their launch, gloo ranges by the `c10d::` call that handed them over, operators by their own
time. Stub, cut and repeated ProfilerSteps are no steps; their work belongs to none.
"""

from __future__ import annotations

import bisect
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from bench.classify import UNKNOWN, Message, kind_of
from bench.intervals import Range, clip, subtraction, union
from bench.trace_events import Kernel, Scan, Thread

# A profiler that stops right after step() leaves a ProfilerStep of some 60 us without any work.
STUB_NS = 500_000
STUB_SHARE = 0.25
# A step whose kernel launches lack more than this share of kernels ended after the recording did.
MISSING_KERNELS_SHARE = 0.01
# Whole-microsecond times let neighbouring steps overlap by up to this much.
ROUNDING_NS = 1_000
# CPU ranges around one launch are nested at most this deep, with room to spare.
_NESTING = 8


class Windows:
    """The ProfilerSteps of a trace in order of time, as (start_ns, end_ns, number)."""

    def __init__(self, windows: Iterable[tuple[int, int, int]]) -> None:
        self.kept: list[tuple[int, int, int]] = []
        self.overlapping = 0
        for start_ns, end_ns, number in sorted(windows, key=lambda w: (w[0], -w[1])):
            if self.kept and start_ns < self.kept[-1][1] - ROUNDING_NS:
                self.overlapping += 1
            else:
                self.kept.append((start_ns, end_ns, number))
        self._starts = [start_ns for start_ns, _, _ in self.kept]

    def followed(self, index: int) -> bool:
        """Whether the next window is the step with the next number."""
        return index + 1 < len(self.kept) and self.kept[index + 1][2] == self.kept[index][2] + 1

    def reach_ns(self, index: int) -> int:
        """Where the step's work ends: at the start of the next step if that one follows.

        The profiler closes a step a little before it opens the next; what starts in between was
        still asked for by the step before.
        """
        end_ns = self.kept[index][1]
        return max(end_ns, self.kept[index + 1][0]) if self.followed(index) else end_ns

    def at(self, moment_ns: int) -> int | None:
        """The position of the step that a moment belongs to, None between and outside steps."""
        index = bisect.bisect_right(self._starts, moment_ns) - 1
        return index if index >= 0 and moment_ns < self.reach_ns(index) else None

    def length_ns(self, index: int) -> int:
        """The length of the ProfilerStep itself."""
        return self.kept[index][1] - self.kept[index][0]


class Placement:
    """The work of a trace by position in `windows.kept`; position None is outside all steps.

    `calls` are the collectives in order of time, `compute` and `memory` what ran besides them,
    `kernels` counts everything on a GPU. `phases` are the marked ones, as (start_ns, end_ns, name):
    on a GPU from the first start to the last end of the compute and copies launched in one, and
    none where nothing was. `whole` are the positions of whole steps, `number_of` the
    step numbers of those, `dropped` counts the other ProfilerSteps. The scan is empty afterwards.
    """

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.windows = Windows(scan.windows)
        self.on_gpu = bool(scan.compute or scan.communication)
        everything = [*scan.compute, *scan.memory, *(kernel for kernel, _, _ in scan.communication)]
        # Without a single launch to go by, a kernel can only be put where it starts.
        self.by_start = not any(kernel.correlation in scan.launches for kernel in everything)
        self.calls: list[tuple[int | None, int, int, Message]] = []
        self.compute: dict[int | None, list[Range]] = defaultdict(list)
        self.memory: dict[int | None, list[Range]] = defaultdict(list)
        self.kernels: Counter[int | None] = Counter()
        self.phases: dict[int | None, list[tuple[int, int, str]]] = defaultdict(list)
        self._without_launch = 0
        # Position -> (when its first compute kernel was launched, when that one started).
        self._first: dict[int, Range] = {}
        self._place_kernels()
        self._place_gloo()
        if not self.on_gpu:
            self._place_operators()
        if scan.phases:
            self._place_phases()
        self.calls.sort(key=lambda call: call[1:3])
        self._drops: list[tuple[int, str]] = []
        self.whole = self._whole_steps()
        self.number_of: dict[int | None, int] = {i: self.windows.kept[i][2] for i in self.whole}
        self.dropped = sum(count for count, _ in self._drops)
        self.notes = self._notes()
        scan.forget()  # what is placed is not needed twice

    def step_ns(self, index: int) -> int | None:
        """The time of a step: see `bench.rank_trace.Step`."""
        if not self.on_gpu or self.by_start:
            return self.windows.length_ns(index)
        if not self.windows.followed(index):
            return None
        if index not in self._first or index + 1 not in self._first:
            return None
        period_ns = self._first[index + 1][1] - self._first[index][1]
        return period_ns if period_ns > 0 else None

    def from_ns(self, index: int) -> int:
        """Where the time of a step begins: see `bench.rank_trace.Step`."""
        if self.on_gpu and not self.by_start and index in self._first:
            return self._first[index][1]
        return self.windows.kept[index][0]

    def _notes(self) -> list[str]:
        """What to know about the placement before using a figure, one sentence each."""
        scan, notes = self.scan, []
        drops = [f"{count} {what}" for count, what in self._drops if count]
        if drops:
            notes.append(f"ProfilerSteps dropped: {', '.join(drops)}")
        if not self.whole:
            some = "whole ProfilerStep" if scan.windows else "ProfilerStep"
            notes.append(f"no {some}: totals only, no figures per step")
        if scan.bad_times:
            notes.append(f"events without a usable time left out: {scan.bad_times}")
        if scan.odd_events:
            notes.append(f"events of unknown form left out: {scan.odd_events}")
        if self.on_gpu and self.whole and self.by_start:
            notes.append(
                "no launches in the trace: kernels are put in the step during which they start, "
                "and a step's time is the length of its CPU range"
            )
        if self._without_launch:
            notes.append(
                "kernels whose launch is not in the trace, part of the totals and of no step: "
                f"{self._without_launch}"
            )
        if len(scan.devices) > 1:
            notes.append(f"kernels of {len(scan.devices)} devices, taken together")
        if self.on_gpu and scan.gloo:
            notes.append(f"gloo ranges counted as communication: {len(scan.gloo)}")
        return notes

    # --- placing work

    def _position(self, kernel: Kernel) -> int | None:
        if self.by_start:
            return self.windows.at(kernel.start_ns)
        launch = self.scan.launches.get(kernel.correlation)
        if launch is None:
            self._without_launch += 1
            return None
        return self.windows.at(launch[0])

    def _place_kernels(self) -> None:
        for kernel in self.scan.compute:
            index = self._position(kernel)
            self.kernels[index] += 1
            self.compute[index].append((kernel.start_ns, kernel.end_ns))
            if index is not None and not self.by_start:
                launched = (self.scan.launches[kernel.correlation][0], kernel.start_ns)
                self._first[index] = min(self._first.get(index, launched), launched)
        for kernel in self.scan.memory:
            index = self._position(kernel)
            self.kernels[index] += 1
            self.memory[index].append((kernel.start_ns, kernel.end_ns))
        for ranges in self.scan.around.values():
            ranges.sort(key=lambda item: item[:2])
        counted: set[tuple[Thread, int]] = set()
        for kernel, name, message in self.scan.communication:
            index = self._position(kernel)
            self.kernels[index] += 1
            message = message.or_else(self._around_launch(kernel, counted))
            message = message.or_else(Message(kind=kind_of(name)))
            self.calls.append((index, kernel.start_ns, kernel.end_ns, message))

    def _around_launch(self, kernel: Kernel, counted: set[tuple[Thread, int]]) -> Message:
        """What the CPU ranges say in which a communication kernel was launched, innermost first."""
        message = Message()
        launch = self.scan.launches.get(kernel.correlation)
        if launch is None:
            return message
        moment_ns, thread, _ = launch
        ranges = self.scan.around.get(thread, [])
        after = bisect.bisect_right(ranges, moment_ns, key=lambda item: item[0])
        for position in range(after - 1, max(after - 1 - _NESTING, -1), -1):
            start_ns, end_ns, said = ranges[position]
            if not start_ns <= moment_ns <= end_ns:
                continue
            if (thread, position) in counted:
                # A second kernel of the same call: its bytes have been counted.
                said = Message(said.kind, None, said.dtype, said.group, said.group_size)
            counted.add((thread, position))
            message = message.or_else(said)
        return message

    def _place_gloo(self) -> None:
        """Put each gloo range in the step that handed it over, else in the one it starts in."""
        ranges_of: dict[str, list[tuple[int, int, Thread, Message]]] = defaultdict(list)
        for item in self.scan.gloo:
            ranges_of[item[3].kind].append(item)
        enqueued_ns: dict[str, list[int]] = defaultdict(list)
        for calls in self.scan.enqueues.values():
            for start_ns, _, kind in calls:
                enqueued_ns[kind].append(start_ns)
        for kind, ranges in ranges_of.items():
            ranges.sort(key=lambda item: item[:2])
            moments = sorted(enqueued_ns[kind])
            # The n-th call is the n-th range if there are as many and none starts before its call.
            if len(moments) != len(ranges) or any(
                item[0] < moment for item, moment in zip(ranges, moments, strict=True)
            ):
                moments = [item[0] for item in ranges]
            for (start_ns, end_ns, _, message), moment in zip(ranges, moments, strict=True):
                self.calls.append((self.windows.at(moment), start_ns, end_ns, message))

    def _place_operators(self) -> None:
        """Compute in a trace without GPU: operators, less the time spent in `c10d::` calls."""
        scan = self.scan
        # A gloo send is drawn on the caller's thread, which computes all the same.
        callers = scan.step_threads | set(scan.enqueues)
        serving = {thread for _, _, thread, _ in scan.gloo} - callers
        computing: list[Range] = []
        for thread, operators in scan.operators.items():
            if thread not in serving:
                calls = union((start, end) for start, end, _ in scan.enqueues.get(thread, ()))
                computing += subtraction(union(operators), calls)
        everything = union(computing)
        reaches: list[Range] = []
        for index, (start_ns, _, _) in enumerate(self.windows.kept):
            reaches.append((start_ns, self.windows.reach_ns(index)))
            self.compute[index] += clip(everything, *reaches[-1])
        self.compute[None] += subtraction(everything, union(reaches))

    def _place_phases(self) -> None:
        launched: list[tuple[int, int, int]] = []
        if self.on_gpu and not self.by_start:
            launched = sorted(
                (self.scan.launches[kernel.correlation][0], kernel.start_ns, kernel.end_ns)
                for kernel in (*self.scan.compute, *self.scan.memory)
                if kernel.correlation in self.scan.launches
            )
        for start_ns, end_ns, name in sorted(self.scan.phases):
            index = self.windows.at(start_ns)
            if not launched:
                self.phases[index].append((start_ns, end_ns, name))
                continue
            first = bisect.bisect_left(launched, (start_ns,))
            ran = launched[first : bisect.bisect_left(launched, (end_ns,))]
            if ran:
                starts, ends = [start for _, start, _ in ran], [end for _, _, end in ran]
                self.phases[index].append((min(starts), max(ends), name))

    # --- which steps are whole

    def _whole_steps(self) -> list[int]:
        positions = list(range(len(self.windows.kept)))
        calls = Counter(index for index, _, _, _ in self.calls)
        busy = {i for i in positions if calls[i] or self.compute.get(i) or self.memory.get(i)}
        usual_ns = [self.windows.length_ns(i) for i in busy]
        stub_ns = statistics.median(usual_ns) * STUB_SHARE if usual_ns else STUB_NS
        lasting = [i for i in positions if i in busy or self.windows.length_ns(i) >= stub_ns]
        whole = self._without_cut(lasting, calls)
        # Of several with one number the first counts: the others are a second cycle or a copy.
        first_of: dict[int, int] = {}
        for i in whole:
            first_of.setdefault(self.windows.kept[i][2], i)
        repeated = len(whole) - len(first_of) + self.windows.overlapping
        self._drops = [
            (len(positions) - len(lasting), "stub"),
            (len(lasting) - len(whole), "cut"),
            (repeated, "repeated or overlapping"),
            (self.scan.bad_step_times, "without a usable time"),
        ]
        return list(first_of.values())

    def _without_cut(self, positions: Sequence[int], calls: Counter[int | None]) -> list[int]:
        """The steps before the recording ended: it ends with the file's last steps."""
        whole = list(positions)
        if self.on_gpu:
            lacking = set() if self.by_start else self._lacking_kernels()
            while whole and whole[-1] in lacking:
                whole.pop()
        elif len(whole) > 1:
            *before, last = whole
            usual_ns = statistics.median(self.windows.length_ns(i) for i in before)
            short = self.windows.length_ns(last) < usual_ns / 2
            fewer = calls[last] < min(calls[i] for i in before)
            # A range still open when the profiler stopped is not in the file; its call is.
            lacking = self._lacking_ranges(calls)
            if (short and fewer) or (last in lacking and lacking.isdisjoint(before)):
                whole.pop()
        return whole

    def _lacking_kernels(self) -> set[int | None]:
        kernels = (*self.scan.compute, *(kernel for kernel, _, _ in self.scan.communication))
        present = {kernel.correlation for kernel in kernels}
        launched: Counter[int | None] = Counter()
        missing: Counter[int | None] = Counter()
        for correlation, (moment_ns, _, is_kernel) in self.scan.launches.items():
            if is_kernel:
                index = self.windows.at(moment_ns)
                launched[index] += 1
                missing[index] += correlation not in present
        return {i for i in launched if missing[i] > launched[i] * MISSING_KERNELS_SHARE}

    def _lacking_ranges(self, calls: Counter[int | None]) -> set[int | None]:
        called = Counter(
            self.windows.at(start_ns)
            for items in self.scan.enqueues.values()
            for start_ns, _, kind in items
            if kind != UNKNOWN
        )
        return {i for i in called if called[i] > calls[i]}
