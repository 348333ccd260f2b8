"""Hundreds of ranks: the controller's time grows as they do, and what it keeps is bounded."""

from __future__ import annotations

import json
import resource
import time
from typing import Any

import pytest

from bench.deadlines import Limits
from bench.gathering import gathered
from bench.group import Group
from bench.launch import LaunchError
from bench.named import named, together, tracebacks
from bench.outline import MOST_OF_A_RANK, MOST_OF_ALL, from_outline, most_collectives, outline
from bench.payload import MOST_LINES, MOST_STEP_TIMES, bounded
from bench.result import Failure, LaunchResult
from tests import simulated_ranks
from tests.simulated_ranks import Simulated, record

MANY = 256


def measured(ranks: int, cases: int = 1) -> tuple[LaunchResult, float]:
    """(the last result, the controller's own CPU time of a case, seconds)"""
    group = Group(Simulated.start, ranks, timeout_s=60)
    try:
        spent = []
        for _ in range(cases):
            begun = time.process_time()
            records = group.run({"world_size": ranks, "port": None, "case": {}}, Limits(60))
            assert not isinstance(records, Failure), records.message
            result = gathered(0, 0.0, records, precision=0.02)
            spent.append(time.process_time() - begun)
        return result, min(spent)
    finally:
        group.stop()


@pytest.fixture(scope="module")
def many() -> LaunchResult:
    return measured(MANY)[0]


def test_a_case_on_many_ranks(many: LaunchResult) -> None:
    fields = many.fields
    slowest = simulated_ranks.slowest_of(MANY)
    assert [rank["rank"] for rank in fields["ranks"]] == list(range(MANY))
    assert fields["ranks"][-1]["host"] == simulated_ranks.host_of(MANY - 1)
    assert fields["across_ranks"]["waited_for"] == slowest
    assert fields["across_ranks"]["aligned"]  # each host has a clock of its own
    waits = fields["across_ranks"]["wait_s"]
    assert min(waits) == waits[slowest]
    timeline = fields["timeline"]
    assert slowest in [rank["rank"] for rank in timeline["ranks"]]
    assert timeline["left_out"]["ranks"] == MANY - len(timeline["ranks"])


def test_what_is_kept_of_each_of_many_ranks_is_bounded(many: LaunchResult) -> None:
    ranks = many.fields["ranks"]
    assert max(len(json.dumps(rank)) for rank in ranks[1:]) < 3000
    assert many.fields["software"]["torch"]
    assert not any("software" in rank for rank in ranks)
    # One rank's calls stand for all; each rank's sums remain.
    assert ranks[0]["communication"]["calls"]
    assert ranks[1]["communication"]["calls"] is None
    assert all(rank["communication"]["all_reduce_s"] > 0 for rank in ranks)
    assert many.fields["left_out"] == [
        "communication.calls and .per_step of every rank but the first"
    ]


def test_the_controllers_time_grows_as_the_ranks_do() -> None:
    few, many = 64, 512
    _, of_few = measured(few, cases=3)
    _, of_many = measured(many)
    assert of_many / many < 3 * of_few / few


def test_where_each_of_many_ranks_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(simulated_ranks.HANG_VARIABLE, "77")
    group = Group(Simulated.start, MANY, timeout_s=60)
    try:
        failure = group.run({"world_size": MANY, "port": None, "case": {}}, Limits(1.5))
    finally:
        group.stop()
    assert isinstance(failure, Failure)
    assert failure.rank == 77
    assert failure.host == simulated_ranks.host_of(77)
    assert "rank 77 on node-009 in warm-up" in failure.message
    assert "ranks 0-76, 78-255 on 32 hosts in timed step 3" in failure.message
    assert len(failure.message) < 400
    assert failure.traceback.count("most recent call first") == 2


