"""Which gradients DistributedDataParallel puts into which bucket; its rule, without torch.

After the first backward DDP makes its buckets anew, in the order in which gradients became ready
(``Reducer::rebuild_buckets``). A bucket is closed by the gradient with which it reaches the cap,
so that it may be larger; gradients of different types never share one, and each type begins with
a first bucket of its own. Where ``bucket_cap_mb`` is unset the first bucket is of 1 MiB, that the
first all-reduce may begin early, and those after it of 25 MiB; a cap that is given holds for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MIB = 2**20
#: torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, and what DDP takes for an unset bucket_cap_mb.
FIRST_BUCKET_BYTES = MIB
UNSET_CAP_MB = 25


def caps_bytes(bucket_cap_mb: float | None) -> tuple[int, int]:
    """(cap of the first bucket, cap of those after it)"""
    if bucket_cap_mb is None:
        return FIRST_BUCKET_BYTES, UNSET_CAP_MB * MIB
    cap = math.floor(bucket_cap_mb * MIB)
    return cap, cap


def buckets(
    bytes_ready: Sequence[int],
    bucket_cap_mb: float | None,
    dtypes: Sequence[str] | None = None,
) -> list[list[int]]:
    """The buckets as DDP rebuilds them: positions in ``bytes_ready``, which holds the gradients'
    sizes in the order in which they become ready.

    ``dtypes`` of the gradients, in the same order; None: all of one type. DDP reduces the buckets
    in the order in which they stand here.
    """
    first, later = caps_bytes(bucket_cap_mb)
    open_: dict[str, list[int]] = {}
    filled: dict[str, int] = {}
    cap = dict.fromkeys(dtypes or [""], first)
    closed: list[list[int]] = []
    for position, size in enumerate(bytes_ready):
        dtype = dtypes[position] if dtypes else ""
        open_.setdefault(dtype, []).append(position)
        filled[dtype] = filled.get(dtype, 0) + size
        if filled[dtype] >= cap[dtype]:
            closed.append(open_.pop(dtype))
            filled[dtype], cap[dtype] = 0, later
    return [*closed, *open_.values()]


def bucket_bytes(bytes_ready: Sequence[int], found: Sequence[Sequence[int]]) -> list[int]:
    """The size of each bucket."""
    return [sum(bytes_ready[position] for position in bucket) for bucket in found]
