"""torch's version strings: order, family and channel (E01, E02 and E04 of the public cases)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.torch_versions import torch_version

Shared = Callable[[str], Path]


@pytest.mark.parametrize(
    ("text", "release", "family", "channel"),
    [
        ("2.9.1+cu128", "2.9.1", "cu", "release"),
        ("2.14.1+cpu", "2.14.1", "cpu", "release"),
        ("2.14.0+rocm7.2", "2.14.0", "rocm", "release"),
        ("2.14.1+xpu", "2.14.1", "xpu", "release"),
        ("2.14.1", "2.14.1", "unknown", "release"),
        ("2.0.0+cu117.with.pypi.cudnn", "2.0.0", "cu", "release"),
        ("2.6.0+cpu.cxx11.abi", "2.6.0", "cpu", "release"),
        ("2.1.0.post100", "2.1.0", "unknown", "release"),
        ("2.14.0rc3", "2.14.0", "unknown", "rc"),
        ("2.15.0.dev20261001+cu130", "2.15.0", "cu", "nightly"),
        ("2.15.0a0+git1a2b3c4", "2.15.0", "unknown", "source"),
        ("2.9.0+git1a2b3c4", "2.9.0", "unknown", "source"),
        ("2.5.0+1234567", "2.5.0", "unknown", "source"),
        ("2.9.0a0+50eac811a6.nv25.09", "2.9.0", "cu", "source"),
        ("2.7.0a0+rocm7.0.0.dev0.515115ea", "2.7.0", "rocm", "source"),
        # What packaging refuses: ordered by the release they begin with.
        ("2.0.0.nv23.05", "2.0.0", "cu", "source"),
        ("3.4.0+gitb2c0ea43+rocm7.1.0", "3.4.0", "rocm", "source"),
        # No version of one torch.
        ("unknown", None, "unknown", "unknown"),
        ("", None, "unknown", "unknown"),
        (None, None, "unknown", "unknown"),
        ("2.13.0, 2.14.1", None, "unknown", "unknown"),
        ("2.13.0, abc", None, "unknown", "unknown"),
        ("<b>2.1</b>", None, "unknown", "unknown"),
    ],
)
def test_parts(text: str | None, release: str | None, family: str, channel: str) -> None:
    found = torch_version(text)
    assert (found.release, found.family, found.channel) == (release, family, channel)
    assert found.raw == (text or "")
    assert found.shown == (text or "version not stated")


def test_order() -> None:
    ordered = [
        "2.0.0.nv23.05",
        "2.9.1+cu128",
        "2.10.0+cu128",
        "2.14.0.dev20260101+cu130",
        "2.14.0.dev20260109+cu130",
        "2.14.0a0+git1a2b3c4",
        "2.14.0rc3",
        "2.14.0rc10",
        "2.14.0",
        "2.14.1+cu128",
        "2.14.1+cu130",
        "3.4.0+gitb2c0ea43+rocm7.1.0",
        "",
        "unknown",
    ]
    backwards = ordered[::-1]
    assert sorted(backwards, key=lambda text: torch_version(text).key) == ordered


def test_e01_and_e02_of_the_public_cases(shared: Shared) -> None:
    texts = []
    for n in range(14):
        document = json.loads(shared(f"b09_version_{n:02}.json").read_text())
        texts.append(document["machine_info"]["torch"])
    ordered = sorted(texts, key=lambda text: torch_version(text).key)
    assert ordered.index("2.9.1+cu128") < ordered.index("2.10.0+cu128")
    assert ordered[0] == "2.0.0.nv23.05"
    assert ordered[-3:] == ["3.4.0+gitb2c0ea43+rocm7.1.0", "", "unknown"]
    assert torch_version("3.4.0+gitb2c0ea43+rocm7.1.0").release == "3.4.0"
