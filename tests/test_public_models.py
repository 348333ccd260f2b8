"""Models from public reports in one sweep, with the right outcome of each (their numbers stand at
the tests). Steps count from 0, and each phase anew: torch's "second step" is step 1 here.

Elsewhere: A21, A23, A25 and D11 in test_end_to_end.py, A26 in test_strategies.py and
reports/test_public_cases.py, A28 for one GPU in test_matrix.py, A29 if it were launched in
test_strategies.py, D03 in test_outcomes.py, the files of D11 in reports/test_command_line.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from reports.frames import rows
from reports.load import load
from reports.page import render
from reports.scaling_figures import drawn_series
from reports.tables import Tables, compute
from tests.sweeps import MODELS, SHORT, Sweep, needs_shared, results, sweep

pytestmark = needs_shared

#: m03 of a rank that leaves the others alone: at the 4th step, which is the first after warm-up.
UNEVEN = """
import itertools, os
import torch
import torch.distributed as dist
from torch import nn
steps = itertools.count(1)
def build():
    module = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
    module[0].requires_grad_(False)
    return module
def batch(n, rank, step): return (torch.randn(n, 8),), torch.randn(n, 4)
def loss(output, target): return (output - target).pow(2).mean()
def step_fn(model, args, target):
    if dist.get_rank() == 1 and next(steps) in (4, 5):
        LEAVES
    loss(model(*args), target).backward()
"""
WAYS_TO_LEAVE = {
    "fewer_steps": "return",
    "runs_out": 'raise StopIteration("no samples left")',
    "ends_early": "os._exit(0)",
}
#: As a kernel that waits for a message for ever.
SILENT = """
import threading
import torch
import torch.distributed as dist
from torch import nn
def build(): return nn.Linear(8, 4)
def batch(n, rank, step): return (torch.randn(n, 8),), torch.randn(n, 4)
def loss(output, target):
    if dist.get_rank() == 1:
        threading.Event().wait()
    return (output - target).pow(2).mean()
"""
#: A model that cannot be built where anything of another job is left.
SEES_ITS_PLACE = """
import os
import torch
import torch.distributed as dist
from torch import nn
def build():
    place = {"RANK": dist.get_rank(), "LOCAL_RANK": dist.get_rank(), "WORLD_SIZE": 2}
    seen = {name: int(os.environ[name]) for name in place}
    left = [name for name in os.environ if name.startswith("PET_")]
    if seen != place or dist.get_world_size() != 2 or left:
        raise ValueError(f"{seen} of {dist.get_world_size()}, {left}")
    if os.environ["MASTER_ADDR"] == "elsewhere.invalid" or os.environ["MASTER_PORT"] == "1":
        raise ValueError("the master of another job")
    return nn.Linear(8, 4)
def batch(n, rank, step): return (torch.randn(n, 8),), torch.randn(n, 4)
def loss(output, target): return (output - target).pow(2).mean()
"""
#: Those that fail stand before others, which must not suffer from it. EVERY is what all share.
CELLS = """
[[scaling]]
model = ["SHARED/m01_unused_branch.py", "SHARED/m02_all_frozen.py", "SHARED/m12_lazy.py"]
strategy = ["ddp"]
world_size = [2]
EVERY

[[scaling]]
model = ["SHARED/m02_all_frozen.py", "SHARED/m12_lazy.py"]
strategy = ["single", "dp"]
world_size = [1]
EVERY

[[scaling]]
model = [
    "OWN/runs_out.py", "SHARED/m03_frozen_backbone.py",
    "SHARED/m04_dataclass_output.py", "SHARED/m06_tied_weights.py",
    "SHARED/m07_checkpoint_twice.py", "SHARED/m10_bn_two_forwards.py",
    "SHARED/m17_static_graph_changes.py", "SHARED/m21_odd_buffers.py",
    "SHARED/m25_one_rank_raises.py", "SHARED/m22_half_weights.py",
    "OWN/ends_early.py", "OWN/sees_its_place.py",
    "OWN/silent.py", "OWN/fewer_steps.py",
]
strategy = ["ddp"]
world_size = [2]
EVERY

[[scaling]]
model = ["SHARED/m14_rank_dependent_branch.py"]
strategy = ["ddp"]
world_size = [2]
find_unused_parameters = [false, true]
EVERY

[[scaling]]
model = ["SHARED/m11_bn_one_sample.py"]
strategy = ["ddp"]
scaling = ["strong"]
world_size = [1, 4, 2]
EVERY

[[scaling]]
model = ["SHARED/m08_sparse_embedding.py"]
strategy = ["ddp"]
world_size = [64]
batch_size = [4]
backend = ["nccl"]

