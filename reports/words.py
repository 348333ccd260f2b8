"""Numbers and cases in words: units, intervals, the settings that set a case apart."""

from __future__ import annotations

from typing import Any

from bench.case import DDP_FIELDS, DEFAULT, FIELD_NAMES
from bench.units import bytes_text
from reports.frames import Row

BLANK = "–"
#: Between a number and its unit: a line does not break there.
SPACE = "\u00a0"
THOUSANDS = "\u202f"
_TOLD_APART_ELSEWHERE = frozenset(
    (
        *("model", "strategy", "backend", "world_size", "batch_size", "scaling", "threads"),
        *("torch", "collective"),
    )
)


def seconds(value: float | None) -> str:
    """A time in the unit that suits it: '39.3 ms', '1.25 s', '180 µs'."""
    if value is None:
        return BLANK
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= size:
            return f"{digits(value / size)}{SPACE}{unit}"
    return f"{digits(value / 1e-6)}{SPACE}µs" if value else f"0{SPACE}ms"


def milliseconds(value: float | None) -> str:
    """A number of milliseconds, without the unit, for a column that names it."""
    return BLANK if value is None else digits(value * 1e3)


def signed_milliseconds(value: float | None) -> str:
    """A difference in milliseconds, without the unit: '+3.20', '−0.41'."""
    if value is None:
        return BLANK
    return ("−" if value < 0 else "+") + digits(abs(value) * 1e3)


def signed_percent(ratio: float | None) -> str:
    """A share that may be below 0: '+8.1 %', '−0.4 %'."""
    return BLANK if ratio is None else f"{ratio * 100:+.1f}{SPACE}%".replace("-", "−")


def percent(ratio: float | None) -> str:
    return BLANK if ratio is None else f"{ratio * 100:.1f}{SPACE}%"


def change(ratio: float | None) -> str:
    """A ratio to a reference as a signed difference: 1.021 is '+2.1 %'."""
    if ratio is None:
        return BLANK
    return f"{(ratio - 1) * 100:+.1f}{SPACE}%".replace("-", "−")


def plain(value: float | None) -> str:
    return BLANK if value is None else digits(value)


def whole_number(value: float | None) -> str:
    return BLANK if value is None else f"{value:,.0f}".replace(",", THOUSANDS)


def size(value: float | None) -> str:
    """Bytes in decimal units: '46.7 MB'."""
    if value is None:
        return BLANK
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= scale:
            return f"{digits(value / scale)}{SPACE}{unit}"
    return f"{value:.0f}{SPACE}B"


def rate(bytes_per_s: float | None) -> str:
    """Bytes per second in decimal units: '1.05 GB/s'."""
    return BLANK if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def binary(value: int | None) -> str:
    """A size that somebody chose, in binary units: '64 KiB'."""
    if value is None:
        return BLANK
    text = bytes_text(value)
    return f"{text[:-3]}{SPACE}{text[-3:]}" if text.endswith("iB") else f"{value}{SPACE}B"


def cost(row: Row) -> str:
    """A row of collectives.fit_table in a sentence: what a collective costs by its size."""
    begin = f"{row['series']}, {row['regime']}: "
    if row["alpha_s"] is None and row["rate_bytes_per_s"] is None:
        return f"{begin}no fit, {row['note']}."
    parts = [seconds(row["alpha_s"])] if row["alpha_s"] is not None else []
    if row["rate_bytes_per_s"] is not None:
        parts.append(f"bytes ÷ {rate(row['rate_bytes_per_s'])}")
    text = f"{begin}time = {' + '.join(parts)}, "
    text += f"from {row['sizes']} sizes ({binary(row['least_bytes'])} to "
    text += f"{binary(row['most_bytes'])})"
    if row["rms_relative_residual"] is None:
        text += "; too few sizes to say how well that fits"
    else:
        text += f"; off by {percent(row['rms_relative_residual'])} (root mean square), at most "
        text += percent(row["largest_relative_residual"])
    return text + (f"; {row['note']}." if row["note"] else ".")


def saved(row: Row) -> str:
    """A row of bucket_memory in words: 'saved 42.1 MB of 44.7 MB of gradients (94 %)'."""
    bytes_ = row["saved_bytes"]
    if bytes_ is None:
        return f"not known: {row['reason']}"
    if row["saved_ratio"] is None:
        beside = f"; {row['reason']}"
    elif bytes_ < 0:
        beside = f", with {size(row['gradient_bytes'])} of gradients"
    else:
        beside = f" of {size(row['gradient_bytes'])} of gradients ({row['saved_ratio']:.0%})"
        beside = beside.replace("%", f"{SPACE}%")
    return (f"took {size(-bytes_)} more" if bytes_ < 0 else f"saved {size(bytes_)}") + beside


