"""torch's version strings -> what to order them by, and which builds may stand in one series.

`packaging` orders them (2.9.1 before 2.10.0). What it refuses, as NVIDIA's `2.0.0.nv23.05` or
`3.4.0+gitb2c0ea43+rocm7.1.0`, is ordered by the release it begins with; what begins with none
comes last. The text itself is never changed: it is what is shown.

A build's *family* is what its kernels are made for: ``cu`` (CUDA), ``rocm``, ``xpu``, ``cpu``, or
``unknown`` where the text does not tell. cu128 and cu130 are one family: a release brings its own
CUDA (2.9.1 is cu128, 2.14.1 is cu130), so taken apart no history would outlast a CUDA release, and
"torch X -> Y" would never be asked. The exact tag stands at every point, since CUDA may be the
cause.

A *channel* is how a build came about: ``release``, ``rc``, ``nightly`` (.dev), ``source`` (a0, a
git hash, NVIDIA's containers, anybody's own) or ``unknown``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

RELEASE, RC, NIGHTLY, SOURCE, UNKNOWN = "release", "rc", "nightly", "source", "unknown"
#: Where a version without any number stands; never shown.
_NOWHERE = Version("0")
#: Parts of a local version that PyTorch's own releases have had beside the family's.
_PARTS_OF_RELEASES = frozenset(("cxx11", "abi", "with", "pypi", "cudnn"))


@dataclass(frozen=True)
class TorchVersion:
    """``raw`` as the file has it; ``release`` is "2.9.1", or None where there is no number."""

    raw: str
    release: str | None
    family: str
    channel: str
    order: Version | None

    @property
    def shown(self) -> str:
        return self.raw or "version not stated"

    @property
    def key(self) -> tuple[bool, Version, str]:
        """To sort by: as versions, the unknown last, equal ones by their text."""
        return self.order is None, self.order or _NOWHERE, self.raw


def torch_version(text: str | None) -> TorchVersion:
    """Never raises: a text without a release is of unknown family and channel, and sorts last."""
    raw = (text or "").strip()
    found = re.match(r"v?(\d+(?:\.\d+)*)(?![\d,;\s])", raw)
    rest = raw[found.end() :] if found else ""
    if found is None or (rest and not re.match(r"[.+_-]?[A-Za-z]|\+", rest)):
        return TorchVersion(raw, None, UNKNOWN, UNKNOWN, None)
    release = found[1]
    parts = [part for part in re.split(r"[.+_-]+", rest.lower()) if part]
    family = next(filter(None, map(_family, parts)), UNKNOWN)
    try:
        version = Version(raw)
    except InvalidVersion:
        return TorchVersion(raw, release, family, SOURCE, Version(release))
    return TorchVersion(raw, version.base_version, family, _channel(version), version)


def _family(part: str) -> str | None:
    if part in ("cpu", "xpu"):
        return part
    if re.fullmatch(r"cu\d+|nv\d+", part):
        return "cu"  # NVIDIA's containers and Jetson wheels are CUDA builds without a tag
    return "rocm" if re.fullmatch(r"rocm\d*", part) else None


def _channel(version: Version) -> str:
    if version.is_devrelease:
        return NIGHTLY
    local = (version.local or "").split(".")
    for part in filter(None, local):
        of_rocm = part.isdigit() and local[0].startswith("rocm")  # rocm7.2 is two parts
        of_release = part in _PARTS_OF_RELEASES or of_rocm
        if not of_release and (_family(part) is None or part.startswith("nv")):
            return SOURCE
    if version.pre is not None:
        return RC if version.pre[0] == "rc" else SOURCE  # a0 is what a checkout calls itself
    return RELEASE