[[buckets]]
model = ["SHARED/m19_bucket_view_detach.py", "SHARED/m08_sparse_embedding.py"]
strategy = ["ddp"]
world_size = [2]
gradient_as_bucket_view = [false, true]
EVERY
"""
EVERY = """
batch_size = [4]
backend = ["gloo"]
device = ["cpu"]
"""
TIMEOUT_S = 15


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("public")
    for name, leaves in WAYS_TO_LEAVE.items():
        (folder / f"{name}.py").write_text(UNEVEN.replace("LEAVES", leaves))
    (folder / "silent.py").write_text(SILENT)
    (folder / "sees_its_place.py").write_text(SEES_ITS_PLACE)
    text = CELLS.replace("EVERY", EVERY.strip())
    text = text.replace("SHARED", str(MODELS)).replace("OWN", str(folder))
    (folder / "cells.toml").write_text(text)
    return sweep(
        folder,
        *(*SHORT, "--max-seconds", "0.1", "--case-timeout", str(TIMEOUT_S)),
        *("--matrix", str(folder / "cells.toml")),
        # F06: a shell that sat in another job.
        PET_NNODES="2",
        PET_NPROC_PER_NODE="3",
        MASTER_ADDR="elsewhere.invalid",
        MASTER_PORT="1",
        RANK="7",
        LOCAL_RANK="7",
        WORLD_SIZE="64",
        SLURM_PROCID="7",
    )


@pytest.fixture(scope="module")
def tables(swept: Sweep) -> Tables:
    return compute(load([swept.json_path]))


@pytest.fixture(scope="module")
def page(tables: Tables) -> str:
    return render(tables)


def ended(swept: Sweep, model: str, **fields: Any) -> dict[str, Any]:
    """How the only cell with these fields ended. ``model``: the beginning of its file's name."""
    (found,) = (
        outcome
        for outcome in swept.document["lockstep"]["outcomes"]
        if f"/{model}" in outcome["case"]["model"]
        and all(outcome["case"][name] == value for name, value in fields.items())
    )
    return dict(found)


def measured(swept: Sweep, model: str, **fields: Any) -> dict[str, Any]:
    """The only launch of the only cell with these fields, which has ended well."""
    outcome = ended(swept, model, **fields)
    assert outcome["outcome"] == "ok", outcome["reason"]
    return swept.launch(outcome["id"])


#: (model, fields of its cell, phase, step, type, words of the message)
FAILED: dict[str, tuple[str, dict[str, Any], str, int, str, str]] = {
    "A01": ("m01", {}, "warm-up", 1, "RuntimeError", "Expected to have finished reduction"),
    # Although unused parameters are looked for: DDP does not look into a dataclass.
    "A04": ("m04", {}, "warm-up", 1, "RuntimeError", "`find_unused_parameters=True` is enabled"),
    "A07": ("m07", {}, "warm-up", 0, "RuntimeError", "mark a variable ready only once"),
    "A11": ("m11", {"world_size": 4}, "warm-up", 0, "ValueError", "more than 1 value per channel"),
    "A14": (
        *("m14", {"find_unused_parameters": False}),
        *("warm-up", 1, "RuntimeError", "Expected to have finished reduction"),
    ),
    "A16": ("m17", {}, "warm-up", 1, "RuntimeError", "training graph has changed"),
    "A18": ("m19", {"gradient_as_bucket_view": True}, "warm-up", 1, "RuntimeError", "detach"),
    "F09": ("m25", {}, "warm-up", 2, "ValueError", "bad sample on rank 1"),
}


@pytest.mark.parametrize("case_id", FAILED)
def test_a_model_that_cannot_be_trained_so_fails_with_its_cause(swept: Sweep, case_id: str) -> None:
    model, fields, phase, step, kind, words = FAILED[case_id]
    outcome = ended(swept, model, **fields)
    assert outcome["outcome"] == "failed"
    failure = outcome["failure"]
    assert (failure["phase"], failure["step"], failure["type"]) == (phase, step, kind)
    assert words in failure["message"]
    assert kind in failure["traceback"]
    # No number, and no second try.
    assert outcome["id"] not in [each["extra_info"]["id"] for each in swept.document["benchmarks"]]
    assert len([line for line in swept.journal if line.get("id") == outcome["id"]]) == 1


def test_f09_the_cause_is_the_rank_that_raised(swept: Sweep) -> None:
    """Rank 0 only saw a connection close."""
    failure = ended(swept, "m25")["failure"]
    assert failure["rank"] == 1
    assert "in forward" in failure["traceback"]
    assert swept.status == 1


