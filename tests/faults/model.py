"""A small model with one fault in it: what the generated model files of tests.faults import.

The fault happens on one rank, at one place, phase and step. Just before it does, the model writes
a note that says what is true: which rank, in which phase, at which step. It reads these from the
job's own ``Life``, which it finds among the callers, so that a wrong report cannot be taken for a
right one by asking the reporter.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn

FOLDER = "LOCKSTEP_FAULTS_FOLDER"
#: Tells the processes of one sweep from all others of the machine.
MARK = "LOCKSTEP_FAULTS_MARK"
#: Phases in which a failure names its step (see Life.failure).
STEPPING = ("warm-up", "timed", "profiled", "no-communication")
#: Before a rank, and not its child, is hit: what the child said must have been passed on, or
#: nobody could know the phase.
_SETTLE_S = 0.3
_FOR_EVER_S = 600


class SampleError(Exception):
    """An exception type that torch does not know."""


class SilentError(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("this exception has no words")


class FaultyModel:
    """One model file's functions (see models/user.py), with one fault among them."""

    def __init__(
        self,
        number: int,
        kind: str,
        rank: int,
        where: str,
        phase: str,
        step: int | None,
        options: dict[str, Any],
    ) -> None:
        self.number = number
        self.kind = kind
        self.rank = rank
        self.where = where
        self.phase = phase
        self.step = step
        self.options = options
        self._life: Any = None
        self._happened = False
        # A model that brings one has no other phases within a step, and no check of gradients.
        self.step_fn = self._step_in_which_one_is_silent if where == "step_fn" else None

    def __deepcopy__(self, memo: dict[int, Any]) -> FaultyModel:
        return self  # the check of gradients copies the module: there is still one fault

    def build(self) -> nn.Module:
        note(f"{self.number}-rank-{os.environ['RANK']}", os.getpid())
        self._life = _life()
        self._wrap_destroy()
        self.reached("build")
        return _Net(self)

    def batch(self, n: int, rank: int, step: int) -> tuple[tuple[Tensor], Tensor]:
        self.reached("batch")
        return (torch.randn(n, 10),), torch.randint(0, 2, (n,))

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        self.reached("loss")
        return nn.functional.cross_entropy(output, target)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return _Optimizer(self, parameters)

    def _step_in_which_one_is_silent(self, model: Any, args: tuple[Any, ...], target: Any) -> None:
        """Forward and backward; when it is due one rank leaves its part of the all-reduce out."""
        how = self.options["how"] if self.is_due("step_fn") else None
        if how:
            self._note()
        with model.no_sync() if how == "no_sync" else contextlib.nullcontext():
            loss = self.loss(model(*args), target)
            if how != "no backward":
                loss.backward()

    def reached(self, where: str) -> None:
        """A place in the job has been reached: here and now the fault may be due."""
        if not self.is_due(where):
            return
        if self.kind.endswith("of torchrun") and _torchrun() is None:
            # An earlier fault has killed it and the ranks live on: another sweep will do this one.
            note(f"{self.number}-not-now", os.getpid())
            return
        self._note()
        DEEDS[self.kind](self)

    def is_due(self, where: str) -> bool:
        if self._happened or where != self.where or int(os.environ["RANK"]) != self.rank:
            return False
        if self._life is None or self._life.now != self.phase or self._step() != self.step:
            return False
        self._happened = True
        return True

    def _step(self) -> int | None:
        """The step as a failure in this phase names it."""
        if self._life.now not in STEPPING or self._life.loop is None:
            return None
        step = int(self._life.loop.step_index)
        return step if step >= 0 else None  # the one that leads in a window has no number

    def _note(self) -> None:
        note(f"{self.number}-fault", os.getpid(), phase=self._life.now, step=self._step())

    def _wrap_destroy(self) -> None:
        """The end of the process group is the last thing a job does: faults of the teardown."""
        if self.where != "teardown":
            return
        destroy = dist.destroy_process_group

        def destroy_process_group(*args: Any, **keywords: Any) -> None:
            self.reached("teardown")
            destroy(*args, **keywords)

        dist.destroy_process_group = destroy_process_group


class _Net(nn.Module):
    """(n, 10) -> (n, 2), as models/mlp.py has it."""

    def __init__(self, fault: FaultyModel) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 2))
        self._fault = fault

    def named_parameters(self, *args: Any, **keywords: Any) -> Iterator[tuple[str, nn.Parameter]]:
        # What DDP's constructor asks of a module first, before any rank talks to another.
        self._fault.reached("wrap")
        yield from super().named_parameters(*args, **keywords)

    def forward(self, x: Tensor) -> Tensor:
        self._fault.reached("forward")
        output: Tensor = self.layers(x)
        if self._fault.where != "backward":
            return output
        if self._fault.options["hook"]:
            if output.requires_grad:
                output.register_hook(lambda gradient: self._fault.reached("backward"))
            return output
        hooked: Tensor = _Backward.apply(output, self._fault)
        return hooked


class _Backward(torch.autograd.Function):
    """The identity, with a backward pass in Python."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, fault: FaultyModel) -> Tensor:
        ctx.fault = fault
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.fault.reached("backward")
        return gradient, None


class _Optimizer(torch.optim.SGD):
    def __init__(self, fault: FaultyModel, parameters: Iterable[nn.Parameter]) -> None:
        self._fault = fault
        super().__init__(parameters, lr=0.01)

    def step(self, *args: Any, **keywords: Any) -> Any:
        self._fault.reached("optimizer")
        return super().step(*args, **keywords)


def note(name: str, pid: int, **fields: Any) -> None:
    """A file in the folder of notes, on disk before anything else happens."""
    fields |= {
        "pid": pid,
        "create_time": psutil.Process(pid).create_time(),
        "rank": int(os.environ["RANK"]),
        "unix_s": time.time(),
    }
    path = Path(os.environ[FOLDER]) / f"{name}.json"
    partial = path.with_suffix(".partial")
    with open(partial, "w") as file:
        file.write(json.dumps(fields))
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def _life() -> Any:
    """The job's Life, from the frame that runs it."""
    frame: Any = sys._getframe()
    while frame is not None:
        life = frame.f_locals.get("life")
        if type(life).__name__ == "Life":
            return life
        frame = frame.f_back
    raise LookupError("no caller has a Life: tests/faults/model.py no longer fits run_case.py")


