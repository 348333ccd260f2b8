from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import wire
from bench.wire import (
    MOST_STRANGERS,
    Connection,
    Listener,
    WireError,
    address_of,
    connect,
    ready,
)

TOKEN = "a" * 64


@pytest.fixture
def listener() -> Iterator[Listener]:
    listening = Listener(TOKEN)
    yield listening
    listening.close()


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def admitted(listener: Listener, within_s: float = 5.0) -> Connection | None:
    """The first peer that says the token; None when all who came were dropped, or nobody came."""
    deadline = time.monotonic() + within_s
    met = False
    while time.monotonic() < deadline:
        for source in ready(list(listener.sources()), 0.05):
            met = True
            connection = listener.admit(source)
            if connection is not None:
                return connection
        if met and len(listener.sources()) == 1:
            return None
    return None


def raw(listener: Listener, *packets: bytes) -> socket.socket:
    sock = socket.create_connection(listener.address)
    for packet in packets:
        sock.sendall(packet)
    return sock


def pair() -> tuple[Connection, Connection]:
    left, right = socket.socketpair()
    return Connection(left), Connection(right)


def test_a_rank_that_knows_the_token_is_heard(listener: Listener) -> None:
    host, port = listener.address
    rank = connect(host, port, TOKEN)
    rank.send({"type": "rank_ready", "rank": 1})
    connection = admitted(listener)
    assert connection is not None
    assert connection.receive() == {"type": "rank_ready", "rank": 1}
    connection.send({"type": "controller_stop"})
    assert rank.receive() == {"type": "controller_stop"}
    # An idle rank reads until there is something: no time-out of the greeting is left.
    assert rank._socket.gettimeout() is connection._socket.gettimeout() is None


@pytest.mark.parametrize(
    "hello",
    [
        b'{"token": "wrong"}\n',
        b'{"token": 5}\n',
        b'{"token": "' + b"b" * 64 + b'"}\n',
        b'{"token": "' + "é".encode() * 32 + b'"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\x00\n",
        b"x" * 100_000,
        b"\n",
        b"",  # connects and goes
    ],
)
def test_strangers_are_dropped(listener: Listener, hello: bytes) -> None:
    sock = raw(listener, hello)
    if not hello:
        sock.close()
    assert admitted(listener) is None
    assert sum(listener.dropped.values()) == 1
    if hello:
        sock.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(10) == b""  # closed without an answer


def test_of_a_stranger_no_byte_beyond_the_token_is_read(listener: Listener) -> None:
    sock = raw(listener, b"x" * 10_000)
    listener.admit(ready(list(listener.sources()), 5)[0])
    stranger = listener.sources()[1]
    assert not isinstance(stranger, Listener)
    ready([stranger], 5)
    listener.admit(stranger)
    assert len(stranger.said) == len(json.dumps({"token": TOKEN})) + 1
    sock.close()


