"""Sections that are a figure for each model, its numbers folded below it.

``(tables) -> html or None``, as all sections of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from reports import (
    memory_figures,
    phases_figure,
    step_times_figure,
    timeline_figure,
    words,
)
from reports.drawing import MOST_CASES, MOST_FIGURES, phase_name
from reports.environment import ENVIRONMENT
from reports.frames import Row, rows
from reports.memory import KINDS
from reports.step_phases import PHASES
from reports.tables import Tables
from reports.timeline_record import STEP


@dataclass(frozen=True)
class Part:
    """One figure and its table. ``lines``: (the case a line is of, its numbers under ``headings``);
    ``notes``: what is not in them."""

    file: str
    title: str
    figure: Markup
    headings: Sequence[str]
    lines: Sequence[tuple[Row, Sequence[str]]]
    notes: Sequence[str] = ()


def phases(tables: Tables) -> str | None:
    parts = []
    models = _by(tables.step_phases, "model")
    for n, (file, model, whole) in enumerate(models[:MOST_FIGURES]):
        table, notes = _first_cases(whole, MOST_CASES)
        svg = phases_figure.phases(table, f"phases-{n}")
        lines = [
            (row, [words.milliseconds(row[f"{name}_s"]) for name in ("step", *PHASES)])
            for row in rows(table)
        ]
        headings = ["step, ms", *(f"{phase_name(name)}, ms" for name in PHASES)]
        parts += _part(file, f"{model}, phases", svg, headings, lines, notes)
    return _render(
        "Medians of the slowest rank, mean over launches; they need not add up to the measured "
        "step, which is the line. DDP's all-reduces run within backward.",
        parts,
        tables,
        _more_models(models),
        "Phases of a step",
    )


def timelines(tables: Tables) -> str | None:
    parts = []
    cells = _by(tables.timelines, "id", "cell")
    for n, (file, id, table) in enumerate(cells[:MOST_FIGURES]):
        svg = timeline_figure.timeline(table, f"timeline-{n}")
        lines = [(row, _stretch(row)) for row in rows(table)]
        headings = ["rank", "what", "size", "from, ms", "to, ms", "lasts, ms", "of it waiting, ms"]
        notes = _notes_of_timeline(rows(table)[0], len({row["rank"] for row, _ in lines}))
        parts += _part(file, id, svg, headings, lines, notes)
    notes = [f"{row['id']}: no timeline, {row['reason']}." for row in rows(tables.no_timelines)]
    if len(cells) > MOST_FIGURES:
        notes.append(
            f"{words.plural(len(cells) - MOST_FIGURES, 'more timeline')} in the files: python -m "
            "reports figure timeline FILE --case ID draws any."
        )
    return _render(
        "Of each model and strategy the case with most ranks: one profiled step of median length. "
        "An empty box is waiting: the collective has begun on this rank and not yet on all.",
        parts,
        tables,
        notes,
        "One step on all ranks",
    )


def memory(tables: Tables) -> str | None:
    parts = []
    models = _by(tables.memory, "model", "peak_kind")
    for n, (file, model, whole) in enumerate(models[:MOST_FIGURES]):
        table, notes = _first_cases(whole, MOST_CASES)
        svg = memory_figures.memory(table, f"memory-{n}")
        lines = [
            (row, [words.size(row[f"{name}_bytes"]) for name in ("peak", "low", "high", "least")])
            for row in rows(table)
        ]
        headings = ["peak", "lowest launch", "highest launch", "smallest rank"]
        kind = KINDS.get(rows(table)[0]["peak_kind"], "kind of memory not stated")
        parts += _part(file, f"{model}: {kind}", svg, headings, lines, notes)
    lead = "The largest rank's peak, median over launches."
    if (tables.memory["peak_kind"] == "rss").any():
        lead += (
            " On a CPU it is the resident memory of the process, libraries and all, which is "
            "coarse."
        )
    return _render(
        lead,
        parts,
        tables,
        _more_models(models),
    )


def step_times(tables: Tables) -> str | None:
    parts = []
    spread = ("shortest", "p10", "p25", "median", "p75", "p90", "longest")
    models = _by(tables.step_times, "model")
    for n, (file, model, whole) in enumerate(models[:MOST_FIGURES]):
        table, notes = _first_cases(whole, step_times_figure.MOST_CELLS)
        most = step_times_figure.MOST_LAUNCHES
        if table.groupby("cell").size().max() > most:
            notes.append(f"The figure holds the first {most} launches of a case, the table all.")
        svg = step_times_figure.step_times(table, f"step-times-{n}")
        lines = [
            (
                row,
                [
                    str(row["launch"]),
                    str(row["steps"]),
                    *(words.milliseconds(row[f"{name}_s"]) for name in spread),
                ],
            )
            for row in rows(table)
        ]
        headings = ["launch", "steps", "shortest, ms", "10 %", "25 %", "median", "75 %", "90 %"]
        parts += _part(file, model, svg, [*headings, "longest"], lines, notes)
    return _render(
        "A box is a launch. Where launches of a case lie apart more than the steps within one, it "
        "takes more launches to know the step time better, not more steps.",
        parts,
        tables,
        _more_models(models),
    )


def _part(
    file: str,
    title: str,
    svg: str | None,
    headings: Sequence[str],
    lines: Sequence[tuple[Row, Sequence[str]]],
    notes: Sequence[str],
) -> list[Part]:
    return [Part(file, title, Markup(svg), headings, lines, notes)] if svg else []


def _stretch(row: Row) -> list[str]:
    is_step = row["name"] == STEP and row["lane"] is None
    name = "whole step" if is_step else row["name"] if row["lane"] is not None else None
    return [
        str(row["rank"]),
        name or phase_name(row["name"]),
        words.size(row["bytes"]) if row["bytes"] is not None else "",
        words.milliseconds(row["start_s"]).replace("-", "−"),
        words.milliseconds(row["end_s"]),
        words.milliseconds(row["end_s"] - row["start_s"]),
        words.milliseconds(row["wait_s"]) if row["lane"] is not None else "",
    ]


def _notes_of_timeline(row: Row, ranks: int) -> list[str]:
    found = []
    if row["left_out_ranks"]:
        chosen = " Those that are there were chosen by how long they wait." if row["why"] else ""
        found.append(
            f"The record leaves out {words.plural(row['left_out_ranks'], 'rank')}.{chosen}"
        )
    if ranks > timeline_figure.MOST_RANKS:
        found.append(
            f"The figure holds {timeline_figure.MOST_RANKS} ranks; the table holds all {ranks}."
        )
    if row["left_out_collectives"]:
        shortest = words.plural(row["left_out_collectives"], "collective")
        found.append(f"The record leaves out the shortest {shortest} of a rank.")
    if row["aligned"]:
        found.append(
            "The ranks' clocks were aligned by the ends of their collectives, which agree within "
            f"{words.seconds(row['ends_within_s'])}."
        )
    return found


def _first_cases(table: pd.DataFrame, most: int) -> tuple[pd.DataFrame, list[str]]:
    """(the rows of the first cases, what to say of the others)"""
    cells = list(dict.fromkeys(table["cell"]))
    if len(cells) <= most:
        return table, []
    kept: pd.DataFrame = table[table["cell"].isin(cells[:most])]
    return kept, [f"The first {most} of {len(cells)} cases; “All cases” has the others too."]


def _more_models(models: Sequence[object]) -> list[str]:
    if len(models) <= MOST_FIGURES:
        return []
    return [
        f"Figures of the first {MOST_FIGURES} models; “All cases” has the "
        f"{len(models) - MOST_FIGURES} others too."
    ]


def _by(table: pd.DataFrame, *names: str) -> list[tuple[str, str, pd.DataFrame]]:
    """(file, the first of ``names``, rows) by file and ``names``, in order of appearance."""
    return [
        (str(key[0]), str(key[1]), part)
        for key, part in table.groupby(["file", *names], sort=False, dropna=False)
    ]


def _render(
    lead: str,
    parts: Sequence[Part],
    tables: Tables,
    notes: Sequence[str] = (),
    title: str | None = None,
) -> str | None:
    """``title``: of a part of a section that has others."""
    if not parts and not notes:
        return None
    return ENVIRONMENT.get_template("figure_parts.html.j2").render(
        title=title,
        lead=lead,
        parts=parts,
        notes=notes,
        several=len(tables.records.files) > 1,
    )
