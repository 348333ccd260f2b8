"""Tables -> one self-contained HTML page.

The page is the list ``SECTIONS``: functions ``(tables) -> html or None``; one that has nothing to
say is not on the page. Templates escape everything; only figures, which escape their own text, go
in as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
from markupsafe import Markup

from reports import (
    all_reduce_figure,
    bucket_figure,
    cases_table,
    collectives_section,
    figure_sections,
    files_section,
    findings,
    memory_figures,
    scaling_figures,
    strategies_figure,
    versions_section,
    waterfall_figure,
    words,
)
from reports.bounds import MOST_ROWS, bounded, first_rows
from reports.collectives import is_collective
from reports.drawing import MOST_CASES, MOST_FIGURES
from reports.environment import ENVIRONMENT
from reports.frames import groups, rows
from reports.inline import read
from reports.tables import Tables
from reports.trust import MOST_SHOWN, counts, gravest
from reports.waterfall import SAME_EXPOSED, TERMS

#: Models whose answers are seen at once; those of others are folded.
MOST_MODELS = 12
#: Of a run on more hosts the first ones are listed.
MOST_HOSTS = 64
#: The first runs before anything is laid out, the others when the page is there.
SCRIPTS = (
    read("templates/begin.js"),
    read("vendor/dataTables.min.js"),
    read("templates/cases.js"),
)


def render(tables: Tables) -> str:
    """The whole page. The same records give the same text."""
    trained = tables.cells[~is_collective(tables.cells)]
    models = list(dict.fromkeys(map(words.model, rows(trained)))) or ["collectives"]
    shown, lost = bounded(tables)
    sections = []
    for name, title, make in SECTIONS:
        html = make(shown if name in lost else tables)
        if html:
            if lost.get(name):
                html += _render("left_out.html.j2", n=lost[name])
            sections.append((name, title, Markup(html)))
    return _render(
        "base.html.j2",
        models=models,
        files=rows(tables.records.files),
        sections=sections,
        scripts=SCRIPTS,
    )


def verdict(tables: Tables) -> str | None:
    files = [
        (
            row["file"],
            findings.of_models(tables, row["file"]),
            findings.how_sure(tables, row["file"]),
        )
        for row in rows(tables.records.files)
    ]
    return _render(
        "verdict.html.j2",
        files=[one for one in files if one[1]],
        total=len(files),
        most=MOST_MODELS,
        versions=versions_section.headlines(tables.versions),
    )


def side_by_side(tables: Tables) -> str | None:
    return files_section.section(tables.beside)


def scaling(tables: Tables) -> str | None:
    """Figures and numbers for each file, model and kind, in the order of the files."""
    parts = []
    for n, ((file, model, kind), part) in enumerate(
        _parts(tables.scaling, "file", "model", "kind")
    ):
        drawn: list[str | None] = []
        if n < MOST_FIGURES:
            drawn.append(scaling_figures.throughput(part, f"scaling-{n}-throughput"))
            drawn.append(scaling_figures.efficiency(part, f"scaling-{n}-efficiency"))
        left_out = scaling_figures.series_left_out(part)
        parts.append((file, model, kind, _markup(drawn), rows(part), left_out))
    return (
        _render("scaling.html.j2", parts=parts, several=_several(tables), most=MOST_FIGURES)
        if parts
        else None
    )


def time_goes(tables: Tables) -> str | None:
    """The waterfall, the phases of a step, and one step on all ranks."""
    made = (waterfall, figure_sections.phases, figure_sections.timelines)
    return "\n".join(html for one in made if (html := one(tables))) or None


def waterfall(tables: Tables) -> str | None:
    parts = []
    for n, (key, part) in enumerate(_parts(tables.waterfall, "file", "model")):
        drawn = waterfall_figure.waterfall(part, f"waterfall-{n}") if n < MOST_FIGURES else None
        parts.append((*key, _markup([drawn]), rows(part)))
    return (
        _render(
            "waterfall.html.j2",
            parts=parts,
            several=_several(tables),
            most=waterfall_figure.MOST_CELLS,
            terms=TERMS,
            same_exposed=SAME_EXPOSED,
        )
        if parts
        else None
    )


def all_reduce(tables: Tables) -> str | None:
    parts = []
    bars = dict(_parts(tables.all_reduce_bars, "file", "model"))
    for n, (key, part) in enumerate(_parts(tables.all_reduce, "file", "model")):
        drawn = None
        if key in bars and n < MOST_FIGURES:
            drawn = all_reduce_figure.all_reduce(bars[key], f"all-reduce-{n}")
        parts.append((*key, _markup([drawn]), rows(part)))
    return (
        _render(
            "all_reduce.html.j2",
            parts=parts,
            several=_several(tables),
            most=MOST_CASES,
        )
        if parts
        else None
    )


def buckets(tables: Tables) -> str | None:
    parts = []
    memory = groups(rows(tables.bucket_memory), "file", "group")
    of_memory = dict(_parts(tables.bucket_memory, "file", "group"))
    for n, ((file, group), part) in enumerate(_parts(tables.buckets, "file", "group")):
        made: list[str | None] = []
        if n < MOST_FIGURES:
            made.append(bucket_figure.buckets(part, f"buckets-{n}"))
            if (file, group) in of_memory:
                saved = of_memory[file, group]
                made.append(memory_figures.view_memory(saved, f"bucket-memory-{n}"))
        drawn = _markup(made)
        parts.append((file, group, drawn, rows(part), memory.get((file, group), [])))
    return (
        _render("buckets.html.j2", parts=parts, several=_several(tables), most=MOST_FIGURES)
        if parts
        else None
    )


def strategies(tables: Tables) -> str | None:
    table = rows(tables.strategies)
    drawn = _markup([strategies_figure.strategies(tables.strategies, "strategies")])
    return (
        _render("strategies.html.j2", rows=table, figures=drawn, several=_several(tables))
        if table
        else None
    )


def versions(tables: Tables) -> str | None:
    return versions_section.section(tables.versions)


def cases(tables: Tables) -> str | None:
    several = _several(tables)
    table = cases_table.case_rows(tables)
    if not table:
        return None
    on_several_hosts = any((row["hosts"] or 1) > 1 for row in table)
    columns = cases_table.shown_columns(several, on_several_hosts)
    phases = first_rows(tables.phases, ["file"])
    return _render(
        "cases.html.j2",
        rows=table,
        columns=columns,
        choices=cases_table.choices(table, columns),
        data=cases_table.exact_values(table, columns),
        phases=groups(rows(phases), "file"),
        phases_left_out=len(tables.phases) - len(phases),
        several=several,
        on_several_hosts=on_several_hosts,
    )


def outcomes(tables: Tables) -> str | None:
    """Those that failed first, then the skipped."""
    table = cases_table.ended_rows(tables)
    table.sort(key=lambda row: row["outcome"] == "skipped")
    return (
        _render(
            "outcomes.html.j2",
            rows=table[:MOST_ROWS],
            left_out=max(0, len(table) - MOST_ROWS),
            counts=Counter(row["outcome"] for row in table),
            several=_several(tables),
        )
        if table
        else None
    )


def definitions(tables: Tables) -> str | None:
    return _render("definitions.html.j2")


def trust(tables: Tables) -> str | None:
    parts = []
    files = groups(rows(tables.trust), "file")
    room = max(1, MOST_ROWS // max(1, len(files)))
    for (file,), checks in files.items():
        worst = gravest(checks)
        left_out = max(0, len(worst) - MOST_SHOWN)
        listed = checks if len(checks) <= room else worst[:room]
        parts.append((file, counts(checks), worst[:MOST_SHOWN], left_out, listed, len(checks)))
    return _render("trust.html.j2", parts=parts, several=_several(tables)) if parts else None


def machine(tables: Tables) -> str | None:
    cells = groups(rows(tables.cells), "file")
    files = []
    for row in rows(tables.records.files):
        own = cells.get((row["file"],), [])
        labels = sorted({cell["label"] for cell in own if cell["label"]})
        torch = sorted({cell["torch_version"] for cell in own if cell["torch_version"]})
        files.append(row | {"labels": labels, "torch": torch})
    return _render("machine.html.j2", files=files, most_hosts=MOST_HOSTS)


Section = Callable[[Tables], str | None]
SECTIONS: list[tuple[str, str, Section]] = [
    # The answer.
    ("verdict", "Verdict", verdict),
    ("files", "Files side by side", side_by_side),
    # The reasons.
    ("scaling", "Scaling", scaling),
    ("waterfall", "Where the time goes", time_goes),
    ("all-reduce", "All-reduce", all_reduce),
    ("collectives", "Collectives", collectives_section.section),
    ("buckets", "Bucket settings", buckets),
    ("strategies", "DDP against DataParallel", strategies),
    ("memory", "Memory", figure_sections.memory),
    ("step-times", "Step times", figure_sections.step_times),
    ("versions", "Versions", versions),
    # The numbers, and what to think of them.
    ("cases", "All cases", cases),
    ("outcomes", "Skipped and failed", outcomes),
    ("trust", "Can these numbers be believed", trust),
    ("machine", "Machine and software", machine),
    ("definitions", "What the numbers mean", definitions),
]


def _render(template: str, **values: Any) -> str:
    return ENVIRONMENT.get_template(template).render(**values)


def _parts(table: pd.DataFrame, *names: str) -> list[tuple[Any, pd.DataFrame]]:
    """The table by its values of ``names``, in order of appearance."""
    return [(key, part) for key, part in table.groupby(list(names), sort=False, dropna=False)]


def _markup(drawn: list[str | None]) -> list[Markup]:
    return [Markup(svg) for svg in drawn if svg]


def _several(tables: Tables) -> bool:
    return len(tables.records.files) > 1
