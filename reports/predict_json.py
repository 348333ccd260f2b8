"""A prediction as JSON: seconds, bytes per second, ratios."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from reports.predict_cost import Link
from reports.predict_report import WANTED, Line, PredictReport


def to_json(reports: Sequence[PredictReport]) -> dict[str, Any]:
    return {"predictions": [_report(report) for report in reports]}


def _report(report: PredictReport) -> dict[str, Any]:
    fitted, asked, law = report.fit, report.asked, report.law
    network = fitted.network
    return {
        "model": report.workload.model,
        "file": report.workload.file,
        "from_case": report.base.id,
        "fitted_on": list(fitted.errors),
        "fit_errors_ratio": fitted.errors,
        "residual_ratio": fitted.residual,
        "measured_link": _link(fitted.link),
        "world_sizes_measured": report.sizes_measured,
        "bucket_bytes_measured": list(report.bucket_range),
        "network": {
            "bytes_per_s": network.bytes_per_s,
            "share_ratio": fitted.share(network),
            "queue_s": network.queue_s,
            "contention_ratio": network.contention,
            "told_by_the_measured": fitted.told,
            "buckets_at_once": fitted.workers,
        },
        "alone_step_s": report.predictor.alone_s,
        "scalability_law": {"reason": law} if isinstance(law, str) else dataclasses.asdict(law),
        "cases": [_line(line) for line in report.lines],
        "optima": [
            {
                "world_size": size,
                "link": _link(link),
                "bucket_cap_mb": best[0],
                "step_s": best[1],
                f"bits_per_s_for_{WANTED:.0%}".replace("%", "_percent"): report.rate_needed(
                    size, link, asked.caps_mb[0]
                ),
            }
            for size in asked.world_sizes
            if size > 1
            for link in asked.links
            for best in [report.best_cap(size, link)]
        ],
        "notes": list(report.workload.notes),
    }


def _line(line: Line) -> dict[str, Any]:
    found = dataclasses.asdict(line.prediction)
    wish = found.pop("wish")
    wish["link"] = _link(line.prediction.wish.link)
    return {
        **wish,
        **found,
        "usl_s": line.usl_s,
        "measured_s": line.measured_s,
        "beyond": list(line.beyond),
    }


def _link(link: Link | None) -> dict[str, float | None] | None:
    return None if link is None else dataclasses.asdict(link)
