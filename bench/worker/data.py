"""Where a rank's batches come from: a synthetic batch, or a loader over a data set.

Batches are made on the CPU as (args, target); `to_device` moves them.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from models.model import Batch, Model

CIFAR10_SHAPE = (3, 32, 32)
CIFAR10_CLASSES = 10
SAMPLES = 50_000  # of a made-up data set: as many as CIFAR10 has for training
FAKE_IMAGES = 64  # really drawn; see _FakeImages


def to_device(value: Any, device: torch.device | str) -> Any:
    """The same tensors on the device; tuples, lists and dicts are gone through."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, (tuple, list)):
        moved = [to_device(part, device) for part in value]
        # A namedtuple takes its parts one by one.
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    if isinstance(value, dict):
        return {key: to_device(part, device) for key, part in value.items()}
    return value


def synthetic(
    model: Model,
    batch_size: int,
    rank: int,
    device: torch.device | str,
    step: int = 0,
    seed: int = 0,
) -> Batch:
    """The model's own batch of (seed, rank, step), on the device."""
    args, target = to_device(model.batch(batch_size, rank, step, seed), device)
    return args, target


class LoaderSource:
    """Batches without end: at the end of an epoch the next one begins, in a new order.

    source: in words, where the samples come from; it belongs into the record.
    epoch: the epoch of the last batch, from 0.
    """

    def __init__(
        self, batches: DataLoader[Any], sampler: DistributedSampler[Any], source: str
    ) -> None:
        self.source = source
        self.epoch = 0
        self._batches = batches
        self._sampler = sampler
        self._iterator: Iterator[Any] | None = None

    def next(self) -> Batch:
        """The next (args, target), on the CPU, always `batch_size` samples."""
        if self._iterator is None:
            self._sampler.set_epoch(self.epoch)
            self._iterator = iter(self._batches)
        try:
            made = next(self._iterator)
        except StopIteration:
            self.epoch += 1
            self._sampler.set_epoch(self.epoch)
            self._iterator = iter(self._batches)
            made = next(self._iterator)  # never empty: `loader` saw to that
        args, target = made
        return tuple(args), target

    def close(self) -> None:
        """End the loader's worker processes, if it has any; the source cannot be used again."""
        self._iterator = None
        del self._batches  # with persistent workers it holds the iterator, and so the processes


def loader(
    model: Model,
    batch_size: int,
    rank: int,
    world_size: int,
    seed: int,
    data_root: str | os.PathLike[str] | None,
    download: bool,
    workers: int = 0,
    samples: int = SAMPLES,
) -> LoaderSource:
    """An endless source of this rank's share of a data set, `batch_size` samples at a time.

    Images for a model of 3x32x32 and 10 classes are CIFAR10's where `data_root` holds it, and
    are fetched to it only if `download` is true. Other image models, and these without CIFAR10,
    get torchvision's FakeData of their shape; models that take no images get samples of their
    own, and so do image models where torchvision cannot be imported. `samples` is the size of a
    made-up set.

    ValueError: `download` without a `data_root`. OSError, RuntimeError: the download failed.
    """
    samples = max(samples, batch_size * world_size)
    dataset, source = _dataset(model, seed, data_root, download, samples)
    length = len(dataset)
    if length < batch_size * world_size:
        times = math.ceil(batch_size * world_size / length)
        dataset = ConcatDataset([dataset] * times)
        source += f", {length} repeated {times} times to fill one batch of every rank"
    sampler: DistributedSampler[Any] = DistributedSampler(
        dataset, num_replicas=world_size, rank=rank, shuffle=True, seed=seed
    )
    batches: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=sampler,
        num_workers=workers,
        drop_last=True,
        collate_fn=_collate,
        generator=torch.Generator().manual_seed(seed),  # leaves the global one to the model
        persistent_workers=workers > 0,  # as in training: workers outlive an epoch
        # Models of one's own cannot be pickled; newer Pythons no longer fork unless told to.
        multiprocessing_context="fork" if workers > 0 else None,
    )
    return LoaderSource(batches, sampler, source)


