"""A rank: forks one child for every case it is told to run, and watches it.

The rank itself never touches a device, a process group or a thread pool, so that its children can
fork safely and each starts like a fresh process. Between cases it sits in a blocking read. When
the controller is gone, the rank kills its child and ends, or becomes a new process that looks for
it (``--stay``).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from bench.lifeline import adopt_orphans, die_with_parent
from bench.probing import ProbeError, run_probe
from bench.wire import Connection, WireError, connect, ready
from bench.worker.nursery import Child

#: Imported once in the rank, so that no case pays for it. The first DistributedDataParallel of a
#: process imports torch._dynamo, which takes a second or more.
PRELOADED = ("torch", "torch.distributed", "torch._dynamo", "torch.profiler")
_ENDS = ("controller_stop", "controller_restart")
#: Between two attempts to reach a controller that is not there.
_PAUSE_S = 1.0


class Told(Exception):
    """The controller has told this rank to end, or to become a new process."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def spawned_rank(rank: int, world_size: int, host: str, port: int, token: str) -> None:
    """A rank that torch.multiprocessing has started, in place of torchrun."""
    die_with_parent()
    be_rank((rank, rank, world_size), host, port, token)


def be_rank(
    place: tuple[int, int, int],
    host: str,
    port: int,
    token: str,
    stay_s: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Connect, say so, and serve cases until told to stop or left alone.

    ``place``: rank, local rank and world size. A controller that is not there is looked for during
    ``stay_s``; one that is lost too, by a new process: this one may have run cases.
    """
    for name in PRELOADED:
        # An older torch may lack one of them: then the cases import what they need themselves.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("bench.worker.run_case")
    adopt_orphans()
    gc.collect()
    gc.freeze()  # a collection in a child must not copy the pages it shares with us
    deadline = clock() + stay_s
    while True:
        controller = None
        try:
            controller = connect(host, port, token)
            controller.send(_introduction(place, controller))
            _serve(controller)
        except Told as told:
            if told.what == "controller_stop":
                return
            become_new()
        except (WireError, OSError) as error:
            heard = controller is not None and controller.heard
            if stay_s and heard:
                become_new()
            if clock() >= deadline:
                doubt = (
                    "" if controller is None or heard else " without a word: is the token its own?"
                )
                print(f"rank {place[0]}: {error}{doubt}; ending", file=sys.stderr)
                return
        time.sleep(_PAUSE_S)


def become_new() -> NoReturn:
    """The same program with the same arguments, in the same place of the same launcher, as a
    process that has run nothing. Connections are closed by it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _introduction(place: tuple[int, int, int], controller: Connection) -> dict[str, Any]:
    rank, local_rank, world_size = place
    return {
        "type": "rank_ready",
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world_size,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "address": controller.own_address,
    }


def _serve(controller: Connection) -> NoReturn:
    """Raises Told when it is over, WireError when the controller is gone."""
    while True:
        message = controller.receive()
        if message["type"] == "controller_run":
            _nurse(controller, message["job"])
        elif message["type"] == "controller_probe":
            controller.send({"type": "rank_probed", **_probed(message["models"])})
        elif message["type"] in _ENDS:
            raise Told(message["type"])


def _probed(models: list[str]) -> dict[str, Any]:
    """What this interpreter has, from a process of its own: the rank must not touch a device."""
    try:
        return {"about": run_probe(sys.executable, models, os.environ), "problem": None}
    except ProbeError as error:
        return {"about": None, "problem": str(error)}


def _nurse(controller: Connection, job: dict[str, Any]) -> None:
    """Fork the case's child and pass on what it says until it is gone."""
    child = Child(controller, job)
    try:
        controller.send({"type": "rank_forked", "pid": child.pid})
        while child.talking:
            for source in ready([*child.sources(), controller], None):
                if source is child.words:
                    child.words.take(controller)
                elif source is child.output:
                    child.output.take()
                elif source is child.exit:
                    child.exit.pending = False
                else:
                    _obey(controller, child)
        controller.send({"type": "rank_child_ended", **child.bury(controller)})
    except BaseException:
        child.kill()
        with contextlib.suppress(ChildProcessError):  # buried already
            os.waitpid(child.pid, 0)
        raise
    finally:
        child.close()


def _obey(controller: Connection, child: Child) -> None:
    controller.read_some()
    while (message := controller.buffered()) is not None:
        if message["type"] == "controller_ask":
            controller.send({"type": "rank_stuck", **child.witness.ask(child.pid)})
        elif message["type"] == "controller_abort":
            child.kill()
        elif message["type"] in _ENDS:
            raise Told(message["type"])
