"""The verdict in words: sentences for each file and model, and how sure they are.

Sentences only restate numbers of the tables; what is blank there is said to be unknown here.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports import answers, collectives_answers, words
from reports.answers import Answer
from reports.frames import Row, groups, rows
from reports.stats import FROM_LAUNCHES, FROM_ONE_LAUNCH
from reports.tables import Tables
from reports.verdict import groups_of_model

#: Ids named in a sentence before it says "and 7 more".
MOST_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """What is to be said about one model of one file. ``headline`` is the shortest true answer."""

    model: str
    headline: str
    answers: list[Answer]

    @property
    def sentences(self) -> list[str]:
        """The same at length."""
        return [sentence for answer in self.answers for sentence in answer.sentences]


def of_models(tables: Tables, file: str) -> list[Finding]:
    """One Finding per model of ``file`` and label of its interpreters, in the order of the file."""
    best = {row["model"]: row for row in rows(tables.best) if row["file"] == file}
    largest: dict[str, list[Row]] = {}
    for row in rows(tables.largest):
        if row["file"] == file:
            largest.setdefault(words.model_and_label(row), []).append(row)
    pairs = groups((row for row in rows(tables.strategies) if row["file"] == file), "model")
    waterfalls = groups(rows(tables.waterfall), "cell")
    checks = groups((row for row in rows(tables.trust) if row["file"] == file), "cell")
    cells = [row for row in rows(tables.cells) if row["file"] == file]
    cells = [row for row in cells if row["strategy"] != "collective"]
    found = []
    for name, own in groups_of_model(cells).items():
        quoted = largest.get(name, [])
        efficiency = [_efficiency(row) for row in quoted] or [
            "Scaling: no case at a world size above 1 has a throughput."
        ]
        choice = _best(best.get(name)) + [_strategy(row) for row in pairs.get((name,), [])]
        of_best = best.get(name)
        cell = next((one for one in own if of_best and one["cell"] == of_best["cell"]), None)
        scales = answers.scales(quoted, efficiency)
        given = [
            scales,
            answers.use(of_best, cell, choice),
            answers.costs(
                [row for one in own for row in waterfalls.get((one["cell"],), [])], scales.case
            ),
            answers.sure(
                of_best, own, [row for one in own for row in checks.get((one["cell"],), [])]
            ),
        ]
        found.append(Finding(name, _headline(of_best), given))
    network = collectives_answers.of_collectives(tables, file)
    return found + ([Finding("collectives", *network)] if network else [])


def _headline(best: Row | None) -> str:
    if best is None:
        return "no case with a throughput that counts"
    return f"{words.plain(best['throughput_samples_per_s'])} samples/s at best, with {best['case']}"


def _best(best: Row | None) -> list[str]:
    if best is None:
        return []
    found = []
    interval = words.between(
        best["throughput_low_samples_per_s"], best["throughput_high_samples_per_s"], words.plain
    )
    if interval:
        found.append(f"The interval of the best case is {interval} samples/s.")
    if best["candidates"] > 1:
        others = words.plural(best["candidates"] - 1, "other case")
        if best["tied"]:
            found.append(f"It cannot be told apart from {named(best['tied'])}.")
        elif not best["unknown"]:
            found.append(f"It is ahead of {others} by more than the noise.")
        if best["unknown"]:
            found.append(
                f"Against {words.plural(best['unknown'], 'other case')} there is no interval: "
                "whether the order would hold in another run is not known."
            )
    if best["left_out"]:
        found.append(
            f"{best['left_out']} cases were left out, in conflict or with a check that failed."
        )
    if best["oversubscribed"]:
        found.append("It has more threads than cores, so it says nothing about scaling.")
    return found


def _efficiency(row: Row) -> str:
    size = words.ranks(row["world_size"], row["strategy"])
    start = f"{row['kind'].capitalize()} scaling to {size} ({row['series']})"
    parts = []
    for base, over in (("single", "one process"), ("same", f"{row['strategy']} on one rank")):
        value = row[f"{base}_ratio"]
        if value is not None:
            interval = words.between(
                row[f"{base}_low_ratio"], row[f"{base}_high_ratio"], words.percent
            )
            parts.append(
                f"{words.percent(value)} against {over}" + (f" ({interval})" if interval else "")
            )
    if parts:
        text = f"{start}: efficiency is {words.joined(parts)}."
    else:
        reasons = dict.fromkeys((row["same_reason"], row["single_reason"]))
        text = f"{start}: efficiency is unknown, {words.joined([r for r in reasons if r])}."
        if row["smallest_ratio"] is not None and row["smallest_world_size"] != row["world_size"]:
            text += (
                f" Throughput per rank is {words.percent(row['smallest_ratio'])} of that at "
                f"{words.ranks(row['smallest_world_size'], row['strategy'])}, "
                "which is not an efficiency."
            )
    return text + _flags(row)


def _flags(row: Row) -> str:
    text = ""
    if row["above_one_for_certain"]:
        text += " It is above 100 %, more than the interval explains: look at the baseline."
    elif row["above_one"]:
        text += " Above 100 %: the baseline may be slower than it should be, or this is noise."
    if row["oversubscribed"]:
        text += " There are more threads than cores: this is no evidence about scaling."
    return text


def _strategy(row: Row) -> str:
    if row["reason"] is not None:
        return f"DDP against DataParallel: no comparison, {row['reason']}."
    interval = words.between(row["low_ratio"], row["high_ratio"], words.change)
    text = f"DDP against {row['dp_strategy']} on {row['world_size']} devices: "
    if row["includes_one"]:
        return text + f"cannot be told apart ({words.change(row['ratio'])}; {interval})."
    how = f" ({interval})" if interval else " (no interval)"
    return text + f"DDP has {words.change(row['ratio'])} throughput{how}."


def how_sure(tables: Tables, file: str) -> list[str]:
    """What limits the numbers of ``file``, the gravest first."""
    found: list[str] = []
    cells = [row for row in rows(tables.cells) if row["file"] == file]
    record = next(row for row in rows(tables.records.files) if row["file"] == file)
    _count(found, cells, "failed_checks", "failed a check of the result")
    _count(found, cells, "conflict", "appear twice with different results; both are shown")
    _count(
        found, cells, "oversubscribed", "have more threads than cores: no evidence about scaling"
    )
    found += _intervals(cells)
    if record["gpus"] == []:
        found.append("This machine has no GPU: nothing here is evidence about NCCL.")
    if record["warnings"]:
        number = words.plural(len(record["warnings"]), "warning")
        found.append(f"The run gave {number}; see “Machine and software”.")
    stated = [row for row in cells if row["throughput_note"]]
    if stated:
        found.append(
            f"{words.plural(len(stated), 'throughput')} did not follow from the step times; "
            "the table of cases says how."
        )
    return found


def _intervals(cells: list[Row]) -> list[str]:
    valued = [row for row in cells if row["step_s"] is not None]
    several = [row for row in valued if row["interval_from"] == FROM_LAUNCHES]
    one = [row for row in valued if row["interval_from"] == FROM_ONE_LAUNCH]
    none = len(valued) - len(several) - len(one)
    found = []
    if several:
        counts = sorted({row["launch_count"] for row in several})
        number = " or ".join(map(str, counts))
        found.append(
            f"{words.plural(len(several), 'case')} measured in {number} launches: "
            "intervals at 95 % hold what changes from one launch to the next."
        )
    if one:
        found.append(
            f"{words.plural(len(one), 'case')} measured in one launch: "
            "restart noise is not in the interval."
        )
    if none:
        found.append(
            f"{words.plural(none, 'case')} without an interval: too few step times in the file, or "
            "one launch of several children."
        )
    return found


def _count(found: list[str], cells: list[Row], column: str, words_: str) -> None:
    ids = [row["id"] for row in cells if row[column]]
    if ids:
        found.append(f"{words.plural(len(ids), 'case')} {words_}: {named(ids)}.")


def named(ids: list[str]) -> str:
    """Some of the ids, and how many more there are."""
    ids = list(dict.fromkeys(ids))
    rest = len(ids) - MOST_NAMED
    if rest > 1:
        return f"{', '.join(ids[:MOST_NAMED])} and {rest} more"
    return words.joined(ids)
