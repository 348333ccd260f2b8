"""A cell's values of a metric, by launch: of its launches, or of its second measurement."""

from __future__ import annotations

from reports.frames import Row, groups, rows
from reports.load import Records
from reports.metrics import STEP_TIME, Metric


class Values:
    """A cell's values by launch, of its launches or of its second measurement."""

    def __init__(self, records: Records) -> None:
        self._launches = groups(rows(records.launches), "cell")
        self._ranks = _by_launch(rows(records.ranks))
        self._again = groups(rows(records.confirmations), "cell")
        self._ranks_again = _by_launch(rows(records.confirmation_ranks))

    def first(self, metric: Metric, cell: Row) -> dict[int, float]:
        launches = self._launches.get((cell["cell"],), [])
        found = metric.by_launch(cell, launches, self._ranks.get(cell["cell"], {}))
        if not found and metric.name == STEP_TIME.name and cell["stats_median_s"] is not None:
            return {0: cell["stats_median_s"]}  # another suite's file that keeps no single times
        return found

    def again(self, metric: Metric, cell: Row) -> dict[int, float]:
        """Empty unless the second measurement is complete."""
        launches = self._again.get((cell["cell"],), [])
        if not launches or not all(one["complete"] for one in launches):
            return {}
        return metric.by_launch(cell, launches, self._ranks_again.get(cell["cell"], {}))

    def kinds(self, cell: Row) -> set[str]:
        """Of which memory the peak is: of the process, of the device."""
        ranks = self._ranks.get(cell["cell"], {}).values()
        return {rank["peak_kind"] for own in ranks for rank in own if rank["peak_kind"]}


def _by_launch(ranks: list[Row]) -> dict[int, dict[int, list[Row]]]:
    found: dict[int, dict[int, list[Row]]] = {}
    for rank in ranks:
        found.setdefault(rank["cell"], {}).setdefault(rank["launch"], []).append(rank)
    return found
