"""The lines a sweep prints: one for every case, in columns that stand still over the whole sweep.

Where a name leaves no room for its numbers on a terminal it has a line of its own, and the
numbers stand in their columns under it. A line in a pipe is never broken: people search there.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.bandwidth import algbw_bytes_per_s, busbw_bytes_per_s
from bench.case import Case
from bench.pairs import pair_seconds
from bench.precision import median_interval
from bench.result import Failure, LaunchResult

_GAP = "  "
#: What a name's column is at least and, where the width has no end, at most.
_NARROWEST, _WIDEST = 16, 100
_TIME, _CHANGE = 9, 7
#: What an encoding without them gets in place of these.
_PLAIN = str.maketrans(
    dict(zip("±–−…“”µ×\u00a0", ("+-", "-", "-", "...", '"', '"', "u", "x", " "), strict=True))
)


@dataclass(frozen=True)
class Column:
    """``says`` follows a value where there is room for it; elsewhere ``heading`` stands above."""

    heading: str
    width: int
    says: str = ""
    gap: str = _GAP


COLUMNS = (
    Column("step", _TIME),
    Column("±", 6, gap=" "),
    Column("samples/s", 8, " samples/s"),
    Column("ideal", 4, " of ideal"),
    Column("all-reduce", _TIME, " all-reduce"),
    Column("hidden", 4, " hidden"),
)
#: Of collectives, which have no samples.
COLLECTIVE_COLUMNS = (
    Column("time", _TIME),
    Column("±", 6, gap=" "),
    Column("algbw", 10, " algbw"),
    Column("busbw", 10, " busbw"),
)


@dataclass(frozen=True)
class Layout:
    """Where the columns of a sweep stand. ``width``: of the terminal; None is without an end.

    ``longest``: of the names, ``label``: of the interpreters' labels; ``time_left``: whether the
    lines say how long the rest will take; ``plus_minus``: as the encoding can show it.
    """

    longest: int
    label: int = 0
    interpreters: int = 1
    launches: int = 1
    width: int | None = None
    time_left: bool = True
    plus_minus: str = "±"
    #: Of the cases: training, collectives, or both.
    kinds: tuple[tuple[Column, ...], ...] = (COLUMNS,)

    @classmethod
    def of(
        cls,
        cases: Iterable[Case],
        launches: int,
        *,
        width: int | None = None,
        time_left: bool = True,
        encoding: str = "utf-8",
    ) -> Layout:
        cases = list(cases)
        labels = {case.torch for case in cases}
        return cls(
            longest=max((len(case.id) for case in cases), default=0),
            label=max(map(len, labels), default=0),
            interpreters=max(1, len(labels)),
            launches=launches,
            width=width,
            time_left=time_left,
            plus_minus=legible("±", encoding),
            kinds=tuple(dict.fromkeys(columns_of(case) for case in cases)) or (COLUMNS,),
        )

    @property
    def wordy(self) -> bool:
        """Whether there is room for words after the numbers; else they are in a heading."""
        return self.width is None or self.longest + self._numbers(True) <= self.width

    def heading(self) -> str | None:
        """What stands over the lines of cases; None where each says it itself. One line for each
        kind of case, so that both can be read where there are both."""
        if self.wordy:
            return None
        lines = []
        for columns in self.kinds:
            cells = [column.heading.replace("±", self.plus_minus) for column in columns]
            lines.append(self.line("case", cells, columns))
        return "\n".join(lines)

    def line(self, name: str, cells: Sequence[str], columns: Sequence[Column] = COLUMNS) -> str:
        """A case's line of numbers, one for each of ``columns``; an empty one is blank."""
        texts = []
        for column, cell in zip(columns, cells, strict=True):
            shown = f"{cell:>{column.width}}{column.says}" if cell and self.wordy else cell
            texts.append(f"{column.gap}{shown:>{self._column(column, self.wordy)}}")
        return self.after_name(name, "".join(texts).removeprefix(_GAP))

    def after_name(self, name: str, rest: str, room: int | None = None) -> str:
        """``name`` in its column and ``rest`` behind it; ``room``: how wide a ``rest`` can be,
        which is as wide as a line of numbers where it is not stated."""
        room = self._numbers(self.wordy) if room is None else room
        if self.width is None:
            return f"{name:<{min(self.longest, _WIDEST)}}{_GAP}{rest}".rstrip()
        column = min(self.longest, max(_NARROWEST, self.width - room))
        if len(name) <= column:
            return f"{name:<{column}}{_GAP}{rest}".rstrip()
        return f"{name}\n{' ' * column}{_GAP}{rest}".rstrip()

    def _numbers(self, wordy: bool) -> int:
        """How wide the numbers are, with the gaps before them."""
        return max(
            sum(len(column.gap) + self._column(column, wordy) for column in columns)
            for columns in self.kinds
        )

    def _column(self, column: Column, wordy: bool) -> int:
        width = column.width
        if column.heading == "±":
            width += len(self.plus_minus) - 1
        return width + len(column.says) if wordy else max(width, len(column.heading))


