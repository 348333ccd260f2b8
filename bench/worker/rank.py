"""A rank: forks one child for every case it is told to run, and watches it.

The rank itself never touches a device, a process group or a thread pool, so that its children can
fork safely and each starts like a fresh process. Between cases it sits in a blocking read. When
the controller is gone, the rank kills its child and ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any

from bench.lifeline import die_with_parent
from bench.wire import Connection, WireError, connect, ready

#: Imported once in the rank, so that no case pays for it. The first DistributedDataParallel of a
#: process imports torch._dynamo, which takes a second or more.
PRELOADED = ("torch", "torch.distributed", "torch._dynamo", "torch.profiler")


def spawned_rank(rank: int, host: str, port: int, token: str) -> None:
    """A rank that torch.multiprocessing has started, in place of torchrun."""
    die_with_parent()
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    be_rank(rank, host, port, token)


def be_rank(rank: int, host: str, port: int, token: str) -> None:
    """Connect, say so, and serve cases until told to stop or left alone."""
    for name in PRELOADED:
        # An older torch may lack one of them: then the cases import what they need themselves.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("bench.worker.run_case")
    gc.collect()
    gc.freeze()  # a collection in a child must not copy the pages it shares with us
    try:
        controller = connect(host, port, token)
        controller.send(
            {
                "type": "rank_ready",
                "rank": rank,
                "local_rank": int(os.environ.get("LOCAL_RANK", rank)),
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
    read_end, write_end = os.pipe()
    forked_s = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _be_child(controller, job, write_end, forked_s)
    os.close(write_end)
    pipe = _Pipe(read_end)
    try:
        controller.send({"type": "rank_forked", "pid": child})
        talking = True
        while talking:
            for source in ready([pipe, controller], None):
                if source is pipe:
                    talking = pipe.pass_on(controller)
                elif _told_to_abort(controller):
                    os.kill(child, signal.SIGKILL)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(read_end)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    controller.send(
        {
            "type": "rank_child_ended",
            "exit_code": code if code >= 0 else None,
            "signal": signal.Signals(-code).name if code < 0 else None,
        }
    )


def _told_to_abort(controller: Connection) -> bool:
    controller.read_some()
    aborted = False
    while (message := controller.buffered()) is not None:
        aborted = aborted or message["type"] in ("controller_abort", "controller_stop")
    return aborted


class _Pipe:
    """What the child says: whole JSON lines, passed on as they are."""

    def __init__(self, read_end: int) -> None:
        self._read_end = read_end
        self._partial = b""

    def fileno(self) -> int:
        return self._read_end

    def pass_on(self, controller: Connection) -> bool:
        """False at the end of the stream. A torn last line is dropped."""
        data = os.read(self._read_end, 1 << 20)
        if not data:
            return False
        lines, newline, rest = (self._partial + data).rpartition(b"\n")
        self._partial = rest
        if newline:
            controller.send_line(lines + newline)
        return True


def _be_child(controller: Connection, job: dict[str, Any], write_end: int, forked_s: float) -> None:
    """The child: run the case, say how it went, and leave without any clean-up of the rank's."""
    code = 1
    try:
        die_with_parent()
        controller.close()
        with open(write_end, "w", buffering=1) as pipe:

            def say(type: str, **fields: Any) -> None:
                pipe.write(json.dumps({"type": type, **fields}, allow_nan=False) + "\n")

            from bench.worker.run_case import run_case

            code = run_case(job, say, forked_s)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
