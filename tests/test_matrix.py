from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.case import Case
from bench.matrix import (
    Facts,
    MatrixError,
    cases,
    parse_axes,
    read_matrix,
    why_not,
)


def _collective(kind: str, size: int, ranks: int) -> Case:
    own = {"model": "", "strategy": "collective", "collective": kind}
    return Case.from_dict(own | {"bytes": size, "world_size": ranks})


LAPTOP = Facts(cores=2)
#: One rank on each of two hosts, and no more to be had.
CONNECTED = Facts(
    cores=2, nodes=2, ranks_of_hosts=(1, 1), connected=2, started_by="--ranks external"
)
TWO_NODES = Facts(
    cores=64,
    gpus=8,
    backends=("gloo", "nccl"),
    nodes=2,
    ranks_of_hosts=(8, 8),
    started_by="--launcher",
)
NODE = Facts(cores=64, gpus=8, backends=("gloo", "nccl"))


def expand(group: dict[str, list[Any]], facts: Facts = LAPTOP, *axes: str) -> list[Case]:
    return cases({"scaling": [group]}, parse_axes(axes), facts)["scaling"]


def refusal(*axes: str, group: dict[str, list[Any]] | None = None, facts: Facts = LAPTOP) -> str:
    with pytest.raises(MatrixError) as refused:
        expand(group or {"model": ["mlp"]}, facts, *axes)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("facts", "sizes"),
    [
        (Facts(cores=1), [1]),
        (Facts(cores=2), [1, 2]),
        (Facts(cores=6), [1, 2, 4, 6]),
        (Facts(cores=64, gpus=8), [1, 2, 4, 8]),
        (Facts(cores=64, gpus=3), [1, 2, 3]),
        (Facts(cores=64, gpus=1), [1]),
        (Facts(cores=64, gpus=4, nodes=2), [1, 2, 4, 8]),
        (Facts(cores=64, gpus=4, nodes=2, connected=6), [1, 2, 4, 6]),
    ],
)
def test_world_sizes_go_up_to_the_gpus_or_the_cores(facts: Facts, sizes: list[int]) -> None:
    assert facts.world_sizes == sizes
    assert [case.world_size for case in expand({"model": ["mlp"]}, facts)] == sizes


def test_gpus_bring_nccl_unless_told_otherwise() -> None:
    for case in expand({"model": ["mlp"]}, NODE):
        assert (case.device, case.backend) == ("cuda", "nccl")
    for case in expand({"model": ["mlp"]}, NODE, "device=cpu"):
        assert (case.device, case.backend) == ("cpu", "gloo")
    for case in expand({"model": ["mlp"]}, LAPTOP):
        assert (case.device, case.backend) == ("cpu", "gloo")


def test_settings_of_ddp_do_not_multiply_other_strategies() -> None:
    found = expand(
        {"model": ["mlp"], "strategy": ["single", "all_reduce", "ddp"]},
        LAPTOP,
        "bucket_cap_mb=1,25",
        "gradient_as_bucket_view=true,false",
        "init_method=env,tcp",
        "world_size=2",
    )
    count = dict.fromkeys(("single", "all_reduce", "ddp"), 0)
    for case in found:
        count[case.strategy] += 1
    assert count == {"single": 1, "all_reduce": 2, "ddp": 8}
    assert next(case for case in found if case.strategy == "single").world_size == 1


def collectives(facts: Facts, *axes: str, **group: list[Any]) -> list[Case]:
    table = {"collective": ["all_reduce", "pairs"], "bytes": [1024, 1 << 20]} | group
    return cases({"collectives": [table]}, parse_axes(axes), facts)["collectives"]


def test_collectives_need_two_ranks_and_no_model() -> None:
    found = collectives(Facts(cores=4), "model=mlp", "strategy=ddp", "batch_size=8")
    assert [case.id for case in found] == [
        "collective-all_reduce-w2-1KiB",
        "collective-all_reduce-w2-1MiB",
        "collective-pairs-w2-1MiB",
        "collective-all_reduce-w4-1KiB",
        "collective-all_reduce-w4-1MiB",
        "collective-pairs-w4-1MiB",
    ]
    assert not collectives(Facts(cores=1))


def test_pairs_of_few_bytes_or_many_ranks_are_measured_when_asked_for() -> None:
    many = Facts(cores=32)
    assert [case.id for case in collectives(many, "collective=pairs", "bytes=1KiB")][-1] == (
        "collective-pairs-w16-1KiB"
    )
    asked = collectives(many, "world_size=32")
    assert "collective-pairs-w32-1MiB" in [case.id for case in asked]


