"""Can the numbers be believed: checks of how they were measured, each with a verdict.

One row, with one sentence, per case and check and per file and check. ``ok``, ``look`` (read the
sentence before using the number) or ``bad`` (do not use it for this); what the record does not
tell is "not known", which is never ok. Ratios are plain (0.05 is 5 %).
"""

from __future__ import annotations

import pandas as pd

from reports import trust_case, trust_machine
from reports.frames import Row, columns, frame, groups, rows
from reports.judged import BAD, LOOK, VERDICTS

COLUMNS = columns(
    string="file id check verdict sentence",
    Int64="cell",
    Float64="value",
)


def trust_table(
    cells: pd.DataFrame,
    launches: pd.DataFrame,
    ranks: pd.DataFrame,
    files: pd.DataFrame,
    waterfall: pd.DataFrame,
) -> pd.DataFrame:
    """One row per check; ``COLUMNS``. Rows of a file have no ``cell`` and no ``id``."""
    of_launch, of_rank = groups(rows(launches), "cell"), groups(rows(ranks), "cell")
    exposed = {row["cell"]: row for row in rows(waterfall)}
    of_cell = groups(rows(cells), "file")
    found: list[Row] = []
    for file in rows(files):
        found += [row | {"file": file["file"]} for row in trust_machine.of_file(file)]
        for cell in of_cell.get((file["file"],), []):
            checks = trust_case.of_case(
                cell,
                of_launch.get((cell["cell"],), []),
                of_rank.get((cell["cell"],), []),
                exposed.get(cell["cell"]),
            )
            same = {name: cell[name] for name in ("file", "id", "cell")}
            found += [check | same for check in checks]
    return frame(found, COLUMNS)


#: This many are shown at once; in a long list of warnings none is read.
MOST_SHOWN = 20


def gravest(checks: list[Row]) -> list[Row]:
    """Those that are bad, then those to be looked at."""
    return [row for one in (BAD, LOOK) for row in checks if row["verdict"] == one]


def counts(checks: list[Row]) -> list[tuple[str, int]]:
    """How many of the rows have each verdict, the gravest first, without those that none has."""
    found = [(one, sum(row["verdict"] == one for row in checks)) for one in VERDICTS]
    return [(one, n) for one, n in found if n]
