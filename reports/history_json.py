"""A history as one JSON object: what `python -m reports history --json` writes.

Seconds and samples per second, None for what is not known; ``points`` in the order in which shifts
are looked for, torch's version first, then the date. A shift's ``at`` counts ``runs``: the values
of one run's labels with the same torch are one of them.
"""

from __future__ import annotations

from typing import Any

from reports.history_series import History, MarkedShift, Point, Series
from reports.history_words import sentences, verdict


def to_json(history: History) -> dict[str, Any]:
    return {
        "schema": 1,
        "files": history.files,
        "delta": history.delta,
        "notes": list(history.notes),
        "series": [_series(one) for one in history.series],
        "failures": [
            row | {"date": row["date"].isoformat() if row["date"] else None}
            for row in history.failures
        ],
    }


def _series(series: Series) -> dict[str, Any]:
    where = series.where
    return {
        "case": series.case,
        "model": series.model,
        "machine": where.machine,
        "family": where.family,
        "channel": where.channel,
        "threads_per_rank": where.threads_per_rank,
        "metric": series.metric,
        "lower_is_better": series.lower_is_better,
        "runs": list(series.runs),
        "too_few_runs": series.too_few,
        "standing_ratio": series.standing,
        "detectable_ratio": series.detectable,
        "verdict": verdict(series),
        "sentences": sentences(series),
        "notes": list(series.notes),
        "shifts": [_shift(marked) for marked in series.shifts],
        "points": [_point(point) for point in series.points],
    }


def _shift(marked: MarkedShift) -> dict[str, Any]:
    shift = marked.shift
    return {
        "at": shift.at,
        "before": shift.before,
        "after": shift.after,
        "ratio": shift.ratio,
        "runs_before": shift.runs_before,
        "runs_after": shift.runs_after,
        "worse": marked.worse,
        "of_version": marked.of_version,
        "doubt": marked.doubt,
        "last": _point(marked.last),
        "first": _point(marked.first),
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "file": point.file,
        "date": point.date.isoformat() if point.date else None,
        "commit": point.commit,
        "torch": point.version.raw,
        "release": point.version.release,
        "label": point.label,
        "value": point.value,
        "low": point.low,
        "high": point.high,
        "launches": point.launches,
        "throughput_samples_per_s": point.throughput_samples_per_s,
    }
