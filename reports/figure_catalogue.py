"""Every figure that can be asked for by name, and which there are of some files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from bench.nearest import did_you_mean
from reports import (
    all_reduce_figure,
    bucket_figure,
    collectives_figure,
    memory_figures,
    phases_figure,
    scaling_figures,
    step_times_figure,
    strategies_figure,
    timeline_figure,
    versions_figure,
    waterfall_figure,
)
from reports.frames import rows
from reports.scaling import KINDS
from reports.tables import Tables
from reports.timelines import timeline_table

#: A table's rows and a name for its ids -> SVG, or None where there is nothing to draw.
Draw = Callable[[pd.DataFrame, str], "str | None"]

NAMES = {
    "throughput": "throughput against world size, weak scaling",
    "efficiency": "efficiency against world size, weak scaling",
    "throughput-strong": "throughput against world size, strong scaling",
    "efficiency-strong": "efficiency against world size, strong scaling",
    "waterfall": "where the time of a step goes, term by term",
    "phases": "the phases of a step",
    "timeline": "one step on all ranks",
    "all-reduce": "all-reduce time of each rank",
    "busbw": "bus bandwidth of a collective against its size",
    "pairs": "every two ranks alone",
    "buckets": "bucket cap against bucket view",
    "bucket-memory": "memory with and without the bucket view",
    "strategies": "DDP against DataParallel",
    "memory": "peak memory",
    "step-times": "step times, launch by launch",
    "versions": "the effect of another version on every case",
}


class NoFigure(ValueError):
    """One line: why there is not exactly one figure to draw."""


@dataclass(frozen=True)
class Choice:
    """One figure that may be drawn; ``model`` is what its heading says on the page."""

    name: str
    file: str
    model: str
    cases: tuple[str, ...]
    draw: Callable[[], str | None]


def choose(tables: Tables, name: str, model: str | None, case: str | None) -> tuple[Choice, str]:
    """The one figure that fits, and its SVG. Raises NoFigure."""
    if name not in NAMES:
        raise NoFigure(
            f"{name!r} is no figure{did_you_mean(name, NAMES)} (choose from {', '.join(NAMES)})"
        )
    found = [
        one
        for one in choices(tables, case)
        if one.name == name
        and (model is None or one.model == model)
        and (case is None or case in one.cases)
    ]
    drawn = [(one, svg) for one in found if (svg := one.draw())]
    asked = " ".join(
        f"--{option} {value}" for option, value in (("model", model), ("case", case)) if value
    )
    if not drawn:
        of = f" with {asked}" if asked else ""
        raise NoFigure(f"{name}: nothing to draw{of}; --list names what there is")
    if len(drawn) > 1:
        raise NoFigure(f"{name}: {len(drawn)} figures fit; {_how_to_choose([o for o, _ in drawn])}")
    return drawn[0]


def listed(tables: Tables) -> dict[str, list[str]]:
    """Name -> the models there is such a figure of."""
    found: dict[str, list[str]] = {}
    for one in choices(tables):
        models = found.setdefault(one.name, [])
        if one.model not in models and one.draw():
            models.append(one.model)
    return {name: models for name, models in found.items() if models}


def choices(tables: Tables, case: str | None = None) -> Iterator[Choice]:
    """Every figure that may be drawn; with ``case``, those of several cases hold only that one."""
    for kind in KINDS:
        table = tables.scaling[tables.scaling["kind"] == kind]
        end = "" if kind == "weak" else f"-{kind}"
        yield from _each(f"throughput{end}", table, ["model"], scaling_figures.throughput)
        yield from _each(f"efficiency{end}", table, ["model"], scaling_figures.efficiency)
    cells, records = tables.cells, tables.records
    if case is not None:
        cells = cells[cells["id"] == case]
    steps, _ = timeline_table(cells, records.timelines, records.stretches)
    of_cases: list[tuple[str, pd.DataFrame, list[str], Draw]] = [
        ("waterfall", tables.waterfall, ["model"], waterfall_figure.waterfall),
        ("phases", tables.step_phases, ["model"], phases_figure.phases),
        ("timeline", steps, ["model", "cell"], timeline_figure.timeline),
        ("all-reduce", tables.all_reduce_bars, ["model"], all_reduce_figure.all_reduce),
        ("memory", tables.memory, ["model", "peak_kind"], memory_figures.memory),
        ("step-times", tables.step_times, ["model"], step_times_figure.step_times),
    ]
    for name, table, by, draw in of_cases:
        one = table if case is None else table[table["id"] == case]
        yield from _each(name, one, by, draw)
    for name, table, by, draw in (
        ("busbw", tables.collectives, ["collective"], collectives_figure.busbw),
        ("pairs", tables.pairs, ["id"], collectives_figure.pairs),
    ):
        yield from _each(name, table, by, draw)
    yield from _each("buckets", tables.buckets, ["group"], bucket_figure.buckets)
    yield from _each(
        "bucket-memory", tables.bucket_memory, ["group"], memory_figures.view_memory, "off_id"
    )
    yield from _each(
        "strategies", tables.strategies, ["model"], strategies_figure.strategies, "ddp"
    )
    for comparison in tables.versions:
        base = comparison.sides.base
        for versus in comparison.news:
            table = comparison.rows[comparison.rows["new"] == versus.new.name]
            title = f"{versus.new.name} against {base.name}"
            forest = partial(versions_figure.versions, table, comparison.delta, title, "figure")
            ids = tuple(dict.fromkeys(str(row["case"]) for row in rows(table)))
            yield Choice("versions", base.file, title, ids, forest)


def _each(
    name: str, table: pd.DataFrame, by: Sequence[str], draw: Draw, id: str = "id"
) -> Iterator[Choice]:
    for key, part in table.groupby(["file", *by], sort=False, dropna=False):
        ids = tuple(str(one) for one in part[id].dropna().unique())
        yield Choice(name, str(key[0]), str(key[1]), ids, partial(draw, part, "figure"))


def _how_to_choose(fitting: Sequence[Choice]) -> str:
    models = list(dict.fromkeys(one.model for one in fitting))
    if len(models) > 1:
        return f"choose one with --model: {', '.join(map(repr, models))}"
    files = {one.file for one in fitting}
    if len(files) > 1:
        return "give the file of one of them alone"
    return f"choose one with --case: {', '.join(one.cases[0] for one in fitting if one.cases)}"
