"""What a misspelt word may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice most like the word, or None if none is like it."""
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return close[0] if close else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """``; did you mean 'choice'?``, or nothing: the end of a sentence that refuses a word."""
    near = nearest(word, choices)
    return f"; did you mean {near!r}?" if near else ""
