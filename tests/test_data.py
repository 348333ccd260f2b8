"""Where batches come from: synthetic ones and the loader over 1 and 2 ranks."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from bench.worker.data import LoaderSource, loader, synthetic, to_device
from models.model import Batch, Model
from models.registry import load


def make(
    model: Model,
    batch_size: int = 10,
    rank: int = 0,
    world_size: int = 1,
    seed: int = 0,
    data_root: Path | None = None,
    download: bool = False,
    **more: Any,
) -> LoaderSource:
    return loader(model, batch_size, rank, world_size, seed, data_root, download, **more)


def epoch_of(source: LoaderSource, batches: int) -> list[float]:
    """The first number of every sample of the next so many batches, in order."""
    return [x for _ in range(batches) for x in source.next()[0][0].flatten(1)[:, 0].tolist()]


# ------------------------------------------------------------------ synthetic


def test_synthetic_is_the_models_batch_of_that_rank_and_step() -> None:
    model = load("cifar_cnn")
    (images,), target = synthetic(model, 4, rank=1, device="cpu", step=2, seed=3)
    (expected,), expected_target = model.batch(4, 1, 2, 3)
    assert tuple(images.shape) == (4, 3, 32, 32)
    assert torch.equal(images, expected) and torch.equal(target, expected_target)


def test_to_device_goes_through_containers() -> None:
    value = ({"a": torch.ones(1), "b": [torch.ones(1), 3]}, None)
    moved = to_device(value, "meta")
    assert moved[0]["a"].is_meta and moved[0]["b"][0].is_meta
    assert moved[0]["b"][1] == 3 and moved[1] is None
    pair = torch.return_types.max(torch.ones(2, 2).max(dim=0))  # a torch structseq
    assert to_device(pair, "meta")[0].is_meta


# ------------------------------------------------------------------ epochs and ranks


@pytest.mark.parametrize("workers", [0, 1])
def test_two_ranks_see_every_sample_once_per_epoch(workers: int) -> None:
    model = load("mlp")
    assert model.dataset is not None
    data: Any = model.dataset()
    every = sorted(data.tensors[0][:, 0].tolist())
    sources = [make(model, rank=rank, world_size=2, workers=workers) for rank in (0, 1)]
    epochs = [[epoch_of(source, 5) for source in sources] for _ in range(2)]
    for first, second in epochs:
        assert sorted(first + second) == every
    assert epochs[0][0] != epochs[1][0]  # set_epoch: a new order, and other samples
    assert sorted(epochs[0][0]) != sorted(epochs[1][0])
    assert [source.epoch for source in sources] == [1, 1]
    for source in sources:
        source.close()


def test_the_order_depends_on_the_seed_alone() -> None:
    model = load("mlp")
    torch.manual_seed(1)
    first = epoch_of(make(model, seed=1), 10)
    torch.manual_seed(2)
    assert epoch_of(make(model, seed=1), 10) == first
    assert epoch_of(make(model, seed=2), 10) != first


def test_samples_keep_their_targets() -> None:
    model = load("mlp")
    assert model.dataset is not None
    data: Any = model.dataset()
    target_of = dict(zip(data.tensors[0][:, 0].tolist(), data.tensors[1].tolist(), strict=True))
    (x,), target = make(model, batch_size=100).next()
    assert [target_of[value] for value in x[:, 0].tolist()] == target.tolist()


def test_a_short_last_batch_is_dropped() -> None:
    source = make(load("mlp"), batch_size=30)
    sizes = [len(source.next()[1]) for _ in range(5)]
    assert sizes == [30] * 5 and source.epoch == 1


def test_a_set_smaller_than_one_batch_of_all_ranks_is_repeated_and_says_so() -> None:
    source = make(load("mlp"), batch_size=64, rank=1, world_size=4)
    assert len(source.next()[1]) == 64
    assert source.source == (
        "the model's own samples, 100 repeated 3 times to fill one batch of every rank"
    )


def test_the_global_random_state_is_left_alone() -> None:
    state = torch.get_rng_state()
    for name in ("mlp", "cifar_cnn", "transformer-s"):
        make(load(name)).next()
    assert torch.equal(state, torch.get_rng_state())


# ------------------------------------------------------------------ FakeData and CIFAR10


def test_fake_images_are_said_so_and_are_the_same_on_every_rank(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    model = load("cifar_cnn")
    source = make(model, batch_size=6, data_root=tmp_path, samples=12)
    assert source.source == f"FakeData 3x32x32, no CIFAR10 at {tmp_path}"
    (images,), target = source.next()
    assert tuple(images.shape) == (6, 3, 32, 32) and images.dtype == torch.float32
    assert images.min() >= 0 and images.max() <= 1
    assert target.dtype == torch.int64 and target.min() >= 0 and target.max() < 10
    assert torch.equal(make(model, 6, data_root=tmp_path, samples=12).next()[0][0], images)

    ranks = [make(model, 6, rank, 2, data_root=tmp_path, samples=12) for rank in (0, 1)]
    seen = [value for rank in ranks for value in epoch_of(rank, 1)]
    alone = make(model, 6, data_root=tmp_path, samples=12)
    assert sorted(seen) == sorted(epoch_of(alone, 2))
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_fake_images_repeat_after_the_first_64() -> None:
    pytest.importorskip("torchvision")
    source = make(load("conv_small"), batch_size=128, samples=128)
    assert source.source == "FakeData 3x5x5"
    (images,), _ = source.next()
    assert len({tuple(image.flatten().tolist()) for image in images}) == 64


def test_without_a_data_root_the_source_says_so() -> None:
    pytest.importorskip("torchvision")
    assert make(load("cifar_cnn")).source == "FakeData 3x32x32, no data root given"
    with pytest.raises(ValueError, match="the data root is not set"):
        make(load("cifar_cnn"), download=True)


def test_cifar10s_shape_with_other_classes_is_not_cifar10(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    source = make(load("resnet18@32"), batch_size=2, data_root=tmp_path)
    assert source.source == "FakeData 3x32x32"


class FakeCifar10:
    """In place of torchvision's: 20 samples; 'there' once the folder holds a file."""

    asked: ClassVar[list[bool]] = []

    def __init__(self, root: str, train: bool, download: bool, transform: Any) -> None:
        FakeCifar10.asked.append(download)
        assert train
        there = Path(root) / "there"
        if download:
            there.touch()
        if not there.exists():
            raise RuntimeError("Dataset not found or corrupted.")

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 32, 32), float(index)), index % 10


