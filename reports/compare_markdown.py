"""A comparison as Markdown, as $GITHUB_STEP_SUMMARY shows it. Names are text and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports import attribution, compare_words
from reports.comparison import Comparison, Versus
from reports.frames import Row, groups, rows
from reports.gate import Conclusion, gate_rows
from reports.markdown import escaped, table


def render(comparison: Comparison, conclusion: Conclusion) -> str:
    parts = [f"## {escaped(conclusion.headline)}", escaped(compare_words.title(comparison))]
    parts.append(f"{escaped(conclusion.counts)}. {escaped(compare_words.how(comparison))}")
    care = [f"- **Warning:** {escaped(each)}" for each in compare_words.care(comparison)]
    if care:
        parts.append("\n".join(care))
    for versus in comparison.news:
        parts += _versus(comparison, versus)
    parts.append(f"Exit status {conclusion.status}: {escaped(conclusion.reason)}.")
    return "\n\n".join(parts) + "\n"


def _versus(comparison: Comparison, versus: Versus) -> Iterator[str]:
    a = compare_words.side("A", comparison.sides.base, comparison.base_facts)
    b = compare_words.side("B", versus.new, versus.facts)
    yield f"- {escaped(a)}\n- {escaped(b)}\n- {escaped(compare_words.also_differ(versus))}"
    own = [row for row in rows(comparison.rows) if row["new"] == versus.new.name]
    judged = [row for row in own if row["gate"]]
    if judged:
        yield _rows([(row["case"], row) for row in judged], compare_words.HEADINGS)
        yield escaped(compare_words.legend(comparison, len(gate_rows(comparison))))
    rest = [row for row in rows(comparison.uncompared) if row["new"] == versus.new.name]
    if rest:
        yield "### Not compared"
        yield "\n".join(
            f"- {escaped(row['case'])}, {escaped(row['kind'])}: {escaped(row['sentence'])}"
            for row in rest
        )
    mine = [row for row in rows(comparison.parts) if row["new"] == versus.new.name]
    for (case,), parts in groups(mine, "case").items():
        yield f"### Where the time of {escaped(case)} went"
        said = "\n".join(f"- {escaped(sentence)}" for sentence in attribution.sentences(parts))
        if said:
            yield said
        yield table(
            (compare_words.PARTS_HEADING, "A", "B", "growth", "±"),
            [(row["part"], *compare_words.part_cells(row)) for row in parts],
        )
    shown = compare_words.listed(own)
    if shown:
        yield "### Other metrics, not part of the gate"
        named = [(f"{row['case']}, {compare_words.metric_of(row).title}", row) for row in shown]
        yield _rows(named, compare_words.LISTED_HEADINGS)


def _rows(named: Sequence[tuple[str, Row]], headings: Sequence[str]) -> str:
    lines = []
    for name, row in named:
        notes = filter(None, (compare_words.first_time(row), row["note"]))
        said = "; ".join((row["said"], *notes))
        lines.append((name, *compare_words.cells(row), said))
    return table(("case", *headings, "verdict"), lines, text=("verdict",))