def _dataset(
    model: Model,
    seed: int,
    data_root: str | os.PathLike[str] | None,
    download: bool,
    samples: int,
) -> tuple[Dataset[Any], str]:
    """A data set of (args, target), one sample each with a first dimension of 1 in every tensor,
    and in words what it is."""
    if model.dataset is not None:
        return _Unsqueezed(model.dataset()), "the model's own samples"
    if model.input_shape is None or model.classes is None:
        return _OwnSamples(model, seed, samples), "the model's own samples"
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):  # RuntimeError: made for another torch
        source = "the model's own samples, torchvision is not importable"
        return _OwnSamples(model, seed, samples), source

    shape = "x".join(str(size) for size in model.input_shape)
    source = f"FakeData {shape}"
    if model.input_shape == CIFAR10_SHAPE and model.classes == CIFAR10_CLASSES:
        if data_root is None:
            if download:
                raise ValueError("to download CIFAR10, say where to: the data root is not set")
            source += ", no data root given"
        else:
            cifar10 = _cifar10(Path(data_root), download)
            if cifar10 is not None:
                return _Unsqueezed(cifar10), f"CIFAR10 at {data_root}"
            source += f", no CIFAR10 at {data_root}"
    fake = _FakeImages(model.input_shape, model.classes, seed, samples)
    return _Unsqueezed(fake), source


def _cifar10(root: Path, download: bool) -> Dataset[Any] | None:
    """CIFAR10's training images, or None where they are not (whole) in `root`."""
    from torchvision import transforms
    from torchvision.datasets import CIFAR10

    def open_it(download: bool) -> Dataset[Any]:
        images: Dataset[Any] = CIFAR10(
            os.fspath(root), train=True, download=download, transform=transforms.ToTensor()
        )
        return images

    try:
        return open_it(download=False)
    except RuntimeError:  # "Dataset not found or corrupted"
        if not download:
            return None
    with _only_process(root):  # the first rank here downloads, the others find it done
        return open_it(download=True)


@contextlib.contextmanager
def _only_process(folder: Path) -> Iterator[None]:
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lockstep-download", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed, or we die
        yield


class _FakeImages(Dataset[Any]):
    """torchvision's FakeData, of which only the first 64 images are drawn, and drawn once.

    FakeData draws an image anew each time and seeds every generator of torch for it, which takes
    several times as long as reading an image of CIFAR10. Here an item costs what CIFAR10's
    does: from an image in memory to a tensor. It costs the same in every epoch.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, seed: int, samples: int) -> None:
        from torchvision import transforms
        from torchvision.datasets import FakeData

        drawn = FakeData(min(FAKE_IMAGES, samples), shape, classes, random_offset=seed)
        self._images = [drawn[index] for index in range(len(drawn))]
        self._to_tensor = transforms.ToTensor()
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, target = self._images[index % len(self._images)]
        return self._to_tensor(image), target


class _OwnSamples(Dataset[Batch]):
    """Sample i is the model's batch of one sample at step i: the same set on every rank."""

    def __init__(self, model: Model, seed: int, samples: int) -> None:
        self._model, self._seed, self._samples = model, seed, samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> Batch:
        return self._model.batch(1, 0, index, self._seed)


class _Unsqueezed(Dataset[Batch]):
    """(x, target) samples as batches of one sample, the form that `_collate` joins."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Batch:
        x, target = self._dataset[index]
        return (x.unsqueeze(0),), torch.as_tensor(target).unsqueeze(0)


def _collate(samples: list[Batch]) -> Batch:
    args, target = _join(samples)
    return args, target


def _join(parts: list[Any]) -> Any:
    """Batches of one sample -> one batch: tensors are joined along their first dimension."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts)
    if isinstance(first, (tuple, list)):
        joined = [_join(list(column)) for column in zip(*parts, strict=True)]
        return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)
    if isinstance(first, dict):
        return {key: _join([part[key] for part in parts]) for key in first}
    if all(part == first for part in parts):  # None, a flag, a number
        return first
    raise TypeError(f"samples cannot be joined to a batch: they hold differing {type(first)}")