def test_ranks_in_words() -> None:
    assert named([3]) == "rank 3"
    assert named([0, 1, 2, 5, 7, 8]) == "ranks 0-2, 5, 7, 8"
    assert named(range(0, 100, 2)) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 42 more"
    accounts = [(rank, f"at {min(rank, 12)}") for rank in range(100)]
    said = together(accounts)
    assert said.startswith("rank 0 at 0; rank 1 at 1; ")
    assert said.endswith("; 92 more ranks elsewhere")
    stacks = tracebacks((rank, "timed", f"Thread 0x{rank:x}: waits") for rank in range(100))
    assert stacks == "--- ranks 0-99, timed ---\nThread 0x0: waits"
    assert "84 more ranks left out" in tracebacks((n, "timed", f"line {n}") for n in range(100))


def test_an_outline_gives_back_what_it_was_made_of() -> None:
    trace = simulated_ranks.trace(3, 8, 1.0)
    kept = from_outline(json.loads(json.dumps(outline(trace, 10_000))))
    assert kept.steps == trace.steps
    assert kept.collectives == trace.collectives
    assert kept.phases == trace.phases


def test_an_outline_holds_whole_steps_or_says_that_one_is_too_many() -> None:
    trace = simulated_ranks.trace(0, 8, 1.0)
    a_step = len(trace.collectives) // len(trace.steps)
    two = from_outline(outline(trace, 3 * a_step - 1))
    assert [step.number for step in two.steps] == [0, 1]
    assert len(two.collectives) == 2 * a_step
    nothing = outline(trace, a_step - 1)
    assert nothing["too_many"] == a_step
    assert from_outline(nothing).collectives == ()
    assert most_collectives(2) == MOST_OF_A_RANK
    assert most_collectives(1024) * 1024 <= MOST_OF_ALL


def test_steps_of_too_many_collectives_are_not_matched_and_the_record_says_why() -> None:
    records = [record(rank, 2) for rank in range(2)]
    for one in records:
        trace = simulated_ranks.trace(one["rank"], 2, 1.0)
        one["outline"] = outline(trace, 10)
    fields = gathered(0, 0.0, records, precision=0.02).fields
    assert fields["across_ranks"] is None
    assert "a step has 60 collectives" in fields["timeline"]["reason"]


def test_step_times_that_are_not_sent_are_those_the_ranks_have_agreed_on() -> None:
    ranks = MOST_STEP_TIMES // 40 + 1
    sent: list[dict[str, Any]] = [bounded(record(rank, ranks), ranks) for rank in (0, 1)]
    assert sent[0]["job"]["slowest_step_s"] == record(0, ranks)["job"]["slowest_step_s"]
    assert sent[1]["timed_step_s"] is None
    assert "job" not in sent[1]
    result = gathered(0, 0.0, sent, precision=0.02)
    assert list(result.step_s) == record(0, ranks)["job"]["slowest_step_s"]
    assert result.fields["ranks"][1]["median_step_s"] > 0
    assert "more than 20000 step times" in result.fields["left_out"][0]
    sent = [bounded(record(rank, ranks), ranks) for rank in (0, 1)]
    sent[1]["steps"] -= 1
    with pytest.raises(ValueError, match="different numbers of steps"):
        gathered(0, 0.0, sent, precision=0.02)


def test_ranks_that_have_agreed_on_nothing_send_their_own_step_times() -> None:
    ranks = MOST_STEP_TIMES // 40 + 1
    own = record(1, ranks)
    del own["job"]["slowest_step_s"]
    assert bounded(own, ranks)["timed_step_s"] == own["timed_step_s"]


def test_few_ranks_send_everything() -> None:
    sent = bounded(record(1, 2), 2)
    assert sent["timed_step_s"] == record(1, 2)["timed_step_s"]
    assert len(sent["communication"]["calls"]) * 2 <= MOST_LINES


def test_room_for_connections_is_made_or_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 4096))
    group = Group(Simulated.start, 300, timeout_s=60)
    group.stop()
    assert raised == [(556, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 512))
    with pytest.raises(LaunchError, match=r"300 ranks need 556 open files .*ulimit -Hn 556"):
        Group(Simulated.start, 300, timeout_s=60)
