"""Many ranks in one process: they speak the protocol over real sockets and know no torch.

Eight of them share a host whose clock is its own. Their records have the shape and the size of a
real case's; what they say they measured is drawn at random, seeded: every rank has a speed of its
own, the slowest takes 1.3 times as long to compute as the usual one, and all wait for it.

``python -m tests.simulated_ranks`` takes the place of an interpreter that starts ranks: see
``write_interpreter``. Whatever else it is asked, the interpreter that runs it answers.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.outline import most_collectives, outline
from bench.payload import bounded
from bench.rank_trace import Collective, Phase, RankTrace, Step, StepWork
from bench.result import PHASES
from bench.wire import TOKEN_VARIABLE, Connection, WireError, connect

RANKS_PER_HOST = 8
HANG_VARIABLE = "LOCKSTEP_SIMULATED_HANG"
_STEPS, _PROFILED_STEPS, _BUCKETS = 40, 5, 60
_FORWARD_S, _BACKWARD_S, _OPTIMIZER_S = 0.020, 0.040, 0.003
_BUCKET_BYTES = 4 * 1024 * 1024
_TRANSFER_S = 0.0004


def write_interpreter(path: Path) -> str:
    """A program to give as ``--torch PATH``: its ranks are simulated."""
    words = [sys.executable, "-m", "tests.simulated_ranks"]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return str(path)


@dataclass(frozen=True)
class Simulated:
    """Stands in for torchrun, in a process of its own: ``Group(Simulated.start, …)``."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, world_size: int, address: tuple[str, int], token: str) -> Simulated:
        """Returns when the ranks have prepared all they will say and begin to connect."""
        host, port = address
        words = [f"--nproc-per-node={world_size}", "--controller", f"{host}:{port}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.simulated_ranks", *words],
            env=os.environ | {TOKEN_VARIABLE: token},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        return cls(process)

    def problem(self) -> str | None:
        code = self.process.poll()
        return None if code is None else f"the simulated ranks ended with exit status {code}"

    def watch(self, pid: int) -> None:
        """Nobody's pid: their hosts are simulated too."""

    def state_of(self, pid: int) -> str | None:
        return None

    def output_tail(self) -> str:
        return "simulated ranks print nothing"

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


def host_of(rank: int) -> str:
    return f"node-{rank // RANKS_PER_HOST:03}"


def slowest_of(world_size: int) -> int:
    """The rank that the others wait for."""
    return world_size * 2 // 3


def record(rank: int, world_size: int) -> dict[str, Any]:
    """What a rank says it measured, as bench/worker/run_case.py says it."""
    drawn = random.Random(rank)
    slow = 1.3 if rank == slowest_of(world_size) else drawn.uniform(0.97, 1.03)
    profiled = trace(rank, world_size, slow)
    step_s = (profiled.steps[0].step_ns or 0) / 1e9
    phases = {
        "data": 3e-6,
        "forward": _FORWARD_S * slow,
        "backward": step_s - (_FORWARD_S + _OPTIMIZER_S) * slow,
        "optimizer": _OPTIMIZER_S * slow,
    }
    figures = profiled.to_json()
    for place, call in enumerate(figures["calls"]):
        call["bucket"] = place
    return {
        "rank": rank,
        "host": host_of(rank),
        "pid": 10_000 + rank,
        "device": "cpu",
        "device_name": None,
        "threads": 1,
        "timed_step_s": [step_s * longer for longer in _common_noise()],
        "phases": {name: {"median_s": s, "mean_s": s * 1.001} for name, s in phases.items()},
        "first_step_s": step_s * 4,
        "lifecycle": {f"{name.replace('-', '_')}_s": drawn.uniform(0.01, 2) for name in PHASES[1:]},
        "communication": figures,
        "communication_note": None,
        "outline": outline(profiled, most_collectives(world_size)),
        "trace_not_kept": None,
        "ddp_own_times": {
            "forward_s": _FORWARD_S * slow,
            "backward_s": _BACKWARD_S * slow,
            "all_reduce_s": figures["all_reduce_s"],
            "overlap_s": figures["all_reduce_s"] - figures["exposed_s"],
        },
        "memory": {
            "peak_bytes": 1_000_000_000 + rank,
            "kind": "rss",
            "parameters_bytes": _BUCKETS * _BUCKET_BYTES,
        },
        "software": {
            "torch": "2.14.1+simulated",
            "cuda": None,
            "hip": None,
            "nccl": None,
            "cudnn": None,
            "python": "3.11.7",
            "blas": "mkl",
            "backend": "gloo",
        },
        "job": _job(step_s),
    }


