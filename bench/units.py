"""Sizes and rates as people write them: ``64MiB``, ``1gbit``, ``10GB/s``."""

from __future__ import annotations

import re

_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmg])(i?)b?|b)?", re.IGNORECASE)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(bit|b)(?:/s|ps)?", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """``1KiB`` is 1024, ``1KB`` and ``1k`` are 1000, ``4096`` itself. ValueError in words."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a size (write 1KiB, 64MiB, 100KB or 4096)")
    number, prefix, binary = found[1], (found[2] or "").lower(), found[3]
    size = float(number) * (_BINARY if binary else _DECIMAL)[prefix]
    if size != int(size):
        raise ValueError(f"{text!r} is no whole number of bytes")
    return int(size)


def parse_rate(text: str) -> float:
    """Bits per second: ``1gbit``, ``200Mbit/s``, and ``10GB`` for bytes. ValueError in words."""
    found = _RATE.fullmatch(text.strip())
    # "Gb" is read as bits by some and as bytes by others; eight times off is no small matter.
    if not found or found[3] == "b":
        raise ValueError(
            f"{text!r} is not a rate (write 1Gbit or 900Mbit for bits, 10GB for bytes)"
        )
    rate = float(found[1]) * _DECIMAL[found[2].lower()] * (1 if len(found[3]) == 3 else 8)
    if rate <= 0:
        raise ValueError(f"{text!r}: a rate must be above 0")
    return rate


def bytes_text(size: int) -> str:
    """``1MiB``, ``64KiB``, or plain where no binary unit fits: what ``parse_bytes`` reads back."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def rate_text(bits_per_s: float) -> str:
    """``1Gbit``, ``200Mbit``: what ``parse_rate`` and tc read back."""
    for unit, factor in (("Gbit", 10**9), ("Mbit", 10**6), ("kbit", 10**3)):
        if bits_per_s >= factor:
            return f"{bits_per_s / factor:.10g}{unit}"
    return f"{bits_per_s:.10g}bit"