def test_all_other_cells_were_measured(swept: Sweep) -> None:
    outcomes = swept.document["lockstep"]["outcomes"]
    ids = {ended(swept, model, **fields)["id"] for model, fields, *_ in FAILED.values()}
    ids |= {ended(swept, name)["id"] for name in (*WAYS_TO_LEAVE, "silent")}
    ids |= {ended(swept, "m02", strategy="ddp")["id"]}
    ids |= {ended(swept, "m08", backend="nccl")["id"]}
    if Version(torch_of(swept)) < Version("2.13"):
        ids |= {ended(swept, "m10")["id"]}
    assert {each["id"] for each in outcomes if each["outcome"] != "ok"} == ids
    good = {each["id"] for each in outcomes if each["outcome"] == "ok"}
    assert good == {each["extra_info"]["id"] for each in swept.document["benchmarks"]}


def torch_of(swept: Sweep) -> str:
    return str(swept.document["lockstep"]["interpreters"][""]["torch"]).partition("+")[0]


@pytest.mark.parametrize(
    ("model", "parameters", "gradient_bytes"),
    [
        ("m03", 836, 4 * 260),  # the head alone is trained
        ("m06", 512, 2048),  # the shared tensor once
        ("m12", 41, 164),  # 8 -> 4 -> 1, once the lazy layer has its shape
        ("m21", 36, 144),
        ("m22", 36, 72),  # bf16: two bytes each
    ],
    ids=["A20", "A06", "A12", "A31-buffers", "A31-bf16"],
)
def test_all_gradients_are_reduced_once(
    swept: Sweep, model: str, parameters: int, gradient_bytes: int
) -> None:
    launch = measured(swept, model, strategy="ddp")
    assert (launch["parameters"], launch["gradient_bytes"]) == (parameters, gradient_bytes)
    assert launch["buckets"]["rebuilt_bytes"] == [gradient_bytes]
    for rank in launch["ranks"]:
        assert rank["communication"]["calls_per_step"] == 1
        assert rank["communication"]["bytes_per_step"] == gradient_bytes
    checks = launch["checks"]
    assert checks["reduced_bytes_equal_gradient_bytes"] is True
    assert checks["parameters_equal"] is True
    assert checks["gradients_match"] is True


def test_a02_nothing_to_train_is_invalid_for_ddp_alone(swept: Sweep) -> None:
    outcome = ended(swept, "m02", strategy="ddp")
    assert (outcome["outcome"], outcome["failure"]["phase"]) == ("failed", "wrap")
    assert "invalid for ddp: the model has no trainable parameter" in outcome["reason"]
    for strategy in ("single", "dp"):
        launch = measured(swept, "m02", strategy=strategy)
        assert (launch["parameters"], launch["gradient_bytes"]) == (108, 0)
        assert launch["label"] == "nothing to train: forward pass only"


def test_a02_the_page_shows_the_cause_without_a_traceback(tables: Tables, page: str) -> None:
    of_id = {row["id"]: row for row in rows(tables.records.outcomes)}
    row = next(row for id, row in of_id.items() if "m02" in id and row["outcome"] != "ok")
    assert row["traceback"] is None
    assert row["reason"] in page
    # Other failures keep theirs.
    assert next(row for id, row in of_id.items() if "m01" in id)["traceback"]


@pytest.mark.parametrize("view", [False, True])
def test_a08_sparse_gradients_are_reduced_on_gloo(swept: Sweep, view: bool) -> None:
    """Not by one plain all-reduce: how many bytes travel is unknown, and that is no mistake."""
    launch = measured(swept, "m08", backend="gloo", gradient_as_bucket_view=view)
    assert launch["checks"]["reduced_bytes_equal_gradient_bytes"] is None
    assert launch["checks"]["gradients_match"] is True
    (entry,) = (
        entry
        for entry in swept.document["benchmarks"]
        if entry["extra_info"]["result"]["launches"][0] == launch
    )
    assert entry["extra_info"]["result"]["warnings"] == []


def test_a08_a28_a29_nccl_without_its_gpus_is_skipped_before_launch(swept: Sweep) -> None:
    """gloo cells of the same sweep run: see above."""
    outcome = ended(swept, "m08", backend="nccl")
    gpus = len(swept.document["lockstep"]["interpreters"][""]["gpus"])
    assert outcome["outcome"] == "skipped"
    assert outcome["reason"] == f"needs 64 GPUs, found {gpus}"
    assert outcome["failure"] is None
    assert outcome["id"] not in [line.get("id") for line in swept.journal]


def test_a10_two_forwards_before_one_backward(swept: Sweep) -> None:
    """torch 2.13 has mended it."""
    if Version(torch_of(swept)) < Version("2.13"):
        assert ended(swept, "m10")["outcome"] == "failed"
        return
    launch = measured(swept, "m10")
    assert launch["gradient_bytes"] == 4 * 193
    assert launch["checks"]["reduced_bytes_equal_gradient_bytes"] is True
    assert launch["checks"]["parameters_equal"] is True


