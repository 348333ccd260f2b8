"""The figures of traces as one self-contained HTML page."""

from __future__ import annotations

from markupsafe import Markup

from reports.environment import ENVIRONMENT
from reports.trace_files import TraceReport
from reports.trace_words import across_sentences, rank_title


def render(report: TraceReport) -> str:
    """The whole page. The same records give the same text."""
    sections = []
    if report.unreadable or report.notes:
        sections.append(("files", "Files", _render("trace_files.html.j2", report=report)))
    if report.across:
        across = _render(
            "trace_across.html.j2", across=report.across, sentences=across_sentences(report.across)
        )
        sections.append(("across", "Across ranks", across))
    for position, rank in enumerate(report.ranks):
        html = _render("trace_rank.html.j2", rank=rank, title=rank_title(rank))
        sections.append((f"rank-{position}", rank.label, html))
    return _render(
        "trace_page.html.j2",
        titles=[rank_title(rank) for rank in report.ranks],
        models=[],
        files=[],
        sections=[(name, title, Markup(html)) for name, title, html in sections],
    )


def _render(template: str, **values: object) -> str:
    return ENVIRONMENT.get_template(template).render(**values)
