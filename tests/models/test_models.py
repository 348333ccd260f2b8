"""The models: shapes and parameter counts worked out by hand, and one step of each small one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from models.names import check_name, names
from models.registry import load
from models.sleep_options import SleepOptions
from models.virtual_link import VirtualLink
from models.waiting import AWAKE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("LOCKSTEP_SHARED", ROOT.parent / "shared"))
USER_MODELS = sorted((SHARED / "cases" / "models").glob("*.py"))
SMALL = ["mlp", "cifar_cnn", "conv_fc", "conv_small", "transformer-s", "sleep:forward_ms=0:mb=0.1"]


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def weight_shapes(module: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(p.shape) for key, p in module.named_parameters() if key.endswith("weight")]


def layer_names(module: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in module.children()]


# ------------------------------------------------------------------ shapes and counts


def test_mlp_has_the_recipes_layers_and_samples() -> None:
    model = load("mlp")
    module = model.build()
    assert layer_names(module) == ["Linear", "ReLU", "Linear"]
    assert weight_shapes(module) == [(5, 10), (2, 5)]
    assert parameter_count(module) == 10 * 5 + 5 + 5 * 2 + 2 == 67
    assert model.dataset is not None
    data: Any = model.dataset()
    assert [tuple(tensor.shape) for tensor in data.tensors] == [(100, 10), (100,)]
    (x,), target = model.batch(250)
    fixed = {tuple(sample.tolist()) for sample in data.tensors[0]}
    assert {tuple(sample.tolist()) for sample in x} <= fixed
    assert set(target.tolist()) == {0, 1}


def test_cifar_cnn_has_the_recipes_layers() -> None:
    module = load("cifar_cnn").build()
    expected = ["Conv2d", "ReLU", "Conv2d", "ReLU", "MaxPool2d", "Flatten", "Linear"]
    assert layer_names(module) == expected
    assert weight_shapes(module) == [(32, 3, 3, 3), (64, 32, 3, 3), (10, 64 * 16 * 16)]
    # 3*32*9 + 32, 32*64*9 + 64, 16384*10 + 10
    assert parameter_count(module) == 896 + 18_496 + 163_850 == 183_242


def test_conv_fc_has_the_recipes_layers() -> None:
    module = load("conv_fc").build()
    assert layer_names(module) == ["Conv2d", "Conv2d", "Flatten", "Linear", "Linear"]
    expected = [(64, 3, 3, 3), (128, 64, 3, 3), (256, 128 * 10 * 10), (10, 256)]
    assert weight_shapes(module) == expected
    # 3*64*9 + 64, 64*128*9 + 128, 12800*256 + 256, 256*10 + 10
    assert parameter_count(module) == 1_792 + 73_856 + 3_277_056 + 2_570 == 3_355_274


def test_conv_small_has_the_recipes_layers() -> None:
    module = load("conv_small").build()
    assert layer_names(module) == ["Conv2d", "ReLU", "Conv2d", "ReLU", "Flatten", "Linear"]
    assert weight_shapes(module) == [(64, 3, 3, 3), (64, 64, 3, 3), (10, 64)]
    # 3*64*9 + 64, 64*64*9 + 64, 64*10 + 10
    assert parameter_count(module) == 1_792 + 36_928 + 650 == 39_370


def test_image_models_say_their_shape_and_classes() -> None:
    shapes = {name: load(name).input_shape for name in ("cifar_cnn", "conv_fc", "conv_small")}
    expected = {"cifar_cnn": (3, 32, 32), "conv_fc": (3, 14, 14), "conv_small": (3, 5, 5)}
    assert shapes == expected
    assert load("cifar_cnn").classes == 10
    for name in ("mlp", "sleep", "transformer-s"):
        assert (load(name).input_shape, load(name).classes) == (None, None)


def transformer_parameters(vocabulary: int, sequence: int, width: int, layers: int) -> int:
    attention = 3 * width * width + 3 * width + width * width + width
    feed_forward = 2 * (4 * width * width) + 4 * width + width
    two_norms = 2 * 2 * width
    embeddings = vocabulary * width + sequence * width  # the output layer shares the former
    return layers * (attention + feed_forward + two_norms) + embeddings + 2 * width


def test_transformer_presets_have_their_sizes() -> None:
    small = load("transformer-s").build()
    assert parameter_count(small) == transformer_parameters(2048, 32, 256, 4) == 3_692_032
    with torch.device("meta"):  # the sizes without the 440 MB
        medium = load("transformer-m").build()
        logits = medium(torch.zeros(2, 512, dtype=torch.long))
    assert parameter_count(medium) == transformer_parameters(32000, 512, 768, 12) == 110_025_216
    assert tuple(logits.shape) == (2, 512, 32000)


def test_transformer_looks_at_no_later_token() -> None:
    torch.manual_seed(0)
    model = load("transformer-s")
    module = model.build()
    (tokens,), target = model.batch(2)
    assert torch.equal(tokens[:, 1:], target[:, :-1])  # the target is the next token
    changed = tokens.clone()
    changed[:, 20:] = (changed[:, 20:] + 1) % 2048
    with torch.no_grad():
        before, after = module(tokens), module(changed)
    torch.testing.assert_close(before[:, :20], after[:, :20])
    assert not torch.allclose(before[:, 20:], after[:, 20:])


def test_transformer_has_no_buffers_for_ddp_to_broadcast() -> None:
    assert list(load("transformer-s").build().buffers()) == []


# ------------------------------------------------------------------ one step of each


@pytest.mark.parametrize("name", SMALL)
def test_one_step_gives_every_parameter_a_gradient_and_changes_it(name: str) -> None:
    torch.manual_seed(0)
    model = load(name)
    module = model.build()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    args, target = model.batch(4)
    loss = model.loss(module(*args), target)
    assert loss.dim() == 0 and torch.isfinite(loss)
    loss.backward()
    optimizer = model.optimizer(module.parameters())
    optimizer.step()
    for old, parameter in zip(before, module.parameters(), strict=True):
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0
        assert not torch.equal(old, parameter)


def test_the_default_optimizer_is_sgd_with_momentum() -> None:
    model = load("mlp")
    optimizer = model.optimizer(model.build().parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    assert (optimizer.defaults["lr"], optimizer.defaults["momentum"]) == (0.01, 0.9)
    assert isinstance(model.loss, nn.CrossEntropyLoss)


@pytest.mark.parametrize("name", SMALL)
def test_any_rank_can_make_any_other_ranks_batch(name: str) -> None:
    model = load(name)

    def flat(n: int, rank: int, step: int, seed: int) -> torch.Tensor:
        x: torch.Tensor = model.batch(n, rank, step, seed)[0][0]
        return x.flatten()

    state = torch.get_rng_state()
    first = flat(16, 1, 2, 3)
    torch.randn(5)
    assert torch.equal(first, flat(16, 1, 2, 3))
    assert torch.equal(first, flat(16, rank=1, step=2, seed=3))
    for other in ((0, 2, 3), (1, 3, 3), (1, 2, 4), (2, 1, 3)):
        assert not torch.equal(first, flat(16, *other))
    torch.set_rng_state(state)
    model.batch(4)
    assert torch.equal(state, torch.get_rng_state())  # the training's own draws are untouched


# ------------------------------------------------------------------ torchvision


def test_resnets_have_torchvisions_sizes() -> None:
    pytest.importorskip("torchvision")
    with torch.device("meta"):
        assert parameter_count(load("resnet18").build()) == 11_689_512
        assert parameter_count(load("resnet50").build()) == 25_557_032
    assert load("resnet50").input_shape == (3, 224, 224)


def test_image_side_is_part_of_the_name() -> None:
    pytest.importorskip("torchvision")
    model = load("resnet18@64")
    assert (model.name, model.input_shape, model.classes) == ("resnet18@64", (3, 64, 64), 1000)
    (images,), target = model.batch(2)
    assert tuple(images.shape) == (2, 3, 64, 64)
    with torch.device("meta"):
        module = model.build()
        output = module(images.to("meta"))
        model.loss(output, target.to("meta")).backward()
        assert tuple(output.shape) == (2, 1000)


@pytest.mark.parametrize("name", ["googlenet@64", "vit_b_32@64", "squeezenet1_1@64"])
def test_models_with_arguments_or_heads_of_their_own_learn_with_all_parameters(name: str) -> None:
    pytest.importorskip("torchvision")
    model = load(f"torchvision:{name}")
    with torch.device("meta"):
        module = model.build()
        args, target = model.batch(2)
        args = tuple(arg.to("meta") for arg in args)
        model.loss(module(*args), target.to("meta")).backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_auxiliary_heads_count_three_tenths() -> None:
    pytest.importorskip("torchvision")
    loss = load("torchvision:googlenet").loss
    logits, target = torch.randn(4, 1000), torch.randint(0, 1000, (4,))
    alone = nn.functional.cross_entropy(logits, target)
    torch.testing.assert_close(loss((logits, logits, None), target), 1.3 * alone)
    torch.testing.assert_close(loss(logits, target), alone)


def test_torchvision_names_are_refused_with_the_nearest() -> None:
    pytest.importorskip("torchvision")
    with pytest.raises(ValueError, match=r"no classification model 'resnet19'; did you mean"):
        load("torchvision:resnet19")
    with pytest.raises(ValueError, match="no classification model 'fcn_resnet50'"):
        load("torchvision:fcn_resnet50")  # segmentation


def test_missing_torchvision_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.delitem(sys.modules, "torchvision.models", raising=False)
    with pytest.raises(ValueError, match="'resnet18' needs torchvision") as caught:
        load("resnet18")
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ names


def test_names_and_checks_import_no_torch() -> None:
    program = (
        "import json, sys; import models.registry as r\n"
        "asked = ('mlp', 'resnet81', 'sleep:layrs=3', 'a.b', 'x.py')\n"
        "known, problems = r.names(), [r.check_name(name) for name in asked]\n"
        "imported = sorted({'torch', 'torchvision'} & set(sys.modules))\n"
        "print(json.dumps([known, problems, imported]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed, problems, imported = json.loads(done.stdout)
    assert imported == []
    assert listed == names()
    assert [problem is None for problem in problems] == [True, False, False, True, False]


def test_small_models_import_no_torchvision() -> None:
    program = (
        "import sys; from models.registry import load\n"
        "for name in ('mlp', 'cifar_cnn', 'sleep', 'transformer-s'): load(name)\n"
        "sys.exit('torchvision' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize("name", names())
def test_every_listed_name_loads(name: str) -> None:
    if name.startswith("resnet"):
        pytest.importorskip("torchvision")
    assert check_name(name) is None
    assert load(name).name == name


@pytest.mark.parametrize("name", ["resnet50@96", "torchvision:alexnet", "pkg.models.net"])
def test_names_that_only_loading_can_judge_pass_the_check(name: str) -> None:
    assert check_name(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("resnet81", "unknown model 'resnet81'; did you mean 'resnet18'?"),
        ("cifarcnn", "unknown model 'cifarcnn'; did you mean 'cifar_cnn'?"),
        ("transformer", "unknown model 'transformer'; did you mean 'transformer-s'?"),
        ("resnet18@0", "the image side after '@'"),
        ("resnet18@", "the image side after '@'"),
        ("resnet18@big", "the image side after '@'"),
        ("mlp@64", "only resnet18, resnet50 and torchvision:NAME take an image side"),
        ("torchvision:", "name a model of torchvision"),
        ("zzz", "known are mlp, "),
        ("", "unknown model ''"),
        ("sleep:layer=4", "unknown option 'layer'; did you mean 'layers'?"),
        ("sleep:zzz=4", "unknown option 'zzz'; known are layers, "),
        ("sleep:layers", "option 'layers' has no value"),
        ("sleep:layers=", "option 'layers' has no value"),
        ("sleep:layers=2,layers=3", "option 'layers' stands twice"),
        ("sleep:layers=2.5", "layers is a whole number, not '2.5'"),
        ("sleep:layers=0", "layers is at least 1, not '0'"),
        ("sleep:forward_ms=nan", "forward_ms is at least 0, not 'nan'"),
        ("sleep:mb=0", "mb is above 0, not '0'"),
        ("sleep:link_mbit=0", "link_mbit is above 0, not '0'"),
        ("sleep:mb=big", "mb is a number, not 'big'"),
        ("no/such/folder/net.py", "there is no folder 'no/such/folder'"),
        ("models/", "a model file's name ends in .py"),
    ],
)
def test_wrong_names_are_refused_with_a_reason(name: str, problem: str) -> None:
    said = check_name(name)
    assert said is not None and problem in said and "\n" not in said
    with pytest.raises(ValueError) as caught:
        load(name)
    assert str(caught.value) == said


def test_a_missing_file_is_refused_with_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "my_net.py").write_text("")
    said = check_name(str(tmp_path / "my_nett.py"))
    assert said is not None and f"did you mean '{tmp_path / 'my_net.py'}'?" in said


# ------------------------------------------------------------------ sleep


def test_sleep_options_are_read_from_the_name() -> None:
    assert SleepOptions.from_name("sleep") == SleepOptions(4, 5.0, 10.0, 1.0, None, 50.0)
    named = "sleep:layers=2,forward_ms=1.5,backward_ms=3,mb=0.5,late_rank=1,late_ms=20"
    options = SleepOptions.from_name(named)
    assert options == SleepOptions(2, 1.5, 3.0, 0.5, 1, 20.0)
    assert SleepOptions.from_name(named.replace(",", ":")) == options


@pytest.mark.parametrize(("mb", "size"), [("1", 2**20), ("0.25", 2**18), ("0.0000001", 4)])
def test_sleep_holds_the_asked_bytes_in_each_layer(mb: str, size: int) -> None:
    name = f"sleep:layers=3,mb={mb}"
    parameters = list(load(name).build().parameters())
    sizes = [parameter.numel() * parameter.element_size() for parameter in parameters]
    assert sizes == [size] * 3
    assert SleepOptions.from_name(name).parameter_bytes == 3 * size


def test_wait_sleeps_to_just_short_of_the_deadline_and_stays_awake_for_the_rest() -> None:
    now_s, slept_s = [0.0], []

    def clock() -> float:
        now_s[0] += 0.00001
        return now_s[0]

    def sleep(seconds: float) -> None:
        slept_s.append(seconds)
        now_s[0] += seconds

    wait_until(0.02, clock, sleep)
    assert slept_s == [pytest.approx(0.02 - AWAKE_S, abs=1e-4)]
    assert 0.02 <= now_s[0] <= 0.02 + 3e-5
    wait_until(0.0, clock, sleep)
    assert len(slept_s) == 1  # a deadline in the past is no wait


def test_sleep_waits_at_least_the_asked_time_in_forward_and_backward() -> None:
    model = load("sleep:layers=3,forward_ms=2,backward_ms=4,mb=0.01")
    module = model.build()
    args, target = model.batch(2)
    start_s = time.perf_counter()
    output = module(*args)
    middle_s = time.perf_counter()
    model.loss(output, target).backward()
    end_s = time.perf_counter()
    assert middle_s - start_s >= 0.006
    assert end_s - middle_s >= 0.012


def test_each_layers_gradient_is_ready_after_its_own_wait() -> None:
    model = load("sleep:layers=3,forward_ms=0,backward_ms=5,mb=0.01")
    module = model.build()
    ready_s = []
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: ready_s.append(time.perf_counter()))
    args, target = model.batch(2)
    loss = model.loss(module(*args), target)
    start_s = time.perf_counter()
    loss.backward()
    before_s = [start_s, *ready_s[:-1]]
    waits_s = [later - earlier for earlier, later in zip(before_s, ready_s, strict=True)]
    assert len(waits_s) == 3 and min(waits_s) >= 0.005


def test_only_the_late_rank_waits_and_once_per_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    waits_s: list[float] = []
    start_s = time.perf_counter()
    monkeypatch.setattr("models.sleep.wait_until", lambda until: waits_s.append(until - start_s))
    model = load("sleep:layers=2,forward_ms=0,backward_ms=0,mb=0.01,late_rank=1,late_ms=500000")
    module = model.build()
    args, _ = model.batch(2)
    module(*args)  # no process group: rank 0
    assert max(waits_s) < 500
    monkeypatch.setattr("models.sleep._rank", lambda: 1)
    module(*args)
    assert len([wait for wait in waits_s if wait >= 500]) == 1


def test_sleeps_gradient_is_that_of_its_formula() -> None:
    torch.manual_seed(0)
    model = load("sleep:layers=2,forward_ms=0,backward_ms=0,mb=0.001")
    module = model.build()
    (x,), target = model.batch(8)
    model.loss(module(x), target).backward()
    weights = [parameter.detach().clone().requires_grad_() for parameter in module.parameters()]
    scale = (2 * weights[0].numel()) ** -0.5
    output = x + scale * sum(weight.sum() for weight in weights)
    model.loss(output, target).backward()
    for parameter, weight in zip(module.parameters(), weights, strict=True):
        torch.testing.assert_close(parameter.grad, weight.grad)


def test_sleep_stays_finite_with_many_layers() -> None:
    model = load("sleep:layers=300,forward_ms=0,backward_ms=0,mb=0.0001")
    module = model.build()
    optimizer = model.optimizer(module.parameters())
    args, target = model.batch(4)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = model.loss(module(*args), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert max(losses) <= losses[0] * 1.5


def test_backward_waits_are_cpu_ops_in_a_profilers_trace(tmp_path: Path) -> None:
    model = load("sleep:layers=2,forward_ms=1,backward_ms=2,mb=0.01")
    module = model.build()
    args, target = model.batch(2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        model.loss(module(*args), target).backward()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    for name, least_us in (("Sleep", 1000), ("SleepBackward", 2000)):
        durations_us = [
            event["dur"]
            for event in events
            if event.get("name") == name and event.get("cat") == "cpu_op"
        ]
        assert len(durations_us) == 2 and min(durations_us) >= least_us - 1


# ------------------------------------------------------------------ one's own


needs_shared = pytest.mark.skipif(
    not USER_MODELS, reason=f"no model files in {SHARED / 'cases' / 'models'}"
)


@needs_shared
@pytest.mark.parametrize("path", USER_MODELS, ids=lambda path: path.stem)
def test_the_shared_models_load_build_and_make_the_same_batch_twice(path: Path) -> None:
    model = load(str(path))
    module = model.build()
    args, target = model.batch(2, 1, 5)
    again_args, again_target = model.batch(2, 1, 5)
    assert all(torch.equal(a, b) for a, b in zip(args, again_args, strict=True))
    assert torch.equal(target, again_target)
    loss = model.loss(module(*args), target)
    assert loss.dim() == 0


@needs_shared
def test_the_shared_models_options_are_taken() -> None:
    folder = SHARED / "cases" / "models"
    assert load(str(folder / "m04_dataclass_output.py")).ddp_kw == {"find_unused_parameters": True}
    assert load(str(folder / "m01_unused_branch.py")).ddp_kw == {}
    model = load(str(folder / "m10_bn_two_forwards.py"))
    assert model.step_fn is not None
    module = model.build()
    model.step_fn(module, *model.batch(4))
    assert all(parameter.grad is not None for parameter in module.parameters())
    tied = load(str(folder / "m06_tied_weights.py")).build()
    assert parameter_count(tied) == 512


GOOD = """
import torch, torch.nn as nn
import helper_beside_it
def build(): return nn.Linear(2, 1)
def batch(n, rank, step): return (torch.randn(n, 2),), torch.randn(n, 1)
def loss(output, target): return (output - target).pow(2).mean()
"""


def write(folder: Path, text: str, name: str = "net.py") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "helper_beside_it.py").write_text("")
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.fixture(autouse=True)
def _same_path_and_modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("lockstep_model_", "helper_beside_it", "my_package")):
            del sys.modules[name]


def test_a_file_is_loaded_with_its_own_optimizer_and_neighbours(tmp_path: Path) -> None:
    text = GOOD + "def optimizer(parameters): return torch.optim.Adam(parameters)\n"
    model = load(write(tmp_path, text))
    assert isinstance(model.optimizer(model.build().parameters()), torch.optim.Adam)
    assert model.step_fn is None and model.input_shape is None
    state = torch.get_rng_state()
    (x,), _ = model.batch(3, rank=1)
    assert tuple(x.shape) == (3, 2)
    assert torch.equal(state, torch.get_rng_state())


def test_a_dotted_module_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "my_package", GOOD.replace("import helper_beside_it", ""), "net.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load("my_package.net").name == "my_package.net"
    with pytest.raises(ValueError, match=r"importing model 'my_package\.nett' failed"):
        load("my_package.nett")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("def build()", "def buid()", r"no function build\(\); is 'buid' meant to be it\?"),
        ("def batch(", "def make(", r"no function batch\(n, rank, step\)"),
        ("def loss(", "loss = 3\ndef other(", r"loss is int, not loss\(output, target\)"),
        ("(n, rank, step)", "(n)", r"batch is called as batch\(n, rank, step\)"),
        ("import helper_beside_it", "import no_such_thing", "failed: ModuleNotFoundError"),
        ("import helper_beside_it", "def", "failed: SyntaxError"),
        ("import helper_beside_it", "DDP_KW = 3", "DDP_KW is int, not a dict"),
        (
            "import helper_beside_it",
            "DDP_KW = dict(find_unused_params=True)",
            r"takes no 'find_unused_params'; did you mean 'find_unused_parameters'\?",
        ),
        ("import helper_beside_it", "step_fn = 3", r"step_fn is int, not step_fn\(model"),
    ],
)
def test_what_is_wrong_with_ones_own_module_is_said_in_one_line(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ValueError, match=problem) as caught:
        load(path)
    assert path in str(caught.value) and "\n" not in str(caught.value)


def test_what_ones_own_functions_give_is_checked(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("(torch.randn(n, 2),),", "torch.randn(n, 2),"))
    with pytest.raises(ValueError, match=r"batch\(n, rank, step\) gave \(Tensor, Tensor\);"):
        load(path).batch(2)
    path = write(tmp_path, GOOD.replace("return nn.Linear(2, 1)", "return nn.Linear"))
    with pytest.raises(ValueError, match=r"build\(\) gave type, not an nn.Module"):
        load(path).build()


def test_a_virtual_link_carries_one_bucket_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB on 4 ranks over 8 Mbit/s: 1.5 MB at 1 MB/s, and 6 latencies of 10 ms."""
    now_s = [100.0]
    waits_s: list[float] = []
    monkeypatch.setattr("models.virtual_link.time.perf_counter", lambda: now_s[0])
    monkeypatch.setattr("models.virtual_link.wait_until", waits_s.append)
    monkeypatch.setattr("models.virtual_link.dist", FakeDistributed())
    link = VirtualLink(SleepOptions(link_mbit=8, link_us=10_000))
    assert link.seconds(1_000_000, 4) == pytest.approx(1.56)
    done = []
    for _ in range(2):
        done.append(link(Bucket(torch.ones(250_000))))
        now_s[0] += 0.5
    for future in done:
        future.wait()
    assert waits_s == pytest.approx([101.56, 103.12])  # the second waits for the first
    assert done[0].value()[0] == 0.25
    now_s[0] = 200.0
    link(Bucket(torch.ones(250_000))).wait()
    assert waits_s[-1] == pytest.approx(201.56)


class Bucket:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def buffer(self) -> torch.Tensor:
        return self.tensor


class FakeDistributed:
    """Four ranks, of which only this one has gradients."""

    def get_world_size(self) -> int:
        return 4

    def all_reduce(self, tensor: torch.Tensor, async_op: bool) -> FakeDistributed:
        return self

    def wait(self) -> None:
        pass