def columns_of(case: Case) -> tuple[Column, ...]:
    return COLUMNS if case.trains else COLLECTIVE_COLUMNS


def launch_line(
    layout: Layout,
    block: Sequence[Case],
    launch: int,
    answers: Mapping[str, LaunchResult | Failure],
    seconds_left: float | None,
) -> str:
    """One launch of a cell that has more to come, under each of its interpreters.

    Launches from ``layout.launches`` on are those of the confirmation.
    """
    kind = "launch" if launch < layout.launches else "confirm"
    number = f"{launch % layout.launches + 1}/{layout.launches}"
    first = f"{kind:<7} {number:>{2 * len(str(layout.launches)) + 1}}"
    values, parts, broken = [], [], []
    for case in block:
        answer = answers.get(case.id)
        label = f"{case.torch:<{layout.label}} " if layout.label else ""
        if isinstance(answer, LaunchResult):
            values.append(answer.fields["median_step_s"])
            parts.append(f"{label}{_time(values[-1]):>{_TIME}}")
        elif isinstance(answer, Failure):
            broken.append(f"{label}{answer.outcome}: {answer.sentence(case.id)}")
    if len(values) == len(block) == 2:
        parts.append(f"{values[1] / values[0] - 1:>+{_CHANGE}.1%}")
    if layout.time_left and seconds_left is not None and not broken:
        parts.append(f"{duration(seconds_left)} left")
    of_label = len(_GAP) + _TIME + (layout.label + 1 if layout.label else 0)
    room = layout.interpreters * of_label
    room += len(_GAP) + _CHANGE if layout.interpreters == 2 else 0
    lead = f"{first}{_GAP}"
    named = layout.after_name(
        block[0].replace(torch="").id, _GAP.join((*parts, *broken)), room + len(lead)
    )
    return lead + named.replace("\n", f"\n{' ' * len(lead)}")


def case_line(
    layout: Layout,
    case: Case,
    launches: Sequence[LaunchResult],
    alone: float | None,
    seconds_left: float | None,
) -> str:
    """A finished case: step, interval, throughput, per cent of ideal, all-reduce, time left; of a
    collective its time, interval, algbw and busbw.

    ``alone``: samples per second of the same job on one rank, where that is known.
    """
    line = (
        _training_line(layout, case, launches, alone)
        if case.trains
        else _collective_line(layout, case, launches)
    )
    if layout.time_left and seconds_left:  # nothing is left when interpreters were compared
        line += f"{_GAP}{duration(seconds_left)} left"
    return line


def _collective_line(layout: Layout, case: Case, launches: Sequence[LaunchResult]) -> str:
    """Of pairs the time is a round over all, and the rate that of the slowest pair."""
    time_s = step_time_s(launches)
    if case.collective == "pairs":
        slowest_s = max(pair_seconds([launch.fields for launch in launches]).values())
        algbw, busbw = None, busbw_bytes_per_s("send_recv", case.bytes, slowest_s, 2)
    else:
        algbw = algbw_bytes_per_s(case.bytes, time_s)
        busbw = busbw_bytes_per_s(case.collective, case.bytes, time_s, case.world_size)
    cells = [
        _time(time_s),
        half_width(launches).replace("±", layout.plus_minus),
        "" if algbw is None else bandwidth(algbw),
        "" if busbw is None else bandwidth(busbw),
    ]
    return layout.line(case.id, cells, COLLECTIVE_COLUMNS)


