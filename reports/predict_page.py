"""Predictions as one self-contained HTML page: a section a workload, one table, two figures."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from reports import predict_figures, predict_words
from reports.environment import ENVIRONMENT
from reports.predict_report import PredictReport


def render(reports: Sequence[PredictReport]) -> str:
    """The whole page. The same records give the same text."""
    sections = []
    models = [report.workload.model for report in reports]
    for n, report in enumerate(reports):
        html = ENVIRONMENT.get_template("predict.html.j2").render(
            title=predict_words.title(report),
            facts=list(predict_words.facts(report)),
            notes=report.workload.notes,
            headings=predict_words.HEADINGS,
            rows=[predict_words.cells(line) for line in report.lines],
            below=[predict_words.baselines(report), predict_words.range_of_data(report)],
            optima=list(predict_words.optima(report)),
            figures=[
                Markup(svg)
                for svg in (
                    predict_figures.efficiency(report, f"predict-efficiency-{n}"),
                    predict_figures.bucket_caps(report, f"predict-caps-{n}"),
                )
                if svg
            ],
        )
        model = report.workload.model
        # Workloads of one model differ in their settings, which the id names.
        heading = model if models.count(model) == 1 else f"{model}: {report.base.id}"
        sections.append((f"predict-{n}", heading, Markup(html)))
    return ENVIRONMENT.get_template("predict_page.html.j2").render(
        models=models, files=[], sections=sections
    )
