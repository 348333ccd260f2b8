"""A page in short, as Markdown: for a pull request, a job's summary or a chat. Names are text."""

from __future__ import annotations

from collections.abc import Iterator

from reports import export_markdown, verdict_words, words
from reports.frames import Row, groups, rows
from reports.judged import BAD
from reports.markdown import escaped, table
from reports.tables import Tables
from reports.verdict_words import Said

#: A summary that takes more than a screen is a page.
MOST_MODELS, MOST_ROWS, MOST_WARNINGS, MOST_BROKEN = 6, 12, 5, 5
HEADINGS = (
    *("series", "ranks", "samples/s", "95 % interval"),
    *("efficiency over one process", "efficiency over its own 1 rank"),
)


def render(tables: Tables) -> str:
    """The verdict, the scaling of each model, what to beware of, and which files it is from."""
    said = verdict_words.verdicts(tables, MOST_MODELS)
    several = len(said) > 1
    parts: list[str] = []
    for one in said:
        parts += _file(tables, one, several)
    parts.append("\n".join(_sources(tables)))
    return "\n\n".join(parts) + "\n"


def _file(tables: Tables, said: Said, several: bool) -> Iterator[str]:
    if several:
        yield f"## {escaped(said.file)}"
    level = "###" if several else "##"
    for sentence in said.compared:
        yield f"**{escaped(sentence)}**"
    for model in said.models:
        yield f"{level} {escaped(f'{model.model}: {model.headline}')}"
        yield _list(model.sentences)
        yield from _scaling(tables, said.file, model.model)
    if not said.models:
        yield escaped(verdict_words.NOTHING)
    if said.more:
        yield escaped(verdict_words.more(said))
    care = _care(tables, said)
    if care:
        yield f"{level} How sure is this?"
        yield _list(care)
    broken = _broken(tables, said.file)
    if broken:
        yield f"{level} Without a number"
        yield _list(broken)


def _scaling(tables: Tables, file: str, model: str) -> Iterator[str]:
    """A table for each kind of scaling of the model, of at most MOST_ROWS: whole series, those
    with the highest throughput first."""
    own = [
        row
        for row in rows(tables.scaling)
        if row["file"] == file and words.model_and_label(row) == model
    ]
    for (kind,), part in groups(own, "kind").items():
        if len({row["world_size"] for row in part}) < 2:
            continue  # nothing scales
        series = sorted(groups(part, "series").values(), key=_most, reverse=True)
        ordered = [row for one in series for row in one]
        yield f"{str(kind).capitalize()} scaling:"
        yield table(HEADINGS, [_cells(row) for row in ordered[:MOST_ROWS]])
        if len(part) > MOST_ROWS:
            yield f"{len(part) - MOST_ROWS} more rows are on the page."


def _most(series: list[Row]) -> float:
    return max(row["throughput_samples_per_s"] or 0.0 for row in series)


def _cells(row: Row) -> list[str]:
    ends = ("throughput_low_samples_per_s", "throughput_high_samples_per_s")
    return [
        row["series"],
        str(row["world_size"]),
        words.plain(row["throughput_samples_per_s"]),
        words.between(row[ends[0]], row[ends[1]], words.plain) or words.BLANK,
        export_markdown.efficiency(row, "single"),
        export_markdown.efficiency(row, "same"),
    ]


def _care(tables: Tables, said: Said) -> list[str]:
    """What limits the numbers, what the run itself warned of, and the gravest of what was found
    about how they were measured."""
    (record,) = (row for row in rows(tables.records.files) if row["file"] == said.file)
    bad = list(record["warnings"])
    bad += [
        f"{row['id']}: {row['sentence']}" if row["id"] else row["sentence"]
        for row in rows(tables.trust)
        if row["file"] == said.file and row["verdict"] == BAD
    ]
    rest = len(bad) - MOST_WARNINGS
    more = [f"{rest} more are on the page."] if rest > 0 else []
    return [*said.sure, *bad[:MOST_WARNINGS], *more]


def _broken(tables: Tables, file: str) -> list[str]:
    """Cells that broke, one by one; those that were skipped, counted by their reason."""
    own = [row for row in rows(tables.records.outcomes) if row["file"] == file]
    bad = [row for row in own if row["outcome"] not in ("ok", "skipped")]
    skipped = groups((row for row in own if row["outcome"] == "skipped"), "reason")
    found = [export_markdown.ended(row) for row in bad[:MOST_BROKEN]]
    if len(bad) > MOST_BROKEN:
        found.append(f"{len(bad) - MOST_BROKEN} more broke; they are on the page.")
    said = [
        f"{len(cells)} skipped: {reason or 'no reason stated'}"
        for (reason,), cells in skipped.items()
    ]
    rest = len(said) - MOST_BROKEN
    return [*found, *said[:MOST_BROKEN], *([f"{rest} other reasons"] if rest > 0 else [])]


def _sources(tables: Tables) -> Iterator[str]:
    """A line for each file: machine, torch, date."""
    versions: dict[str, list[str]] = {}
    for row in rows(tables.cells):
        if row["torch_version"]:
            versions.setdefault(row["file"], []).append(row["torch_version"])
    for row in rows(tables.records.files):
        yield f"- {escaped(', '.join(source(row, versions.get(row['file'], []))))}"


def source(file: Row, versions: list[str]) -> list[str]:
    """What a file is: its name, host, CPU or GPUs, torch, date."""
    devices = ", ".join(dict.fromkeys(file["gpus"] or [])) or file["cpu"]
    torch = words.joined([f"torch {version}" for version in dict.fromkeys(versions)])
    date = (file["datetime"] or "")[:16].replace("T", " ")
    parts = [file["file"], file["host"], devices, torch, date]
    return [part for part in parts if part]


def _list(sentences: list[str]) -> str:
    return "\n".join(f"- {escaped(sentence)}" for sentence in sentences)
