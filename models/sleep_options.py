"""The options of the `sleep` model, read from its name; without torch.

    sleep:layers=4,forward_ms=5,backward_ms=10,mb=1,late_rank=1,late_ms=50
    sleep:layers=4,link_mbit=200,link_us=50

Options stand in any order, separated by commas, or by colons where a comma already separates
names (`--axis model=sleep:layers=2:mb=4,mlp`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields

from bench.nearest import nearest


@dataclass(frozen=True)
class SleepOptions:
    """What each layer of the `sleep` model waits and holds.

    layers: how many layers, one after the other.
    forward_ms, backward_ms: what one layer waits in forward and in backward, milliseconds.
    mb: size of one layer's only parameter in MiB, the unit of DDP's `bucket_cap_mb`.
    late_rank: the rank whose forward waits `late_ms` longer, once per forward; None: no rank.
    link_mbit, link_us: rate in Mbit/s and latency in microseconds of a virtual link that carries
        DDP's buckets, see models/virtual_link.py. None: no such link.
    """

    layers: int = 4
    forward_ms: float = 5.0
    backward_ms: float = 10.0
    mb: float = 1.0
    late_rank: int | None = None
    late_ms: float = 50.0
    link_mbit: float | None = None
    link_us: float = 0.0

    @property
    def layer_elements(self) -> int:
        """float32 elements of one layer's parameter, at least 1."""
        return max(1, round(self.mb * 2**20 / 4))

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all parameters, and so of the gradients that a step reduces."""
        return 4 * self.layers * self.layer_elements

    @classmethod
    def from_name(cls, name: str) -> SleepOptions:
        """Read `sleep` or `sleep:KEY=VALUE,...`.

        ValueError: an option that does not exist, stands twice or has no usable value.
        """
        _, _, text = name.partition(":")
        known = [field.name for field in fields(cls)]
        given: dict[str, int | float] = {}
        for item in re.split("[,:]", text) if text else []:
            key, equals, value = item.partition("=")
            if key not in known:
                near = nearest(key, known)
                hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
                raise ValueError(f"model {name!r}: unknown option {key!r}; {hint}")
            if not equals or not value:
                raise ValueError(f"model {name!r}: option {key!r} has no value")
            if key in given:
                raise ValueError(f"model {name!r}: option {key!r} stands twice")
            given[key] = _number(name, key, value)
        return cls(**given)  # type: ignore[arg-type]  # _number gives each key its type


def _number(name: str, key: str, text: str) -> int | float:
    try:
        value: int | float = int(text) if key in ("layers", "late_rank") else float(text)
    except ValueError:
        kind = "a whole number" if key in ("layers", "late_rank") else "a number"
        raise ValueError(f"model {name!r}: {key} is {kind}, not {text!r}") from None
    least = 1 if key == "layers" else 0
    above = key in ("mb", "link_mbit")
    if not math.isfinite(value) or value < least or (above and value == 0):
        limit = "above 0" if above else f"at least {least}"
        raise ValueError(f"model {name!r}: {key} is {limit}, not {text!r}")
    return value