def test_the_axes_of_collectives_do_not_multiply_training() -> None:
    axes = ("bytes=1KiB,1MiB", "dtype=float32,uint8", "collective=broadcast")
    assert expand({"model": ["mlp"]}, LAPTOP, *axes) == expand({"model": ["mlp"]})


def test_a_cell_is_measured_once() -> None:
    group = {"model": ["mlp"], "world_size": [2]}
    found = cases({"scaling": [group, group], "buckets": [group]}, {}, LAPTOP)
    assert [len(found["scaling"]), len(found["buckets"])] == [1, 0]


def test_strong_scaling_divides_the_batch() -> None:
    found = expand(
        {"model": ["mlp"], "scaling": ["weak", "strong"], "batch_size": [32]},
        LAPTOP,
        "world_size=1,2,4",
    )
    # Both begin at the same cell.
    assert [(case.scaling, case.world_size, case.batch_size) for case in found] == [
        ("weak", 1, 32),
        ("weak", 2, 32),
        ("weak", 4, 32),
        ("strong", 2, 16),
        ("strong", 4, 8),
    ]


def test_a_batch_that_does_not_divide_is_refused_by_name() -> None:
    message = refusal("scaling=strong", "batch_size=32", "world_size=3")
    assert "batch_size=32 cannot be divided among world_size=3" in message


@pytest.mark.parametrize(
    ("field", "value"), [("world_size", 0), ("world_size", "two"), ("batch_size", "many")]
)
def test_what_cannot_be_divided_at_all_is_refused_by_name(field: str, value: Any) -> None:
    group = {"model": ["mlp"], "scaling": ["strong"], "world_size": [2], field: [value]}
    assert f"{field}={value!r} must be a whole number" in refusal(group=group)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("gradient_as_bucket_view", "false", "must be true or false"),
        ("bucket_cap_mb", "25", "must be a number"),
        ("model", 5, "unknown model '5'"),
        ("backend", "nccll", "did you mean 'nccl'?"),
    ],
)
def test_a_value_of_the_wrong_kind_in_a_file_is_refused(
    field: str, value: Any, message: str
) -> None:
    found = refusal(group={"model": ["mlp"], "strategy": ["ddp"], field: [value]})
    assert message in found
    assert field in found


def test_a_group_that_names_no_model_has_the_default_one() -> None:
    assert [case.model for case in expand({"world_size": [2]})] == ["mlp"]


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("wolrd_size=2", "unknown axis 'wolrd_size'; did you mean 'world_size'?"),
        ("backend=nccll", "'nccll' is not known; did you mean 'nccl'?"),
        ("world_size=two", "'two' is not a number"),
        ("world_size", "write NAME=V1,V2"),
        ("world_size=", "write NAME=V1,V2"),
        ("world_size=0", "world_size=0 must be"),
        ("model=resnet81", "unknown model 'resnet81'; did you mean 'resnet18'?"),
        ("model=no/such/file.py", "no/such"),
    ],
)
def test_what_is_mistyped_is_refused(axis: str, message: str) -> None:
    assert message in refusal(axis)


def test_an_axis_given_twice_is_refused() -> None:
    with pytest.raises(MatrixError, match="given twice; write --axis world_size=V1,V2"):
        parse_axes(["world_size=1", "world_size=2"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[scaling]\n", "bad.toml"),
        ("[[scalling]]\nmodel='mlp'\n", "unknown benchmark 'scalling'; did you mean 'scaling'?"),
        ("[[scaling]]\nworldsize=[1]\n", "unknown axis 'worldsize'; did you mean 'world_size'?"),
        ("[[scaling]]\nmodel=[]\n", "axis model has no values"),
        ("[scaling]\nmodel='mlp'\n", r"write [[scaling]]"),
        ("", "no cells"),
    ],
)
def test_a_matrix_file_with_a_fault_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(MatrixError) as refused:
        read_matrix(str(path))
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_matrix_that_is_not_there() -> None:
    with pytest.raises(MatrixError, match="not known; did you mean 'quick'"):
        read_matrix("quik")
    with pytest.raises(MatrixError, match=r"nowhere.toml: No such file"):
        read_matrix("nowhere.toml")


@pytest.mark.parametrize("facts", [LAPTOP, NODE])
@pytest.mark.parametrize("name", ["quick", "full"])
def test_the_named_matrices(name: str, facts: Facts) -> None:
    found = [case for group in cases(read_matrix(name), {}, facts).values() for case in group]
    assert len({case.id for case in found}) == len(found) > 10
    runnable = [case for case in found if why_not(case, facts) is None]
    assert any(case.processes > 1 for case in runnable)
    if facts is NODE:
        assert any(case.strategy == "dp" and case.world_size == 8 for case in runnable)


