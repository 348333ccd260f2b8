"""How fast each rank is on its own: who is slow, and on which host.

Step times are equal once the ranks have waited for each other, and backward holds that waiting. So
a rank's pace is taken from what it does without the others: the pass without communication, or
where that is not recorded by rank, the computing in the profiled step, or the forward phase.
A rank's time is the mean over launches, a host's the median over its ranks.
"""

from __future__ import annotations

import statistics

import pandas as pd

from reports import words
from reports.communication import mean
from reports.frames import Row, columns, frame, groups, rows
from reports.step_times import LEVELS, spread

#: Up to this many ranks of one host each has its own line elsewhere on the page.
MANY_RANKS = 16
#: Slower than the median by more than this is slow; ranks of one kind differ by a few per cent.
SLOW = 0.05
#: So many of them have names.
MOST_NAMED = 5
#: Column of the ranks' table -> what it is, the best first.
MEASURES = {
    "alone_s": "a step without communication",
    "compute_s": "computing in a profiled step",
    "forward_s": "forward",
}
#: ``slowest``: (rank, host, over the median), the slowest first; ``slowest_host``: (host, over the
#: median), of several hosts. ``slow_*``: how many are slower than the median by more than SLOW.
COLUMNS = columns(
    string="file model id strategy measure",
    Int64="cell world_size ranks hosts slow_ranks slow_hosts",
    Float64=" ".join(("shortest_s", *LEVELS, "median_s", "longest_s")),
    object="slowest slowest_host",
)


def rank_pace_table(cells: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """One row per cell on many ranks or several hosts; ``COLUMNS``."""
    of_rank = groups(rows(ranks), "cell")
    found: list[Row] = []
    for cell in rows(cells):
        own = groups(of_rank.get((cell["cell"],), []), "rank")
        hosts = {records[0]["host"] for records in own.values()}
        if len(own) < 2 or (len(own) <= MANY_RANKS and len(hosts) < 2):
            continue
        for name, measure in MEASURES.items():
            times = {rank: mean(one[name] for one in records) for (rank,), records in own.items()}
            known = {rank: time for rank, time in times.items() if time}
            if len(known) == len(own):  # the one that has none may be the slowest
                about = {name: cell[name] for name in ("file", "id", "strategy", "cell")}
                about |= {"world_size": cell["world_size"], "model": words.model(cell)}
                host_of = {rank: records[0]["host"] for (rank,), records in own.items()}
                found.append(about | {"measure": measure} | _pace(known, host_of))
                break
    return frame(found, COLUMNS)


def _pace(time_s: dict[int, float], host_of: dict[int, str | None]) -> Row:
    row = spread(sorted(time_s.values()))
    median_s = row["median_s"]
    over = {rank: time / median_s - 1 for rank, time in time_s.items()}
    slowest = sorted(over, key=lambda rank: (-over[rank], rank))
    of_host: dict[str, list[float]] = {}
    for rank, host in host_of.items():
        of_host.setdefault(host or "", []).append(over[rank])
    hosts = {host: statistics.median(own) for host, own in of_host.items()}
    slowest_host = max(hosts, key=lambda host: hosts[host])
    return row | {
        "ranks": len(time_s),
        "hosts": len(hosts),
        "slow_ranks": sum(value > SLOW for value in over.values()),
        "slow_hosts": sum(value > SLOW for value in hosts.values()),
        "slowest": [(rank, host_of[rank], over[rank]) for rank in slowest[:MOST_NAMED]],
        "slowest_host": (slowest_host, hosts[slowest_host]) if len(hosts) > 1 else None,
    }
