"""Builds records of our own schema, as large or as small as a test needs.

``case(...)`` gives a case's fields; ``entry(case, step_s=...)`` one benchmark with its launches and
ranks; ``document(entries)`` the whole file. Everything has a default; tests state what they test.
"""

from __future__ import annotations

import random
import statistics
from typing import Any

from bench.case import Case

MACHINE = {
    "host": "bench-1",
    "cpu": "Example CPU 8c",
    "physical_cores": 8,
    "logical_cores": 16,
    "memory_bytes": 64_000_000_000,
    "os": "Linux 6.1",
    "gpus": [],
    "driver": None,
    "boot_id": "b00t",
    "environment": {"OMP_NUM_THREADS": "4"},
}


def case(**fields: Any) -> dict[str, Any]:
    return Case(**{"model": "resnet18"} | fields).to_dict()


def collective(kind: str = "all_reduce", **fields: Any) -> dict[str, Any]:
    own = {"model": "", "strategy": "collective", "collective": kind, "world_size": 2}
    return Case(**own | {"bytes": 1 << 20} | fields).to_dict()


def steps(median_s: float, n: int = 21, noise: float = 0.01, seed: int = 0) -> list[float]:
    """``n`` (odd) independent step times whose median is exactly ``median_s``."""
    drawn = random.Random(seed)
    half = n // 2
    low = [median_s * (1 - noise * drawn.uniform(0.01, 1)) for _ in range(half)]
    high = [median_s * (1 + noise * drawn.uniform(0.01, 1)) for _ in range(half)]
    mixed = [*low, *high, median_s]
    drawn.shuffle(mixed)
    return mixed


def rank(n: int, median_s: float, *, device: str = "cpu", **changes: Any) -> dict[str, Any]:
    return {
        "rank": n,
        "host": "bench-1",
        "device": device if device == "cpu" else f"{device}:{n}",
        "device_name": None if device == "cpu" else "Example GPU",
        "threads": 1,
        "median_step_s": median_s,
        "step_s": None,
        "phases": {
            "data": {"median_s": 0.0001, "mean_s": 0.0001},
            "forward": {"median_s": median_s * 0.3, "mean_s": median_s * 0.3},
            "backward": {"median_s": median_s * 0.6, "mean_s": median_s * 0.6},
            "communication": None,
            "optimizer": {"median_s": median_s * 0.08, "mean_s": median_s * 0.08},
        },
        "first_step_s": median_s * 3,
        "lifecycle": {"fork_s": 0.03, "init_s": 0.05, "build_s": 0.1, "wrap_s": 0.02},
        "communication": None,
        "communication_note": None,
        "memory": {"peak_bytes": 400_000_000 + n, "kind": "rss", "parameters_bytes": 46_700_000},
        "software": {"torch": "2.14.1+cpu", "cuda": None, "nccl": None, "python": "3.11.7"},
    } | changes


def communication(all_reduce_s: float, exposed_s: float) -> dict[str, Any]:
    return {
        "steps": 5,
        "calls_per_step": 3.0,
        "bytes_per_step": 46_700_000.0,
        "all_reduce_s": all_reduce_s,
        "summed_s": all_reduce_s,
        "exposed_s": exposed_s,
        "overlap_ratio": 1 - exposed_s / all_reduce_s,
        "per_step": [],
        "notes": [],
    }


