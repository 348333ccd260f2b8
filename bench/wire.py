"""JSON lines over an authenticated socket: the whole protocol between controller and ranks.

A rank connects and sends one line that holds the token. The controller compares the line's bytes
in constant time before it reads anything else, and closes the connection without an answer when
they differ, are too many or do not come in time. After that both sides send one JSON object a
line; ``type`` names the sender and what it says:

====================  =========================================================================
rank_ready            a rank waits for work: rank, local_rank, world_size, host, pid, address (its
                      own end of this connection)
controller_probe      say what your interpreter has: ``models``
rank_probed           that, as bench/worker/probe.py tells it: ``about``, or ``problem``
controller_run        run a case: ``job``
rank_forked           the case's child has started: pid
rank_rendezvous       rank 0's child listens: host and port (or nothing, for a file store)
rank_phase            the child enters a phase
rank_done             the child's record
rank_failed           the child's failure
rank_stuck            what the child is at: state, stacks, step, collectives
rank_child_ended      the child is gone: exit code or signal, step, output; always the last word
                      on a case
controller_ask        say what the child is at
controller_abort      kill the child
controller_restart    become a new process, under the same launcher, and connect again
controller_stop       no more work: end
====================  =========================================================================

Nothing is ever unpickled, and a line has a size limit.
"""

from __future__ import annotations

import collections
import hmac
import json
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, NoReturn

TOKEN_VARIABLE = "LOCKSTEP_TOKEN"
#: Begins the one line of bench/worker/probe.py: some builds print to standard output on import.
PROBE_MARK = "lockstep-probe "
LARGEST_LINE = 64 * 1024 * 1024
#: A stranger has this long to say the token, and this many may be at the door at once.
PATIENCE_S = 5.0
MOST_STRANGERS = 64
_CHUNK = 1 << 16
#: A host that has vanished closes nothing: the other side notices by what it does not answer.
#: (option of TCP, its value; seconds, a number, or milliseconds)
_NOTICE = (
    ("TCP_KEEPIDLE", 10),
    ("TCP_KEEPALIVE", 10),  # its name on a Mac
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 25_000),
)
#: What the controller says is short. A rank that does not take it for so long is not there.
SEND_TIMEOUT_S = 5

Message = dict[str, Any]


class WireError(Exception):
    """The other side broke the protocol or is gone."""