def digits(value: float) -> str:
    """Three significant digits, four from 1000 on, never in powers of ten."""
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:,.0f}".replace(",", THOUSANDS)
    if magnitude >= 9.995:
        return f"{value:.1f}"
    if magnitude >= 0.9995 or value == 0:
        return f"{value:.2f}"
    return f"{value:#.3g}" if magnitude >= 1e-4 else f"{value:.1e}"


def between(low: float | None, high: float | None, say: Any) -> str:
    """'38.9 to 39.8', with ``say`` for each end; empty where there is no interval."""
    if low is None or high is None:
        return ""
    first, last = say(low), say(high)
    number, space, unit = first.rpartition(SPACE)
    if space and last.endswith(SPACE + unit):
        first = number
    return f"{first} to {last}"


def ranks(n: int | None, strategy: str | None = "ddp") -> str:
    """'2 ranks', or devices where one process drives them."""
    if n is None:
        return "unknown world size"
    if strategy == "single":
        return "1 process"
    noun = "device" if strategy in ("dp", "data_parallel") else "rank"
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def settings(row: Row) -> list[str]:
    """The settings of a case that are not PyTorch's (or our) defaults, as ``name=value``."""
    found = []
    for name in FIELD_NAMES:
        value = row[name]
        if name in _TOLD_APART_ELSEWHERE or value is None or value == getattr(DEFAULT, name):
            continue
        if name in DDP_FIELDS and row["strategy"] not in (None, "ddp"):
            continue
        if name == "bytes":
            value = bytes_text(value)
        found.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
    if row["torch"]:
        found.append(f"torch={row['torch']}")
    if row["other"]:
        found.append(row["other"])
    return found


def series(row: Row, kind: str) -> str:
    """What one line of a scaling figure holds: 'ddp, gloo, batch 32 per rank'."""
    # Legends cut a long name at its end, and the label tells two lines apart.
    parts = [f"torch={row['torch']}"] if row["torch"] else []
    if row["strategy"] == "collective":
        parts += [row["collective"] or "collective not stated", row["backend"] or BLANK]
        return ", ".join(parts + settings(row | {"torch": None}))
    parts.append(row["strategy"] or "strategy not stated")
    if row["backend"] and row["strategy"] in (None, "ddp", "all_reduce"):
        parts.append(row["backend"])
    if kind == "strong":
        parts.append(f"global batch {row['global_batch_size'] or BLANK}")
    else:
        parts.append(f"batch {row['batch_size'] or BLANK} per rank")
    return ", ".join(parts + settings(row | {"torch": None}))


def case(row: Row) -> str:
    """One case in words: 'ddp, gloo, batch 32 per rank, 2 ranks'."""
    return f"{series(row, 'weak')}, {ranks(row['world_size'], row['strategy'])}"


def model(row: Row) -> str:
    """The model's name, else the collective, else the group pytest-benchmark has for the case."""
    if row["model"]:
        return str(row["model"])
    if row.get("collective"):
        return str(row["collective"])
    return f"group {row['group']}" if row["group"] else "model not stated"


def model_and_label(row: Row) -> str:
    """'resnet18', or 'resnet18 under old' where the interpreter has a label."""
    return f"{model(row)} under {row['torch']}" if row["torch"] else model(row)


def clean(text: str) -> str:
    """Without lone surrogates, which no UTF-8 can hold."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def printable(text: str) -> str:
    """For a line of a terminal: plain spaces, and what is no character to see spelled out."""
    text = text.replace(SPACE, " ").replace(THOUSANDS, "")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shortened(words: str, longest: int = 60) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"


def id_shortened(id: str, longest: int = 64) -> str:
    """With what is too long left out in the middle: an id ends with the interpreter's label."""
    if len(id) <= longest:
        return id
    half = (longest - 1) // 2
    return f"{id[: longest - 1 - half]}…{id[-half:]}"


def some(names: list[str]) -> str:
    """The first name, and how many others there are."""
    if len(names) < 2:
        return "".join(names)
    return f"{names[0]} and {plural(len(names) - 1, 'other')}"


def plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def joined(words: list[str], last: str = "and") -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
