"""The life of a job: from process group to teardown, each phase timed and announced.

``run_case`` runs in a child that a rank has forked for this one case. It says what it does
through ``say`` (see the table in bench/wire.py) and returns the child's exit code.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import socket
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from bench import trace
from bench.case import Case
from bench.ranks import outline
from bench.result import STEPPING
from bench.worker import checks, data, strategies
from bench.worker.device import Device, device_for
from bench.worker.loop import Ranks, TrainingLoop, run_window, timed_pass
from bench.worker.witness import Witness
from models import registry
from models.model import Batch, Model

Say = Callable[..., None]

#: Variables by which launchers tell a process its place. The child's place is the job's to say.
_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
#: At most this many collectives a rank are sent for matching across ranks.
_MOST_COLLECTIVES = 2_000
_NO_COMMUNICATION_STEPS = 20


def run_case(job: dict[str, Any], say: Say, forked_s: float, witness: Witness) -> int:
    """Measure one case as one rank of it. ``job`` is what the controller sent."""
    life = Life(say, forked_s, witness.progress)
    try:
        record = _live(job, life)
    except BaseException as error:
        say("rank_failed", failure=life.failure(error, job))
        return 1
    say("rank_done", record=record)
    return 0


class Life:
    """Which phase the job is in, and how long each took."""

    def __init__(self, say: Say, forked_s: float, progress: memoryview) -> None:
        self.say = say
        self.now = "rendezvous"
        self.progress = progress
        self.lifecycle: dict[str, float] = {"fork_s": time.perf_counter() - forked_s}
        self.loop: TrainingLoop | None = None

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
        message = _words(error)
        if self.now in ("rendezvous", "init"):
            message += _settings_of_meeting(job)
        return {
            "rank": job["rank"],
            "host": socket.gethostname(),
            "phase": self.now,
            "step": step if step >= 0 else None,  # the one that leads in a window has no number
            "type": type(error).__name__,
            "message": message,
            # Of a case that makes no sense the message is the whole cause.
            "traceback": "" if isinstance(error, strategies.InvalidCase) else _traceback(error),
            "outcome": "out of memory" if _out_of_memory(error) else "failed",
            "collectives": strategies.collectives_begun(),
        }


_MOST_MESSAGE = 20_000
_MOST_TRACEBACK = 50_000
#: A CPU's allocator and some libraries have no exception of their own for it.
_MEMORY_WORDS = re.compile(
    r"can't allocate memory|bad_alloc|cannot allocate memory|ALLOC_FAILED|out of memory",
    re.IGNORECASE,
)
#: Variables that say by which interface, or whether, the ranks can reach each other.
_MEETING_VARIABLE = re.compile(r"(GLOO|NCCL|TP)_SOCKET_IFNAME|NCCL_(IB_HCA|NET|COMM_ID)")


def _words(error: BaseException) -> str:
    try:
        return str(error)[:_MOST_MESSAGE]
    except Exception as broken:  # the user's own exception: its words are lost, the case is not
        return f"(no words: str() of it raised {type(broken).__name__})"


def _traceback(error: BaseException) -> str:
    if len(_words(error)) < _MOST_MESSAGE:
        return "".join(traceback.format_exception(error))[-_MOST_TRACEBACK:]
    # A message of megabytes would push the stack out.
    stack = "".join(traceback.format_tb(error.__traceback__))[-_MOST_TRACEBACK:]
    return f"{stack}{type(error).__name__}: {_words(error)[:1000]} ..."


def _out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return True
    return isinstance(error, RuntimeError) and bool(_MEMORY_WORDS.search(_words(error)))


def _settings_of_meeting(job: dict[str, Any]) -> str:
    """Where the ranks tried to meet, for a failure's message: what the user may have to change."""
    where = (
        f"file store {_store_file(job)}"
        if job["case"]["init_method"] == "file"
        else f"address {job['host']}:{job['port'] or 'any port'}"
    )
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if _MEETING_VARIABLE.fullmatch(name)
    ]
    return f" ({', '.join([where, *variables])})"


