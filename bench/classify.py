"""What a profiler event says about a collective: its kind, bytes, data type and group.

Names differ between NCCL versions, RCCL, MSCCL and gloo, so several witnesses are asked: the
arguments of the kernel, the CPU ranges that launched it, and its name last of all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

UNKNOWN = "unknown"
# A trace has very many events and few names, so what a name says is worked out once.
_once = lru_cache(maxsize=1024)
# Nothing that torch counts is larger; beyond it a number is damaged.
_LARGEST_COUNT = 2**63 - 1

# Longer words first: "reduce" is part of "allreduce" and of "reducescatter".
_KINDS = (
    ("barrier", "barrier"),
    ("allreduce", "all_reduce"),
    ("reducescatter", "reduce_scatter"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
)

# torch's own names, by the spellings of c10 scalar types and of C++ type names.
_DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "half": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "byte": ("uint8", 1),
    "unsigned char": ("uint8", 1),
    "char": ("int8", 1),
    "signed char": ("int8", 1),
    "short": ("int16", 2),
    "short int": ("int16", 2),
    "int": ("int32", 4),
    "long": ("int64", 8),
    "long int": ("int64", 8),
    "long long": ("int64", 8),
    "bool": ("bool", 1),
    "complexfloat": ("complex64", 8),
    "complex<float>": ("complex64", 8),
    "complexdouble": ("complex128", 16),
    "complex<double>": ("complex128", 16),
    "float8_e4m3fn": ("float8_e4m3fn", 1),
    "float8_e5m2": ("float8_e5m2", 1),
    "float8_e4m3fnuz": ("float8_e4m3fnuz", 1),
    "float8_e5m2fnuz": ("float8_e5m2fnuz", 1),
}

#: Before the name of a phase of a step that the profiled pass has marked: "lockstep:forward".
PHASE_MARK = "lockstep:"
_COMMUNICATION_LIBRARY = re.compile(r"nccl|rccl|msccl", re.IGNORECASE)
# Waiting for a stream or an event, and annotations drawn on the GPU's rows: no kernel ran.
_NO_KERNEL = re.compile(
    r"(stream|context|event|device)[ _]?(sync|wait)"
    r"|(cuda|hip|cu)\w*(synchronize|waitevent)"
    r"|(nccl|rccl|gloo):|profilerstep",
    re.IGNORECASE,
)
_ENQUEUE = re.compile(r"_?c10d(_functional)?::")
# Ranges that old versions of torch file under operators although they compute nothing themselves.
_NO_COMPUTE = re.compile(
    r"_?c10d(_functional)?::|record_param_comms$|profilerstep|distributeddataparallel\."
    r"|enumerate\(dataloader\)|(nccl|rccl|gloo):",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Message:
    """What one collective moves, as far as known; `None` and `UNKNOWN` where not.

    `bytes` is the size as nccl-tests count it: the whole buffer that a rank contributes or
    receives, whichever is larger (for an all-reduce the two are equal).
    """

    kind: str = UNKNOWN
    bytes: int | None = None
    dtype: str | None = None
    group: str | None = None
    group_size: int | None = None

    def or_else(self, other: Message) -> Message:
        """This message, its unknown fields filled from another witness."""
        return Message(
            kind=other.kind if self.kind == UNKNOWN else self.kind,
            bytes=other.bytes if self.bytes is None else self.bytes,
            dtype=other.dtype if self.dtype is None else self.dtype,
            group=other.group if self.group is None else self.group,
            group_size=other.group_size if self.group_size is None else self.group_size,
        )


@_once
def kind_of(name: str) -> str:
    """The kind of collective that a kernel, range or `Collective name` names, or `UNKNOWN`."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    for word, kind in _KINDS:
        if word in letters:
            return kind
    return UNKNOWN


@_once
def is_enqueue(name: str) -> bool:
    """Whether a CPU operator only hands a collective over (`c10d::allreduce_`)."""
    return _ENQUEUE.match(name) is not None


@_once
def is_compute_op(name: str) -> bool:
    """Whether a CPU operator is the model's own work."""
    return _NO_COMPUTE.match(name) is None


@_once
def is_no_kernel(name: str) -> bool:
    """Whether an event among the kernels is a wait or an annotation and not a kernel at all."""
    return _NO_KERNEL.match(name) is not None


@_once
def _is_of_communication_library(name: str) -> bool:
    return _COMMUNICATION_LIBRARY.search(name) is not None


def is_communication_kernel(name: str, args: Mapping[str, Any]) -> bool:
    """Whether a GPU kernel is a collective: by its name or by its arguments, never by stream."""
    if _is_of_communication_library(name):
        return True
    collective = args.get("Collective name")
    return isinstance(collective, str) and collective != ""


def count_of(value: Any) -> int | None:
    """A whole number that is not negative, from a number or its text; `None` for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= _LARGEST_COUNT else None


def dtype_of(value: Any) -> tuple[str, int] | None:
    """torch's name and the bytes per element of a type such as `Float`, `c10::BFloat16`, `long`."""
    if not isinstance(value, str):
        return None
    return _DTYPES.get(value.lower().replace("c10::", "").strip())


def message_of_args(args: Mapping[str, Any]) -> Message:
    """What the metadata on an NCCL kernel or a `record_param_comms` range says."""
    collective = args.get("Collective name")
    dtype = dtype_of(args.get("dtype"))
    elements = [
        count
        for count in (count_of(args.get("In msg nelems")), count_of(args.get("Out msg nelems")))
        if count is not None
    ]
    group = args.get("Process Group Name")
    return Message(
        kind=kind_of(collective) if isinstance(collective, str) else UNKNOWN,
        bytes=max(elements) * dtype[1] if elements and dtype else None,
        dtype=dtype[0] if dtype else None,
        group=str(group) if isinstance(group, str | int) and group != "" else None,
        group_size=count_of(args.get("Group size")) or None,
    )


def message_of_range(name: str, args: Mapping[str, Any]) -> Message:
    """What a `gloo:…` or `nccl:…` range says: the kind by name, bytes by the recorded shapes.

    Shapes are those of the input alone, so bytes stay unknown where the output is larger
    (all-gather), and for sparse tensors, whose shape is not what travels.
    """
    kind = kind_of(name)
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list) or len(dims) != len(types):
        return Message(kind=kind)
    dtypes = [dtype_of(item) for item in types]
    sizes = [
        _elements(shape) * dtype[1] if dtype and _is_shape(shape) else None
        for shape, dtype in zip(dims, dtypes, strict=True)
    ]
    known = [size for size in sizes if size is not None]
    countable = kind not in ("all_gather", "gather", "barrier") and "sparse" not in name.lower()
    names = {dtype[0] for dtype in dtypes if dtype}
    return Message(
        kind=kind,
        bytes=sum(known) if countable and known and len(known) == len(sizes) else None,
        dtype=names.pop() if len(names) == 1 else None,
    )


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape
    )


def _elements(shape: list[int]) -> int:
    elements = 1
    for length in shape:
        elements *= length
    return elements
