"""A check with its verdict: ok, look or bad, and not known, which is never ok."""

from __future__ import annotations

from reports.frames import Row

OK, LOOK, BAD, NOT_KNOWN = "ok", "look", "bad", "not known"
#: The gravest first: the order in which they are read.
VERDICTS = (BAD, LOOK, NOT_KNOWN, OK)


def verdict(value: float, look: float, bad: float) -> str:
    """For a value that should be small: from ``look`` on, and from ``bad`` on."""
    return OK if value < look else LOOK if value < bad else BAD


def judged(check: str, verdict: str, value: float, sentence: str) -> Row:
    return {"check": check, "verdict": verdict, "value": value, "sentence": sentence}


def unknown(check: str, sentence: str) -> Row:
    return {"check": check, "verdict": NOT_KNOWN, "value": None, "sentence": sentence}
