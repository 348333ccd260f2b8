"""Which rank is named: by what the ranks said, where they were, and what they had begun."""

from __future__ import annotations

import re

import pytest

from bench.culprit import Part, cause, innermost_call, time_out
from bench.result import Failure
from tests.fake_ranks import CLOSED

MISMATCH = "[enforce fail at pair.cc:464] op.preamble.length <= op.nbytes. 60 vs 8"
STACKS = """Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3/threading.py", line 10 in wait

Thread 0x00008f (most recent call first):
  File "{file}", line 12 in {function}
  File "/home/me/train.py", line 99 in main"""
IN_BACKWARD = STACKS.format(file="/x/torch/autograd/graph.py", function="_engine_run_backward")
IN_FORWARD = STACKS.format(file="/home/me/model.py", function="forward")


@pytest.mark.parametrize(
    ("said", "guilty"),
    [
        # (message, outcome, when) of ranks 0, 1, ...
        ([("bad sample", "failed", 2.0), ("bad sample", "failed", 1.0)], 1),
        ([("bad sample", "failed", 1.0), ("bad sample", "failed", 2.0)], 0),
        ([(CLOSED, "failed", 1.0), ("bad sample", "failed", 2.0)], 1),
        ([(CLOSED, "failed", 1.0), ("the process ended with SIGKILL", "crashed", 2.0)], 1),
        ([("Timed out waiting 600000ms", "failed", 1.0), ("out of it", "out of memory", 2.0)], 1),
        ([("Connection reset by peer", "failed", 2.0), (CLOSED, "failed", 1.0)], 1),
        ([(CLOSED, "failed", 1.0), ("the rank is gone (connection closed)", "crashed", 9.0)], 1),
    ],
)
def test_the_cause_of_several_failures(said: list[tuple[str, str, float]], guilty: int) -> None:
    parts = {}
    for rank, (message, outcome, when) in enumerate(said):
        failure = Failure(phase="timed", message=message, outcome=outcome, rank=rank)
        parts[rank] = Part(rank, failure=failure, failed_at_s=when)
    parts[len(said)] = Part(len(said), record={})  # a rank that was done before
    assert cause(parts).rank == guilty


@pytest.mark.parametrize(
    ("places", "guilty"),
    [
        # (step, collectives begun) of ranks 0, 1, ...; rank 0 is the one that noticed.
        ([(4, 16), (5, 15)], 1),  # fewer begun
        ([(4, 16), (5, 16)], 1),  # as many, but a step further: it has left one out
        ([(5, 16), (4, 16)], 0),
        ([(4, 16), (5, None)], 1),  # one cannot be asked any more
        ([(5, None), (5, None)], None),  # nothing tells them apart
    ],
)
def test_ranks_that_met_in_different_collectives(
    places: list[tuple[int, int | None]], guilty: int | None
) -> None:
    parts = {
        rank: Part(rank, phase="timed", step=step, collectives=begun)
        for rank, (step, begun) in enumerate(places)
    }
    parts[0].failure = Failure(phase="timed", message=MISMATCH, rank=0, traceback="its own")
    found = cause(parts)
    assert found.rank == guilty
    assert "the ranks met in different collectives: rank 0 in timed step" in found.message
    assert found.message.startswith(MISMATCH)


def hanging(**of_rank_1: object) -> dict[int, Part]:
    """Rank 0 waits in backward of step 3; rank 1 differs in what is given."""
    common = {"phase": "timed", "step": 3, "collectives": 8, "stacks": IN_BACKWARD, "aborted": True}
    return {
        0: Part(0, **common),  # type: ignore[arg-type]
        1: Part(1, **{**common, **of_rank_1}),  # type: ignore[arg-type]
        2: Part(2, phase="timed", ended=True, record={}),  # was done before
    }


@pytest.mark.parametrize(
    ("of_rank_1", "guilty"),
    [
        ({"collectives": 7}, 1),  # it did not join
        ({"collectives": 9}, 0),
        ({"state": "stopped", "collectives": None}, 1),
        ({"silent": True, "collectives": None}, 1),
        ({"step": 4}, 1),  # it left one out on its way
        ({"stacks": IN_FORWARD}, 1),  # it alone does not wait
        ({}, None),
        ({"phase": "build", "step": None, "collectives": None}, 1),
        ({"phase": "build", "step": None, "collectives": 0}, 1),
    ],
)
def test_the_rank_the_others_wait_for(of_rank_1: dict[str, object], guilty: int | None) -> None:
    failure = time_out(hanging(**of_rank_1), "timed did not end within 40 s")
    assert failure.rank == guilty
    assert failure.outcome == "timed out"
    said = re.match(
        r"timed did not end within 40 s: (rank 0|ranks 0, 1) in timed step 3", failure.message
    )
    assert said is not None
    assert "rank 2" not in failure.message
    if guilty == 1:
        assert failure.phase == of_rank_1.get("phase", "timed")


def test_of_many_ranks_the_one_that_has_begun_fewer() -> None:
    parts = {rank: Part(rank, phase="timed", collectives=8, aborted=True) for rank in range(8)}
    parts[5].collectives = 7
    assert time_out(parts, "x").rank == 5
    parts[6].collectives = 7  # two are behind, and only one of them is not waiting
    parts[6].stacks, parts[5].stacks = IN_BACKWARD, IN_FORWARD
    assert time_out(parts, "x").rank == 5


def test_ranks_at_the_same_place_are_named_in_one_breath() -> None:
    parts = {rank: Part(rank, phase="timed", step=3, aborted=True) for rank in range(64)}
    parts[5].step, parts[6].state = 2, "stopped"
    assert time_out(parts, "x").message == (
        "x: ranks 0-4, 7-63 in timed step 3; rank 5 in timed step 2; "
        "rank 6 in timed step 3, its process is stopped"
    )
    assert time_out({0: parts[0], 1: parts[1]}, "x").message == "x: ranks 0, 1 in timed step 3"


def test_on_several_hosts_every_rank_is_named_with_its_own() -> None:
    parts = {
        rank: Part(rank, host=host, phase="timed", step=3, silent=silent, collectives=9)
        for rank, (host, silent) in enumerate([("a", False), ("a", False), ("b", True)])
    }
    failure = time_out(parts, "timed did not end within 5 s")
    assert (failure.rank, failure.host) == (2, "b")
    assert failure.message == (
        "timed did not end within 5 s: ranks 0, 1 on a in timed step 3; "
        "rank 2 on b in timed step 3, does not answer (state unknown)"
    )


def test_the_innermost_call_is_the_main_threads() -> None:
    assert innermost_call(IN_FORWARD) == "forward (me/model.py:12)"
    assert innermost_call("") is None
