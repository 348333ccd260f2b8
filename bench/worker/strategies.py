"""The ways to train in parallel, and everything that differs between versions of torch.

What a torch has is found by looking for the feature, never by comparing version strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from bench.case import DDP_FIELDS, DEFAULT, FIELD_NAMES, Case
from bench.worker.device import Device
from models.model import CommHook

NOT_PARALLEL = "not parallel: plain module"


class InvalidCase(ValueError):
    """A strategy that makes no sense for a model, on any machine. Its message is the whole cause:
    no traceback is kept with it."""


class Switch:
    """A model's own communication hook, which can be taken out: DDP takes one hook, once."""

    def __init__(self, hook: CommHook) -> None:
        self._hook = hook
        self.silent = False

    def __call__(self, bucket: Any) -> Any:
        if not self.silent:
            return self._hook(bucket)
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done


@dataclass
class Wrapped:
    """A model ready to be trained.

    ``forward`` is what the loop calls; ``module`` is the user's own module inside it; ``reduce``
    sums the gradients by hand after the backward pass, where the strategy does.
    """

    forward: Callable[..., Any]
    module: nn.Module
    reduce: Callable[[], None] | None = None
    ddp: nn.parallel.DistributedDataParallel | None = None
    #: What reduces the buckets in place of DDP's own all-reduce, where the model brings it.
    hook: Switch | None = None
    replicas: int = 1
    label: str | None = None
    #: Of a reduction by hand: the parameters whose gradients it found in its first step.
    reduced: list[nn.Parameter] = field(default_factory=list)

    def replicas_used(self, batch_size: int) -> int:
        """Replicas that get samples: DataParallel splits as torch.chunk does."""
        if self.replicas < 2:
            return 1
        return math.ceil(batch_size / math.ceil(batch_size / self.replicas))


def wrap(
    module: nn.Module,
    case: Case,
    device: Device,
    ddp_kw: Mapping[str, Any],
    comm_hook: Callable[[], CommHook] | None = None,
) -> Wrapped:
    """Put the strategy around a module that is already on its device.

    ``ddp_kw`` holds what a model's own DDP_KW asks for beyond the fields of a case; ``comm_hook``
    makes what it wants buckets to be reduced by.
    """
    wrapped = _WRAPPERS[case.strategy](module, case, device, ddp_kw)
    if comm_hook is not None and wrapped.ddp is not None:
        wrapped.hook = Switch(comm_hook())
        # DDP checks the annotations of a hook, which are text here: a lambda has none.
        wrapped.ddp.register_comm_hook(wrapped.hook, lambda hook, bucket: hook(bucket))
    return wrapped


def _single(module: nn.Module, case: Case, device: Device, ddp_kw: Mapping[str, Any]) -> Wrapped:
    return Wrapped(module, module)


def _dp(module: nn.Module, case: Case, device: Device, ddp_kw: Mapping[str, Any]) -> Wrapped:
    if device.kind == "cpu":
        parallel = nn.DataParallel(module)
        return Wrapped(parallel, module, label=NOT_PARALLEL)
    devices = list(range(case.world_size))
    parallel = nn.DataParallel(module, device_ids=devices)
    return Wrapped(parallel, module, replicas=case.world_size)


def _data_parallel(
    module: nn.Module, case: Case, device: Device, ddp_kw: Mapping[str, Any]
) -> Wrapped:
    devices = list(range(case.world_size))

    def forward(*args: Any) -> Any:
        return nn.parallel.data_parallel(module, args, device_ids=devices)

    return Wrapped(forward, module, replicas=case.world_size)


def _ddp(module: nn.Module, case: Case, device: Device, ddp_kw: Mapping[str, Any]) -> Wrapped:
    if not trainable(module):
        raise InvalidCase(
            "invalid for ddp: the model has no trainable parameter, so there is no gradient to "
            "reduce; measure it with strategy=single or dp"
        )
    options = {name: value for name, value in ddp_kw.items() if name not in FIELD_NAMES}
    # What is at its default is left to this torch: an unset bucket_cap_mb is not 25, and a
    # newer torch warns where it would rather have another name.
    options |= {
        name: getattr(case, name)
        for name in DDP_FIELDS
        if getattr(case, name) != getattr(DEFAULT, name)
    }
    if device.kind == "cuda":
        options["device_ids"] = [int(device.name.partition(":")[2])]
    ddp = nn.parallel.DistributedDataParallel(module, **options)
    return Wrapped(ddp, module, ddp=ddp)


