"""Run a case on ranks of its interpreter, launcher and launch, and gather what they send."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.case import Case
from bench.group import Group
from bench.launch import Launched, LaunchError, start_ranks
from bench.precision import relative_half_width
from bench.ranks import from_outline, match_collectives
from bench.result import Failure, LaunchResult, gather
from bench.settings import Settings


class Controller:
    """Runs cases, each on ranks of its interpreter, launcher and launch."""

    def __init__(
        self, settings: Settings, pythons: dict[str, str], threads: int, folder: Path
    ) -> None:
        self._settings = settings
        self._pythons = pythons
        self._threads = threads
        self._folder = folder
        self._group: Group | None = None
        self._key: tuple[str, str, int] | None = None

    def run(self, case: Case, launch: int, world_size: int) -> LaunchResult | Failure:
        """Measure one case. ``world_size``: ranks to start, if new ranks are needed."""
        started_unix_s = time.time()
        try:
            group = self._group_for(case, launch, max(world_size, case.processes))
        except LaunchError as error:
            return Failure(phase="launch", message=str(error), type="LaunchError")
        with tempfile.TemporaryDirectory(prefix="store-", dir=self._folder) as folder:
            answer = group.run(self._job(case, folder), self._settings.case_timeout_s)
        if group.broken or self._settings.isolation == "launch":
            self.stop()
        if isinstance(answer, Failure):
            return answer
        return self._gather(launch, started_unix_s, answer)

    def stop(self) -> None:
        if self._group is not None:
            self._group.stop()
        self._group = self._key = None

    def _group_for(self, case: Case, launch: int, world_size: int) -> Group:
        key = (case.torch, case.launcher, launch)
        if self._group is not None and (
            key != self._key or self._group.world_size < case.processes
        ):
            self.stop()
        if self._group is None:

            def start(world_size: int, address: tuple[str, int], token: str) -> Launched:
                return start_ranks(
                    self._pythons[case.torch],
                    case.launcher,
                    world_size,
                    address,
                    token,
                    self._threads,
                    self._folder / "ranks.log",
                )

            self._group = Group(start, world_size, self._settings.launch_timeout_s)
            self._key = key
        return self._group

    def _job(self, case: Case, folder: str) -> dict[str, Any]:
        settings = self._settings
        return {
            "case": case.to_dict(),
            "world_size": case.processes,
            "threads": case.threads or self._threads,
            "min_steps": settings.min_steps,
            "warm_up_steps": settings.warm_up_steps,
            "precision": settings.precision,
            "max_seconds": settings.max_seconds_per_launch,
            "profiled_steps": settings.profiled_steps,
            "passes": list(settings.passes),
            "timeout_s": settings.case_timeout_s,
            "data_root": settings.data_root,
            "download": settings.download,
            "host": "127.0.0.1",
            "port": None,
            "store_file": str(Path(folder) / "store"),
        }

    def _gather(
        self, launch: int, started_unix_s: float, records: list[dict[str, Any]]
    ) -> LaunchResult:
        outlines = [record.pop("outline", None) for record in records]
        result = gather(launch, started_unix_s, records)
        reached = relative_half_width(result.step_s)
        result.fields["precision_reached"] = reached
        result.fields["reached_precision"] = (
            reached is not None and reached <= self._settings.precision
        )
        result.fields["across_ranks"] = _across_ranks(
            outlines, same_clock=len({record["host"] for record in records}) == 1
        )
        return result


def _across_ranks(outlines: list[dict[str, Any] | None], same_clock: bool) -> dict[str, Any] | None:
    """Transfer, and each rank's wait; None where there is nothing to match."""
    traces = [from_outline(outline) for outline in outlines if outline is not None]
    if len(traces) < 2 or len(traces) < len(outlines):
        return None
    return match_collectives(traces, same_clock).to_json()
