"""All the tables of a report, computed once from the records."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from reports.bucket_memory import bucket_memory_table
from reports.choices import bucket_table, strategy_table
from reports.collectives import collective_table, fit_table, is_collective, pair_table
from reports.communication import all_reduce_bars, all_reduce_table
from reports.comparison import Comparison, compare
from reports.load import Records
from reports.memory import memory_table
from reports.phases import phase_table
from reports.scaling import scaling_table
from reports.side_by_side import SideBySide, side_by_side
from reports.sides import comparable_runs, of_run
from reports.stats import with_estimates
from reports.step_phases import step_phase_table
from reports.step_times import step_time_table
from reports.timelines import timeline_table
from reports.trust import trust_table
from reports.verdict import best_table, largest_table
from reports.waterfall import waterfall_table


@dataclass(frozen=True)
class Tables:
    """Frames; their columns are documented where they are made."""

    records: Records
    cells: pd.DataFrame
    scaling: pd.DataFrame
    waterfall: pd.DataFrame
    all_reduce: pd.DataFrame
    all_reduce_bars: pd.DataFrame
    buckets: pd.DataFrame
    bucket_memory: pd.DataFrame
    strategies: pd.DataFrame
    phases: pd.DataFrame
    step_phases: pd.DataFrame
    step_times: pd.DataFrame
    memory: pd.DataFrame
    timelines: pd.DataFrame
    #: Cases that have none although one was recorded, with their reasons.
    no_timelines: pd.DataFrame
    #: Of collectives, which are in no table of training; in ``cells`` and ``trust`` are both.
    collectives: pd.DataFrame
    fits: pd.DataFrame
    pairs: pd.DataFrame
    trust: pd.DataFrame
    best: pd.DataFrame
    largest: pd.DataFrame
    #: Of every file that was measured under several interpreters.
    versions: list[Comparison]
    #: Of several files; None for one.
    beside: SideBySide | None


def compute(records: Records) -> Tables:
    every = with_estimates(records.cells, records.launches)
    cells = every[~is_collective(every)]
    collectives = collective_table(every, records.ranks)
    scaling = scaling_table(cells)
    waterfall = waterfall_table(cells, records.launches, records.ranks)
    all_reduce = all_reduce_table(cells, records.launches, records.ranks)
    buckets = bucket_table(cells, records.launches, records.ranks, records.outcomes)
    timelines, no_timelines = timeline_table(cells, records.timelines, records.stretches)
    return Tables(
        records=records,
        cells=every,
        scaling=scaling,
        waterfall=waterfall,
        all_reduce=all_reduce,
        all_reduce_bars=all_reduce_bars(cells, all_reduce, records.ranks),
        buckets=buckets,
        bucket_memory=bucket_memory_table(buckets, records.launches, records.ranks),
        strategies=strategy_table(cells, records.outcomes),
        phases=phase_table(cells, records.launches, records.ranks),
        step_phases=step_phase_table(cells, records.ranks),
        step_times=step_time_table(cells, records.launches),
        memory=memory_table(cells, records.ranks),
        timelines=timelines,
        no_timelines=no_timelines,
        collectives=collectives,
        fits=fit_table(collectives),
        pairs=pair_table(every, records.ranks),
        trust=trust_table(every, records.launches, records.ranks, records.files, waterfall),
        best=best_table(cells),
        largest=largest_table(scaling),
        versions=[
            compare(records, every, waterfall, of_run(records, file))
            for file in comparable_runs(records)
        ],
        beside=side_by_side(records, cells),
    )