def _raise(fault: FaultyModel) -> None:
    types = {"SampleError": SampleError, "KeyError": KeyError, "RuntimeError": RuntimeError}
    raise types.get(fault.options["type"], ValueError)(fault.options["message"])


def _signal(number: signal.Signals, who: str) -> Callable[[FaultyModel], None]:
    def deed(fault: FaultyModel) -> None:
        pid: int | None = os.getpid()
        if who != "child":
            time.sleep(_SETTLE_S)
            pid = _of_this_sweep(os.getppid(), "bench.worker")
        if who == "torchrun":
            pid = _torchrun()
        if pid is None:
            raise LookupError(f"there is no {who} to hit")
        os.kill(pid, number)

    return deed


def _torchrun() -> int | None:
    return _of_this_sweep(psutil.Process(os.getppid()).ppid(), "torch.distributed.run")


def _of_this_sweep(pid: int, word: str) -> int | None:
    """The process, if it is what it is taken for: of an orphan the parent is a stranger, such as
    the init process, which must never be hit."""
    try:
        process = psutil.Process(pid)
        ours = process.environ().get(MARK) == os.environ[MARK] and word in process.cmdline()
    except psutil.Error:
        return None
    return pid if ours else None


def _sleep(fault: FaultyModel) -> None:
    time.sleep(_FOR_EVER_S)


def _print_much(fault: FaultyModel) -> None:
    sys.stdout.write("lockstep\n" * (20_000_000 // 9))
    sys.stdout.flush()
    _raise(fault)


def _print_no_utf8(fault: FaultyModel) -> None:
    for stream in (1, 2):
        os.write(stream, b"\xff\xfe\x00\x1b[31m\xed\xa0\x80\n" * 500)
    os.kill(os.getpid(), signal.SIGKILL)


def _memory_error(fault: FaultyModel) -> None:
    raise MemoryError


def _allocate(fault: FaultyModel) -> None:
    torch.empty(2**60, dtype=torch.uint8)


def _exit(code: int) -> Callable[[FaultyModel], None]:
    return lambda fault: os._exit(code)


def _sys_exit(fault: FaultyModel) -> None:
    sys.exit()


def _segmentation_fault(fault: FaultyModel) -> None:
    ctypes.string_at(0)


def _grandchild(raises: bool, own_session: bool = False) -> Callable[[FaultyModel], None]:
    def deed(fault: FaultyModel) -> None:
        if fault.options["program"]:
            command = ["sleep", str(_FOR_EVER_S)]
            pid = subprocess.Popen(command, start_new_session=own_session, close_fds=False).pid
        else:
            pid = os.fork()
            if pid == 0:
                if own_session:
                    os.setsid()
                time.sleep(_FOR_EVER_S)
                os._exit(0)
        note(f"{fault.number}-grandchild", pid)
        if raises:
            raise ValueError("a process was left behind")

    return deed


def _message(text: str) -> Callable[[FaultyModel], None]:
    def deed(fault: FaultyModel) -> None:
        raise ValueError(text) if text else ValueError

    return deed


def _silent(fault: FaultyModel) -> None:
    raise SilentError


def _nothing(fault: FaultyModel) -> None:
    """What is wrong is left to step_fn."""


DEEDS: dict[str, Callable[[FaultyModel], None]] = {
    **{
        f"exception in {place}": _raise
        for place in ("build", "batch", "wrap", "forward", "loss", "backward", "optimizer")
    },
    "exception in teardown": _raise,
    "SIGKILL of the child": _signal(signal.SIGKILL, "child"),
    "SIGSTOP of the child": _signal(signal.SIGSTOP, "child"),
    "SIGKILL of the rank": _signal(signal.SIGKILL, "rank"),
    "SIGSTOP of the rank": _signal(signal.SIGSTOP, "rank"),
    "SIGKILL of torchrun": _signal(signal.SIGKILL, "torchrun"),
    "SIGSTOP of torchrun": _signal(signal.SIGSTOP, "torchrun"),
    "SIGTERM of torchrun": _signal(signal.SIGTERM, "torchrun"),
    "collective skipped": _nothing,
    "sleeps for ever": _sleep,
    "20 MB printed, exception": _print_much,
    "invalid UTF-8 printed, SIGKILL": _print_no_utf8,
    "MemoryError": _memory_error,
    "allocation failure": _allocate,
    "os._exit(0)": _exit(0),
    "os._exit(3)": _exit(3),
    "sys.exit()": _sys_exit,
    "segmentation fault": _segmentation_fault,
    "grandchild, exception": _grandchild(raises=True),
    "grandchild, ends well": _grandchild(raises=False),
    "grandchild in its own session": _grandchild(raises=True, own_session=True),
    "message of 5 MB": _message("0123456789" * 500_000),
    "no message": _message(""),
    "control characters": _message("\x00\x07\x1b[2J\x1b]0;title\x07\r\x85\u2028 in a message"),
    "lone surrogates": _message("\udcff\ud800 in a message"),
    "__str__ raises": _silent,
}