class Ticks:
    """A clock that moves only when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_strangers_that_are_silent_or_drip_hold_up_nobody() -> None:
    ticks = Ticks()
    listener = Listener(TOKEN, clock=ticks, patience_s=5)
    silent, dripping = raw(listener), raw(listener, b'{"tok')
    while len(listener.sources()) < 3:
        listener.admit(ready([listener], 5)[0])
    rank = connect(*listener.address, TOKEN)  # comes after them and is let in before
    assert admitted(listener) is not None
    assert len(listener.sources()) == 3
    ticks.now = 4.9
    dripping.sendall(b"e")
    listener.admit(ready(listener.sources()[1:], 5)[0])
    assert len(listener.sources()) == 3
    ticks.now = 5.0  # a byte now and then wins no time
    assert listener.sources() == [listener]
    assert listener.dropped["no token within 5 s"] == 2
    for each in (silent, dripping, rank, listener):
        each.close()


def test_a_crowd_of_strangers_keeps_out_nobody(listener: Listener) -> None:
    crowd = [raw(listener) for _ in range(MOST_STRANGERS + 20)]
    rank = connect(*listener.address, TOKEN)
    assert admitted(listener) is not None
    assert len(listener.sources()) <= MOST_STRANGERS + 1
    assert listener.dropped["too many strangers at once"] >= 20
    for each in [*crowd, rank]:
        each.close()


def test_token_and_first_message_may_come_in_one_packet(listener: Listener) -> None:
    first = json.dumps({"type": "rank_ready"}).encode()
    sock = raw(listener, json.dumps({"token": TOKEN}).encode() + b"\n" + first + b"\n")
    connection = admitted(listener)
    assert connection is not None
    assert connection.receive() == {"type": "rank_ready"}
    sock.close()


def test_messages_in_pieces_and_in_heaps() -> None:
    here, there = pair()
    lines = b"".join(json.dumps({"n": n, "text": "ü" * 50}).encode() + b"\n" for n in range(50))

    def drip() -> None:
        for start in range(0, len(lines), 7):
            here.send_line(lines[start : start + 7])

    in_background(drip)
    assert [there.receive()["n"] for _ in range(50)] == list(range(50))


def test_a_peer_that_is_gone() -> None:
    here, there = pair()
    here.close()
    with pytest.raises(WireError, match="closed"):
        there.receive()
    with pytest.raises(WireError):
        for _ in range(100):
            there.send({"type": "controller_stop"})


def test_an_endless_line_is_refused() -> None:
    here, there = pair()
    in_background(lambda: here.send_line(b"x" * 200_000))
    with pytest.raises(WireError, match="more than 1000 bytes"):
        while True:
            there.read_some(1000)


@pytest.mark.parametrize(
    "line",
    [b"nonsense\n", b"[1]\n", b'{"a": \n', b'{"a": NaN}\n', b"[" * 100_000 + b"\n", b"\xff\n"],
)
def test_what_is_no_object_is_refused(line: bytes) -> None:
    here, there = pair()
    here.send_line(line)
    with pytest.raises(WireError):
        there.receive()


def test_only_finite_numbers_are_sent() -> None:
    here, _there = pair()
    with pytest.raises(ValueError, match="not JSON compliant"):
        here.send({"step_s": float("nan")})


def test_numbers_arrive_bit_for_bit() -> None:
    here, there = pair()
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 0.062113879999742494]
    here.send({"step_s": values})
    assert there.receive()["step_s"] == values


def test_ready_tells_who_can_be_read() -> None:
    here, there = pair()
    other_here, other_there = pair()
    other_here.send({"n": 1})
    assert ready([there, other_there], 5) == [other_there]
    assert ready([there], 0) == []
    started = time.monotonic()
    assert ready([there], 0.05) == []
    assert time.monotonic() - started >= 0.05
    here.send({"n": 2})
    assert ready([there], 5) == [there]


@given(st.lists(st.binary(max_size=300), max_size=8))
@settings(deadline=None, max_examples=200)
def test_whatever_bytes_come_are_a_message_or_a_wire_error(packets: list[bytes]) -> None:
    here, there = pair()
    for packet in packets:
        here.send_line(packet + b"\n")
    here.close()
    try:
        while True:
            assert isinstance(there.receive(), dict)
    except WireError:
        pass
    there.close()


@given(st.binary(max_size=300), st.integers(1, 200))
@settings(deadline=None, max_examples=200)
def test_whatever_a_stranger_says_is_not_the_token(said: bytes, cut: int) -> None:
    listener = Listener(TOKEN)
    sock = raw(listener, said[:cut], said[cut:])
    sock.close()
    assert admitted(listener) is None
    assert sum(listener.dropped.values()) == 1
    listener.close()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
@settings(deadline=None)
def test_every_json_object_arrives_as_it_was_sent(message: dict[str, object]) -> None:
    here, there = pair()
    here.send(message)
    assert there.receive() == message
    here.close()
    there.close()


def test_a_host_that_vanishes_is_noticed_on_both_sides(listener: Listener) -> None:
    rank = connect(*listener.address, TOKEN)
    connection = admitted(listener)
    assert connection is not None
    for each in (rank, connection):
        assert each._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert each._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 25_000
            assert each._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
    assert rank.own_address == "127.0.0.1"


def test_a_rank_that_takes_nothing_does_not_hold_up_the_controller(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SEND_TIMEOUT_S", 1)
    rank = connect(*listener.address, TOKEN)  # never reads
    connection = admitted(listener)
    assert connection is not None
    with pytest.raises(WireError, match="connection lost"):
        for _ in range(1000):
            connection.send({"type": "controller_ask", "x": "x" * 100_000})
    rank.close()


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:70000", "host:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is no HOST:PORT"):
        address_of(text)


def test_addresses_as_typed() -> None:
    assert address_of("node-a:29400") == ("node-a", 29400)
    assert address_of("[::1]:29400") == ("::1", 29400)
