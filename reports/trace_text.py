"""The figures of traces for a terminal. No table is cut: it is as wide as its columns need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports import words
from reports.terminal import prose, text
from reports.trace_across import AcrossFigures
from reports.trace_figures import Communication, RankFigures, StepRow, has_unknown_kind
from reports.trace_files import TraceReport
from reports.trace_words import across_sentences, rank_title

#: Steps listed one by one; the mean is over all, and `--json` has the rest.
MOST_STEPS = 30
#: With more ranks, or longer names, their waiting is in the table by rank alone.
MOST_WAIT_COLUMNS = 8
LONGEST_HEADING = 20
_UNLIMITED = 100_000

Column = tuple[str, Iterable[str]]


def show(report: TraceReport, console: Console) -> None:
    """Print it all."""
    parts: list[RenderableType] = []
    for rank in report.ranks:
        parts += [*_of_rank(rank), ""]
    if report.across:
        parts += [*_across(report.across), ""]
    parts += [_note(note) for note in report.notes]
    if parts and parts[-1] == "":
        parts.pop()
    everything = Group(*parts)
    unlimited = console.options.update(max_width=_UNLIMITED)
    console.width = max(console.width, Measurement.get(console, unlimited, everything).maximum)
    console.print(everything)


def _of_rank(rank: RankFigures) -> Iterator[RenderableType]:
    yield text(rank_title(rank), style="bold")
    if rank.problem:
        yield prose(f"error: {rank.problem}")
    if rank.mean is None:
        yield text("  whole file; there are no figures per step")
        yield _whole_file(rank)
    else:
        yield _steps(rank, rank.mean)
        yield from _calls(rank)
    for note in rank.notes:
        yield _note(note)


def _steps(rank: RankFigures, mean: StepRow) -> RenderableType:
    listed = [*rank.steps[:MOST_STEPS], *([mean] if rank.whole_steps > 1 else [])]
    columns: list[Column] = [
        ("step", ["mean" if row.step is None else str(row.step) for row in listed]),
        ("step\nms", [words.milliseconds(row.step_s) for row in listed]),
        *_communication(rank, [row.communication for row in listed], [row.kinds for row in listed]),
        ("compute\nms", [words.milliseconds(row.compute_s) for row in listed]),
        ("copies\nms", [words.milliseconds(row.copies_s) for row in listed]),
        ("idle\nms", [words.milliseconds(row.idle_s) for row in listed]),
    ]
    return _table(columns, _of_all_steps(rank.whole_steps))


def _whole_file(rank: RankFigures) -> RenderableType:
    whole = rank.whole_file
    return _table(
        [
            *_communication(rank, [whole.communication], [whole.kinds]),
            ("compute\nms", [words.milliseconds(whole.compute_s)]),
            ("busy\nms", [words.milliseconds(whole.busy_s)]),
            ("span\nms", [words.milliseconds(whole.span_s)]),
        ]
    )


def _communication(
    rank: RankFigures,
    together: Sequence[Communication],
    of_kinds: Sequence[Mapping[str, Communication]],
) -> list[Column]:
    """Communication of all kinds, and of every kind where there are several."""
    kinds = list(rank.whole_file.kinds)
    name = kinds[0] if len(kinds) == 1 else "communication"
    columns: list[Column] = [(f"{name}\nms", [words.milliseconds(one.union_s) for one in together])]
    if len(kinds) > 1:
        columns += [
            (
                f"{'unknown kind' if kind == 'unknown' else kind}\nms",
                [words.milliseconds(row[kind].union_s) for row in of_kinds],
            )
            for kind in kinds
        ]
    elif has_unknown_kind(rank):
        columns = [("unknown kind\nms", columns[0][1])]
    return [
        *columns,
        ("exposed\nms", [words.milliseconds(one.exposed_s) for one in together]),
        ("overlap\n%", [_percent(one.overlap_ratio) for one in together]),
        ("calls", [_plain(one.calls) for one in together]),
        ("size", [words.size(one.bytes) for one in together]),
    ]


def _calls(rank: RankFigures) -> Iterator[RenderableType]:
    if not rank.calls:
        if rank.whole_file.communication.calls:
            yield text("  The steps do not have the same collectives: no figures by call.")
        return
    calls = rank.calls
    yield text("  Each collective of a step, mean over steps; waiting for others is in its time:")
    yield _table(
        [
            ("call", [str(number + 1) for number in range(len(calls))]),
            ("kind", [call["kind"] for call in calls]),
            ("size", [words.size(call["bytes"]) for call in calls]),
            ("dtype", [call["dtype"] or words.BLANK for call in calls]),
            ("time\nms", [words.milliseconds(call["duration_s"]) for call in calls]),
            ("busbw\nGB/s", [_gigabytes(call["busbw_bytes_per_s"]) for call in calls]),
        ]
    )


def _across(across: AcrossFigures) -> Iterator[RenderableType]:
    yield text(f"Across {len(across.labels)} ranks", style="bold")
    for sentence in across_sentences(across):
        yield prose(sentence)
    if across.collectives:
        yield _by_rank(across)
        if across.steps:
            yield _by_step(across)
        if across.calls:
            yield _by_call(across)
    for note in across.notes:
        yield _note(note)


def _by_rank(across: AcrossFigures) -> RenderableType:
    columns: list[Column] = [("rank", across.labels)]
    if across.steps:
        columns.append(("wait per step\nms", [words.milliseconds(wait) for wait in across.wait_s]))
    columns += [
        (f"{kind}\nall, ms", [words.milliseconds(duration) for duration in figures.duration_s])
        for kind, figures in across.kinds.items()
    ]
    return _table([*columns, ("last to\njoin", [str(count) for count in across.last_in])])


def _by_step(across: AcrossFigures) -> RenderableType:
    listed = across.steps[:MOST_STEPS]
    names = [str(step.step) for step in listed]
    transfers = [step.transfer_s for step in listed]
    waits: list[Sequence[float | None]] = [step.wait_s for step in listed]
    if across.matched_steps > 1 and across.transfer_s is not None:
        names.append("mean")
        transfers.append(across.transfer_s)
        waits.append(across.wait_s)
    columns: list[Column] = [
        ("step", names),
        ("transfer\nms", [words.milliseconds(transfer) for transfer in transfers]),
    ]
    longest = max(map(len, across.labels))
    if len(across.labels) <= MOST_WAIT_COLUMNS and longest <= LONGEST_HEADING:
        columns += [
            (f"{label}\nwait ms", [words.milliseconds(wait[position]) for wait in waits])
            for position, label in enumerate(across.labels)
        ]
    return _table(columns, _of_all_steps(across.matched_steps))


def _by_call(across: AcrossFigures) -> RenderableType:
    calls = across.calls
    return _table(
        [
            ("call", [str(number + 1) for number in range(len(calls))]),
            ("kind", [call["kind"] for call in calls]),
            ("size", [words.size(call["bytes"]) for call in calls]),
            ("transfer\nms", [words.milliseconds(call["transfer_s"]) for call in calls]),
            ("busbw\nGB/s", [_gigabytes(call["busbw_bytes_per_s"]) for call in calls]),
        ]
    )


def _table(columns: Sequence[Column], caption: str | None = None) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading, _ in columns:
        is_text = heading in ("rank", "step", "call", "kind", "dtype")
        justify: JustifyMethod = "left" if is_text else "right"
        table.add_column(text(heading), justify=justify, no_wrap=True)
    for cells in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*(text(cell) for cell in cells))
    lines = Group(table, caption) if caption else table
    return Padding(lines, (0, 0, 0, 2), expand=False)


def _of_all_steps(steps: int) -> str | None:
    """The caption of a table that has not all of them."""
    if steps <= MOST_STEPS:
        return None
    return f"the first {MOST_STEPS} of {steps} steps, the mean of all; --json has more"


def _note(sentence: str) -> Text:
    return prose(f"note: {sentence}")


def _plain(value: float | None) -> str:
    return words.plain(value) if isinstance(value, float) else _count(value)


def _count(value: int | None) -> str:
    return words.BLANK if value is None else str(value)


def _percent(ratio: float | None) -> str:
    return words.BLANK if ratio is None else f"{ratio * 100:.1f}"


def _gigabytes(bytes_per_s: float | None) -> str:
    return words.BLANK if bytes_per_s is None else words.digits(bytes_per_s / 1e9)
