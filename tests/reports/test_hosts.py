"""Several hosts on the page: who was where, what each has, which links; what may be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.frames import rows
from reports.hosts import ranges
from reports.load import load
from reports.page import render
from reports.tables import Tables, compute
from tests.reports.builder import MACHINE, case, document, entry, outcome, rank

Written = Callable[..., Path]
GPU = {"name": "Example GPU", "memory_bytes": 80_000_000_000}


def host(name: str, ranks: list[int], cores: int = 2, **changes: Any) -> dict[str, Any]:
    had = {"address": f"10.0.0.{ranks[0]}", "gpus": [], "torch": "2.14.1+cpu"}
    return {"host": name, "ranks": ranks, "cores": cores, **had, **changes}


def on(fields: dict[str, Any], *hosts: str, threads: int = 1) -> dict[str, Any]:
    """A case whose ranks were on these hosts."""
    ranks = [rank(n, 0.1, host=name, threads=threads) for n, name in enumerate(hosts)]
    return entry(fields, 0.1, launch_changes={"ranks": ranks})


def made(written: Written, *entries: dict[str, Any], **own: Any) -> Tables:
    return compute(load([written(document(list(entries), **own))]))


def test_how_many_hosts_a_case_was_on(written: Written) -> None:
    tables = made(
        written,
        on(case(), "a"),
        on(case(world_size=4), "a", "a", "b", "b"),
        hosts=[host("a", [0, 1], gpus=[GPU, GPU]), host("b", [2, 3])],
    )
    assert [cell["hosts"] for cell in rows(tables.cells)] == [1, 2]
    page = render(tables)
    assert '<span class="tag">2 hosts</span>' in page
    assert '<th scope="col" class="number">hosts</th>' in page
    for words in ("10.0.0.2", "0-1", "2-3", "2 × Example GPU"):
        assert f"<td>{words}</td>" in page


def test_where_all_is_on_one_host_the_page_speaks_of_none(written: Written) -> None:
    page = render(made(written, on(case(world_size=2), "bench-1", "bench-1")))
    assert "<h3>Hosts" not in page
    assert ">hosts</th>" not in page


def test_emulated_links_are_said(written: Written) -> None:
    tables = made(
        written,
        on(case(world_size=2), "host0", "host1"),
        hosts=[host("host0", [0]), host("host1", [1])],
        settings={"emulate": {"hosts": 2, "rate_bits_per_s": 2e8}, "hosts_are_one_machine": True},
    )
    assert "2 emulated hosts on one machine" in render(tables)
    assert "each link shaped to 200Mbit/s both ways" in render(tables)


@pytest.mark.parametrize(
    ("cores", "one_machine", "threads", "oversubscribed"),
    [
        (2, False, 2, False),  # each has its own two
        (2, False, 3, True),
        (2, True, 1, False),
        (8, True, 5, True),  # ten threads on the same eight cores
    ],
)
def test_threads_against_the_cores_of_their_own_host(
    written: Written, cores: int, one_machine: bool, threads: int, oversubscribed: bool
) -> None:
    tables = made(
        written,
        on(case(world_size=2), "a", "b", threads=threads),
        hosts=[host("a", [0], cores), host("b", [1], cores)],
        settings={"hosts_are_one_machine": one_machine},
    )
    assert [cell["oversubscribed"] for cell in rows(tables.cells)] == [oversubscribed]


def test_spread_ranks_are_a_series_of_their_own_with_the_same_one_rank(written: Written) -> None:
    tables = made(
        written,
        on(case(), "a"),
        on(case(world_size=2), "a", "a"),
        on(case(world_size=2, placement="spread"), "a", "b"),
    )
    by_series = {row["series"]: row for row in rows(tables.scaling) if row["world_size"] == 2}
    assert len(by_series) == 2
    assert all(row["same_ratio"] == pytest.approx(1.0) for row in by_series.values())
    assert any("placement=spread" in series for series in by_series)


def test_a_failure_elsewhere_names_its_host(written: Written) -> None:
    def failed(name: str) -> dict[str, Any]:
        failure = {"phase": "timed", "message": "gone", "type": "Crash", "rank": 1, "host": name}
        fields = case(world_size=2, seed=len(name))
        return outcome(fields, "crashed", reason="gone", failure=failure)

    own = [failed("node-b"), failed(MACHINE["host"])]
    page = render(made(written, on(case(), "a"), outcomes=own))
    assert "rank 1 on node-b" in page
    assert f"rank 1 on {MACHINE['host']}" not in page


def test_numbers_in_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([3]) == "3"
    assert ranges([7, 0, 1, 2, 5]) == "0-2, 5, 7"
