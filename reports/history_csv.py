"""Series as CSV files and a configuration that Apache Otava reads.

`apache-otava` finds change points in such files. It pins numpy and needs an environment of its own,
so nothing here imports it. A file per series, ``series-N.csv``, in the order of dates:

    time      the run's date, ISO 8601
    file      the file of the run
    torch     torch's version as the file has it
    step_s    seconds per step; or throughput_samples_per_s, the series' metric

``otava.yaml`` (JSON, which is YAML) names them all in the group ``lockstep``, with the metric's
direction (-1: less is better), and has Otava's option for long histories in its place:

    OTAVA_CONFIG=FOLDER/otava.yaml otava analyze lockstep --since 2000-01-01
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from reports.history_series import History, Point, Series
from reports.history_words import build


def write_csv(history: History, folder: Path) -> int:
    """Returns the number of series written; those without dates are left out. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    tests: dict[str, Any] = {}
    for series in history.series:
        dated = sorted(
            ((point.date, point) for point in series.points if point.date), key=lambda one: one[0]
        )
        if not dated:
            continue
        name = f"series-{len(tests) + 1}"
        path = folder / f"{name}.csv"
        _write(path, series, [point for _, point in dated])
        tests[name] = {
            "type": "csv",
            "file": str(path.resolve()),
            "time_column": "time",
            "attributes": ["file", "torch"],
            "metrics": {
                series.metric: {
                    "column": series.metric,
                    "direction": -1 if series.lower_is_better else 1,
                }
            },
            # Not Otava's: for who reads this file.
            "case": series.case,
            "where": f"{series.where.machine}, {build(series)}",
        }
    config = {"tests": tests, "test_groups": {"lockstep": list(tests)}}
    (folder / "otava.yaml").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    return len(tests)


def _write(path: Path, series: Series, points: list[Point]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "file", "torch", series.metric])
        for point in points:
            assert point.date is not None
            writer.writerow(
                [point.date.isoformat(), point.file, point.version.raw, repr(point.value)]
            )