class Connection:
    """One authenticated peer. ``receive`` blocks; nothing polls."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        #: Whether the peer has ever said anything.
        self.heard = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def own_address(self) -> str:
        """That of this end: under which the peer's host can reach this one."""
        return str(self._socket.getsockname()[0])

    def send(self, message: Message) -> None:
        """Raises WireError when the peer is gone. Only finite numbers are sent."""
        self.send_line(json.dumps(message, allow_nan=False).encode() + b"\n")

    def send_line(self, line: bytes) -> None:
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise WireError(f"connection lost: {error}") from None

    def receive(self) -> Message:
        """The next message, blocking. Raises WireError at the end of the stream."""
        while True:
            message = self.buffered()
            if message is not None:
                return message
            self.read_some()

    def read_some(self, limit: int = LARGEST_LINE) -> None:
        """One blocking read into the buffer."""
        try:
            data = self._socket.recv(_CHUNK)
        except OSError as error:
            raise WireError(f"connection lost: {error}") from None
        if not data:
            raise WireError("connection closed")
        self.heard = True
        self._buffer += data
        if len(self._buffer) > limit and b"\n" not in self._buffer:
            raise WireError(f"a line of more than {limit} bytes")

    def buffered(self) -> Message | None:
        """A message that has already arrived whole, or None."""
        end = self._buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            message = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise WireError(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise WireError(f"a message is an object, not {type(message).__name__}")
        return message

    def close(self) -> None:
        self._socket.close()


def address_of(text: str) -> tuple[str, int]:
    """HOST:PORT as typed; an IPv6 host stands in brackets. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r} is no HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def connect(host: str, port: int, token: str, timeout_s: float = 30.0) -> Connection:
    """The rank's side. Raises OSError when the controller cannot be reached."""
    sock = socket.create_connection((host, port), timeout=timeout_s)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _notice_an_end(sock)
    connection = Connection(sock)
    connection.send_line(_hello(token))
    return connection


def _notice_an_end(sock: socket.socket) -> None:
    """Of a peer whose host has vanished, within about 25 s where the platform can."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _NOTICE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _hello(token: str) -> bytes:
    return json.dumps({"token": token}).encode() + b"\n"


class Stranger:
    """Someone who has connected and has not yet said the token."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.socket = sock
        self.deadline = deadline
        self.said = b""

    def fileno(self) -> int:
        return self.socket.fileno()


class Listener:
    """The controller's side: lets in ranks that know the token and drops everyone else.

    Nothing here waits: ``sources`` are what ``ready`` may wait for, and ``admit`` takes what has
    come. A slow or silent stranger therefore holds up nobody.
    """

    def __init__(
        self,
        token: str,
        host: str = "127.0.0.1",
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = PATIENCE_S,
        port: int = 0,
    ) -> None:
        """Port 0 is any free one. Raises OSError where it cannot listen there."""
        self.token = token
        self._hello = _hello(token)
        self._clock = clock
        self._patience_s = patience_s
        family = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)[0][0]
        self._socket = socket.create_server((host, port), family=family)
        self._socket.setblocking(False)
        self._strangers: list[Stranger] = []
        #: Why connections were dropped, and how many for each reason.
        self.dropped: collections.Counter[str] = collections.Counter()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    def fileno(self) -> int:
        return self._socket.fileno()

    def sources(self) -> list[Listener | Stranger]:
        """What to wait for; strangers whose time is up are dropped first."""
        for stranger in list(self._strangers):
            if self._clock() >= stranger.deadline:
                self._drop(stranger, f"no token within {self._patience_s:g} s")
        return [self, *self._strangers]

    def admit(self, source: Listener | Stranger) -> Connection | None:
        """Take what a ready source brings: a peer that has said the token, or None."""
        if isinstance(source, Listener):
            self._meet()
            return None
        wanted = len(self._hello) - len(source.said)
        try:
            # No byte beyond the token is read before it was compared.
            data = source.socket.recv(wanted)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        source.said += data
        if not data:
            self._drop(source, "closed before the token was said")
        elif len(source.said) < len(self._hello) and b"\n" not in data:
            return None
        elif hmac.compare_digest(source.said, self._hello):
            self._strangers.remove(source)
            source.socket.setblocking(True)
            _notice_an_end(source.socket)
            _limit_sending(source.socket)
            return Connection(source.socket)
        else:
            self._drop(source, "wrong token")
        return None

    def _meet(self) -> None:
        try:
            sock, _ = self._socket.accept()
        except OSError:  # gone again, or no file descriptor is free
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self._strangers) >= MOST_STRANGERS:
            self._drop(self._strangers[0], "too many strangers at once")
        self._strangers.append(Stranger(sock, self._clock() + self._patience_s))

    def _drop(self, stranger: Stranger, reason: str) -> None:
        self._strangers.remove(stranger)
        stranger.socket.close()
        self.dropped[reason] += 1

    def close(self) -> None:
        for stranger in self._strangers:
            stranger.socket.close()
        self._strangers.clear()
        self._socket.close()


def _limit_sending(sock: socket.socket) -> None:
    """What the system's buffer no longer takes must not hold up the controller for ever."""
    limit = struct.pack("ll", SEND_TIMEOUT_S, 0)  # a timeval, as wide as the platform's long
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def ready(sources: list[Any], timeout_s: float | None) -> list[Any]:
    """Those of the sources (anything with ``fileno``) that can be read within ``timeout_s``."""
    poller = select.poll()
    by_fileno = {source.fileno(): source for source in sources}
    for fileno in by_fileno:
        poller.register(fileno, select.POLLIN)
    events = poller.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000)
    return [by_fileno[fileno] for fileno, _ in events]
