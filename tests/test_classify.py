"""What names and arguments say about a collective."""

from __future__ import annotations

from typing import Any

import pytest

from bench.classify import (
    Message,
    count_of,
    dtype_of,
    is_communication_kernel,
    is_compute_op,
    is_enqueue,
    is_no_kernel,
    kind_of,
    message_of_args,
    message_of_range,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)", "all_reduce"),
        ("ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclkernel_allreduce_ring_ll_sum_float", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", "broadcast"),
        ("ncclDevKernel_AllGather_RING_LL", "all_gather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send_recv"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "unknown"),
        ("mscclKernel_Sum_float_Simple_LL", "unknown"),
        ("gloo:all_reduce", "all_reduce"),
        ("gloo:sparse_all_reduce", "all_reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:all_to_all", "all_to_all"),
        ("nccl:all_reduce_barrier", "barrier"),
        ("allreduce", "all_reduce"),
        ("_allgather_base_", "all_gather"),
        ("nccl:coalesced", "unknown"),
    ],
)
def test_kind_of(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "args", "communicates"),
    [
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", {}, True),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", {}, True),
        ("MSCCLKernel_Sum_float_Simple_LL", {}, True),
        ("rcclKernel", {}, True),
        ("two_shot_kernel", {"Collective name": "allreduce"}, True),
        ("two_shot_kernel", {"stream": 20}, False),
        ("two_shot_kernel", {"Collective name": ""}, False),
        ("void gemm_kernel", {}, False),
    ],
)
def test_communication_kernels_go_by_name_or_arguments(
    name: str, args: dict[str, Any], communicates: bool
) -> None:
    assert is_communication_kernel(name, args) is communicates


def test_waits_and_annotations_are_no_kernels() -> None:
    for name in (
        "Stream Sync",
        "Context Sync",
        "Event Sync",
        "Stream Wait Event",
        "nccl:broadcast",
    ):
        assert is_no_kernel(name), name
    for name in ("void gemm_kernel", "sync_batch_norm_kernel", "ncclKernel_AllReduce"):
        assert not is_no_kernel(name), name


def test_enqueues_are_neither_communication_nor_compute() -> None:
    for name in (
        "c10d::allreduce_",
        "_c10d_functional::wait_tensor",
        "c10d_functional::all_reduce",
    ):
        assert is_enqueue(name), name
        assert not is_compute_op(name), name
    assert is_compute_op("aten::mm")
    assert not is_enqueue("aten::mm")


def test_bytes_of_an_all_gather_are_those_of_its_output() -> None:
    args = {
        "Collective name": "_allgather_base",
        "In msg nelems": 10,
        "Out msg nelems": "80",
        "dtype": "BFloat16",
        "Process Group Name": "0",
        "Group size": 8,
    }
    assert message_of_args(args) == Message("all_gather", 160, "bfloat16", "0", 8)


def test_missing_metadata_stays_unknown() -> None:
    assert message_of_args({}) == Message()
    assert message_of_args({"In msg nelems": 5}).bytes is None
    assert message_of_args({"In msg nelems": -5, "dtype": "Float"}).bytes is None


@pytest.mark.parametrize(
    ("name", "dims", "types", "size"),
    [
        ("gloo:all_reduce", [[1050624]], ["float"], 4 * 1050624),
        ("gloo:all_reduce", [[2, 3], [4]], ["double", "c10::Half"], 6 * 8 + 4 * 2),
        ("gloo:all_reduce", [[]], ["long"], 8),
        ("gloo:all_reduce", [[5]], ["something new"], None),
        ("gloo:all_reduce", [[5], []], ["float", ""], None),
        ("gloo:all_reduce", [[-5]], ["float"], None),
        ("gloo:all_reduce", [[True]], ["float"], None),
        ("gloo:all_reduce", [[5]], ["float", "float"], None),
        ("gloo:all_reduce", "x", None, None),
        ("gloo:sparse_all_reduce", [[5]], ["float"], None),
        ("gloo:all_gather", [[5]], ["float"], None),
    ],
)
def test_bytes_of_a_range_from_its_shapes(name: str, dims: Any, types: Any, size: int) -> None:
    assert message_of_range(name, {"Input Dims": dims, "Input type": types}).bytes == size


def test_dtype_of_both_spellings() -> None:
    assert dtype_of("BFloat16") == dtype_of("c10::BFloat16") == ("bfloat16", 2)
    assert dtype_of("Long") == dtype_of("long int") == ("int64", 8)
    assert dtype_of("TensorList") is None
    assert dtype_of(None) is None


def test_count_of_takes_whole_numbers_only() -> None:
    assert [count_of(value) for value in (7, "7", 0)] == [7, 7, 0]
    assert [count_of(value) for value in (-1, True, 1.5, "", "1.5", "²", "9" * 5000)] == [None] * 7


def test_the_first_witness_is_believed() -> None:
    kernel = Message(kind="unknown", bytes=8)
    launch = Message(kind="all_reduce", bytes=16, dtype="float32")
    assert kernel.or_else(launch) == Message("all_reduce", 8, "float32")
