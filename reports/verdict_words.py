"""What is said first, the same for the terminal, for Markdown and for whoever asks: the verdict
of each file in sentences, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass

from reports import compare_words, findings, words
from reports.findings import Finding
from reports.frames import rows
from reports.gate import conclude
from reports.tables import Tables


@dataclass(frozen=True)
class Said:
    """``compared``: a sentence for the comparison in a run of several interpreters; ``more``: how
    many models there is nothing said of."""

    file: str
    compared: list[str]
    models: list[Finding]
    more: int
    sure: list[str]


def verdicts(tables: Tables, most_models: int | None = None) -> list[Said]:
    """One for each file, in order; of the first ``most_models`` models of each."""
    of_run: dict[str, list[str]] = {}
    for comparison in tables.versions:
        conclusion = conclude(comparison)
        title = compare_words.title(comparison)
        sentence = f"{title}: {conclusion.headline}. {conclusion.counts}."
        of_run.setdefault(comparison.sides.base.file, []).append(sentence)
    found = []
    for row in rows(tables.records.files):
        models = findings.of_models(tables, row["file"])
        shown = models if most_models is None else models[:most_models]
        found.append(
            Said(
                file=row["file"],
                compared=of_run.get(row["file"], []),
                models=shown,
                more=len(models) - len(shown),
                sure=findings.how_sure(tables, row["file"]),
            )
        )
    return found


NOTHING = "No case has a result."


def more(said: Said) -> str:
    """'and 3 more models'"""
    return f"and {words.plural(said.more, 'more model')}"
