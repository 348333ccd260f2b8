"""JSON lines over an authenticated socket: the whole protocol between controller and ranks.

A rank connects and sends one line ``{"token": ...}``. The controller compares it in constant time
before it reads anything else, and closes the connection without an answer when it differs. After
that both sides send one JSON object a line; ``type`` names the sender and what it says:

====================  =========================================================================
rank_ready            a rank waits for work: rank, local_rank, host, pid
controller_run        run a case: ``job``
rank_forked           the case's child has started: pid
rank_rendezvous       rank 0's child listens: host and port (or nothing, for a file store)
rank_phase            the child enters a phase
rank_done             the child's record
rank_failed           the child's failure
rank_child_ended      the child is gone: exit code or signal; always the last word on a case
controller_abort      kill the child
controller_stop       no more work: end
====================  =========================================================================

Nothing is ever unpickled, and a line has a size limit.
"""

from __future__ import annotations

import hmac
import json
import select
import socket
import time
from typing import Any

TOKEN_VARIABLE = "LOCKSTEP_TOKEN"
#: Begins the one line of bench/worker/probe.py: some builds print to standard output on import.
PROBE_MARK = "lockstep-probe "
LARGEST_LINE = 64 * 1024 * 1024
LARGEST_HELLO = 4096
_CHUNK = 1 << 16

Message = dict[str, Any]


class WireError(Exception):
    """The other side broke the protocol or is gone."""


class Connection:
    """One authenticated peer. ``receive`` blocks; nothing polls."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

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
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise WireError(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise WireError(f"a message is an object, not {type(message).__name__}")
        return message

    def close(self) -> None:
        self._socket.close()


def connect(host: str, port: int, token: str, timeout_s: float = 30.0) -> Connection:
    """The rank's side. Raises OSError when the controller cannot be reached."""
    sock = socket.create_connection((host, port), timeout=timeout_s)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = Connection(sock)
    connection.send({"token": token})
    return connection


class Listener:
    """The controller's side: accepts ranks that know the token, drops everyone else."""

    def __init__(self, token: str, host: str = "127.0.0.1") -> None:
        self._token = token.encode()
        self._socket = socket.create_server((host, 0))

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self, timeout_s: float = 5.0) -> Connection | None:
        """The next peer, or None where it did not say the token within ``timeout_s``."""
        sock, _ = self._socket.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock)
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                hello = connection.buffered()
                if hello is not None:
                    break
                sock.settimeout(max(0.0, deadline - time.monotonic()))
                connection.read_some(LARGEST_HELLO)
            sock.settimeout(None)
            said = hello.get("token")
            # "replace": a lone surrogate is JSON, but no UTF-8.
            if isinstance(said, str) and hmac.compare_digest(
                said.encode(errors="replace"), self._token
            ):
                return connection
        except WireError:
            pass
        connection.close()
        return None

    def close(self) -> None:
        self._socket.close()


def ready(sources: list[Any], timeout_s: float | None) -> list[Any]:
    """Those of the sources (anything with ``fileno``) that can be read within ``timeout_s``."""
    poller = select.poll()
    by_fileno = {source.fileno(): source for source in sources}
    for fileno in by_fileno:
        poller.register(fileno, select.POLLIN)
    events = poller.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000)
    return [by_fileno[fileno] for fileno, _ in events]
