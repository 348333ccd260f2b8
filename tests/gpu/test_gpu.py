"""What only a GPU can show: ``tox run -e gpu`` or ``python -m pytest tests/gpu``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from bench.case import Case
from bench.result import LaunchResult

Measure = Callable[[Case], LaunchResult]


def nccl(world_size: int, **fields: Any) -> Case:
    return Case(
        model="transformer-s",
        backend="nccl",
        device="cuda",
        batch_size=32,
        world_size=world_size,
        **fields,
    )


def checked(result: Any) -> None:
    checks = result.fields["checks"]
    assert checks["parameters_equal"] is True
    assert checks["gradients_match"] in (True, None), checks


def test_nccl_at_every_world_size(measure: Measure, gpus: int) -> None:
    sizes = [size for size in (1, 2, 4, 8, 16) if size <= gpus]
    for world_size in sizes:
        result = measure(nccl(world_size))
        checked(result)
        assert {rank["device"] for rank in result.fields["ranks"]} == {
            f"cuda:{index}" for index in range(world_size)
        }


def test_all_reduce_kernels_are_found_in_the_trace(measure: Measure, gpus: int) -> None:
    if gpus < 2:
        pytest.skip(f"needs 2 GPUs, found {gpus}: at world size 1 nccl launches no all-reduce")
    result = measure(nccl(2, bucket_cap_mb=1))
    buckets = result.fields["buckets"]["rebuilt_bytes"]
    for rank in result.fields["ranks"]:
        assert rank["communication"]["calls_per_step"] == len(buckets)
        assert rank["communication"]["all_reduce_s"] > 0
    assert result.fields["checks"]["reduced_bytes_equal_gradient_bytes"] is True


def test_two_gloo_ranks_share_one_gpu(measure: Measure, gpus: int) -> None:
    result = measure(
        Case(model="cifar_cnn", backend="gloo", device="cuda", world_size=2, batch_size=32)
    )
    checked(result)
    assert len(result.fields["ranks"]) == 2


def test_dp_on_all_devices(measure: Measure, gpus: int) -> None:
    result = measure(Case(model="cifar_cnn", strategy="dp", device="cuda", world_size=gpus))
    assert result.fields["replicas_used"] in (gpus, None)
    assert result.fields["label"] is None


def test_functional_data_parallel(measure: Measure, gpus: int) -> None:
    measure(Case(model="cifar_cnn", strategy="data_parallel", device="cuda", world_size=gpus))


def test_memory_is_the_device_allocators(measure: Measure, gpus: int) -> None:
    result = measure(Case(model="transformer-s", strategy="single", device="cuda", batch_size=32))
    memory = result.fields["ranks"][0]["memory"]
    assert memory["kind"] == "device"
    # Weights, gradients and the optimizer's momentum are all there after the first step.
    assert memory["peak_bytes"] >= 3 * memory["parameters_bytes"]


def test_the_profiler_sees_kernels_in_a_forked_child(measure: Measure, gpus: int) -> None:
    result = measure(nccl(1))
    for rank in result.fields["ranks"]:
        steps = rank["communication"]["per_step"]
        # The last step has no period: nothing was launched after it.
        assert len(steps) >= 3
        assert all(step["step_s"] > 0 for step in steps[:-1])


EVENTS = """
import statistics, time, torch
from bench.worker.device import CudaDevice
device = CudaDevice(0)
a = torch.randn(4096, 4096, device=device.name)
for _ in range(20): a @ a
device.synchronize()
ratios = []
for _ in range(5):
    started = time.perf_counter()
    device.clock.start()
    device.clock.mark()
    for _ in range(200): a @ a
    device.clock.mark()
    device.clock.finish()
    ratios.append(device.clock.seconds(0, 1) / (time.perf_counter() - started))
print(statistics.median(ratios))
"""


def test_events_against_the_wall_clock(facts: dict[str, Any]) -> None:
    """In a window that the device fills, events and wall clock tell the same time."""
    done = subprocess.run(
        [sys.executable, "-c", EVENTS], capture_output=True, text=True, check=True
    )
    assert 0.9 < float(done.stdout) <= 1.001


def test_the_ranks_stay_free_of_cuda(measure: Measure, gpus: int) -> None:
    """Two cases one after another on one set of ranks: the second forks after the first used the
    GPU, which fails if a rank has a CUDA context of its own."""
    for seed in (0, 1):
        measure(Case(model="mlp", strategy="single", device="cuda", seed=seed))
