"""The variables of a user's environment that may change what is measured: kept, and recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEPT = re.compile(
    r"^(NCCL_|GLOO_|OMP_|MKL_|KMP_|GOMP_|TORCH_|PYTORCH_|CUDA_VISIBLE_DEVICES$|HIP_VISIBLE_DEVICES$"
    r"|CUDA_LAUNCH_BLOCKING$|CUBLAS_|LD_PRELOAD$|MALLOC_)"
)


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if _KEPT.match(name)}
