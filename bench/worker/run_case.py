"""The life of a job: from process group to teardown, each phase timed and announced.

``run_case`` runs in a child that a rank has forked for this one case. It says what it does
through ``say`` (see the table in bench/wire.py) and returns the child's exit code.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from bench.case import Case
from bench.payload import bounded
from bench.result import STEPPING
from bench.worker import checks, collectives, data, meeting, mishap, strategies
from bench.worker.case_folder import scratch
from bench.worker.device import Device, device_for
from bench.worker.gradient_ready import gradient_ready, steps_of_window
from bench.worker.loop import Loop, Ranks, TrainingLoop, run_window, timed_pass
from bench.worker.profiled import name_buckets, profiled_pass, reduced_bytes
from bench.worker.witness import Witness
from models import registry
from models.model import Batch, Model

Say = Callable[..., None]

_NO_COMMUNICATION_STEPS = 20


def run_case(job: dict[str, Any], say: Say, forked_s: float, witness: Witness) -> int:
    """Measure one case as one rank of it. ``job`` is what the controller sent."""
    life = Life(say, forked_s, witness.progress)
    try:
        record = _live(job, life)
    except BaseException as error:
        say("rank_failed", failure=life.failure(error, job))
        return 1
    say("rank_done", record=bounded(record, job["world_size"]))
    return 0


class Life:
    """Which phase the job is in, and how long each took."""

    def __init__(self, say: Say, forked_s: float, progress: memoryview) -> None:
        self.say = say
        self.now = "rendezvous"
        self.progress = progress
        self.lifecycle: dict[str, float] = {"fork_s": time.perf_counter() - forked_s}
        self.loop: Loop | None = None

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.now = name
        if self.loop is not None:
            self.loop.step_index = 0
        self.say("rank_phase", phase=name)
        started = time.perf_counter()
        yield
        self.lifecycle[f"{name.replace('-', '_')}_s"] = time.perf_counter() - started

    def failure(self, error: BaseException, job: dict[str, Any]) -> dict[str, Any]:
        step = self.loop.step_index if self.loop is not None and self.now in STEPPING else -1
        message = mishap.words(error)
        # Of a case that makes no sense the message is the whole cause.
        invalid = isinstance(error, strategies.InvalidCase)
        traceback = "" if invalid else mishap.traceback_of(error)
        if self.now in ("rendezvous", "init"):
            message += meeting.settings_of_meeting(job)
        return {
            "rank": job["rank"],
            "host": socket.gethostname(),
            "phase": self.now,
            "step": step if step >= 0 else None,  # the one that leads in a window has no number
            "type": type(error).__name__,
            "message": message,
            "traceback": traceback,
            "outcome": "out of memory" if mishap.is_out_of_memory(error) else "failed",
            "collectives": strategies.collectives_begun(),
        }


def _live(job: dict[str, Any], life: Life) -> dict[str, Any]:
    case = Case.from_dict(job["case"])
    rank: int = job["rank"]
    torch.set_num_threads(job["threads"])
    meeting.take_place(job)

    # Before the init phase, so that no rank has to try again while rank 0's store comes up: the
    # others start only once it listens. It is the store init_process_group then finds and shares.
    store = None
    if case.in_group:
        store = meeting.rendezvous(job, case, life.say)

    with life.phase("init"):
        device = device_for(case.device, job["local_rank"], case.backend)
        ranks = meeting.join(job, case)

    if case.trains:
        record = _train(job, case, life, device, ranks)
    else:
        record = collectives.measure(job, case, life, device, ranks)

    with life.phase("teardown"):
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()
        del store

    return {
        "rank": rank,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": device.name,
        "device_name": device.describe(),
        "threads": torch.get_num_threads(),
        "lifecycle": life.lifecycle,
        **record,
    }


def _train(
    job: dict[str, Any], case: Case, life: Life, device: Device, ranks: Ranks
) -> dict[str, Any]:
    """The phases of a training job's life between init and teardown, and what they gave."""
    rank: int = job["rank"]
    with life.phase("build"):
        torch.manual_seed(case.seed)
        model = registry.load(case.model)
        module = model.build().train()
        module = device.place(module)
        next_batch, source = _source(job, case, model, device)
        first_args = next_batch()[0]
        lazy = strategies.initialise_lazy(module, first_args)
    with life.phase("wrap"):
        wrapped = strategies.wrap(module, case, device, model.ddp_kw, model.comm_hook)
        trained = strategies.trainable(module)
        optimizer = model.optimizer(trained) if trained else None
        loop = TrainingLoop(
            model, wrapped, optimizer, next_batch, device, case.precision, life.progress
        )
        life.loop = loop
        gradient_bytes = strategies.bytes_of(trained)
        device.synchronize()

    with life.phase("warm-up"):
        ranks.barrier()
        started = time.perf_counter()
        loop.step()
        device.synchronize()
        first_step_s = time.perf_counter() - started
        device.start_memory()
        for _ in range(job["warm_up_steps"] - 1):
            loop.step()
        device.synchronize()

    with life.phase("timed"):
        own, phases, slowest = timed_pass(
            loop,
            device,
            ranks,
            min_steps=job["min_steps"],
            precision=job["precision"],
            max_seconds=job["max_seconds"],
        )
        peak_bytes = device.peak_memory_bytes()

    passes = job["passes"]
    checked: dict[str, Any] = {"notes": []}
    if "check" in passes:
        with life.phase("check"):
            checked["parameters_equal"] = checks.parameters_equal(module, ranks)
            checked |= checks.check_gradients(model, wrapped, loop, case, rank, device, ranks)

    communication: dict[str, Any] = {"communication": None, "communication_note": "not profiled"}
    profiled_step_s = None
    if "profiled" in passes:
        with life.phase("profiled"):
            communication, profiled = profiled_pass(
                job, loop, device, ranks, case, trains=bool(trained)
            )
            profiled_step_s = statistics.median(ranks.maximum(profiled))
        expected_bytes = strategies.bytes_of(wrapped.reduced) if wrapped.reduce else gradient_bytes
        checked |= reduced_bytes(communication.pop("reduced_bytes"), expected_bytes, case)

    bucket_record = strategies.buckets(wrapped.ddp) if wrapped.ddp is not None else None
    if communication["communication"] is not None and bucket_record is not None:
        name_buckets(communication["communication"]["calls"], bucket_record["rebuilt_bytes"])
    own_times = strategies.own_times(wrapped.ddp) if wrapped.ddp is not None else None
    silent_step_s = silent_mean_step_s = own_silent = ready = None
    if "no_communication" in passes and wrapped.ddp is not None:
        with life.phase("no-communication"):
            strategies.silence(wrapped)
            steps = min(_NO_COMMUNICATION_STEPS, len(slowest))
            own_silent = run_window(loop, device, ranks, steps).step_s
            typical_s = statistics.median(ranks.maximum(own_silent))
            if case.world_size > 1:
                silent_step_s = typical_s
                # What a step would take if all ranks had the same share of the work.
                silent_mean_step_s = statistics.median(ranks.mean(own_silent))
            ready = gradient_ready(
                loop, device, ranks, trained, steps=steps_of_window(typical_s), first_step=steps
            )

    saved = None
    if "checkpoint" in passes:
        with life.phase("checkpoint"):
            saved = _checkpoint(module, job) if rank == 0 else None
            ranks.barrier()

    return {
        "timed_step_s": own,
        "silent_step_s": own_silent,
        "phases": _phase_record(phases, loop.phases),
        "first_step_s": first_step_s,
        **communication,
        "ddp_own_times": own_times,
        "memory": {
            "peak_bytes": peak_bytes,
            "kind": device.memory_kind,
            "parameters_bytes": strategies.bytes_of(module.parameters()),
        },
        "software": strategies.software(case.backend),
        "job": {
            "slowest_step_s": slowest,
            "reached_precision": None,  # the controller's to say, from the gathered steps
            "parameters": sum(parameter.numel() for parameter in module.parameters()),
            "gradient_bytes": gradient_bytes,
            "replicas_used": wrapped.replicas_used(_samples(first_args, case))
            if wrapped.replicas > 1
            else None,
            "label": wrapped.label if trained else "nothing to train: forward pass only",
            "data_source": source,
            "lazy_layers": lazy,
            "buckets": bucket_record,
            "no_communication_step_s": silent_step_s,
            "no_communication_mean_step_s": silent_mean_step_s,
            "gradient_ready": ready,
            "profiled_step_s": profiled_step_s,
            "checks": checked,
            "checkpoint": saved,
        },
    }


