"""``python -m reports export``: results for other tools and for people's own analysis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from reports import export_markdown
from reports.command import (
    STANDARD_OUTPUT,
    bad_input,
    cannot_write,
    note,
    over_an_input,
    write_or_print,
)
from reports.export import per_launch
from reports.export_table import launch_table
from reports.load import load
from reports.source import UnreadableFile, read_document
from reports.tables import compute


def export(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES", help="Written with pytest --benchmark-json.")
    ],
    as_launches: Annotated[
        Path | None,
        typer.Option(
            "--per-launch",
            metavar="OUT.json",
            help="A pytest-benchmark file whose rounds are launches; of one FILE.",
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="OUT.csv", help="A row per case and launch."),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option("--parquet", metavar="OUT", help="The same as Parquet; needs pyarrow."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="OUT", help="The table of cases."),
    ] = None,
) -> None:
    """Results of FILES for other tools; an OUT of - is standard output."""
    outputs = {
        "--per-launch": as_launches,
        "--csv": csv,
        "--parquet": parquet,
        "--markdown": markdown,
    }
    wrong = _refused(files, {name: path for name, path in outputs.items() if path is not None})
    if wrong:
        raise bad_input(wrong)
    try:
        records = load(files)
        document = read_document(files[0])
    except UnreadableFile as error:
        raise bad_input(str(error)) from None
    if as_launches is not None:
        found, notes = per_launch(document)
        for sentence in notes:
            note(sentence)
        write_or_print(
            as_launches, json.dumps(found, allow_nan=False, indent=4) + "\n", "--per-launch"
        )
    if csv is not None:
        write_or_print(csv, launch_table(records).to_csv(index=False), "--csv")
    if parquet is not None:
        _write_parquet(launch_table(records), parquet)
    if markdown is not None:
        write_or_print(markdown, export_markdown.cases(compute(records)), "--markdown")


def _refused(files: list[Path], outputs: dict[str, Path]) -> str | None:
    if not outputs:
        return "nothing to write; give --per-launch, --csv, --parquet or --markdown"
    if "--per-launch" in outputs and len(files) > 1:
        return (
            f"--per-launch is for one FILE, since a pytest-benchmark file is of one machine; "
            f"{len(files)} were given, so call it once for each"
        )
    if outputs.get("--parquet") == STANDARD_OUTPUT:
        return "--parquet is no text for standard output; give it a file"
    wrong = over_an_input(outputs, files)
    if wrong:
        return wrong
    options: dict[Path, str] = {}
    for option, path in outputs.items():
        if path in options:
            where = "standard output" if path == STANDARD_OUTPUT else str(path)
            return f"{options[path]} and {option} both want {where}; choose another for one"
        options[path] = option
    return None


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    try:
        table.to_parquet(path, index=False)
    except ImportError:
        raise bad_input(
            "--parquet needs pyarrow, which is not installed; pip install pyarrow, or use --csv"
        ) from None
    except OSError as error:
        raise cannot_write(path, error, "--parquet") from None
