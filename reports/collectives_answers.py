"""The verdict on a file's collectives."""

from __future__ import annotations

from reports import words
from reports.answers import Answer
from reports.collectives_figure import pair_sentence
from reports.frames import groups, rows
from reports.tables import Tables


def of_collectives(tables: Tables, file: str) -> tuple[str, list[Answer]] | None:
    """(headline, answers) on the collectives of ``file``: what the largest of each gives."""
    own = [row for row in rows(tables.collectives) if row["file"] == file]
    if not own:
        return None
    largest = [
        max(of, key=lambda row: row["bytes"]) for of in groups(own, "collective", "series").values()
    ]
    said = [
        f"{row['collective']} of {words.binary(row['bytes'])}, {row['series']}: "
        f"busbw {words.rate(row['busbw_bytes_per_s'])}, {words.seconds(row['step_s'])}."
        for row in largest
    ]
    first = next((row for row in largest if row["collective"] == "all_reduce"), largest[0])
    about = f"{first['collective']} of {words.binary(first['bytes'])}, {first['series']}"
    value = words.rate(first["busbw_bytes_per_s"])
    answers = [Answer("What does the network give?", value, f"busbw, {about}", first, said[1:])]
    pairs = groups((row for row in rows(tables.pairs) if row["file"] == file), "cell")
    # The slowest of a cell comes first; of one pair there is none to compare it with.
    slow = [of_cell[0] for of_cell in pairs.values() if len(of_cell) > 1]
    if slow:
        row = min(slow, key=lambda row: row["relative_ratio"])
        told = pair_sentence(row)
        answers.append(
            Answer(
                "Which pair is slowest?",
                words.rate(row["rate_bytes_per_s"]),
                told.partition(":")[0].lower(),
                row,
                [told],
            )
        )
    return f"busbw {value}, {about}", answers
