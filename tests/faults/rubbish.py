"""A client that knows no token, and does not give up."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections import deque

import psutil

_PAUSE_S = 0.02
_LOOK_EVERY_S = 0.2
_MOST_HELD = 50


class Rubbish:
    """Connects to every listening port of a process, again and again, until it is left."""

    def __init__(self, pid: int, seed: int) -> None:
        self.connections = 0
        self._pid = pid
        self._random = random.Random(seed)
        self._held: deque[socket.socket] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Rubbish:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for sock in self._held:
            sock.close()

    def _run(self) -> None:
        looked_s, addresses = 0.0, []
        while not self._stop.wait(_PAUSE_S):
            if time.monotonic() - looked_s > _LOOK_EVERY_S:
                looked_s, addresses = time.monotonic(), listening(self._pid)
            for address in addresses:
                with contextlib.suppress(OSError):
                    self._visit(address)

    def _visit(self, address: tuple[str, int]) -> None:
        sock = socket.create_connection(address, timeout=0.5)
        self.connections += 1
        if not self._talk(sock):
            sock.close()
            return
        self._held.append(sock)
        if len(self._held) > _MOST_HELD:
            self._held.popleft().close()

    def _talk(self, sock: socket.socket) -> bool:
        """One of many ways to be a nuisance; whether to stay connected."""
        random_ = self._random
        way = random_.randrange(7)
        with contextlib.suppress(OSError):
            if way == 0:
                sock.sendall(random_.randbytes(random_.randrange(1, 5000)))
            elif way == 1:
                sock.sendall(b'{"token": "0123')
                return True
            elif way == 2:
                return True  # says nothing at all
            elif way == 3:
                sock.sendall(b"x" * 10_000_000)
            elif way == 4:
                sock.sendall(b'{"token": "' + random_.randbytes(32).hex().encode() + b'"}\n')
            elif way == 5:
                sock.sendall(b"[1, 2]\nnull\n{}\n")
            else:  # a reset in place of an end
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


def listening(pid: int) -> list[tuple[str, int]]:
    """The addresses at which a process waits for others."""
    try:
        process = psutil.Process(pid)
        # psutil before 6 has it under its old name.
        find = getattr(process, "net_connections", None) or process.connections
        return [
            (each.laddr.ip, each.laddr.port)
            for each in find(kind="tcp")
            if each.status == psutil.CONN_LISTEN
        ]
    except psutil.Error:
        return []
