"""Files of many cases, as the sweeps of a year would give: the whole product of some axes.

``foreign(n, samples)`` is what any suite writes with pytest-benchmark; ``own(n, samples)`` holds
records of launches and ranks beside it, as a sweep of ours does.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from tests.reports.builder import case, document, entry, outcome

_AXES = {
    "strategy": ("ddp", "single", "all_reduce", "dp"),
    "world_size": (1, 2, 4, 8),
    "gradient_as_bucket_view": (False, True),
    "bucket_cap_mb": (None, 1, 5, 25),
    "batch_size": (8, 16, 32, 64, 128),
    "model": tuple(f"model_{n}" for n in range(8)),
    "precision": ("fp32", "bf16"),
    "seed": tuple(range(1000)),
}


def fields(n: int) -> list[dict[str, Any]]:
    """The fields of ``n`` different cases that make sense."""
    return list(itertools.islice(_fields(), n))


def _fields() -> Iterator[dict[str, Any]]:
    slowest_first = list(reversed(_AXES))
    for values in itertools.product(*(_AXES[name] for name in slowest_first)):
        made = dict(zip(slowest_first, values, strict=True))
        if made["strategy"] == "single" and made["world_size"] > 1:
            continue
        plain = made["bucket_cap_mb"] is None and not made["gradient_as_bucket_view"]
        if made["strategy"] == "ddp" or plain:
            yield made


def step_s(one: dict[str, Any], drawn: random.Random) -> float:
    """A step time that depends on the case as one would expect, with some noise."""
    cost = {"single": 1.0, "ddp": 1.05, "all_reduce": 1.15, "dp": 1.4}[one["strategy"]]
    ranks = 1 + 0.06 * (one["world_size"] - 1)
    model = 1 + len(one["model"]) + int(one["model"].rpartition("_")[2])
    return 0.001 * one["batch_size"] * cost * ranks * model * drawn.uniform(0.97, 1.03)


def foreign(n: int, samples: int = 100) -> dict[str, Any]:
    drawn = random.Random(n)
    benchmarks = []
    for number, one in enumerate(fields(n)):
        median = step_s(one, drawn)
        data = [median * drawn.uniform(0.95, 1.05) for _ in range(samples)]
        name = f"test_step[{number}-" + "-".join(map(str, one.values())) + "]"
        benchmarks.append(
            {
                "group": one["model"],
                "name": name,
                "fullname": f"bench/test_step.py::{name}",
                "params": one,
                "stats": {"data": data, "median": median, "mean": median, "rounds": samples},
                "extra_info": {},
            }
        )
    return {
        "machine_info": {"node": "bench-1", "cpu": {"brand_raw": "Example CPU", "count": 16}},
        "benchmarks": benchmarks,
        "datetime": "2026-11-01T10:00:00+00:00",
    }


def own(n: int, samples: int = 100, launches: int = 2) -> dict[str, Any]:
    """With ranks in every launch; of every fifty cases one failed and one was skipped."""
    drawn = random.Random(n)
    entries, outcomes = [], []
    for number, one in enumerate(fields(n)):
        whole = case(**one)
        if number % 50 == 7:
            failure = {
                "rank": 1,
                "phase": "timed",
                "step": 17,
                "type": "RuntimeError",
                "message": "Expected to have finished reduction",
                "traceback": "Traceback\n" + "  File one\n" * 20,
            }
            outcomes.append(outcome(whole, "failed", failure=failure))
        elif number % 50 == 8:
            outcomes.append(outcome(whole, "skipped", reason="needs 2 GPUs, found 0"))
        else:
            median = step_s(one, drawn)
            each = samples // launches
            runs = [
                [median * drawn.uniform(0.95, 1.05) for _ in range(each)] for _ in range(launches)
            ]
            entries.append(entry(whole, launches=runs))
            outcomes.append(outcome(whole))
    return document(entries, outcomes=outcomes)
