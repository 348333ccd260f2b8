"""Records -> measured settings that a prediction can begin with, in groups of one workload."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.case import FIELD_NAMES
from reports import words
from reports.frames import Row, groups, rows
from reports.load import Records
from reports.predict_collectives import SeenNetwork, seen_network
from reports.predict_cost import Link
from reports.predict_fit import Setting
from reports.predict_step import Compute
from reports.source import number, table
from reports.stats import with_estimates

#: In these the cases of one workload may differ; a rank's work is the same.
_FREE = ("world_size", "bucket_cap_mb", "scaling", "init_method", "launcher", "placement")
SAME = (
    "file",
    *(name for name in FIELD_NAMES if name not in _FREE),
    *("threads_per_rank", "torch_version", "other"),
)
#: Of a step whose interval is not known.
_UNKNOWN_SPREAD = 0.02
_HOW = (
    "measure one with the pass that tells when gradients are ready, which is on by default: "
    "pytest bench --axis strategy=ddp --benchmark-json=RUN.json"
)


class NoPrediction(Exception):
    """One line: why nothing can be predicted, and what to do next."""


@dataclass(frozen=True)
class Workload:
    """Cases of DDP in which a rank does the same work. ``settings`` are what a fit may use, of the
    cases in ``cells`` (by id); ``throughputs``: samples per second by world size, each the best of
    its cases; ``seen``: what all-reduces alone have shown of the network. ``notes``: what was left
    out, and why."""

    model: str
    file: str
    backend: str
    settings: tuple[Setting, ...]
    cells: dict[str, Row]
    throughputs: dict[int, float]
    seen: SeenNetwork | None
    batch_size: int | None
    notes: tuple[str, ...]

    @property
    def base(self) -> Setting:
        """The case whose computing is taken: the one with most ranks, of those the first."""
        return max(self.settings, key=lambda one: one.world_size)


def workloads(
    records: Records,
    link: Link | None,
    *,
    case: str | None = None,
    model: str | None = None,
) -> list[Workload]:
    """Every workload that has what a prediction needs; ``link`` is the measured one, where the
    user states it. ``case``: only this case is fitted; ``model``: only its workloads.

    Raises NoPrediction.
    """
    cells = rows(with_estimates(records.cells, records.launches))
    ddp = [cell for cell in cells if cell["strategy"] == "ddp" and cell["own"]]
    if not ddp:
        raise NoPrediction(f"no case of ddp in the file; {_HOW}")
    chosen = [cell for cell in ddp if model is None or cell["model"] == model]
    if not chosen:
        names = words.joined(sorted({str(cell["model"]) for cell in ddp}))
        raise NoPrediction(f"no case of ddp with model {model}; the file has {names}")
    if case is not None and case not in [cell["id"] for cell in chosen]:
        ids = words.joined([cell["id"] for cell in chosen][:8])
        raise NoPrediction(f"no case of ddp with the id {case}; the file has {ids}")
    emulated = {row["file"]: _emulated(row["settings"]) for row in rows(records.files)}
    found = []
    reasons: list[str] = []
    for own in groups(chosen, *SAME).values():
        if case is not None and case not in [cell["id"] for cell in own]:
            continue
        seen = seen_network(cells, own[0])
        made = _workload(own, records, link or emulated.get(own[0]["file"]), case, seen)
        if isinstance(made, str):
            reasons.append(made)
        else:
            found.append(made)
    if not found:
        raise NoPrediction("; ".join(dict.fromkeys(reasons)) + f"; {_HOW}")
    return found


def _workload(
    own: Sequence[Row],
    records: Records,
    link: Link | None,
    case: str | None,
    seen: SeenNetwork | None,
) -> Workload | str:
    ready = groups(rows(records.ready), "cell")
    ranks = groups(rows(records.ranks), "cell")
    settings: list[Setting] = []
    cells: dict[str, Row] = {}
    reasons: dict[str, str] = {}
    for cell in own:
        if case is not None and cell["id"] != case:
            continue
        launches = ready.get((cell["cell"],), [])
        made = _setting(cell, launches, ranks.get((cell["cell"],), []), link)
        if isinstance(made, str):
            reasons[cell["id"]] = made
        else:
            settings.append(made)
            cells[cell["id"]] = cell
    notes = tuple(f"{words.printable(id)} is left out: {why}" for id, why in reasons.items())
    if not settings:
        return "; ".join(notes)
    throughputs: dict[int, float] = {}
    for cell in own:
        throughput = cell["throughput_samples_per_s"]
        if throughput is not None and cell["world_size"] and cell["scaling"] != "strong":
            best = throughputs.get(cell["world_size"], 0.0)
            throughputs[cell["world_size"]] = max(best, throughput)
    return Workload(
        model=words.model_and_label(own[0]),
        file=own[0]["file"],
        backend=own[0]["backend"] if own[0]["backend"] in ("gloo", "nccl") else "gloo",
        settings=tuple(settings),
        cells=cells,
        throughputs=throughputs,
        seen=seen,
        batch_size=own[0]["batch_size"],
        notes=notes,
    )


def _setting(
    cell: Row, launches: Sequence[Row], ranks: Sequence[Row], link: Link | None
) -> Setting | str:
    if cell["step_s"] is None or cell["conflict"]:
        return "it has no step time"
    if cell["find_unused_parameters"] and not cell["static_graph"]:
        return "find_unused_parameters: DDP does not make its buckets anew"
    known = [launch for launch in launches if launch["ready_s"] is not None]
    if not known:
        said = [launch["reason"] for launch in launches if launch["reason"]]
        return said[0] if said else "its record does not say when gradients are ready"
    compute = _compute(known)
    if compute is None:
        return "its launches do not have the same gradients"
    return Setting(
        id=cell["id"],
        world_size=cell["world_size"],
        bucket_cap_mb=cell["bucket_cap_mb"],
        compute=compute,
        step_s=cell["step_s"],
        spread=_spread(cell),
        link=link,
        seen_bytes_per_s=_seen(cell, ranks),
        silent_step_s=tuple(
            step for launch in known for rank in launch["silent_step_s"] for step in rank
        ),
    )


def _compute(launches: Sequence[Row]) -> Compute | None:
    """Gradient by gradient the median over launches; None where they have different ones."""
    by_place = [
        dict(
            zip(
                one["order"],
                zip(one["ready_s"], one["bytes"], one["dtypes"], strict=True),
                strict=True,
            )
        )
        for one in launches
    ]
    if len({frozenset(one) for one in by_place}) != 1:
        return None
    ready = {place: statistics.median(one[place][0] for one in by_place) for place in by_place[0]}
    order = sorted(ready, key=ready.__getitem__)
    median = {
        name: statistics.median(one[name] for one in launches)
        for name in ("forward_s", "backward_s", "optimizer_s")
    }
    return Compute(
        ready_s=tuple(ready[place] for place in order),
        bytes=tuple(by_place[0][place][1] for place in order),
        dtypes=tuple(by_place[0][place][2] for place in order),
        backward_end_s=max(median["forward_s"] + median["backward_s"], ready[order[-1]]),
        optimizer_s=median["optimizer_s"],
    )


def _spread(cell: Row) -> float:
    """Relative standard error of the step time, from its 95 % interval."""
    low, high = cell["step_low_s"], cell["step_high_s"]
    if low is None or high is None:
        return _UNKNOWN_SPREAD
    return float((high - low) / 2 / 1.96 / cell["step_s"])


def _seen(cell: Row, ranks: Sequence[Row]) -> float | None:
    """Bus bandwidth of the all-reduces under the profiler, waiting for others taken off, on the
    rank that waited least; bytes/s."""
    size = cell["world_size"]
    moved = [
        (rank["all_reduce_s"] - (rank["wait_s"] or 0.0), rank["bytes_per_step"])
        for rank in ranks
        if rank["all_reduce_s"] and rank["bytes_per_step"]
    ]
    moved = [(seconds, number_of) for seconds, number_of in moved if seconds > 0]
    if not moved or size < 2:
        return None
    seconds, of_step = min(moved)
    return float(2 * (size - 1) / size * of_step / seconds)


def _emulated(settings: Any) -> Link | None:
    rate = number(table(table(settings).get("emulate")).get("rate_bits_per_s"))
    return Link(rate) if rate else None