def _common_noise() -> list[float]:
    """Step by step the same for all ranks, which end every step together."""
    drawn = random.Random(0)
    return [drawn.uniform(0.99, 1.01) for _ in range(_STEPS)]


def _job(step_s: float) -> dict[str, Any]:
    return {
        "slowest_step_s": [step_s * longer for longer in _common_noise()],
        "parameters": _BUCKETS * _BUCKET_BYTES // 4,
        "gradient_bytes": _BUCKETS * _BUCKET_BYTES,
        "replicas_used": None,
        "label": None,
        "data_source": "simulated",
        "lazy_layers": False,
        "buckets": {
            "initial_bytes": [_BUCKETS * _BUCKET_BYTES],
            "rebuilt_bytes": [_BUCKET_BYTES] * _BUCKETS,
            "rebuilt_parameters": [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(_BUCKETS)],
        },
        "no_communication_step_s": (_FORWARD_S + _BACKWARD_S + _OPTIMIZER_S) * 1.3,
        "no_communication_mean_step_s": _FORWARD_S + _BACKWARD_S + _OPTIMIZER_S,
        "profiled_step_s": step_s * 1.04,
        "checks": {"notes": [], "parameters_equal": True},
        "checkpoint": None,
    }


def trace(rank: int, world_size: int, slow: float) -> RankTrace:
    """The profiled steps of a rank.

    A bucket is ready when its share of backward is done. It ends on all ranks when the slowest has
    joined and it was transferred, one bucket after another.
    """
    drawn = random.Random(rank)
    clock_ns = 1_790_000_000_000_000_000 + 7_000_000 * (rank // RANKS_PER_HOST)
    steps, collectives, phases = [], [], []
    at_s = 0.0
    for number in range(_PROFILED_STEPS):
        ends_s, longest_s = [], 1.3 * _FORWARD_S
        for place in range(1, _BUCKETS + 1):
            joined_s = 1.3 * (_FORWARD_S + _BACKWARD_S * place / _BUCKETS)
            longest_s = max(joined_s, longest_s) + _TRANSFER_S
            ends_s.append(longest_s)
        step_s = longest_s + 1.3 * _OPTIMIZER_S

        def ns(seconds: float, begun_s: float = at_s) -> int:
            return clock_ns + round((begun_s + seconds) * 1e9)

        for place, end_s in enumerate(ends_s, 1):
            start_s = slow * (_FORWARD_S + _BACKWARD_S * place / _BUCKETS)
            end_ns = ns(end_s + drawn.uniform(0, 2e-6))
            collectives.append(
                Collective(
                    *("all_reduce", ns(start_s), end_ns, number, _BUCKET_BYTES),
                    *("float32", None, None),
                )
            )
        forward_ends_s = slow * _FORWARD_S
        phases += [
            Phase("forward", number, ns(0), ns(forward_ends_s)),
            Phase("backward", number, ns(forward_ends_s), ns(ends_s[-1])),
            Phase("optimizer", number, ns(ends_s[-1]), ns(step_s)),
        ]
        steps.append(Step(ns(0), ns(step_s), number, round(step_s * 1e9), ns(0)))
        at_s += step_s
    made = RankTrace(
        source=f"rank {rank}",
        rank=rank,
        world_size=world_size,
        backend="gloo",
        base_ns=clock_ns,
        device="cpu",
        steps=tuple(steps),
        dropped_steps=0,
        collectives=tuple(collectives),
        work=(),
        notes=(),
        phases=tuple(phases),
    )
    return _with_work(made, slow)


def _with_work(trace: RankTrace, slow: float) -> RankTrace:
    work = []
    for step in trace.steps:
        end_ns = step.start_ns + round((_FORWARD_S + _BACKWARD_S) * slow * 1e9)
        work.append(StepWork(step.number, 100, ((step.start_ns, end_ns),), ()))
    return replace(trace, work=tuple(work))


class Ranks:
    """The ranks' ends of all connections, served in one thread."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        #: This rank never begins the timed pass.
        self._hangs = int(os.environ.get(HANG_VARIABLE, -1))
        self._connections: list[Connection] = []
        self._told: dict[int, dict[str, Any]] = {}
        self._done: dict[int, list[bytes]] = {}
        self._prepared(world_size)

    def _prepared(self, world_size: int) -> list[bytes]:
        """The last words of every rank of a case, the records in them."""
        if world_size not in self._done:
            self._done[world_size] = [
                _line("rank_done", record=bounded(record(rank, world_size), world_size))
                + _line("rank_child_ended", exit_code=0, signal=None, step=None, output="")
                for rank in range(world_size)
            ]
        return self._done[world_size]

    def serve(self, host: str, port: int, token: str) -> None:
        """Until told to stop, or left alone."""
        for rank in range(self._world_size):
            connection = connect(host, port, token)
            self._connections.append(connection)
            hello = {
                "rank": rank,
                "local_rank": rank % RANKS_PER_HOST,
                "world_size": self._world_size,
                "host": host_of(rank),
                "pid": 10_000 + rank,
                "address": f"10.0.{rank // RANKS_PER_HOST // 256}.{rank // RANKS_PER_HOST % 256}",
            }
            connection.send_line(_line("rank_ready", **hello))
        with selectors.DefaultSelector() as waiting:
            for rank, connection in enumerate(self._connections):
                waiting.register(connection, selectors.EVENT_READ, rank)
            while True:
                for key, _ in waiting.select():
                    for message in _heard(self._connections[key.data]):
                        if message["type"] == "controller_stop":
                            return
                        self._obey(key.data, message)

    def _obey(self, rank: int, message: dict[str, Any]) -> None:
        say = self._connections[rank].send_line
        if message["type"] == "controller_run":
            self._told[rank] = message["job"]
            say(_line("rank_forked", pid=20_000 + rank))
            if rank == 0:
                say(_line("rank_rendezvous", host=None, port=4242))
            if len(self._told) == message["job"]["world_size"]:
                self._run(sorted(self._told))
                self._told.clear()
        elif message["type"] == "controller_ask":
            begun = 6 if rank == self._hangs else 7
            stuck = {"state": None, "stacks": _stacks(rank), "step": 3, "collectives": begun}
            say(_line("rank_stuck", **stuck))
        elif message["type"] == "controller_abort":
            say(_line("rank_child_ended", exit_code=None, signal="SIGKILL", step=3, output=""))

    def _run(self, ranks: list[int]) -> None:
        """As in a real job all are in a phase before the first is in the next. Each message goes
        on its own, as it would from processes."""
        for phase in PHASES[2:]:
            for rank in ranks:
                if not (rank == self._hangs and phase == "timed"):
                    self._connections[rank].send_line(_line("rank_phase", phase=phase))
            if self._hangs >= 0 and phase == "timed":
                return
        for rank, words in zip(ranks, self._prepared(len(ranks)), strict=True):
            self._connections[rank].send_line(words)


def _line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}).encode() + b"\n"


def _heard(connection: Connection) -> Iterator[dict[str, Any]]:
    connection.read_some()
    while (message := connection.buffered()) is not None:
        yield message


def _stacks(rank: int) -> str:
    frames = "".join(f'  File "/torch/nn/layer_{n}.py", line {n} in call\n' for n in range(40))
    return f"Thread 0x{0x7F0000000000 + 4096 * rank:016x} (most recent call first):\n{frames}"


def main(words: list[str]) -> None:
    joined = " ".join(words).replace("=", " ").split()
    count = next(
        (joined[joined.index(one) + 1] for one in ("--nproc-per-node", "--spawn") if one in joined),
        None,
    )
    if count is None or "--controller" not in joined:
        os.execv(sys.executable, [sys.executable, *words])
    host, _, port = joined[joined.index("--controller") + 1].rpartition(":")
    ranks = Ranks(int(count))
    print("ready", flush=True)
    try:
        ranks.serve(host, int(port), os.environ[TOKEN_VARIABLE])
    except WireError as error:
        print(f"simulated ranks: {error}; ending", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