@pytest.fixture
def cifar10(monkeypatch: pytest.MonkeyPatch) -> type[FakeCifar10]:
    pytest.importorskip("torchvision")
    monkeypatch.setattr("torchvision.datasets.CIFAR10", FakeCifar10)
    monkeypatch.setattr(FakeCifar10, "asked", [])
    return FakeCifar10


def test_cifar10_is_used_where_it_is(tmp_path: Path, cifar10: type[FakeCifar10]) -> None:
    (tmp_path / "there").touch()
    source = make(load("cifar_cnn"), data_root=tmp_path)
    assert source.source == f"CIFAR10 at {tmp_path}"
    assert sorted(epoch_of(source, 2)) == list(range(20))
    (images,), target = source.next()
    assert tuple(images.shape) == (10, 3, 32, 32)
    assert [value % 10 for value in images[:, 0, 0, 0].long().tolist()] == target.tolist()
    assert cifar10.asked == [False]


def test_cifar10_is_downloaded_only_if_asked(tmp_path: Path, cifar10: type[FakeCifar10]) -> None:
    root = tmp_path / "new"
    assert make(load("cifar_cnn"), data_root=root).source.startswith("FakeData")
    assert cifar10.asked == [False] and not root.exists()
    assert make(load("cifar_cnn"), data_root=root, download=True).source == f"CIFAR10 at {root}"
    assert cifar10.asked == [False, False, True]
    make(load("cifar_cnn"), data_root=root, download=True)
    assert cifar10.asked[3:] == [False]  # there is nothing left to download


# ------------------------------------------------------------------ the model's own samples


def test_models_without_images_bring_their_own_samples() -> None:
    model = load("transformer-s")
    source = make(model, batch_size=3, samples=6)
    assert source.source == "the model's own samples"
    (tokens,), target = source.next()
    assert tuple(tokens.shape) == tuple(target.shape) == (3, 32)
    texts = [tuple(text.tolist()) for text in tokens]
    texts += [tuple(text.tolist()) for text in source.next()[0][0]]
    own = [tuple(model.batch(1, 0, index)[0][0][0].tolist()) for index in range(6)]
    assert sorted(texts) == sorted(own)


def test_without_torchvision_the_models_own_samples_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    source = make(load("cifar_cnn"), batch_size=4)
    assert source.source == "the model's own samples, torchvision is not importable"
    assert tuple(source.next()[0][0].shape) == (4, 3, 32, 32)


def with_batch(batch: Any) -> Model:
    return dataclasses.replace(load("transformer-s"), batch=batch)


def test_samples_of_any_structure_are_joined() -> None:
    def batch(n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Batch:
        x = torch.full((n, 2), float(step))
        return ({"ids": x, "mask": None}, [x, x + 1]), (x, True)

    (inputs, pair), target = make(with_batch(batch), batch_size=3, samples=3).next()
    assert sorted(inputs["ids"][:, 0].tolist()) == [0.0, 1.0, 2.0]
    assert inputs["mask"] is None and torch.equal(pair[1], pair[0] + 1)
    assert torch.equal(target[0], pair[0]) and target[1] is True


def test_samples_that_cannot_be_joined_are_refused() -> None:
    def batch(n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Batch:
        return (step,), torch.ones(n)

    with pytest.raises(TypeError, match="cannot be joined to a batch"):
        make(with_batch(batch), batch_size=3, samples=3).next()