def launch(
    n: int,
    fields: dict[str, Any],
    step_s: list[float],
    *,
    ranks: list[dict[str, Any]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    processes = Case.from_dict(fields).processes
    median = statistics.median(step_s)
    if ranks is None:
        ranks = [rank(r, median, device=fields["device"]) for r in range(processes)]
        if processes > 1:
            for r, one in enumerate(ranks):
                late = r == processes - 1
                one["communication"] = communication(
                    median * (0.2 if late else 0.5), median * (0.05 if late else 0.3)
                )
    return {
        "launch": n,
        "started_unix_s": 1.79e9 + n,
        "median_step_s": median,
        "steps": len(step_s),
        "reached_precision": True,
        "precision_reached": 0.01,
        "slowest_rank": [0] * len(step_s),
        "parameters": 11_689_512,
        "gradient_bytes": 46_758_048,
        "replicas_used": None,
        "buckets": {
            "initial_bytes": [46_758_048],
            "rebuilt_bytes": [1_000_000, 45_758_048],
            "rebuilt_parameters": None,
        }
        if fields["strategy"] == "ddp"
        else None,
        "no_communication_step_s": median * 0.8 if processes > 1 else None,
        "no_communication_mean_step_s": median * 0.78 if processes > 1 else None,
        "profiled_step_s": median * 1.03,
        "checks": {
            "parameters_equal": True,
            "reduced_bytes_equal_gradient_bytes": True,
            "reduced_bytes_per_step": 46_758_048,
            "gradient_relative_error": 1e-7,
            "gradients_match": True,
            "gradient_method": "one process on the concatenated batch",
            "notes": [],
        },
        "checkpoint": {"seconds": 0.04, "bytes": 46_800_000},
        "across_ranks": {
            "collectives": 15,
            "transfer_s": median * 0.18,
            "wait_s": [median * 0.3] * (processes - 1) + [median * 0.02],
            "waited_for": processes - 1,
            "waited_for_share": 0.9,
            "estimate": False,
            "note": None,
        }
        if processes > 1
        else None,
        "ranks": ranks,
    } | changes


def child(median_s: float, **changes: Any) -> dict[str, Any]:
    """One of a launch's children."""
    return {
        "median_step_s": median_s,
        "steps": 21,
        "first_step_s": median_s * 3,
        "init_s": 0.05,
        "peak_bytes": 400_000_000,
        "started_unix_s": 1.79e9,
    } | changes


def several_children(
    n: int, fields: dict[str, Any], medians_s: list[float], **changes: Any
) -> dict[str, Any]:
    """A launch of several children: its ranks are those of the first."""
    made = launch(n, fields, [medians_s[0]], children=[child(one) for one in medians_s])
    return made | {"median_step_s": statistics.median(medians_s)} | changes


def entry(
    fields: dict[str, Any],
    step_s: float | list[float] = 0.1,
    *,
    launches: list[list[float]] | int = 3,
    children: list[list[float]] | None = None,
    confirmation: list[float] | None = None,
    complete: bool = True,
    label: str | None = None,
    warnings: list[str] | None = None,
    launch_changes: dict[str, Any] | None = None,
    id: str | None = None,
) -> dict[str, Any]:
    """One benchmark. ``step_s``: the median of every launch, or one per launch; ``launches``: how
    many, or the steps of each; ``children``: by launch the medians of its children;
    ``confirmation``: the medians of the launches of a second measurement."""
    made = _entry(fields, step_s, launches, label, warnings, launch_changes, id)
    result = made["extra_info"]["result"]
    if children is not None:
        runs = [[steps(median, seed=n) for median in own] for n, own in enumerate(children)]
        result["launches"] = [
            several_children(n, fields, own, **(launch_changes or {}))
            for n, own in enumerate(children)
        ]
        result["launch_of_round"] = [n for n, own in enumerate(runs) for run in own for _ in run]
        result["child_of_round"] = [i for own in runs for i, run in enumerate(own) for _ in run]
        made["stats"]["data"] = [step for own in runs for run in own for step in run]
    if confirmation is not None:
        first = len(result["launches"])
        result["confirmation"] = {
            "launches": [
                launch(first + n, fields, steps(median, seed=first + n), **(launch_changes or {}))
                for n, median in enumerate(confirmation)
            ],
            "complete": complete,
        }
    return made


def _entry(
    fields: dict[str, Any],
    step_s: float | list[float],
    launches: list[list[float]] | int,
    label: str | None,
    warnings: list[str] | None,
    launch_changes: dict[str, Any] | None,
    id: str | None,
) -> dict[str, Any]:
    the_case = Case.from_dict(fields)
    if isinstance(launches, int):
        medians = step_s if isinstance(step_s, list) else [step_s] * launches
        launches = [steps(median, seed=n) for n, median in enumerate(medians)]
    data = [step for own in launches for step in own]
    name = id or the_case.id
    median = statistics.median(data)
    samples = the_case.global_batch_size if the_case.trains else None
    changes = launch_changes or {}
    return {
        "group": the_case.model,
        "name": f"test_scaling[{name}]",
        "fullname": f"bench/test_scaling.py::test_scaling[{name}]",
        "params": fields,
        "param": name,
        "extra_info": {
            "case": fields,
            "id": name,
            "result": {
                "global_batch_size": samples,
                "throughput_samples_per_s": samples / median if samples else None,
                "throughput_per_rank_samples_per_s": the_case.batch_size / median
                if samples
                else None,
                "launch_of_round": [n for n, own in enumerate(launches) for _ in own],
                "label": label,
                "warnings": warnings or [],
                "launches": [launch(n, fields, own, **changes) for n, own in enumerate(launches)],
            },
        },
        "stats": {
            "min": min(data),
            "max": max(data),
            "mean": statistics.fmean(data),
            "median": median,
            "rounds": len(data),
            "data": data,
            "iterations": 1,
        },
    }


def outcome(fields: dict[str, Any], outcome: str = "ok", **changes: Any) -> dict[str, Any]:
    name = Case.from_dict(fields).id
    return {
        "id": name,
        "case": fields,
        "outcome": outcome,
        "reason": None,
        "failure": None,
        "rerun": f"pytest bench -k '{name}'",
    } | changes


def document(entries: list[dict[str, Any]], **own: Any) -> dict[str, Any]:
    """A whole file; keyword arguments replace keys of its ``lockstep`` part."""
    return {
        "machine_info": {"node": "bench-1", "cpu": {"brand_raw": "Example CPU 8c", "count": 16}},
        "commit_info": {},
        "benchmarks": entries,
        "datetime": "2026-11-01T10:00:00+00:00",
        "version": "5.3.1",
        "lockstep": {
            "schema": 1,
            "version": "0.1.0",
            "settings": {
                "matrix": "quick",
                "launches": 3,
                "min_steps": 20,
                "warm_up_steps": 10,
                "precision": 0.02,
                "max_seconds": 10.0,
                "passes": ["timed", "profiled", "no_communication"],
                "seed": 0,
                "threads_per_rank": 1,
                "largest_world_size": 4,
                "command": "pytest bench --matrix quick",
            },
            "machine": MACHINE,
            "state": {
                "before": {"load_1min": 0.2, "steal_ratio": 0.0, "cpu_mhz": 3000.0},
                "after": {"load_1min": 3.9, "steal_ratio": 0.01, "cpu_mhz": 2900.0},
            },
            "interpreters": {
                "": {
                    "python": "python3",
                    "torch": "2.14.1+cpu",
                    "torchvision": "0.29.1+cpu",
                    "cuda_devices": 0,
                    "backends": ["gloo"],
                }
            },
            "outcomes": [outcome(one["extra_info"]["case"]) for one in entries],
            "warnings": [],
        }
        | own,
    }


#: Of one interpreter, as bench.worker.probe tells them.
FACTS = {
    "python": "3.11.7",
    "executable": "/venvs/old/bin/python",
    "torch": "2.9.1+cpu",
    "torchvision": "0.24.1+cpu",
    "cuda": None,
    "hip": None,
    "nccl": None,
    "backends": ["gloo"],
    "gpus": [],
    "driver": None,
    "cpu_capability": "AVX2",
    "blas": "mkl 2024.2",
    "openmp": "OpenMP 201511",
    "compiler": "GCC 11.2",
}
NEWER = {
    "executable": "/venvs/new/bin/python",
    "torch": "2.14.1+cpu",
    "torchvision": "0.29.1+cpu",
    "blas": "mkl 2025.1",
}


def under(torch: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The case's fields under the interpreter of that label."""
    return fields | {"torch": torch}


def launch_times(
    median_s: float, launches: int, *, seed: int, noise: float = 0.01, drift: float = 0.03
) -> tuple[list[float], list[float]]:
    """Step times of two labels by launch: what a launch does to both (``drift``) is in both."""
    drawn = random.Random(f"{median_s} {seed}")
    pairs = []
    for _ in range(launches):
        shared = median_s * (1 + drawn.uniform(-drift, drift))
        a, b = (shared * (1 + drawn.uniform(-noise, noise)) for _ in range(2))
        pairs.append((a, b))
    return [a for a, _ in pairs], [b for _, b in pairs]


def versions(
    entries: list[dict[str, Any]],
    *,
    interpreters: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **own: Any,
) -> dict[str, Any]:
    """A file of one run that drove the interpreters "old" and "new"."""
    made = document(entries, **own)
    made["lockstep"]["interpreters"] = interpreters or {"old": FACTS, "new": FACTS | NEWER}
    made["lockstep"]["settings"] |= {"launches": 12, "children": 1, "order_seed": 7}
    made["lockstep"]["settings"] |= {"confirm": True} | (settings or {})
    return made


def both(
    fields: dict[str, Any],
    median_s: float,
    change: float = 1.0,
    *,
    launches: int = 12,
    seed: int = 0,
    confirmed: float | None = None,
    **changes: Any,
) -> list[dict[str, Any]]:
    """A case under "old" and under "new", the step of new times ``change``; with ``confirmed`` a
    second measurement of as many launches, in which new takes so much longer."""
    a, b = launch_times(median_s, launches, seed=seed)
    again: tuple[list[float] | None, list[float] | None] = (None, None)
    if confirmed is not None:
        first, second = launch_times(median_s, launches, seed=seed + 1000)
        again = (first, [value * confirmed for value in second])
    return [
        entry(under("old", fields), a, launches=launches, confirmation=again[0], **changes),
        entry(
            under("new", fields),
            [value * change for value in b],
            launches=launches,
            confirmation=again[1],
            **changes,
        ),
    ]


def sweep() -> dict[str, Any]:
    """A file with something for every section of the page."""
    noisy = [0.98, 1.01, 1.0]

    def measured(median: float, **fields: Any) -> dict[str, Any]:
        return entry(case(**fields), [median * factor for factor in noisy])

    entries = [
        measured(0.100, strategy="single"),
        measured(0.102, strategy="ddp"),
        measured(0.110, strategy="ddp", world_size=2),
        measured(0.125, strategy="ddp", world_size=4),
        measured(0.104, strategy="all_reduce"),
        measured(0.130, strategy="all_reduce", world_size=2),
        measured(0.160, strategy="all_reduce", world_size=4),
        measured(0.058, strategy="ddp", world_size=2, batch_size=16, scaling="strong"),
        measured(0.036, strategy="ddp", world_size=4, batch_size=8, scaling="strong"),
        entry(case(strategy="dp"), [0.099, 0.1, 0.1], label="not parallel: plain module"),
    ]
    for view in (False, True):
        for cap, factor in ((None, 1.0), (1, 1.2), (5, 1.05), (25, 0.97)):
            if (cap, view) != (None, False):
                jitter = [1.0, 1.01, 0.985] if cap == 5 else [1.0, 1.001, 0.999]
                fields = case(
                    strategy="ddp", world_size=2, bucket_cap_mb=cap, gradient_as_bucket_view=view
                )
                times = [0.11 * n * j * factor for n, j in zip(noisy, jitter, strict=False)]
                entries.append(entry(fields, times))
    nccl = case(strategy="ddp", world_size=2, backend="nccl", device="cuda")
    broken = case(strategy="ddp", world_size=2, static_graph=True)
    failure = {
        "rank": 1,
        "host": "bench-1",
        "phase": "timed",
        "step": 17,
        "type": "RuntimeError",
        "message": "Expected to have finished reduction in the prior iteration",
        "traceback": "Traceback (most recent call last):\n  ...\nRuntimeError: Expected",
    }
    outcomes = [outcome(one["extra_info"]["case"]) for one in entries]
    outcomes += [
        outcome(nccl, "skipped", reason="needs 2 GPUs, found 0"),
        outcome(broken, "failed", failure=failure),
        outcome(case(strategy="dp", world_size=2), "skipped", reason="needs 2 GPUs, found 0"),
    ]
    return document(entries, outcomes=outcomes)
