from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from bench.wire import LARGEST_HELLO, Connection, Listener, WireError, connect, ready

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
    connection = listener.accept()
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
        b'{"token": "\\ud800"}\n',  # a lone surrogate: JSON, but no UTF-8
        b'{"token": "' + "é".encode() + b'"}\n',
        b'{"hello": "' + TOKEN.encode() + b'"}\n',
        b"[" * (LARGEST_HELLO - 1) + b"\n",  # deeper than a parser may go
        b'["' + TOKEN.encode() + b'"]\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\x00\n",
        b'{"token": "' + b"x" * (LARGEST_HELLO + 1) * 2,
        b"\n",
    ],
)
def test_strangers_are_dropped(listener: Listener, hello: bytes) -> None:
    sock = raw(listener, hello)
    assert listener.accept(timeout_s=5) is None
    sock.settimeout(5)
    with contextlib.suppress(ConnectionResetError):
        assert sock.recv(10) == b""  # closed without an answer


def test_a_silent_peer_is_dropped_after_its_time(listener: Listener) -> None:
    sock = raw(listener)
    assert listener.accept(timeout_s=0.05) is None
    sock.close()


def test_a_peer_that_drips_is_dropped_after_its_time(listener: Listener) -> None:
    """A byte now and then must not hold up the launch."""
    sock = raw(listener)
    over = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.02):
                sock.sendall(b" ")

    dripping = in_background(drip)
    assert listener.accept(timeout_s=0.2) is None
    over.set()
    dripping.join(5)
    sock.close()


def test_token_and_first_message_may_come_in_one_packet(listener: Listener) -> None:
    first = json.dumps({"type": "rank_ready"}).encode()
    sock = raw(listener, json.dumps({"token": TOKEN}).encode() + b"\n" + first + b"\n")
    connection = listener.accept()
    assert connection is not None
    assert connection.buffered() == {"type": "rank_ready"}
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


@pytest.mark.parametrize("line", [b"nonsense\n", b"[1]\n", b'{"a": \n'])
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
