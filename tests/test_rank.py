"""A rank's bond to its controller: found, lost, told to become new. (Its cases: test_nursery.)"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from bench.wire import Connection, Message
from bench.worker import rank as rank_module
from bench.worker.rank import be_rank


class BecameNew(Exception):
    """Stands where the process would have been replaced."""


class Controllers:
    """Stands in for ``connect``: what meets the rank at each attempt, one after another."""

    def __init__(self) -> None:
        self.met: list[OSError | list[Message]] = []
        self.said: list[Message] = []
        self.attempts = 0
        self._theirs: list[Connection] = []

    def __call__(self, host: str, port: int, token: str) -> Connection:
        self.attempts += 1
        meets = self.met.pop(0) if self.met else ConnectionRefusedError("refused")
        if isinstance(meets, OSError):
            raise meets
        pair = socket.socketpair()
        ours, theirs = map(Connection, pair)
        for message in meets:
            theirs.send(message)
        pair[1].shutdown(socket.SHUT_WR)  # and then it is gone
        self._theirs.append(theirs)
        return ours

    def heard(self) -> list[Message]:
        return [theirs.receive() for theirs in self._theirs]


@pytest.fixture
def controllers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Controllers]:
    made = Controllers()

    def become_new() -> None:
        raise BecameNew

    for name, stand_in in {
        "connect": made,
        "become_new": become_new,
        "PRELOADED": (),
        "_PAUSE_S": 0,
        # This process is the tests' own.
        "adopt_orphans": lambda: None,
    }.items():
        monkeypatch.setattr(rank_module, name, stand_in)
    monkeypatch.setattr(rank_module.gc, "freeze", lambda: None)
    monkeypatch.setattr(Connection, "own_address", "10.0.0.7")
    yield made


def seconds() -> Callable[[], float]:
    """A clock that is a second further on each time it is asked."""
    now = iter(range(1000))
    return lambda: float(next(now))


def be(stay_s: float = 0.0) -> None:
    be_rank((3, 1, 4), "host", 1, "token", stay_s, seconds())


def test_a_rank_says_where_it_is(controllers: Controllers) -> None:
    controllers.met = [[{"type": "controller_stop"}]]
    be()
    (hello,) = controllers.heard()
    assert hello.pop("pid") > 0
    assert hello == {
        "type": "rank_ready",
        "rank": 3,
        "local_rank": 1,
        "world_size": 4,
        "host": socket.gethostname(),
        "address": "10.0.0.7",
    }


def test_a_controller_that_is_not_there_is_looked_for_as_long_as_was_said(
    controllers: Controllers, capsys: pytest.CaptureFixture[str]
) -> None:
    be()
    assert controllers.attempts == 1
    be(stay_s=5)
    assert controllers.attempts == 1 + 5
    assert "rank 3: refused; ending" in capsys.readouterr().err
    controllers.met = [OSError("no route"), [{"type": "controller_stop"}]]
    be(stay_s=5)
    assert controllers.attempts == 6 + 2


def test_a_rank_that_is_told_so_becomes_new(controllers: Controllers) -> None:
    controllers.met = [[{"type": "controller_restart"}]]
    with pytest.raises(BecameNew):
        be()


def test_a_controller_that_is_lost_is_looked_for_by_a_new_process(
    controllers: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_module, "_probed", lambda models: {"about": {}, "problem": None})
    said: list[Message] = [{"type": "controller_probe", "models": []}]
    controllers.met = [said]
    be()  # ends, unless it was told to stay
    controllers.met = [said]
    with pytest.raises(BecameNew):
        be(stay_s=5)


def test_a_controller_that_shows_the_door_is_asked_again_by_the_same_process(
    controllers: Controllers, capsys: pytest.CaptureFixture[str]
) -> None:
    controllers.met = [[], []]
    be(stay_s=2)
    assert controllers.attempts == 2
    assert "connection closed without a word: is the token its own?; ending" in (
        capsys.readouterr().err
    )
