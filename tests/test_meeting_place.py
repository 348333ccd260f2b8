from __future__ import annotations

import socket
from typing import Any

from bench.case import Case
from bench.case_run import Rank
from bench.meeting_place import meet
from bench.result import Failure
from bench.wire import Connection


def ranks(*places: tuple[str, str]) -> list[Rank]:
    nobody = Connection(socket.socket())
    return [Rank(n, n, host, 1, nobody, address) for n, (host, address) in enumerate(places)]


def met(*places: tuple[str, str], host: str | None = None, **case: Any) -> str | Failure:
    job = {"case": Case(**case).to_dict(), "host": host}
    return meet(job, ranks(*places)) or job["host"]


def test_on_one_host_no_network_is_needed() -> None:
    assert met(("a", "10.0.0.1"), ("a", "10.0.0.1")) == "127.0.0.1"


def test_on_several_hosts_they_meet_at_rank_0s() -> None:
    assert met(("b", "10.0.0.2"), ("a", "10.0.0.1")) == "10.0.0.2"
    # That rank has come over the loopback, another of its host has not.
    assert met(("b", "127.0.0.1"), ("b", "10.0.0.2"), ("a", "10.0.0.1")) == "10.0.0.2"


def test_what_the_user_says_counts() -> None:
    assert met(("b", "10.0.0.2"), ("a", "10.0.0.1"), host="ib0.b") == "ib0.b"


def test_a_host_that_is_known_by_its_loopback_alone() -> None:
    refused = met(("b", "127.0.1.1"), ("a", "10.0.0.1"))
    assert isinstance(refused, Failure)
    assert "no other host can reach rank 0's (b), which has connected from 127.0.1.1" in (
        refused.message
    )


def test_a_file_is_no_meeting_place_for_several_hosts() -> None:
    assert met(("a", "10.0.0.1"), init_method="file") == "127.0.0.1"
    refused = met(("b", "10.0.0.2"), ("a", "10.0.0.1"), init_method="file", host="b")
    assert isinstance(refused, Failure)
    assert refused.phase == "rendezvous"
    assert "a folder that all hosts share; this case is on b, a" in refused.message