def _live(job: dict[str, Any], life: Life) -> dict[str, Any]:
    case = Case.from_dict(job["case"])
    rank: int = job["rank"]
    torch.set_num_threads(job["threads"])
    _take_place(job)

    # Before the init phase, so that no rank has to try again while rank 0's store comes up: the
    # others start only once it listens. It is the store init_process_group then finds and shares.
    store = None
    if case.processes > 1 or case.strategy in ("ddp", "all_reduce"):
        store = _rendezvous(job, case, life)

    with life.phase("init"):
        device = device_for(case.device, job["local_rank"], case.backend)
        ranks = _join(job, case)

    with life.phase("build"):
        torch.manual_seed(case.seed)
        model = registry.load(case.model)
        module = model.build().train()
        module = device.place(module)
        next_batch, source = _source(job, case, model, device)
        first_args = next_batch()[0]
        lazy = strategies.initialise_lazy(module, first_args)
    with life.phase("wrap"):
        wrapped = strategies.wrap(module, case, device, model.ddp_kw)
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
            communication, profiled = _profiled_pass(
                job, loop, device, ranks, case, trains=bool(trained)
            )
            profiled_step_s = statistics.median(ranks.maximum(profiled))
        expected_bytes = strategies.bytes_of(wrapped.reduced) if wrapped.reduce else gradient_bytes
        checked |= _reduced_bytes(communication.pop("reduced_bytes"), expected_bytes, case)

    bucket_record = strategies.buckets(wrapped.ddp) if wrapped.ddp is not None else None
    if communication["communication"] is not None and bucket_record is not None:
        _name_buckets(communication["communication"]["calls"], bucket_record["rebuilt_bytes"])
    own_times = strategies.own_times(wrapped.ddp) if wrapped.ddp is not None else None
    silent_step_s = silent_mean_step_s = None
    if "no_communication" in passes and wrapped.ddp is not None and case.world_size > 1:
        with life.phase("no-communication"):
            strategies.silence(wrapped.ddp)
            steps = min(_NO_COMMUNICATION_STEPS, len(slowest))
            window = run_window(loop, device, ranks, steps)
            silent_step_s = statistics.median(ranks.maximum(window.step_s))
            # What a step would take if all ranks had the same share of the work.
            silent_mean_step_s = statistics.median(ranks.mean(window.step_s))

    saved = None
    if "checkpoint" in passes:
        with life.phase("checkpoint"):
            saved = _checkpoint(module, job) if rank == 0 else None
            ranks.barrier()

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
        "timed_step_s": own,
        "phases": _phase_record(phases, loop.phases),
        "first_step_s": first_step_s,
        "lifecycle": life.lifecycle,
        **communication,
        "ddp_own_times": own_times,
        "memory": {
            "peak_bytes": peak_bytes,
            "kind": device.memory_kind,
            "parameters_bytes": strategies.bytes_of(module.parameters()),
        },
        "software": strategies.software(case.backend),
        "job": {
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
            "profiled_step_s": profiled_step_s,
            "checks": checked,
            "checkpoint": saved,
        },
    }


def _samples(args: tuple[Any, ...], case: Case) -> int:
    """How many samples the strategy has to divide, as its inputs show it."""
    return args[0].shape[0] if isinstance(args[0], torch.Tensor) else case.global_batch_size


def _take_place(job: dict[str, Any]) -> None:
    """This process's place in the job, as a launcher would have told it; nothing of the rank's
    own launcher is left, or env:// would look for torchrun's store."""
    for name in list(os.environ):
        if name.startswith(("TORCHELASTIC_", "PET_")) or name in (
            *_PLACE,
            "GROUP_RANK",
            "GROUP_WORLD_SIZE",
            "ROLE_RANK",
            "ROLE_NAME",
            "ROLE_WORLD_SIZE",
        ):
            del os.environ[name]
    os.environ["RANK"] = str(job["rank"])
    os.environ["WORLD_SIZE"] = str(job["world_size"])
    os.environ["LOCAL_RANK"] = str(job["local_rank"])


def _rendezvous(job: dict[str, Any], case: Case, life: Life) -> Any:
    """Where the ranks meet. Rank 0 listens on a port the system gives and says which."""
    if case.init_method == "file":
        if job["rank"] == 0:
            # torch would try again for ever to open a file that cannot be.
            _store_file(job).open("ab").close()
            life.say("rank_rendezvous")
        return None
    store = None
    _resolve(job["host"])
    if job["rank"] == 0:
        # Bound here and not by torch, which would listen on every interface and not say which
        # address is taken.
        listening = _listen(job["host"], job["port"] or 0)
        job["port"] = listening.getsockname()[1]
        # multi_tenant: init_process_group, asked for the same port, shares this server.
        store = dist.TCPStore(
            job["host"],
            job["port"],
            None,
            True,
            wait_for_workers=False,
            multi_tenant=True,
            master_listen_fd=listening.detach(),
        )
        life.say("rank_rendezvous", port=store.port)
    os.environ["MASTER_ADDR"] = job["host"]
    os.environ["MASTER_PORT"] = str(job["port"])
    return store


def _store_file(job: dict[str, Any]) -> Path:
    return Path(job["folder"]) / "store"


def _scratch(job: dict[str, Any]) -> tempfile.TemporaryDirectory[str]:
    """A folder of this rank's own, within the case's where this host has it: what a killed child
    leaves there goes with the case."""
    folder = job["folder"]
    return tempfile.TemporaryDirectory(dir=folder if os.path.isdir(folder) else None)


def _resolve(host: str) -> None:
    """torch would try again for half an hour, in silence."""
    try:
        socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise ConnectionError(f"the name {host!r} is not known here: {error.strerror}") from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)[0][0]
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(f"rank 0 cannot listen on {host}:{port}: {error.strerror}") from None


