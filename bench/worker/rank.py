"""A rank: forks one child for every case it is told to run, and watches it.

The rank itself never touches a device, a process group or a thread pool, so that its children can
fork safely and each starts like a fresh process. Between cases it sits in a blocking read. When
the controller is gone, the rank kills its child and ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys
from typing import Any

from bench.lifeline import adopt_orphans, die_with_parent
from bench.wire import Connection, WireError, connect, ready
from bench.worker.nursery import Child

#: Imported once in the rank, so that no case pays for it. The first DistributedDataParallel of a
#: process imports torch._dynamo, which takes a second or more.
PRELOADED = ("torch", "torch.distributed", "torch._dynamo", "torch.profiler")


def spawned_rank(rank: int, world_size: int, host: str, port: int, token: str) -> None:
    """A rank that torch.multiprocessing has started, in place of torchrun."""
    die_with_parent()
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    os.environ["WORLD_SIZE"] = str(world_size)
    be_rank(rank, host, port, token)


def be_rank(rank: int, host: str, port: int, token: str) -> None:
    """Connect, say so, and serve cases until told to stop or left alone."""
    for name in PRELOADED:
        # An older torch may lack one of them: then the cases import what they need themselves.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("bench.worker.run_case")
    adopt_orphans()
    gc.collect()
    gc.freeze()  # a collection in a child must not copy the pages it shares with us
    try:
        controller = connect(host, port, token)
        controller.send(
            {
                "type": "rank_ready",
                "rank": rank,
                "local_rank": int(os.environ.get("LOCAL_RANK", rank)),
                "world_size": int(os.environ.get("WORLD_SIZE", 1)),
                "host": socket.gethostname(),
                "pid": os.getpid(),
            }
        )
        while True:
            message = controller.receive()
            if message["type"] == "controller_run":
                _nurse(controller, message["job"])
            elif message["type"] == "controller_stop":
                return
    except (WireError, OSError) as error:
        print(f"rank {rank}: {error}; ending", file=sys.stderr)


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
        elif message["type"] in ("controller_abort", "controller_stop"):
            child.kill()
