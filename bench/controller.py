"""Run a case on ranks of its interpreter, launcher and launch, and gather what they send.

The ranks of several interpreters are alive side by side, so that a case can go from one to the
other and back; those that wait are blocked.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.case import Case
from bench.deadlines import Limits
from bench.group import Group
from bench.launch import LaunchError
from bench.precision import relative_half_width
from bench.rank_sources import LocalRanks, RankSource, Wanted
from bench.ranks import from_outline, match_collectives
from bench.result import Failure, LaunchResult, gather
from bench.settings import Settings
from bench.timeline import timeline

#: A launch that takes its time to fail must not do so for every cell of a matrix.
_MOST_FAILED_LAUNCHES = 2


class Controller:
    """Runs cases, each on ranks of its interpreter, launcher and launch."""

    def __init__(
        self,
        settings: Settings,
        pythons: dict[str, str],
        threads: int,
        folder: Path,
        source: RankSource | None = None,
        one_machine: bool = False,
    ) -> None:
        """``source``: where ranks come from, torchrun here unless said otherwise;
        ``one_machine``: hosts are so in name only, and have one clock."""
        self._settings = settings
        self._source = source or LocalRanks()
        self._one_machine = one_machine
        self._pythons = pythons
        self._threads = threads
        self._folder = folder
        #: By interpreter, with the launcher and the launch the ranks belong to.
        self._groups: dict[str, tuple[tuple[str, int], Group]] = {}
        self._limits = Limits(
            settings.case_limit_s,
            settings.min_steps,
            settings.warm_up_steps,
            settings.max_seconds_per_child,
        )
        #: By interpreter and launcher: why the last launches failed, one after another.
        self._failed_launches: dict[tuple[str, str], list[str]] = {}
        #: Strangers' connections that were turned away, by reason.
        self.dropped: Counter[str] = Counter()

    def run(
        self, case: Case, launch: int, world_size: int, child: int = 0
    ) -> LaunchResult | Failure:
        """Measure one case in a child of every rank; ``child``: the how many-th of the launch, of
        which only the first goes through all passes. ``world_size``: ranks to start, if new ranks
        are needed."""
        started_unix_s = time.time()
        try:
            group = self._group_for(case, launch, max(world_size, case.processes))
        except LaunchError as error:
            return _no_launch(error)
        try:
            # A child that was killed with its rank may still be writing when this is removed.
            with tempfile.TemporaryDirectory(
                prefix="case-", dir=self._folder, ignore_cleanup_errors=True
            ) as folder:
                answer = group.run(self._job(case, launch, child, folder), self._limits)
        except OSError as error:
            return Failure(phase="launch", message=f"the sweep's own folder: {error}")
        except BaseException:  # interrupted in the middle of a case: these ranks are of no use
            self.stop()
            raise
        if group.broken or self._settings.isolation == "launch":
            self._stop(case.torch)
        if isinstance(answer, Failure):
            return answer
        try:
            return self._gather(launch, started_unix_s, answer)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            return Failure(
                phase="teardown",
                message=f"the ranks' records do not fit together: {error!r}",
                type=type(error).__name__,
            )

    def ready(self, cases: Sequence[Case], launch: int, world_size: int) -> dict[str, Failure]:
        """Start the ranks of all these cases before the first is measured, so that none of them
        starts beside another's measurement. By id, the cases whose ranks cannot be started."""
        failed: dict[str, Failure] = {}
        for case in cases:
            try:
                self._group_for(case, launch, max(world_size, case.processes))
            except LaunchError as error:
                failed[case.id] = _no_launch(error)
        return failed

    def stop(self) -> None:
        for label in list(self._groups):
            self._stop(label)

    def _stop(self, label: str) -> None:
        _, group = self._groups.pop(label)
        self.dropped += group.dropped
        self._source.part(group)

    def _group_for(self, case: Case, launch: int, world_size: int) -> Group:
        label, key = case.torch, (case.launcher, launch)
        if label in self._groups:
            of, group = self._groups[label]
            # Ranks that are lost while they are idle are no fault of the next case.
            if of == key and group.world_size >= case.processes and group.problem() is None:
                return group
            self._stop(label)
        failed = self._failed_launches.setdefault((label, case.launcher), [])
        if len(failed) >= _MOST_FAILED_LAUNCHES:
            raise LaunchError(f"not tried again after {len(failed)} launches failed: {failed[-1]}")

        wanted = Wanted(
            self._pythons[label],
            case.launcher,
            world_size,
            self._threads,
            # Or another interpreter's words would pass for these ranks'.
            self._folder / f"ranks-{label}.log",
            self._settings.launch_timeout_s,
        )
        try:
            group = self._source.group(wanted)
        except LaunchError as error:
            failed.append(str(error))
            raise
        failed.clear()
        self._groups[label] = key, group
        return group

    def _job(self, case: Case, launch: int, child: int, folder: str) -> dict[str, Any]:
        settings = self._settings
        return {
            "case": case.to_dict(),
            "world_size": case.processes,
            "threads": case.threads or self._threads,
            "min_steps": settings.min_steps,
            "warm_up_steps": settings.warm_up_steps,
            "precision": settings.precision,
            "max_seconds": settings.max_seconds_per_child,
            "profiled_steps": settings.profiled_steps,
            "passes": list(settings.passes) if child == 0 else ["timed"],
            # torch's own limit only takes over where nobody is left to watch ours.
            "timeout_s": settings.case_limit_s + 60,
            "data_root": settings.data_root,
            "download": settings.download,
            "host": settings.master_addr,
            "port": settings.master_port or None,
            "folder": folder,
            "save_trace": self._trace_name(case, launch) if child == 0 else None,
        }

    def _trace_name(self, case: Case, launch: int) -> str | None:
        """Where a rank's trace is kept; "{rank}" stands for its number."""
        folder = self._settings.traces_folder
        if folder is None:
            return None
        cell = re.sub(r"[^\w.=@+-]+", "_", case.id)
        name = f"{cell}.launch{launch}.rank{{rank}}.json.gz"
        return str(folder).replace("{", "{{").replace("}", "}}") + f"/{name}"

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
        traces = [from_outline(outline) for outline in outlines if outline is not None]
        result.fields["across_ranks"] = None
        if len(traces) >= 2 and len(traces) == len(outlines):
            same_clock = self._one_machine or len({record["host"] for record in records}) == 1
            across = match_collectives(traces, same_clock)
            result.fields["across_ranks"] = across.to_json()
            if launch == 0:  # one step is drawn of a case, and would say no more of the others
                result.fields["timeline"] = timeline(traces, across)
        return result


def _no_launch(error: LaunchError) -> Failure:
    return Failure(phase="launch", message=str(error), type="LaunchError")
