"""A history as one self-contained HTML page."""

from __future__ import annotations

from markupsafe import Markup

from reports import history_figures, history_words
from reports.environment import ENVIRONMENT
from reports.history_series import History
from reports.history_text import notes

#: Series that are drawn: those that got worse, then those with a shift, then the longest.
MOST_DRAWN = 40


def render(history: History) -> str:
    """The whole page. The same records give the same text."""
    drawn = []
    for n, one in enumerate(history.series[:MOST_DRAWN]):
        figures = [
            history_figures.over_versions(one, f"series-{n}-versions"),
            history_figures.over_dates(one, f"series-{n}-dates"),
        ]
        drawn.append((one, [Markup(svg) for svg in figures if svg]))
    sections = [
        ("verdict", "Lasting shifts", _render("history_verdict.html.j2", history=history)),
        (
            "series",
            "Series",
            _render(
                "history_series.html.j2",
                drawn=drawn,
                left_out=len(history.series) - len(drawn),
            ),
        ),
        (
            "table",
            "All series",
            _render("history_table.html.j2", series=history.series, drawn=len(drawn)),
        ),
    ]
    left_out = list(notes(history))
    if left_out:
        sections.append(
            ("notes", "Left out and failed", _render("history_notes.html.j2", notes=left_out))
        )
    method = _render("history_method.html.j2", history=history)
    sections.append(("method", "How shifts are found", method))
    return _render(
        "history_page.html.j2",
        headline=history_words.headline(history),
        models=[],
        files=[],
        sections=[(name, title, Markup(html)) for name, title, html in sections],
    )


def _render(template: str, **values: object) -> str:
    return ENVIRONMENT.get_template(template).render(said=history_words, **values)