def test_a11_a_failed_point_is_a_gap_and_no_zero(swept: Sweep, tables: Tables, page: str) -> None:
    strong = [
        row
        for row in rows(tables.scaling)
        if row["kind"] == "strong" and "m11" in (row["model"] or "")
    ]
    assert [row["world_size"] for row in strong] == [1, 2]
    assert all(row["throughput_samples_per_s"] > 0 for row in strong)
    assert {row["global_batch_size"] for row in strong} == {4}
    table = tables.scaling[tables.scaling["cell"].isin([row["cell"] for row in strong])]
    (points,) = drawn_series(table[table["kind"] == "strong"], "throughput_samples_per_s").values()
    assert [point["world_size"] for point in points] == [1, 2]
    section = page[page.index('<section id="outcomes"') :]
    assert ended(swept, "m11", world_size=4)["id"] in section
    assert "ValueError" in section


@pytest.mark.parametrize("strategy", ["single", "dp", "ddp"])
def test_a12_lazy_layers_get_their_shapes_before_wrapping(swept: Sweep, strategy: str) -> None:
    launch = measured(swept, "m12", strategy=strategy)
    assert launch["lazy_layers"] is True
    assert (launch["parameters"], launch["gradient_bytes"]) == (41, 164)
    assert launch["checks"]["gradients_match"] is True


def test_a14_a_branch_by_rank_runs_where_unused_parameters_are_looked_for(swept: Sweep) -> None:
    launch = measured(swept, "m14", find_unused_parameters=True)
    assert launch["gradient_bytes"] == 4 * 2 * 36
    assert launch["checks"]["parameters_equal"] is True
    # The map of used parameters travels beside the gradients, and is none of their bytes.
    assert [rank["communication"]["calls_per_step"] for rank in launch["ranks"]] == [2, 2]
    assert launch["checks"]["reduced_bytes_per_step"] == launch["gradient_bytes"]


def test_a18_a_value_stands_beside_a_failure_without_a_ratio(
    swept: Sweep, tables: Tables, page: str
) -> None:
    value, failed = (row for row in rows(tables.buckets) if "m19" in row["id"])
    measured(swept, "m19", gradient_as_bucket_view=False)
    assert (value["gradient_as_bucket_view"], value["not_run"]) == (False, None)
    assert value["throughput_samples_per_s"] > 0
    assert (failed["gradient_as_bucket_view"], failed["not_run"]) == (True, "failed")
    assert failed["ratio"] is failed["throughput_samples_per_s"] is None
    assert "detach" in failed["reason"]
    section = page[page.index('<section id="buckets"') : page.index('<section id="cases"')]
    assert failed["id"] in section
    assert '<span class="bad">failed</span>' in section


def test_a20_every_rank_runs_the_same_number_of_steps(swept: Sweep) -> None:
    found = results(swept)
    assert found
    for case, launch in found:
        counts = [len(rank["step_s"]) for rank in launch["ranks"]]
        assert counts == [launch["steps"]] * case.processes


@pytest.mark.parametrize(
    ("way", "outcomes", "words"),
    [
        # Whose message the other rank's then meets, and how gloo takes it, is a matter of luck.
        ("fewer_steps", ("failed", "crashed", "timed out"), ""),
        ("runs_out", ("failed",), "no samples left"),
        ("ends_early", ("crashed",), "exit code 0"),
    ],
)
def test_a20_a_rank_that_does_fewer_steps_is_a_failure_and_no_hang(
    swept: Sweep, way: str, outcomes: tuple[str, ...], words: str
) -> None:
    outcome = ended(swept, way)
    failure = outcome["failure"]
    assert outcome["outcome"] in outcomes
    assert failure["phase"] == "timed"
    assert words in failure["message"]
    if words:
        assert failure["rank"] == 1


def test_f11_a_rank_that_never_answers_is_timed_out(swept: Sweep) -> None:
    """The cells after it are measured, and nothing of it is left: see ``sweep``."""
    outcome = ended(swept, "silent")
    assert outcome["outcome"] == "timed out"
    assert "warm-up did not end within" in outcome["reason"]
    failure = outcome["failure"]
    assert (failure["rank"], failure["phase"], failure["step"]) == (1, "warm-up", 0)
    # Which rank is in which call, and all stacks.
    assert "rank 0 in warm-up" in outcome["reason"]
    assert "rank 1 in warm-up step 0, wait (" in outcome["reason"]
    assert "--- rank 0" in failure["traceback"]
    assert "silent.py" in failure["traceback"].partition("--- rank 1")[2]


def test_f06_ranks_know_their_own_job_only(swept: Sweep) -> None:
    """Anything else they would see keeps this model from being built."""
    launch = measured(swept, "sees_its_place")
    assert [rank["rank"] for rank in launch["ranks"]] == [0, 1]
