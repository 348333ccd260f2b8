"""When gradients are ready, as bench/worker/gradient_ready.py recorded it -> rows.

A row per launch of a case that has the record. Older files have none.
"""

from __future__ import annotations

from typing import Any

from reports.frames import Row, columns
from reports.source import (
    items,
    launch_number,
    number,
    numbers,
    positive,
    table,
    tables,
    text,
    whole,
)

#: ``ready_s``, ``bytes`` and ``dtypes`` are tuples, by gradient in the order in which they become
#: ready. ``silent_step_s``: a tuple of step times for every rank. ``reason``: why there is none.
READY_COLUMNS = columns(
    Int64="cell launch",
    string="reason",
    object="order ready_s bytes dtypes silent_step_s",
    Float64="forward_s backward_s optimizer_s",
)


def ready_rows(entry: dict[str, Any]) -> list[Row]:
    result = table(table(entry.get("extra_info")).get("result"))
    found = []
    for position, launch in enumerate(tables(result.get("launches"))):
        record = table(launch.get("gradient_ready"))
        if record:
            row: Row = {"launch": launch_number(launch, position)} | _of_record(record)
            row["silent_step_s"] = tuple(
                tuple(step for step in numbers(rank.get("silent_step_s")) if step > 0)
                for rank in tables(launch.get("ranks"))
            )
            found.append(row)
    return found


def _of_record(record: dict[str, Any]) -> Row:
    reason = text(record.get("reason"))
    if reason is not None:
        return {"reason": reason}
    lists = [items(record.get(name)) for name in ("order", "ready_s", "bytes")]
    gradients = [
        (whole(place), positive(ready), whole(size))
        for place, ready, size in zip(*lists, strict=False)
    ]
    parts = {name: number(record.get(name)) for name in ("forward_s", "backward_s", "optimizer_s")}
    dtypes = [text(name) or "unknown" for name in items(record.get("dtypes"))]
    whole_record = (
        len({len(one) for one in lists}) == 1
        and all(value is not None for gradient in gradients for value in gradient)
        and all(value is not None and value >= 0 for value in parts.values())
        and len(dtypes) in (1, len(gradients))
        and bool(gradients)
    )
    if not whole_record:
        return {"reason": "its record of ready gradients is damaged"}
    order, ready_s, sizes = zip(*gradients, strict=True)
    return parts | {
        "order": order,
        "ready_s": ready_s,
        "bytes": sizes,
        "dtypes": tuple(dtypes * (len(gradients) if len(dtypes) == 1 else 1)),
    }
