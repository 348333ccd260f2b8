"""Where the ranks of a case meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.case_run import Rank
from bench.placement import hosts_in_order
from bench.result import Failure


def meet(job: dict[str, Any], ranks: Sequence[Rank]) -> Failure | None:
    """Settle where the ranks of a case meet (``job["host"]``); why they cannot, if so.

    On one host they need no network for it; otherwise where the controller sees rank 0's host.
    """
    hosts = hosts_in_order([rank.host for rank in ranks])
    file = job.get("case", {}).get("init_method") == "file"
    if len(hosts) > 1 and file:
        return _cannot_meet(
            f"init_method=file needs a folder that all hosts share; this case is on "
            f"{', '.join(hosts)}: take init_method=env or tcp"
        )
    if job.get("host") is not None:
        return None
    if len(hosts) <= 1:
        job["host"] = "127.0.0.1"
        return None
    reached = [rank.address for rank in ranks if rank.host == hosts[0] and not _is_own(rank)]
    if not reached:
        return _cannot_meet(
            f"no other host can reach rank 0's ({hosts[0]}), which has connected from "
            f"{ranks[0].address}: start its ranks with a --controller address that the other "
            "hosts have too, or say --master-addr"
        )
    job["host"] = reached[0]
    return None


def _is_own(rank: Rank) -> bool:
    """Whether its address means another host on every host."""
    return rank.address.startswith("127.") or rank.address == "::1"


def _cannot_meet(message: str) -> Failure:
    return Failure(phase="rendezvous", message=message)