def _training_line(
    layout: Layout, case: Case, launches: Sequence[LaunchResult], alone: float | None
) -> str:
    per_second = throughput(case, launches)
    # Ideal: as many times the samples of one rank as there are ranks.
    ideal = per_second / (case.world_size * alone) if alone and case.world_size > 1 else None
    reduce, hidden = communication(launches) if case.processes > 1 else (None, None)
    return layout.line(
        case.id,
        [
            _time(step_time_s(launches)),
            half_width(launches).replace("±", layout.plus_minus),
            _rate(per_second),
            "" if ideal is None else f"{ideal:.0%}",
            "" if reduce is None else _time(reduce),
            "" if hidden is None else f"{hidden:.0%}",
        ],
    )


def ending_line(layout: Layout, case_id: str, outcome: str, sentence: str) -> str:
    """A case that has no numbers: how it ended, and why. A long sentence is not broken here: the
    terminal does that, and people copy it in one piece."""
    said = f"{outcome}: {sentence}" if outcome else sentence
    line = layout.after_name(case_id, said)
    fits = layout.width is None or max(map(len, line.split("\n"))) <= layout.width
    return line if fits else f"{case_id}{_GAP}{said}"


def step_time_s(launches: Sequence[LaunchResult]) -> float:
    """Geometric mean of the launches' medians, seconds: what the page shows too."""
    return math.exp(statistics.fmean(math.log(x.fields["median_step_s"]) for x in launches))


def throughput(case: Case, launches: Sequence[LaunchResult]) -> float:
    """Samples per second of the whole job."""
    return case.global_batch_size / step_time_s(launches)


def half_width(launches: Sequence[LaunchResult]) -> str:
    """Half the 95 % interval in per cent: from launches where there are several, else from the
    steps of the one; "± ?" where it cannot be known."""
    logs = [math.log(launch.fields["median_step_s"]) for launch in launches]
    if len(logs) > 1:
        from scipy.special import stdtrit

        reach = stdtrit(len(logs) - 1, 0.975) * statistics.stdev(logs) / math.sqrt(len(logs))
        return _plus_minus(math.expm1(min(reach, 100)))  # two launches can lie very far apart
    interval = median_interval(launches[0].step_s)
    if interval is None:
        return "± ?"
    return _plus_minus((interval[1] - interval[0]) / 2 / statistics.median(launches[0].step_s))


def _plus_minus(ratio: float) -> str:
    if ratio >= 9.995:
        return "±>999%"
    return f"±{ratio:.1%}" if ratio < 0.9995 else f"±{ratio:.0%}"


def communication(launches: Sequence[LaunchResult]) -> tuple[float | None, float | None]:
    """All-reduce time, seconds a step, of the rank that has most of it, and the share that was
    hidden; None where that is not known."""
    figures = [
        rank["communication"]
        for launch in launches
        for rank in launch.fields["ranks"]
        if rank.get("communication") and rank["communication"]["calls_per_step"]
    ]
    if not figures:
        return None, None
    longest: dict[str, Any] = max(figures, key=lambda each: each["all_reduce_s"])
    return longest["all_reduce_s"], longest["overlap_ratio"]


def legible(text: str, encoding: str | None) -> str:
    """``text`` with what ``encoding`` cannot hold spelled in other letters, or as its number."""
    try:
        text.encode(encoding or "ascii")
        return text
    except (UnicodeEncodeError, LookupError):
        plain = text.translate(_PLAIN)
        return plain.encode("ascii", errors="backslashreplace").decode("ascii")


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _time(seconds: float) -> str:
    if seconds >= 0.999995:
        return f"{seconds:.2f} s"
    milliseconds = seconds * 1e3
    return f"{milliseconds:.3f} ms" if milliseconds < 10 else f"{milliseconds:.2f} ms"


def bandwidth(bytes_per_s: float) -> str:
    """Decimal units: '1.23 GB/s', '118 MB/s'."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if bytes_per_s >= 0.9995 * factor:
            value = bytes_per_s / factor
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}/s"
    return f"{bytes_per_s:.0f} B/s"


def _rate(per_second: float) -> str:
    if per_second < 10:
        return f"{per_second:.2f}"
    return f"{per_second:.1f}" if per_second < 100_000 else f"{per_second:.0f}"