def _all_reduce(
    module: nn.Module, case: Case, device: Device, ddp_kw: Mapping[str, Any]
) -> Wrapped:
    for tensor in (*module.parameters(), *module.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def reduce() -> None:
        for parameter in module.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(case.world_size)

    def first_reduce() -> None:
        # A parameter that takes no part in the loss never gets a gradient.
        wrapped.reduced += [each for each in module.parameters() if each.grad is not None]
        wrapped.reduce = reduce
        reduce()

    wrapped = Wrapped(module, module, reduce=first_reduce)
    return wrapped


_WRAPPERS = {
    "single": _single,
    "dp": _dp,
    "data_parallel": _data_parallel,
    "ddp": _ddp,
    "all_reduce": _all_reduce,
}


def silence(wrapped: Wrapped) -> None:
    """Take the communication out of a DDP: gradients stay each rank's own from here on.

    The broadcast of buffers in forward goes too. What find_unused_parameters exchanges stays.
    """
    from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook

    assert wrapped.ddp is not None
    if wrapped.hook is not None:
        wrapped.hook.silent = True
    else:
        wrapped.ddp.register_comm_hook(None, noop_hook)
    wrapped.ddp.broadcast_buffers = False


def buckets(ddp: nn.parallel.DistributedDataParallel) -> dict[str, Any] | None:
    """The buckets DDP made, from its own logging data; None where this torch keeps none.

    ``initial_bytes`` before the first backward; ``rebuilt_bytes`` and ``rebuilt_parameters``
    (indices in the order of module.parameters()) after it, None while there was no rebuild.
    """
    if not hasattr(ddp, "_get_ddp_logging_data"):
        return None
    data = ddp._get_ddp_logging_data()
    rebuilt = bool(data.get("has_rebuilt_buckets"))
    return {
        "initial_bytes": _numbers(data.get("bucket_sizes", "")),
        "rebuilt_bytes": _numbers(data.get("rebuilt_bucket_sizes", "")) if rebuilt else None,
        "rebuilt_parameters": [
            _numbers(group.replace(" ", ","))
            for group in str(data.get("rebuilt_per_bucket_param_indices", "")).split(",")
        ]
        if rebuilt
        else None,
    }


#: Of DDP's logging data, nanoseconds, means over the iterations it has sampled.
_OWN_TIMES = {
    "forward_s": "avg_forward_compute_time",
    "backward_s": "avg_backward_compute_time",
    "all_reduce_s": "avg_backward_comm_time",
    "overlap_s": "avg_backward_compute_comm_overlap_time",
}


def own_times(ddp: nn.parallel.DistributedDataParallel) -> dict[str, float | None] | None:
    """What DDP itself says of its steps, seconds; None for what it has not measured.

    It samples some iterations only, the latest lagging one behind, and on a CPU takes an all-reduce
    from the moment it was handed over: its time holds more than ours, and not the same steps.
    """
    if not hasattr(ddp, "_get_ddp_logging_data"):
        return None
    data = ddp._get_ddp_logging_data()
    said = {name: data.get(key) for name, key in _OWN_TIMES.items()}
    return {
        name: value / 1e9 if isinstance(value, int | float) and value > 0 else None
        for name, value in said.items()
    }


def _numbers(text: str) -> list[int]:
    return [int(part) for part in str(text).split(",") if part.strip()]


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def initialise_lazy(module: nn.Module, args: tuple[Any, ...]) -> bool:
    """Give lazy layers their shapes by one forward pass without gradients; whether any were."""
    from torch.nn.parameter import is_lazy

    if not any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        return False
    with torch.no_grad():
        module(*args)
    return True


def software(backend: str) -> dict[str, Any]:
    """The libraries under this process that can make a step faster or slower."""
    import platform
    import re

    configuration = torch.__config__.show()
    blas = re.search(r"BLAS_INFO=(\w+)", configuration)
    nccl = None
    if torch.cuda.is_available() and dist.is_available() and dist.is_nccl_available():
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "nccl": nccl,
        "cudnn": torch.backends.cudnn.version() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "blas": blas.group(1) if blas else None,
        "backend": backend,
    }


def collectives_begun() -> int | None:
    """How many collectives this process has begun, over all its process groups; None where this
    torch does not count them."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0
    try:
        groups = list(dist.distributed_c10d._world.pg_map)
        return sum(int(group._get_sequence_number_for_group()) for group in groups)
    except (AttributeError, RuntimeError):
        return None
