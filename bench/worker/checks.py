"""Results are checked, not assumed: equal parameters, right gradients, all bytes reduced."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import torch
from torch import nn

from bench.case import Case
from bench.worker.device import Device
from bench.worker.loop import Ranks, TrainingLoop
from bench.worker.strategies import Wrapped, trainable
from models.model import Model

#: Gradients are compared with those of one process only where that is cheap.
MOST_PARAMETERS = 5_000_000
MOST_SAMPLES = 1024
#: Sums in another order differ by rounding; a wrong average differs by far more.
TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}


def parameters_equal(module: nn.Module, ranks: Ranks) -> bool:
    """Whether every rank holds the same bits in its parameters."""
    digest = hashlib.sha256()
    for parameter in module.parameters():
        flat = parameter.detach().contiguous().cpu().flatten()
        digest.update(flat.view(torch.uint8).numpy(force=True).tobytes())
    return ranks.same_everywhere(int.from_bytes(digest.digest()[:8], "big") >> 1)


def check_gradients(
    model: Model,
    wrapped: Wrapped,
    loop: TrainingLoop,
    case: Case,
    rank: int,
    device: Device,
    ranks: Ranks,
) -> dict[str, Any]:
    """The strategy's gradients against those of one process, at equal parameters.

    The reference is one process on the concatenated batch of all ranks; where batch statistics
    make that another calculation (BatchNorm), or batches cannot be joined, the mean over the ranks'
    batches one by one. All ranks must call this; rank 0 compares.

    Returns ``gradient_relative_error`` (norm of the difference over norm of the reference),
    ``gradients_match``, ``gradient_method`` and ``notes``; None where it was not checked.
    """
    unknown: dict[str, Any] = {
        "gradient_relative_error": None,
        "gradients_match": None,
        "gradient_method": None,
    }
    reason = _why_not(model, wrapped.module, case)
    if reason:
        return {**unknown, "notes": [f"gradients not checked: {reason}"]}
    for parameter in wrapped.module.parameters():
        parameter.grad = None
    reference = copy.deepcopy(wrapped.module) if rank == 0 else None
    args, target = _batch(model, case, rank, device)
    loop.gradients(args, target)
    found = [parameter.grad for parameter in trainable(wrapped.module)]
    answer = {**unknown, "notes": []}
    if reference is not None:
        method, expected = _reference_gradients(model, reference, case, device)
        error = _relative_error(found, expected)
        answer |= {
            "gradient_relative_error": error,
            "gradients_match": error is not None and error <= _tolerance(case, wrapped.module),
            "gradient_method": method,
        }
    for parameter in wrapped.module.parameters():
        parameter.grad = None
    ranks.barrier()
    return answer


def _why_not(model: Model, module: nn.Module, case: Case) -> str | None:
    if model.step_fn is not None:
        return "the model brings its own step_fn"
    if not trainable(module):
        return "nothing is trained"
    if sum(parameter.numel() for parameter in module.parameters()) > MOST_PARAMETERS:
        return f"more than {MOST_PARAMETERS} parameters"
    if case.global_batch_size > MOST_SAMPLES:
        return f"more than {MOST_SAMPLES} samples in the global batch"
    if any(
        isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 for part in module.modules()
    ):
        return "dropout makes each pass another calculation"
    return None


def _tolerance(case: Case, module: nn.Module) -> float:
    """A model may bring weights of half precision to a case of fp32."""
    half = any(parameter.element_size() < 4 for parameter in trainable(module))
    return TOLERANCE["bf16" if half else case.precision]


def _batch(model: Model, case: Case, rank: int, device: Device) -> tuple[tuple[Any, ...], Any]:
    batch_size = case.batch_size if case.processes > 1 else case.global_batch_size
    args, target = device.place(model.batch(batch_size, rank, 0, case.seed))
    return args, target


def _reference_gradients(
    model: Model, reference: nn.Module, case: Case, device: Device
) -> tuple[str, list[torch.Tensor | None]]:
    batches = [_batch(model, case, rank, device) for rank in range(case.processes)]
    joined = None if _has_batch_statistics(reference) else _concatenate(batches)
    autocast = torch.autocast(device.kind, dtype=torch.bfloat16, enabled=case.precision == "bf16")
    for args, target in [joined] if joined else batches:
        with autocast:
            loss = model.loss(reference(*args), target)
        (loss if joined else loss / len(batches)).backward()
    method = "one process on the concatenated batch" if joined else "one process, rank by rank"
    return method, [parameter.grad for parameter in trainable(reference)]


def _has_batch_statistics(module: nn.Module) -> bool:
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())


def _concatenate(
    batches: list[tuple[tuple[Any, ...], Any]],
) -> tuple[tuple[Any, ...], Any] | None:
    if len(batches) == 1:
        return batches[0]
    columns = list(zip(*[(*args, target) for args, target in batches], strict=True))
    if not all(
        isinstance(item, torch.Tensor) and item.ndim for column in columns for item in column
    ):
        return None
    *args, target = [torch.cat(column) for column in columns]
    return tuple(args), target


def _relative_error(
    found: list[torch.Tensor | None], expected: list[torch.Tensor | None]
) -> float | None:
    difference = size = 0.0
    for mine, right in zip(found, expected, strict=True):
        if mine is None and right is None:
            continue
        mine_values = _dense(mine if mine is not None else torch.zeros_like(_present(right)))
        right_values = _dense(right if right is not None else torch.zeros_like(_present(mine)))
        difference += float((mine_values - right_values).norm()) ** 2
        size += float(right_values.norm()) ** 2
    if size == 0:
        return 0.0 if difference == 0 else None
    return float((difference / size) ** 0.5)


def _present(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    return tensor


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (tensor.to_dense() if tensor.is_sparse else tensor).double().cpu()
