"""Named matrices and axes -> the list of cases, with reasons for what cannot run.

A matrix is a TOML file: one table per group of cells, named for the benchmark the cells belong to
(``[[scaling]]``, ``[[buckets]]``), whose keys are fields of Case. Its cells are the product of
the values. An ``--axis`` replaces the values of its field in every group.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.case import (
    COLLECTIVE_FIELDS,
    DDP_FIELDS,
    DEFAULT,
    FIELD_NAMES,
    GROUP_FIELDS,
    ONE_PROCESS,
    TRAINING_FIELDS,
    Case,
    parse_value,
)
from bench.nearest import did_you_mean
from bench.placement import hosts_of
from bench.units import bytes_text, parse_bytes
from models.names import check_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "matrices"
BENCHMARKS = ("scaling", "buckets", "collectives")
#: Ranks have a square of pairs: larger jobs measure them where that number is asked for.
MOST_RANKS_IN_PAIRS = 16
#: With less an exchange tells the latency of two processes, which an axis may still ask for.
LEAST_BYTES_OF_PAIRS = 1 << 20
#: The order in which axes are nested, outermost first: new ranks are started as rarely as can be.
_ORDER = (
    "launcher",
    "model",
    "device",
    "data",
    "precision",
    "batch_size",
    "scaling",
    "backend",
    "strategy",
    "world_size",
    "init_method",
    "placement",
    *DDP_FIELDS,
    "dtype",
    "collective",
    "bytes",
    "threads",
    "seed",
    "torch",
)
Axes = dict[str, list[Any]]


class MatrixError(ValueError):
    """A matrix, an axis or a value that is refused, in one line."""


@dataclass(frozen=True)
class Facts:
    """What an interpreter has (see bench/interpreters.py), and the hosts (bench/topology.py).

    ``cores`` and ``gpus`` are those of one host.
    """

    cores: int
    gpus: int = 0
    backends: tuple[str, ...] = ("gloo",)
    torchvision: bool = True
    #: What a user's own model asks of DDP, by the model's name.
    ddp_kw: Mapping[str, Mapping[str, Any]] | None = None
    #: Hosts with so many cores and GPUs each.
    nodes: int = 1
    #: Ranks on every host; empty where there is one, and as many as are asked for.
    ranks_of_hosts: tuple[int, ...] = ()
    #: Ranks, where nobody starts more of them.
    connected: int | None = None
    #: The option by which ranks come to be, where it is not a torchrun here.
    started_by: str = ""

    @property
    def world_sizes(self) -> list[int]:
        """1, 2, 4 ... up to the ranks there are, or else up to the GPUs, or up to the cores. That
        number is always in it."""
        most = self.connected or (self.gpus or self.cores) * self.nodes
        sizes = [1]
        while sizes[-1] * 2 <= most:
            sizes.append(sizes[-1] * 2)
        return sizes if sizes[-1] == most else [*sizes, most]


def read_matrix(name: str) -> dict[str, list[Axes]]:
    """The groups of a named matrix or a TOML file, by benchmark. Raises MatrixError."""
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        path = Path(name)
        named = sorted(file.stem for file in FOLDER.glob("*.toml"))
        if path.suffix != ".toml":
            raise MatrixError(
                f"--matrix {name}: not known{did_you_mean(name, named)} "
                f"(choose from {', '.join(named)}, or name a .toml file)"
            )
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise MatrixError(f"--matrix {path}: {error.strerror}") from None
    except ValueError as error:
        raise MatrixError(f"--matrix {path}: {error}") from None
    groups: dict[str, list[Axes]] = {}
    for benchmark, tables in content.items():
        if benchmark not in BENCHMARKS:
            raise MatrixError(
                f"--matrix {path}: unknown benchmark {benchmark!r}"
                f"{did_you_mean(benchmark, BENCHMARKS)} (choose from {', '.join(BENCHMARKS)})"
            )
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise MatrixError(f"--matrix {path}: write [[{benchmark}]], a list of tables")
        for table in tables:
            axes: Axes = {}
            for field, values in table.items():
                if field not in FIELD_NAMES:
                    raise MatrixError(
                        f"--matrix {path}: unknown axis {field!r}{did_you_mean(field, FIELD_NAMES)}"
                    )
                values = values if isinstance(values, list) else [values]
                try:
                    axes[field] = [_toml_value(field, value) for value in values]
                except ValueError as error:
                    raise MatrixError(f"--matrix {path}: {error}") from None
                if not axes[field]:
                    raise MatrixError(f"--matrix {path}: axis {field} has no values")
            groups.setdefault(benchmark, []).append(axes)
    if not groups:
        raise MatrixError(f"--matrix {path}: no cells in it")
    return groups


def parse_axes(options: Iterable[str]) -> Axes:
    """``NAME=V1,V2`` as typed, to values. Raises MatrixError.

    Options within a model's name are parted by colons here: ``model=sleep:layers=4:mb=1``.
    """
    axes: Axes = {}
    for option in options:
        name, equals, values = option.partition("=")
        name = name.strip()
        if not equals or not values.strip():
            raise MatrixError(f"--axis {option}: write NAME=V1,V2")
        if name in axes:
            raise MatrixError(f"--axis {name} is given twice; write --axis {name}=V1,V2")
        try:
            axes[name] = [parse_value(name, value) for value in values.split(",")]
        except ValueError as error:
            raise MatrixError(f"--axis: {error}") from None
    return axes


def cases(groups: Mapping[str, Sequence[Axes]], axes: Axes, facts: Facts) -> dict[str, list[Case]]:
    """Every cell once, by benchmark. Raises MatrixError for a cell that makes no sense."""
    seen: dict[str, Case] = {}
    found: dict[str, list[Case]] = {benchmark: [] for benchmark in BENCHMARKS}
    for benchmark, tables in groups.items():
        for table in tables:
            own = {"strategy": ["collective"]} if benchmark == "collectives" else {}
            for case in _product({**table, **axes, **own}, facts, "collective" in axes):
                other = seen.setdefault(case.id, case)
                if other != case:
                    raise MatrixError(f"two different cells have the id {case.id}")
                if other is case:
                    found[benchmark].append(case)
    return found


def why_not(case: Case, facts: Facts) -> str | None:
    """Why the case cannot run on what this machine and interpreter have; None where it can."""
    if facts.connected is not None and case.processes > facts.connected:
        return f"needs {case.processes} ranks, {facts.connected} are connected"
    if case.backend == "nccl" and case.processes > facts.gpus * facts.nodes:
        return _needs(case.processes, facts.gpus * facts.nodes)
    if case.backend == "nccl" and case.device == "cpu":
        return "nccl moves tensors of GPUs only; device=cpu needs gloo"
    if case.device == "cuda" and facts.gpus == 0:
        return _needs(1, 0)
    if case.in_group and case.backend not in facts.backends:
        return f"this torch has no {case.backend}"
    if case.strategy in ("dp", "data_parallel"):
        if case.device == "cpu" and case.strategy == "data_parallel":
            return "data_parallel works on accelerators only, found none"
        if case.device == "cpu" and case.world_size > 1:
            return (
                "DataParallel works on accelerators only: on a CPU it is the plain module, "
                f"not {case.world_size} replicas"
            )
        if case.device == "cuda" and case.world_size > facts.gpus:
            return _needs(case.world_size, facts.gpus)
    if case.bytes % case.granule_bytes:
        fits = bytes_text(-(-case.bytes // case.granule_bytes) * case.granule_bytes)
        return (
            f"{bytes_text(case.bytes)} of {case.dtype} cannot be divided among {case.world_size} "
            f"ranks; the next size that can is {fits}"
        )
    if not facts.torchvision and _needs_torchvision(case.model):
        return "needs torchvision, which this interpreter cannot import"
    return _why_not_there(case, facts)


def _why_not_there(case: Case, facts: Facts) -> str | None:
    """Why the case cannot run on these hosts, or need not."""
    if facts.started_by and case.launcher != DEFAULT.launcher:
        return f"launcher={case.launcher} starts ranks itself; {facts.started_by} has its own"
    placed = hosts_of(facts.ranks_of_hosts, case.placement, case.processes)
    if case.init_method == "file" and len(set(placed)) > 1:
        return "init_method=file needs a folder that all hosts share"
    if case.placement == "spread":
        if len(facts.ranks_of_hosts) < 2:
            return "on one host spread is the same as packed"
        if placed == hosts_of(facts.ranks_of_hosts, "packed", case.processes):
            return "with these hosts spread is the same as packed"
    return None


def _product(axes: Axes, facts: Facts, pairs_asked: bool) -> Iterable[Case]:
    axes = dict(axes)
    for model in axes.get("model", []):
        problem = check_name(str(model))
        if problem:
            raise MatrixError(problem)
    asked = axes.get("world_size", [])
    axes["world_size"] = [
        size for value in axes.get("world_size", ["auto"]) for size in _world_sizes(value, facts)
    ]
    axes.setdefault("device", ["auto"])
    axes.setdefault("backend", ["auto"])
    names = [name for name in _ORDER if name in axes]
    assert set(names) == set(axes), "an axis without a place in _ORDER"
    for values in itertools.product(*(axes[name] for name in names)):
        fields = dict(zip(names, values, strict=True))
        if fields.get("strategy") == "collective" and not _is_worth_it(fields, asked, pairs_asked):
            continue
        yield from _case(fields, facts)


def _is_worth_it(fields: dict[str, Any], asked: Sequence[Any], pairs_asked: bool) -> bool:
    """Nothing moves on one rank. Pairs of very many ranks, and of few bytes, are measured where
    that number, and where pairs, are asked for."""
    ranks, size = fields["world_size"], fields.get("bytes")
    if fields.get("collective") != "pairs":
        return bool(ranks != 1)
    few = isinstance(size, int) and size < LEAST_BYTES_OF_PAIRS and not pairs_asked
    many = isinstance(ranks, int) and ranks > MOST_RANKS_IN_PAIRS and ranks not in asked
    return not (ranks == 1 or few or many)


def _case(fields: dict[str, Any], facts: Facts) -> Iterable[Case]:
    if fields["device"] == "auto":
        fields["device"] = "cuda" if facts.gpus or fields["backend"] == "nccl" else "cpu"
    if fields["backend"] == "auto":
        fields["backend"] = "nccl" if fields["device"] == "cuda" and facts.gpus else "gloo"
    strategy = fields.get("strategy", DEFAULT.strategy)
    irrelevant: tuple[str, ...] = () if strategy == "ddp" else DDP_FIELDS
    irrelevant += TRAINING_FIELDS if strategy == "collective" else COLLECTIVE_FIELDS
    if strategy in ONE_PROCESS:
        irrelevant += GROUP_FIELDS
    for name in irrelevant:
        fields.pop(name, None)
    if strategy == "collective":
        fields["model"] = ""
    if strategy == "single":
        fields["world_size"] = 1
    if fields["world_size"] == 1:
        fields.pop("placement", None)  # one rank has no neighbour
    if strategy == "ddp" and facts.ddp_kw:
        asked = facts.ddp_kw.get(str(fields.get("model", DEFAULT.model)), {})
        for name in DDP_FIELDS:
            if name in asked:
                fields.setdefault(name, asked[name])
    if fields.get("scaling") == "strong":
        total = fields.get("batch_size", DEFAULT.batch_size)
        ranks = fields["world_size"]
        if isinstance(total, int) and isinstance(ranks, int) and ranks > 0:
            if total % ranks:
                raise MatrixError(
                    f"batch_size={total} cannot be divided among world_size={ranks} with "
                    "scaling=strong (the global batch is fixed); choose a multiple"
                )
            fields["batch_size"] = total // ranks  # what is no number Case refuses
        if ranks == 1:  # weak and strong start from the same cell
            del fields["scaling"]
    try:
        yield Case.from_dict(fields)
    except (ValueError, TypeError) as error:
        raise MatrixError(str(error)) from None


def _world_sizes(value: Any, facts: Facts) -> list[int]:
    if value == "auto":
        return facts.world_sizes
    if value == "largest":
        return facts.world_sizes[-1:]
    return [value]


def _toml_value(field: str, value: Any) -> Any:
    """TOML has no null: an unset bucket_cap_mb or threads is written as "unset". Sizes may have
    units."""
    if field == "bytes" and isinstance(value, str):
        return parse_bytes(value)
    return None if value == "unset" else value


def _needs(gpus: int, found: int) -> str:
    return f"needs {gpus} GPU{'s' if gpus > 1 else ''}, found {found}"


def _needs_torchvision(model: str) -> bool:
    return model.startswith(("resnet", "torchvision:"))
