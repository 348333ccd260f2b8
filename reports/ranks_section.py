"""Of cases on many ranks or several hosts: which of them are slow. Distributions, not lines."""

from __future__ import annotations

from markupsafe import Markup

from reports import rank_pace_figure, words
from reports.drawing import MOST_CASES, MOST_FIGURES
from reports.environment import ENVIRONMENT
from reports.figure_sections import Part
from reports.frames import Row, rows
from reports.rank_pace import SLOW
from reports.tables import Tables

_HEADINGS = (
    *("ranks", "hosts", "fastest, ms", "25 %", "median", "75 %", "slowest"),
    *("slowest rank", "slowest host"),
)
#: Cases whose slow ranks are named below the figure.
_MOST_SENTENCES = 4


def ranks(tables: Tables) -> str | None:
    parts = []
    of_models = list(tables.rank_pace.groupby(["file", "model"], sort=False, dropna=False))
    for n, ((file, model), whole) in enumerate(of_models[:MOST_FIGURES]):
        table = whole.head(MOST_CASES)
        svg = rank_pace_figure.rank_pace(table, f"ranks-{n}")
        measures = words.joined(list(dict.fromkeys(whole["measure"])))
        notes = [f"A rank's time is that of {measures}.", *_sentences(rows(whole))]
        if len(whole) > len(table):
            notes.append(f"The first {len(table)} of {len(whole)} cases.")
        lines = [(row, _numbers(row)) for row in rows(table)]
        parts.append(Part(str(file), str(model), Markup(svg), _HEADINGS, lines, notes))
    notes = []
    if len(of_models) > MOST_FIGURES:
        notes.append(f"The first {MOST_FIGURES} of {len(of_models)} models.")
    if not parts:
        return None
    return ENVIRONMENT.get_template("figure_parts.html.j2").render(
        title="Slow ranks and hosts",
        lead="How long each rank takes by itself. Step times are equal once the ranks have waited "
        "for each other and do not tell which of them is slow; all wait for the slowest. A host "
        "counts by the median of its ranks.",
        parts=parts,
        notes=notes,
        several=len(tables.records.files) > 1,
    )


def _numbers(row: Row) -> list[str]:
    times = ("shortest_s", "p25_s", "median_s", "p75_s", "longest_s")
    return [
        str(row["ranks"]),
        str(row["hosts"]),
        *(words.milliseconds(row[name]) for name in times),
        _rank(row, row["slowest"][0]),
        words.BLANK if row["slowest_host"] is None else _host(row["slowest_host"]),
    ]


def _sentences(cases: list[Row]) -> list[str]:
    """Who is slow, of the first cases where somebody is."""
    share = f"{SLOW * 100:g}{words.SPACE}%"
    slow = [row for row in cases if row["slow_ranks"]]
    if not slow:
        return [f"No rank takes over {share} longer than the median."]
    found = []
    for row in slow[:_MOST_SENTENCES]:
        named = [_rank(row, one) for one in row["slowest"] if one[2] > SLOW]
        more = row["slow_ranks"] - len(named)
        said = f"{row['slow_ranks']} of {row['ranks']} ranks"
        found.append(
            f"{row['id']}: {said} over {share} slower than the median: "
            + words.joined([*named, *([f"{more} more"] if more else [])])
            + (f"; slowest host {_host(row['slowest_host'])}." if row["slow_hosts"] else ".")
        )
    if len(slow) > _MOST_SENTENCES:
        found.append(f"So have {len(slow) - _MOST_SENTENCES} more cases slow ranks.")
    return found


def _rank(row: Row, named: tuple[int, str | None, float]) -> str:
    rank, host, over = named
    where = f" on {host}" if host and row["hosts"] > 1 else ""
    return f"rank {rank}{where} ({words.signed_percent(over)})"


def _host(named: tuple[str, float]) -> str:
    return f"{named[0]} ({words.signed_percent(named[1])})"
