"""Case: one cell of the matrix, to and from JSON.

A case says everything that may change a measured number and nothing that may not: which launch it
was measured in, and how many steps, belong to its result. Field names are PyTorch's own.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any

from bench.nearest import did_you_mean
from bench.units import bytes_text, parse_bytes

STRATEGIES = ("single", "dp", "data_parallel", "ddp", "all_reduce", "collective")
#: One process drives all devices (or the only one): no process group, no rank beside rank 0.
ONE_PROCESS = ("single", "dp", "data_parallel")
#: What a case of strategy "collective" measures, in place of a model's training. Of "pairs" every
#: two ranks exchange ``bytes`` both ways, one pair after another.
COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "pairs")
DTYPE_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float64": 8,
    "int32": 4,
    "uint8": 1,
}

CHOICES: dict[str, tuple[str, ...]] = {
    "strategy": STRATEGIES,
    "backend": ("gloo", "nccl"),
    "scaling": ("weak", "strong"),
    "init_method": ("env", "tcp", "file"),
    "launcher": ("torchrun", "spawn"),
    "placement": ("packed", "spread"),
    "data": ("synthetic", "loader"),
    "precision": ("fp32", "bf16"),
    "device": ("cpu", "cuda"),
    "collective": ("", *COLLECTIVES),
    "dtype": tuple(DTYPE_BYTES),
}

#: What only DistributedDataParallel reads; elsewhere these stay at their defaults.
DDP_FIELDS = (
    "bucket_cap_mb",
    "gradient_as_bucket_view",
    "find_unused_parameters",
    "static_graph",
    "broadcast_buffers",
)
#: What only a job of several processes reads.
GROUP_FIELDS = ("backend", "init_method", "launcher", "placement")
#: What only training reads, and what only a collective does.
TRAINING_FIELDS = ("model", "batch_size", "scaling", "data", "precision", *DDP_FIELDS)
COLLECTIVE_FIELDS = ("collective", "bytes", "dtype")


@dataclass(frozen=True)
class Case:
    """One cell: a model trained with one strategy under one set of settings.

    ``batch_size`` is per rank. ``world_size`` is the number of ranks, or of devices for the
    strategies that drive several from one process. ``bucket_cap_mb`` None is *unset*, which is
    not 25: DDP then makes the first bucket 1 MiB. ``threads`` None is the sweep's equal share of
    the cores. ``torch`` is the label of the interpreter, empty when there is only one.
    ``placement``: on several hosts the ranks fill one after another (packed) or take turns
    (spread). ``collective``, ``bytes`` and ``dtype`` are of strategy "collective" alone, which has
    no model; ``bytes`` is the whole buffer a rank contributes or receives, whichever is larger.
    """

    model: str = "mlp"
    strategy: str = "ddp"
    backend: str = "gloo"
    world_size: int = 1
    batch_size: int = 32
    scaling: str = "weak"
    bucket_cap_mb: float | None = None
    gradient_as_bucket_view: bool = False
    find_unused_parameters: bool = False
    static_graph: bool = False
    broadcast_buffers: bool = True
    init_method: str = "env"
    launcher: str = "torchrun"
    data: str = "synthetic"
    precision: str = "fp32"
    device: str = "cpu"
    threads: int | None = None
    seed: int = 0
    torch: str = ""
    placement: str = "packed"
    collective: str = ""
    bytes: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name in ("model", "torch"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}={getattr(self, name)!r} must be text")
        for name in DDP_FIELDS:
            # "false" in quotes would be a true value.
            if name != "bucket_cap_mb" and not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)!r} must be true or false")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(
                    f"{name}={value!r} is not known{did_you_mean(str(value), choices)} "
                    f"(choose from {', '.join(choices)})"
                )
        for name, least in (
            ("world_size", 1),
            ("batch_size", 1),
            ("seed", 0),
            ("bytes", 0),
            ("threads", 1),
        ):
            value = getattr(self, name)
            if value is None and name == "threads":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
        cap = self.bucket_cap_mb
        number = isinstance(cap, (int, float)) and not isinstance(cap, bool)
        if cap is not None and not (number and 0 < cap < 1e6):
            raise ValueError(f"bucket_cap_mb={cap!r} must be a number above 0, or unset")
        self._check_collective()
        if self.strategy == "single" and self.world_size != 1:
            raise ValueError(f"strategy=single is one process; world_size={self.world_size} is not")

    def _check_collective(self) -> None:
        if self.strategy != "collective":
            if not self.model:
                raise ValueError("model is empty")
            for name in COLLECTIVE_FIELDS:
                if getattr(self, name) != getattr(Case, name):
                    raise ValueError(
                        f"{name}={getattr(self, name)} is for strategy=collective, "
                        f"not for {self.strategy}"
                    )
            return
        if self.model:
            raise ValueError(f"a collective has no model; model={self.model!r}")
        if not self.collective:
            raise ValueError(f"which collective? choose from {', '.join(COLLECTIVES)}")
        if self.bytes < 1:
            raise ValueError(f"bytes={self.bytes}: a collective moves at least 1")
        if self.world_size < 2:
            raise ValueError("a collective on one rank moves nothing; world_size must be 2 or more")

    @property
    def trains(self) -> bool:
        """Whether there is a model and samples, or only communication."""
        return self.strategy != "collective"

    @property
    def in_group(self) -> bool:
        """Whether its processes are ranks of a process group, be it of one."""
        return self.strategy not in ONE_PROCESS

    @property
    def granule_bytes(self) -> int:
        """``bytes`` has to be a multiple of this: whole numbers, and as many for every rank."""
        shares = self.world_size if self.collective in ("all_gather", "reduce_scatter") else 1
        return DTYPE_BYTES[self.dtype] * shares

    @property
    def global_batch_size(self) -> int:
        """Samples per step of the whole job."""
        return self.batch_size * self.world_size

    @property
    def processes(self) -> int:
        """Ranks that take part: the world size, or 1 where one process drives all devices."""
        return 1 if self.strategy in ONE_PROCESS else self.world_size

    @property
    def id(self) -> str:
        """Stable across runs; holds only what is not default."""
        parts = [self.strategy, _plain(self.model or self.collective), f"w{self.world_size}"]
        if self.bytes:
            parts.append(bytes_text(self.bytes))
        if self.batch_size != DEFAULT.batch_size:
            parts.append(f"b{self.batch_size}")
        for name in (
            "scaling",
            "backend",
            "init_method",
            "launcher",
            "placement",
            "data",
            "precision",
            "device",
            "dtype",
        ):
            if getattr(self, name) != getattr(DEFAULT, name):
                parts.append(getattr(self, name))
        if self.bucket_cap_mb is not None:
            parts.append(f"cap{self.bucket_cap_mb:g}")
        for name, word in _FLAG_WORDS.items():
            if getattr(self, name) != getattr(DEFAULT, name):
                parts.append(word)
        if self.threads is not None:
            parts.append(f"t{self.threads}")
        if self.seed:
            parts.append(f"seed{self.seed}")
        if self.torch:
            parts.append(f"torch_{_plain(self.torch)}")
        return "-".join(parts)

    def replace(self, **changes: Any) -> Case:
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Case:
        """Raises ValueError that names an unknown field and the nearest known one."""
        for name in fields:
            if name not in FIELD_NAMES:
                raise ValueError(
                    f"unknown case field {name!r}{did_you_mean(str(name), FIELD_NAMES)}"
                )
        return cls(**fields)

    @classmethod
    def from_json(cls, text: str) -> Case:
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError(f"a case is a JSON object, not {type(fields).__name__}")
        return cls.from_dict(fields)


FIELD_NAMES = tuple(field.name for field in dataclasses.fields(Case))
DEFAULT = Case()
_SWITCH = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
_FLAG_WORDS = {
    "gradient_as_bucket_view": "view",
    "find_unused_parameters": "unused",
    "static_graph": "static",
    "broadcast_buffers": "nobroadcast",
}


def parse_value(name: str, text: str) -> Any:
    """One value of the axis ``name`` as typed on a command line.

    Raises ValueError in words: an unknown axis, or a value it cannot have.
    """
    if name not in FIELD_NAMES:
        raise ValueError(f"unknown axis {name!r}{did_you_mean(name, FIELD_NAMES)}")
    text = text.strip()
    default = getattr(DEFAULT, name)
    if name in ("bucket_cap_mb", "threads") and text.lower() in (
        "unset",
        "none",
        "null",
        "default",
    ):
        return None
    if name == "bytes":
        try:
            return parse_bytes(text)
        except ValueError as error:
            raise ValueError(f"axis bytes: {error}") from None
    try:
        if isinstance(default, bool):
            return _SWITCH[text.lower()]
        if name == "bucket_cap_mb":
            value = float(text)
            return int(value) if value == int(value) else value
        if isinstance(default, int) or name == "threads":
            return int(text)
    except (ValueError, KeyError, OverflowError):
        kind = "true or false" if isinstance(default, bool) else "a number"
        raise ValueError(f"axis {name}: {text!r} is not {kind}") from None
    if name in CHOICES and text not in CHOICES[name]:
        raise ValueError(
            f"axis {name}: {text!r} is not known{did_you_mean(text, CHOICES[name])} "
            f"(choose from {', '.join(CHOICES[name])})"
        )
    return text


def _plain(name: str) -> str:
    """A model's name or path as part of an id that pytest's -k accepts."""
    return re.sub(r"[^\w.@=+:-]+", "_", name.removesuffix(".py")).strip("_.") or "model"
