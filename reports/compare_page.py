"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from markupsafe import Markup

from reports import compare_words
from reports.comparison import Comparison
from reports.environment import ENVIRONMENT
from reports.gate import Conclusion
from reports.versions_section import section


def render(comparison: Comparison, conclusion: Conclusion) -> str:
    """The whole page. The same records give the same text."""
    html = section([comparison])
    return ENVIRONMENT.get_template("compare_page.html.j2").render(
        title=compare_words.title(comparison),
        conclusion=conclusion,
        models=[],
        files=[],
        sections=[("versions", "Versions", Markup(html))],
    )