def _join(job: dict[str, Any], case: Case) -> Ranks:
    if case.strategy not in ("ddp", "all_reduce"):
        return Ranks(1, None)
    timeout = timedelta(seconds=job["timeout_s"])
    options: dict[str, Any] = {"backend": case.backend, "timeout": timeout}
    if case.init_method == "env":
        options["init_method"] = "env://"
    else:
        address = f"tcp://{job['host']}:{job.get('port')}"
        options["init_method"] = (
            _store_file(job).as_uri() if case.init_method == "file" else address
        )
        options |= {"rank": job["rank"], "world_size": job["world_size"]}
    dist.init_process_group(**options)
    if dist.get_world_size() != job["world_size"]:
        raise RuntimeError(
            f"the process group has {dist.get_world_size()} ranks, the case {job['world_size']}"
        )
    # What the ranks agree on between windows never goes through the backend that is measured
    # when that is nccl: it would need the GPU.
    group = dist.new_group(backend="gloo") if case.backend != "gloo" else None
    return Ranks(job["world_size"], group)


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


def _profiled_pass(
    job: dict[str, Any],
    loop: TrainingLoop,
    device: Device,
    ranks: Ranks,
    case: Case,
    trains: bool,
) -> tuple[dict[str, Any], list[float]]:
    """The communication figures of this rank, and its step times under the profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.kind == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    steps = job["profiled_steps"]
    clock = device.clock
    ranks.barrier()
    with torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
        record_shapes=True,  # the bytes of gloo's collectives are in their shapes
    ) as profiler:
        loop.step()
        device.synchronize()
        profiler.step()
        clock.start()
        for step in range(steps):
            if step:
                profiler.step()
            loop.step()
        clock.mark()
        clock.finish()
        profiler.step()
    marks = len(loop.phases)
    step_s = [clock.seconds(i * marks, (i + 1) * marks) for i in range(steps)]
    with _scratch(job) as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        figures = trace.analyse(path, rank=job["rank"])
        not_kept = None
        if job["save_trace"] is not None:
            not_kept = _keep(path, Path(job["save_trace"].format(rank=job["rank"])))
    found = _communication(figures, case, trains)
    found["trace_not_kept"] = not_kept
    return found, step_s


def _keep(trace_file: Path, target: Path) -> str | None:
    """Put the trace where the user wants it. Why it could not be, if it could not: that costs no
    measurement, and half a trace is not left behind."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with trace_file.open("rb") as plain, gzip.open(target, "wb", compresslevel=5) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
    except OSError as error:
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
        return f"{target}: {error.strerror or error}"
    return None


def _communication(figures: trace.RankTrace, case: Case, trains: bool) -> dict[str, Any]:
    """What the record keeps; no communication found where there must be some is said in words."""
    record: dict[str, Any] | None = figures.to_json()
    note = None
    if case.processes == 1:
        note = "one process: nothing to communicate" if case.strategy != "ddp" else None
    elif not trains:
        note = "nothing is trained: nothing to communicate"
    elif not figures.to_json()["calls_per_step"]:
        note = (
            "the profiler shows no communication although several ranks train together; "
            "the all-reduce time is unknown, not zero"
        )
        record = None
    return {
        "communication": record,
        "communication_note": note,
        "outline": outline(figures, _MOST_COLLECTIVES) if case.processes > 1 else None,
        "reduced_bytes": figures,
    }


def _name_buckets(calls: list[dict[str, Any]], rebuilt_bytes: list[int] | None) -> None:
    """Which of DDP's buckets a call reduced: by size, and of equal sizes in order."""
    left = list(enumerate(rebuilt_bytes or []))
    for call in calls:
        match = next((each for each in left if each[1] == call["bytes"]), None)
        call["bucket"] = match[0] if match is not None else None
        if match is not None:
            left.remove(match)


def _reduced_bytes(figures: trace.RankTrace, gradient_bytes: int, case: Case) -> dict[str, Any]:
    """Bytes all-reduced per step against the bytes of the gradients."""
    if case.processes == 1:
        return {"reduced_bytes_per_step": None, "reduced_bytes_equal_gradient_bytes": None}
    steps: dict[int, int] = {}
    for collective in figures.collectives:
        if collective.kind != "all_reduce" or collective.step is None:
            continue
        if collective.bytes is None:
            return {"reduced_bytes_per_step": None, "reduced_bytes_equal_gradient_bytes": None}
        if case.find_unused_parameters and str(collective.dtype).lower() in ("int", "int32"):
            continue  # the map of used parameters, not a gradient
        steps[collective.step] = steps.get(collective.step, 0) + collective.bytes
    if not steps:
        return {"reduced_bytes_per_step": None, "reduced_bytes_equal_gradient_bytes": None}
    return {
        "reduced_bytes_per_step": statistics.median_low(steps.values()),
        "reduced_bytes_equal_gradient_bytes": set(steps.values()) == {gradient_bytes},
    }


def _checkpoint(module: nn.Module, job: dict[str, Any]) -> dict[str, Any]:
    """Save the state once, as rank 0 of a job does: seconds and bytes."""
    with _scratch(job) as folder:
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
