"""The verdict on a model as four short answers, each a few large words and what they are about.

Nothing is computed here but which row of a table answers. What a table leaves blank is answered
with "not known" and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reports import words
from reports.frames import Row
from reports.judged import BAD, LOOK
from reports.stats import FROM_LAUNCHES, FROM_ONE_LAUNCH
from reports.waterfall import TERMS

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Answer:
    """``value`` is said large, ``about`` beside it; ``sentences`` say the same at length.

    ``case``: the row of the cell it is about, to link to; None where it is about several.
    """

    question: str
    value: str
    about: str
    case: Row | None = None
    sentences: list[str] = field(default_factory=list)


def scales(quoted: Sequence[Row], sentences: list[str]) -> Answer:
    """``quoted``: the rows of the scaling table at the largest world size, one for each kind."""
    question = "How well does it scale?"
    known = [row for row in quoted if _efficiency(row) is not None]
    if not quoted:
        about = "no case at a world size above 1 has a throughput"
        return Answer(question, NOT_KNOWN, about, None, sentences)
    if not known:
        reason = quoted[0]["same_reason"] or quoted[0]["single_reason"] or "no baseline"
        return Answer(question, NOT_KNOWN, reason, quoted[0], sentences)
    row = known[0]
    value, base = _efficiency(row) or (0.0, "")
    about = f"of ideal on {words.ranks(row['world_size'], row['strategy'])}, against {base}"
    if row["kind"] == "strong":
        about += ", at the same global batch"
    if row["oversubscribed"]:
        about += "; no evidence, there are more threads than cores"
    elif row["above_one_for_certain"]:
        about += "; more than 100 %, so look at the baseline"
    return Answer(question, words.percent(value), about, row, sentences)


def _efficiency(row: Row) -> tuple[float, str] | None:
    for base, name in (("single", "one process"), ("same", f"{row['strategy']} on one rank")):
        if row[f"{base}_ratio"] is not None:
            return row[f"{base}_ratio"], name
    return None


def use(best: Row | None, cell: Row | None, sentences: list[str]) -> Answer:
    """``best``: the model's row of the table of the best cases; ``cell``: that case."""
    question = "What to use?"
    if best is None or cell is None:
        about = "no case has a throughput that counts"
        return Answer(question, NOT_KNOWN, about, None, sentences)
    strategy, *rest = words.series(cell | {"torch": None}, "weak").split(", ")
    ranks = words.ranks(cell["world_size"], cell["strategy"])
    value = strategy if cell["strategy"] == "single" else f"{strategy} on {ranks}"
    throughput = words.plain(best["throughput_samples_per_s"])
    about = f"{', '.join(rest)}: {throughput} samples/s"
    if best["tied"]:
        others = words.plural(len(best["tied"]), "other case")
        about += f", not to be told apart from {others}"
    elif best["unknown"]:
        about += ", and whether it leads in another run is not known"
    return Answer(question, value, about, cell, sentences)


def costs(waterfalls: Sequence[Row], case: Row | None) -> Answer:
    """The largest term of the waterfall of ``case``, or else of the case on most ranks."""
    question = "What costs most?"
    if not waterfalls:
        about = "no DDP case on several ranks has a pass without communication"
        return Answer(question, NOT_KNOWN, about)
    own = [row for row in waterfalls if case is not None and row["cell"] == case["cell"]]
    row = (own or sorted(waterfalls, key=lambda row: -row["world_size"]))[0]
    known = {name: row[f"{term}_s"] for term, name in TERMS.items()}
    terms = {name: seconds for name, seconds in known.items() if seconds is not None}
    name, seconds = max(terms.items(), key=lambda pair: pair[1], default=("", 0.0))
    on = words.ranks(row["world_size"])
    if seconds <= 0:
        return Answer(question, "nothing", f"no term of the step on {on} is above 0", row)
    term = next(term for term, called in TERMS.items() if called == name)
    about = (
        f"{words.percent(row[f'{term}_ratio'])} of the step on {on} "
        f"({words.seconds(seconds)} of {words.seconds(row['step_s'])})"
    )
    if row[f"{term}_within_noise"]:
        about += ", which is within noise"
    if len(terms) < len(known):
        missing = words.joined([one for one, seconds in known.items() if seconds is None])
        about += f"; not known: {missing}"
    return Answer(question, name, about, row)


def sure(best: Row | None, cells: Sequence[Row], checks: Sequence[Row]) -> Answer:
    """``cells`` and ``checks`` (rows of the table of trust): those of the model."""
    question = "How sure is that?"
    grave = [
        (sum(bool(cell["failed_checks"]) for cell in cells), "with a check of the result failed"),
        (sum(bool(cell["conflict"]) for cell in cells), "in conflict"),
    ]
    said = [f"{words.plural(n, 'case')} {what}" for n, what in grave if n]
    counts = [sum(row["verdict"] == verdict for row in checks) for verdict in (BAD, LOOK)]
    if any(counts):
        bad, look = counts
        said.append(f"of {words.plural(len(checks), 'check')} {bad} bad, {look} to look at")
    value, about = _interval(best)
    return Answer(question, value, "; ".join([about, *said]))


def _interval(best: Row | None) -> tuple[str, str]:
    if best is None:
        return NOT_KNOWN, "there is no best case"
    low, high = best["throughput_low_samples_per_s"], best["throughput_high_samples_per_s"]
    if low is None or high is None:
        return "no interval", "of the best case: too few step times in the file"
    half = words.percent((high - low) / 2 / best["throughput_samples_per_s"])
    source = {
        FROM_LAUNCHES: "over launches",
        FROM_ONE_LAUNCH: "within one launch: restart noise is not in it",
    }
    where = source.get(best["interval_from"] or "", "")
    return f"±{half}", f"on the best case at 95 %, {where}".rstrip(", ")