def _samples(args: tuple[Any, ...], case: Case) -> int:
    """How many samples the strategy has to divide, as its inputs show it."""
    return args[0].shape[0] if isinstance(args[0], torch.Tensor) else case.global_batch_size


def _source(
    job: dict[str, Any], case: Case, model: Model, device: Device
) -> tuple[Callable[[], Batch], str]:
    """(the next batch, on the device; in words, where the samples come from)."""
    batch_size = case.batch_size if case.processes > 1 else case.global_batch_size
    if case.data == "synthetic":
        made_once = data.synthetic(model, batch_size, job["rank"], device.name, seed=case.seed)
        return (lambda: made_once), "synthetic: one batch, made once, on the device"
    source = data.loader(
        model,
        batch_size,
        job["rank"],
        case.processes,
        seed=case.seed,
        data_root=job["data_root"],
        download=job["download"],
    )
    return (lambda: device.place(source.next())), source.source


def _checkpoint(module: nn.Module, job: dict[str, Any]) -> dict[str, Any]:
    """Save the state once, as rank 0 of a job does: seconds and bytes."""
    with scratch(job) as folder:
        path = Path(folder) / "state.pt"
        started = time.perf_counter()
        torch.save(module.state_dict(), path)
        return {"seconds": time.perf_counter() - started, "bytes": path.stat().st_size}


def _phase_record(
    phases: dict[str, list[float]], names: tuple[str, ...]
) -> dict[str, dict[str, float] | None]:
    record: dict[str, dict[str, float] | None] = {
        name: {
            "median_s": statistics.median(phases[name]),
            "mean_s": statistics.fmean(phases[name]),
        }
        for name in names
    }
    if "step_fn" in names:  # forward and backward are in it and cannot be told apart
        record |= {"forward": None, "backward": None}
    return record
