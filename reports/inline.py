"""The parts of a page that are no data: its style sheet and scripts, and the policy for them.

A page allows exactly these, by their hashes, and nothing else: no script, style, image, frame or
request of whatever a file's names may hold (Content-Security-Policy, level 3).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

_FOLDER = Path(__file__).parent
#: What would end an inline element, or change how a browser reads the rest of it.
_NOT_INSIDE = ("</script", "</style", "<!--", "\r", "\0")


@dataclass(frozen=True)
class Part:
    """The text of one inline ``<style>`` or ``<script>``, to the letter."""

    text: str

    def __post_init__(self) -> None:
        found = [words for words in _NOT_INSIDE if words in self.text.lower()]
        if found:
            raise ValueError(f"a part of the page holds {found[0]!r} and cannot be inline")

    @property
    def markup(self) -> Markup:
        return Markup(self.text)

    @property
    def source(self) -> str:
        """The source expression that allows it: ``'sha256-…'``."""
        digest = hashlib.sha256(self.text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"


def read(*names: str) -> Part:
    """The files of these names beside this one, one after another."""
    texts = [(_FOLDER / name).read_text(encoding="utf-8") for name in names]
    return Part("\n".join(texts))


def policy(styles: Sequence[Part], scripts: Sequence[Part]) -> str:
    """The Content-Security-Policy of a page with these parts."""
    allowed = {
        "default-src": "'none'",
        "style-src": " ".join(one.source for one in styles),
        "script-src": " ".join(one.source for one in scripts) or "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in allowed.items())