@pytest.mark.parametrize(
    ("case", "facts", "reason"),
    [
        (Case(backend="nccl", device="cuda", world_size=2), LAPTOP, "needs 2 GPUs, found 0"),
        (Case(backend="nccl", device="cpu", world_size=2), LAPTOP, "needs 2 GPUs, found 0"),
        (
            Case(backend="nccl", device="cuda", world_size=8),
            Facts(cores=8, gpus=1, backends=("gloo", "nccl")),
            "needs 8 GPUs, found 1",
        ),
        (Case(backend="nccl", device="cpu", world_size=2), NODE, "device=cpu needs gloo"),
        (Case(device="cuda"), LAPTOP, "needs 1 GPU, found 0"),
        (Case(device="cuda", world_size=2), Facts(cores=8, gpus=1), None),  # gloo ranks share it
        (Case(strategy="dp"), LAPTOP, None),
        (Case(strategy="dp", world_size=2), LAPTOP, "DataParallel works on accelerators only"),
        (Case(strategy="data_parallel"), LAPTOP, "data_parallel works on accelerators only"),
        (Case(strategy="dp", device="cuda", world_size=16), NODE, "needs 16 GPUs, found 8"),
        (Case(model="resnet18"), Facts(cores=2, torchvision=False), "needs torchvision"),
        (Case(model="torchvision:vgg11"), Facts(cores=2, torchvision=False), "needs torchvision"),
        (Case(model="resnet18"), LAPTOP, None),
        (Case(), Facts(cores=2, torchvision=False), None),
        (Case(), Facts(cores=2, backends=()), "this torch has no gloo"),
        (Case(strategy="single"), Facts(cores=2, backends=()), None),
        (_collective("all_gather", 1000, 3), LAPTOP, "the next size that can is 1008"),
        (_collective("all_reduce", 1000, 3), LAPTOP, None),
        (_collective("all_reduce", 1001, 2), LAPTOP, "the next size that can is 1004"),
        (Case(world_size=4), CONNECTED, "needs 4 ranks, 2 are connected"),
        (Case(world_size=2, launcher="spawn"), CONNECTED, "--ranks external has its own"),
        (Case(world_size=2, init_method="file"), CONNECTED, "a folder that all hosts share"),
        (Case(world_size=2), CONNECTED, None),
        (Case(world_size=2, placement="spread"), CONNECTED, "spread is the same as packed"),
        (Case(world_size=2, placement="spread"), LAPTOP, "on one host spread is the same"),
        (Case(world_size=2, placement="spread"), TWO_NODES, None),
        (Case(backend="nccl", device="cuda", world_size=16), TWO_NODES, None),
        (Case(backend="nccl", device="cuda", world_size=17), TWO_NODES, "17 GPUs, found 16"),
        (Case(strategy="dp", device="cuda", world_size=16), TWO_NODES, "16 GPUs, found 8"),
        (Case(init_method="file", world_size=8), TWO_NODES, None),  # all on the first
    ],
)
def test_why_a_cell_cannot_run(case: Case, facts: Facts, reason: str | None) -> None:
    """A28, A29."""
    found = why_not(case, facts)
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert reason in found


def test_a_models_own_wishes_fill_in_the_case_unless_an_axis_says_otherwise(
    tmp_path: Path,
) -> None:
    model = str(tmp_path / "mine.py")
    Path(model).write_text("")
    facts = Facts(cores=2, ddp_kw={model: {"gradient_as_bucket_view": True}})
    group = {"model": [model], "world_size": [2]}
    assert [case.gradient_as_bucket_view for case in expand(group, facts)] == [True]
    both = expand(group, facts, "gradient_as_bucket_view=false,true")
    assert [case.gradient_as_bucket_view for case in both] == [False, True]
    # Another strategy has no such setting.
    assert expand(group, facts, "strategy=all_reduce")[0].gradient_as_bucket_view is False


def test_one_rank_has_no_placement() -> None:
    groups = {"scaling": [{"world_size": [1, 2], "placement": ["packed", "spread"]}]}
    found = cases(groups, {}, TWO_NODES)["scaling"]
    assert [case.id for case in found] == [
        "ddp-mlp-w1-nccl-cuda",
        "ddp-mlp-w2-nccl-cuda",
        "ddp-mlp-w2-nccl-spread-cuda",
    ]
