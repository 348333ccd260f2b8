"""Tables -> one self-contained HTML page.

The page is the list ``SECTIONS``: functions ``(tables) -> html or None``. Templates escape
everything; only figures, which escape their own text, go in as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from markupsafe import Markup

from reports import figures, files_section, findings, versions_section, waterfall_figure, words
from reports.environment import ENVIRONMENT
from reports.frames import Row, groups, rows
from reports.tables import Tables
from reports.trust import MOST_SHOWN, counts, gravest
from reports.waterfall import SAME_EXPOSED, TERMS


def render(tables: Tables) -> str:
    """The whole page. The same records give the same text."""
    models = list(dict.fromkeys(map(words.model, rows(tables.cells))))
    sections = [(name, title, make(tables)) for name, title, make in SECTIONS]
    return _render(
        "base.html.j2",
        models=models,
        files=rows(tables.records.files),
        sections=[(name, title, Markup(html)) for name, title, html in sections if html],
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
    return _render("verdict.html.j2", files=[one for one in files if one[1]], total=len(files))


def side_by_side(tables: Tables) -> str | None:
    return files_section.section(tables.beside)


def scaling(tables: Tables) -> str | None:
    """Figures and numbers for each file, model and kind, in the order of the files."""
    parts = []
    for n, ((file, model, kind), part) in enumerate(
        _parts(tables.scaling, "file", "model", "kind")
    ):
        drawn = [
            figures.throughput(part, f"scaling-{n}-throughput"),
            figures.efficiency(part, f"scaling-{n}-efficiency"),
        ]
        parts.append((file, model, kind, _markup(drawn), rows(part)))
    return _render("scaling.html.j2", parts=parts, several=_several(tables)) if parts else None


def waterfall(tables: Tables) -> str | None:
    parts = []
    for n, (key, part) in enumerate(_parts(tables.waterfall, "file", "model")):
        drawn = waterfall_figure.waterfall(part, f"waterfall-{n}")
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
        drawn = figures.all_reduce(bars[key], f"all-reduce-{n}") if key in bars else None
        parts.append((*key, _markup([drawn]), rows(part)))
    return (
        _render(
            "all_reduce.html.j2",
            parts=parts,
            several=_several(tables),
            most=figures.MOST_CELLS_WITH_BARS,
        )
        if parts
        else None
    )


def buckets(tables: Tables) -> str | None:
    parts = []
    memory = groups(rows(tables.bucket_memory), "file", "group")
    for n, ((file, group), part) in enumerate(_parts(tables.buckets, "file", "group")):
        drawn = _markup([figures.buckets(part, f"buckets-{n}")])
        parts.append((file, group, drawn, rows(part), memory.get((file, group), [])))
    return _render("buckets.html.j2", parts=parts, several=_several(tables)) if parts else None


def strategies(tables: Tables) -> str | None:
    table = rows(tables.strategies)
    return _render("strategies.html.j2", rows=table, several=_several(tables)) if table else None


def versions(tables: Tables) -> str | None:
    return versions_section.section(tables.versions)


def cases(tables: Tables) -> str | None:
    efficiency: dict[int, Row] = {}
    for row in rows(tables.scaling):
        efficiency.setdefault(row["cell"], row)
    table = [
        row | {"efficiency": efficiency.get(row["cell"]), "words": words.case(row)}
        for row in rows(tables.cells)
    ]
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in table:
        parts.setdefault((row["file"], words.model(row)), []).append(row)
    phases = groups(rows(tables.phases), "file")
    return (
        _render("cases.html.j2", parts=parts, phases=phases, several=_several(tables))
        if table
        else None
    )


def outcomes(tables: Tables) -> str | None:
    table = [row for row in rows(tables.records.outcomes) if row["outcome"] != "ok"]
    return _render("outcomes.html.j2", rows=table, several=_several(tables)) if table else None


def definitions(tables: Tables) -> str | None:
    return _render("definitions.html.j2")


def trust(tables: Tables) -> str | None:
    parts = []
    for (file,), checks in groups(rows(tables.trust), "file").items():
        worst = gravest(checks)
        left_out = max(0, len(worst) - MOST_SHOWN)
        parts.append((file, counts(checks), worst[:MOST_SHOWN], left_out, checks))
    return _render("trust.html.j2", parts=parts, several=_several(tables)) if parts else None


def machine(tables: Tables) -> str | None:
    cells = groups(rows(tables.cells), "file")
    files = []
    for row in rows(tables.records.files):
        own = cells.get((row["file"],), [])
        labels = sorted({cell["label"] for cell in own if cell["label"]})
        torch = sorted({cell["torch_version"] for cell in own if cell["torch_version"]})
        files.append(row | {"labels": labels, "torch": torch})
    return _render("machine.html.j2", files=files)


Section = Callable[[Tables], str | None]
SECTIONS: list[tuple[str, str, Section]] = [
    ("verdict", "Verdict", verdict),
    ("files", "Files side by side", side_by_side),
    ("scaling", "Scaling", scaling),
    ("waterfall", "Where the time goes", waterfall),
    ("all-reduce", "All-reduce", all_reduce),
    ("buckets", "Bucket settings", buckets),
    ("strategies", "DDP against DataParallel", strategies),
    ("versions", "Versions", versions),
    ("cases", "All cases", cases),
    ("outcomes", "Skipped and failed", outcomes),
    ("definitions", "What the numbers mean", definitions),
    ("trust", "Can these numbers be believed", trust),
    ("machine", "Machine and software", machine),
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
