"""A file on disk -> the JSON document in it, or one sentence that says what is wrong with it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

#: Integers beyond this do not survive other JSON readers, nor a column of 64-bit integers.
LARGEST_WHOLE = 2**53


class UnreadableFile(Exception):
    """One line: the file, what is wrong with it (where in it), and what to do next."""


def read_document(path: Path) -> dict[str, Any]:
    """The pytest-benchmark document in ``path``, with NaN and Infinity turned into None.

    pytest-benchmark writes bare ``NaN`` and ``Infinity`` when a suite puts them into extra_info
    or params; they are no JSON, but the rest of such a file is good.

    Raises UnreadableFile.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UnreadableFile(
            f"{path}: no such file; give a file written with pytest --benchmark-json=FILE"
        ) from None
    except OSError as error:
        raise UnreadableFile(
            f"{path}: cannot be read ({error.strerror or error}); give a file that can"
        ) from None
    if not raw.strip():
        raise UnreadableFile(
            f"{path}: empty ({len(raw)} bytes), so there is no data; "
            "run pytest bench --benchmark-json=FILE again, and let it end"
        )
    document = _parse(path, raw)
    if not isinstance(document, dict) or not isinstance(document.get("benchmarks"), list):
        raise UnreadableFile(
            f"{path}: is JSON, but has no list of benchmarks; "
            "give a file written with pytest --benchmark-json=FILE"
        )
    return document


def _parse(path: Path, raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8-sig")
        document = json.loads(text, parse_constant=lambda _: None, parse_float=_finite_float)
        return _clean(document) if _may_need_cleaning(text) else document
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{path}: is not UTF-8 text (byte {error.start}); "
            "give a file written with pytest --benchmark-json=FILE"
        ) from None
    except json.JSONDecodeError as error:
        raise UnreadableFile(
            f"{path}: broken JSON at line {error.lineno}, column {error.colno} "
            f"({error.msg.lower()}); the file was cut off or is no JSON, so write it again"
        ) from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number too long"
        raise UnreadableFile(
            f"{path}: JSON that cannot be read ({reason}); "
            "give a file written with pytest --benchmark-json=FILE"
        ) from None


def _finite_float(text: str) -> float | None:
    value = float(text)  # "1e999" is legal JSON and infinite
    return value if math.isfinite(value) else None


#: How JSON writes, in ASCII, what _clean looks for.
_ESCAPES = ("\\u", "\\b", "\\f", "\\r", "\x7f")


def _may_need_cleaning(text: str) -> bool:
    """Most files are plain ASCII; a copy of a large document would take as much memory again."""
    return not text.isascii() or any(one in text for one in _ESCAPES)


def _clean(value: Any) -> Any:
    """Replaces what neither HTML nor SVG can hold (control characters, half surrogates), and what
    turns the order of other letters round, so that a name is not read as it is written."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_printable, value))
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value


def _printable(letter: str) -> str:
    code = ord(letter)
    control = (code < 0x20 and letter not in "\n\t") or 0x7F <= code < 0xA0
    nothing = 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE
    turning = 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
    return "\ufffd" if control or nothing or turning else letter


# What a field holds, or None: a value of the wrong type is no value, and never a guess.


def number(value: Any) -> float | None:
    """A finite number; None for anything else (booleans are no numbers)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        real = float(value)
    except OverflowError:
        return None
    return real if math.isfinite(real) else None


def positive(value: Any) -> float | None:
    """A finite number above 0, or None."""
    real = number(value)
    return real if real is not None and real > 0 else None


def share(value: Any) -> float | None:
    """A number from 0 to 1, or None."""
    real = number(value)
    return real if real is not None and 0 <= real <= 1 else None


def whole(value: Any) -> int | None:
    """A whole number that fits 53 bits, or None; 4.0 counts as 4."""
    real = number(value)
    if real is None or not real.is_integer() or abs(real) > LARGEST_WHOLE:
        return None
    return int(real)


def count(value: Any) -> int | None:
    """A whole number of at least 1, or None."""
    n = whole(value)
    return n if n is not None and n >= 1 else None


def text(value: Any) -> str | None:
    """A string that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def table(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A JSON list, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def tables(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in a list."""
    return [item for item in items(value) if isinstance(item, dict)]


def numbers(value: Any) -> list[float]:
    """The finite numbers in a list."""
    return [real for real in map(number, items(value)) if real is not None]


def launch_number(record: dict[str, Any], position: int) -> int:
    """Of a launch's record: as it is stated, or its place in the list."""
    launch = whole(record.get("launch"))
    return position if launch is None else launch
