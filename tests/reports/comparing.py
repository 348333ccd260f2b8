"""Runs ``reports compare``, in this process, and computes comparisons for tests to look into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from reports.__main__ import app
from reports.comparison import Comparison, compare
from reports.frames import Row, rows
from reports.gate import Conclusion, conclude, gate_rows
from reports.load import load
from reports.metrics import metric
from reports.sides import choose
from reports.stats import with_estimates
from reports.waterfall import waterfall_table


@dataclass(frozen=True)
class Done:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Standard output on one line: where it wraps is not what is tested."""
        return " ".join(self.stdout.split())


def run(*arguments: object, columns: int = 80) -> Done:
    """``python -m reports compare`` with these arguments, as into a pipe of so many columns."""
    environment = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)], env=environment)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def refusal(*arguments: object) -> str:
    """The one line with which bad input is refused."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


@dataclass(frozen=True)
class Compared:
    comparison: Comparison

    @property
    def gate_rows(self) -> list[Row]:
        return gate_rows(self.comparison)

    @property
    def by_case(self) -> dict[str, Row]:
        return {row["case"]: row for row in self.gate_rows}

    @property
    def warnings(self) -> list[str]:
        return self.comparison.warnings

    @property
    def uncompared(self) -> dict[str, Row]:
        return {row["case"]: row for row in rows(self.comparison.uncompared)}

    def listed(self, name: str) -> dict[str, Row]:
        """The rows of one metric, by case."""
        found = [row for row in rows(self.comparison.rows) if row["metric"] == name]
        return {row["case"]: row for row in found}

    def conclusion(self, strict: bool = False) -> Conclusion:
        return conclude(self.comparison, strict)


def compared(
    *paths: Path,
    base: str | None = None,
    new: str | None = None,
    gate: str = "step_time",
    delta: float = 0.03,
    force: bool = False,
) -> Compared:
    records = load(paths)
    cells = with_estimates(records.cells, records.launches)
    waterfall = waterfall_table(cells, records.launches, records.ranks)
    sides = choose(records, base, new)
    return Compared(
        compare(records, cells, waterfall, sides, gate=metric(gate), delta=delta, force=force)
    )


def by_metric(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in document["rows"] if row["metric"] == name]
