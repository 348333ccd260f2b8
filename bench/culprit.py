"""Which rank brought a case down: from what every rank said, and what it was at.

Most ranks of a failed job only see another one's end, as a closed connection or as a collective
that never ends. Neither is the cause.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from bench.result import PHASES, STEPPING, Failure

#: What a rank sees of another rank's end: never the cause.
_CONSEQUENCE = re.compile(
    r"connection (was )?(closed|reset|refused|lost)|closed by peer|broken pipe|socket (is )?closed"
    r"|timed out|timeout|remote (process|end)|aborted",
    re.IGNORECASE,
)
#: What a rank says that got another collective than its own: either of the two may be at fault.
_MISMATCH = re.compile(
    r"op\.preamble\.length|collectives? (differ|mismatch)|mismatch between collectives"
    r"|(shape|size|tensor) mismatch.*collective",
    re.IGNORECASE,
)
_FRAME = re.compile(
    r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE
)


@dataclass
class Part:
    """What is known of one rank of the case in flight."""

    rank: int = 0
    host: str | None = None
    phase: str = "launch"
    listens: bool = False
    record: dict[str, Any] | None = None
    failure: Failure | None = None
    failed_at_s: float = 0.0
    ended: bool = False
    asked: bool = False  # it has said what it is at
    aborted: bool = False  # it was told to end
    lost: bool = False  # the rank itself, not only its child, is gone
    silent: bool = False  # the rank did not even answer the abort
    child: int | None = None
    step: int | None = None
    state: str | None = None  # of its process, where it is not just running or asleep
    collectives: int | None = None  # begun so far, over all process groups
    stacks: str = ""

    @property
    def where(self) -> str:
        """Phase and, where there are steps, the step."""
        step = self.failure_step
        return self.phase if step is None else f"{self.phase} step {step}"

    @property
    def failure_step(self) -> int | None:
        """None outside the steps that count: the one that leads in a window has no number."""
        counts = self.phase in STEPPING and self.step is not None and self.step >= 0
        return self.step if counts else None

    @property
    def progress_words(self) -> str:
        begun = "" if self.collectives is None else f" after {self.collectives} collectives"
        return f"rank {self.rank} in {self.where}{begun}"

    @property
    def account(self) -> str:
        """What it was at, for a sentence that has named the rank."""
        if self.silent:
            return f"in {self.where}, does not answer ({self.state or 'state unknown'})"
        if self.state is not None:
            return f"in {self.where}, its process is {self.state}"
        call = innermost_call(self.stacks)
        return f"in {self.where}, {call}" if call else f"in {self.where}"


def cause(parts: dict[int, Part]) -> Failure:
    """The failure that caused the others: not one that only saw a connection close, and of those
    that remain the first. Where ranks met in different collectives, the one that left one out."""
    failed = [part for part in parts.values() if part.failure is not None]

    def key(part: Part) -> tuple[bool, float]:
        assert part.failure is not None
        consequence = part.failure.outcome == "failed" and bool(
            _CONSEQUENCE.search(part.failure.message)
        )
        return consequence, part.failed_at_s

    first = min(failed, key=key)
    assert first.failure is not None
    if not _MISMATCH.search(f"{first.failure.message}\n{first.failure.traceback}"):
        return first.failure
    # Either side may be the one that noticed. The guilty one has left a collective out.
    message = (
        f"{first.failure.message.strip().splitlines()[0]} (the ranks met in different "
        f"collectives: {', '.join(part.progress_words for part in parts.values())})"
    )
    guilty = _left_one_out(list(parts.values()))
    if guilty is None:
        return dataclasses.replace(first.failure, rank=None, step=None, message=message)
    return dataclasses.replace(
        first.failure,
        rank=guilty.rank,
        host=guilty.host,
        phase=guilty.phase,
        step=guilty.failure_step,
        message=message,
        traceback="\n".join(
            f"--- rank {part.rank}, {part.where} ---\n{part.failure.traceback}"
            for part in failed
            if part.failure is not None
        ),
    )


def time_out(parts: dict[int, Part], limit: str, hint: str = "") -> Failure:
    """The failure of a case that did not end: where every rank was, and the one that is waited
    for, if one can be told. ``limit``: in words, what was exceeded."""
    unfinished = [part for part in parts.values() if not part.ended or part.aborted]
    guilty = _late(unfinished)
    phase = guilty.phase if guilty else min((p.phase for p in unfinished), key=PHASES.index)
    return Failure(
        phase=phase,
        message=f"{limit}: {_accounts(unfinished, _on_several_hosts(parts))}{hint}",
        type="TimeOut",
        outcome="timed out",
        rank=guilty.rank if guilty else None,
        host=guilty.host if guilty else None,
        step=guilty.failure_step if guilty else None,
        traceback="\n".join(
            f"--- rank {part.rank}, {part.where} ---\n{part.stacks or '(no stacks)'}"
            for part in unfinished
        ),
    )


def _on_several_hosts(parts: dict[int, Part]) -> bool:
    return len({part.host for part in parts.values()}) > 1


def _accounts(parts: list[Part], several_hosts: bool) -> str:
    """What every rank was at; ranks at the same place in one breath, for there may be hundreds."""
    ranks: dict[str, list[int]] = {}
    for part in parts:
        where = f"on {part.host} " if several_hosts else ""
        ranks.setdefault(f"{where}{part.account}", []).append(part.rank)
    return "; ".join(f"{_named(numbers)} {account}" for account, numbers in ranks.items())


def _named(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"ranks {', '.join(words)}"


def _late(unfinished: list[Part]) -> Part | None:
    """Of ranks that hang, the one the others wait for; None where nothing tells them apart."""
    for stands_still in (
        [part for part in unfinished if part.silent],
        [part for part in unfinished if part.state is not None],
    ):
        if stands_still:
            return stands_still[0]
    return _behind(unfinished)


def _behind(parts: list[Part]) -> Part | None:
    """The rank that has begun the fewest collectives: it did not join the one in which the others
    wait. Of equals the one that is further on, for it has left one out on its way."""
    if len(parts) < 2:
        return parts[0] if parts else None
    if any(part.collectives is None for part in parts):
        # Before there is a process group, or where it cannot be asked: the last of them, unless
        # they are all at the same place.
        return None if _same(parts) else min(parts, key=_progress)
    fewest_begun = min(part.collectives or 0 for part in parts)
    fewest = [part for part in parts if part.collectives == fewest_begun]
    if len(fewest) == 1:
        return fewest[0]
    if len(fewest) < len(parts) or _same(parts):
        return _not_waiting(fewest)
    return max(parts, key=_progress)


def _left_one_out(parts: list[Part]) -> Part | None:
    """Of ranks that met in different collectives the one that is further on than the others."""
    if all(part.collectives is not None for part in parts):
        return _behind(parts)
    furthest = max(map(_progress, parts))
    ahead = [part for part in parts if _progress(part) == furthest]
    return ahead[0] if len(ahead) == 1 else None


def _progress(part: Part) -> tuple[int, int]:
    return PHASES.index(part.phase), part.step or 0


def _same(parts: list[Part]) -> bool:
    return len(set(map(_progress, parts))) == 1


def _not_waiting(parts: list[Part]) -> Part | None:
    """The only one of equals whose innermost call is not one that waits for other ranks."""
    busy = [part for part in parts if not _waits(part.stacks)]
    return busy[0] if len(busy) == 1 else None


def _waits(stacks: str) -> bool:
    frame = _innermost(stacks)
    return frame is None or bool(
        re.search(r"torch/(distributed|autograd)/|torch/nn/parallel/", frame["file"])
    )


def innermost_call(stacks: str) -> str | None:
    """Where the main thread is: ``function (file:line)``."""
    frame = _innermost(stacks)
    if frame is None:
        return None
    file = "/".join(frame["file"].split("/")[-2:])
    return f"{frame['function']} ({file}:{frame['line']})"


def _innermost(stacks: str) -> re.Match[str] | None:
    # faulthandler writes the newest thread first: the main thread is the last.
    main = re.split(r"^(?:Current thread|Thread) .*$", stacks, flags=re.MULTILINE)[-1]
    return _FRAME.search(main)
