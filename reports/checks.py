"""What a reader must know before trusting one case: sentences, made from its record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reports import children
from reports.source import flag, items, number, table, tables, text, whole

#: The page says "the profiler slowed it" above this ratio of profiled to timed step.
PROFILER_SLOW_DOWN = 1.10


def failed_checks(launches: Iterable[dict[str, Any]]) -> list[str]:
    """Sentences about the checks after the timed pass that did not hold, in any launch."""
    found: list[str] = []
    for launch in launches:
        checks = table(launch.get("checks"))
        if flag(checks.get("parameters_equal")) is False:
            found.append("Parameters differ between ranks after the timed pass.")
        if flag(checks.get("values_right")) is False:
            found.append("The collective gave wrong values.")
        if flag(checks.get("gradients_match")) is False:
            error = number(checks.get("gradient_relative_error"))
            by = f" (relative error {error:.1e})" if error is not None else ""
            found.append(f"Gradients do not match those of one process{by}.")
        if flag(checks.get("reduced_bytes_equal_gradient_bytes")) is False:
            reduced = whole(checks.get("reduced_bytes_per_step"))
            expected = whole(launch.get("gradient_bytes"))
            sizes = ""
            if reduced is not None and expected is not None:
                sizes = f" ({reduced:,} reduced, {expected:,} of gradients)"
            found.append(f"Bytes reduced per step are not the bytes of the gradients{sizes}.")
    return _once(found)


def doubts(launches: Iterable[dict[str, Any]], world_size: int | None) -> list[str]:
    """Sentences about how the case was measured that weaken its number."""
    found: list[str] = []
    launches = list(launches)
    short = [each for each in launches if flag(each.get("reached_precision")) is False]
    if short:
        found.append(_precision_missed(short, len(launches)))
    for launch in launches:
        replicas = whole(launch.get("replicas_used"))
        if replicas is not None and world_size is not None and replicas < world_size:
            found.append(f"The batch split into {replicas} pieces for {world_size} devices.")
        slow_down = _profiler_slow_down(launch)
        if slow_down is not None and slow_down > PROFILER_SLOW_DOWN:
            found.append(
                "The profiler made steps slower by more than "
                f"{PROFILER_SLOW_DOWN - 1:.0%}; read the all-reduce times with care."
            )
    return _once(found)


def _precision_missed(short: list[dict[str, Any]], launches: int) -> str:
    """What a launch's own steps say about its median; launches among themselves say more."""
    reached = [number(each.get("precision_reached")) for each in short]
    known = [value for value in reached if value is not None]
    where = f"In {len(short)} of {launches} launches" if launches > 1 else "Here"
    if len(known) < len(reached):
        by = "too few independent steps to say how well the median is known"
    else:
        by = f"the median of a launch's steps is known to ±{max(known):.1%} at worst"
    return f"{where} the time ran out before the wanted precision: {by}."


def recorded_warnings(result: dict[str, Any], launches: Iterable[dict[str, Any]]) -> list[str]:
    """What the benchmark itself wrote about the case, notes of its checks included."""
    found = [words for words in map(text, items(result.get("warnings"))) if words]
    for launch in launches:
        notes = table(launch.get("checks")).get("notes")
        found += [words for words in map(text, items(notes)) if words]
        ranks = tables(launch.get("ranks"))
        for rank in ranks if len(ranks) > 1 else ():  # one process has nothing to communicate
            words = text(rank.get("communication_note"))
            if words:
                found.append(f"No communication figures: {words}")
                break
    return _once(found)


def said_once(warnings: list[str], failed: list[str]) -> list[str]:
    """The warnings that do not only repeat, in the benchmark's words, a check that failed."""

    def core(sentence: str) -> str:
        return sentence.partition(" (")[0].rstrip(".").lower()

    said = {core(sentence) for sentence in failed}
    return [sentence for sentence in warnings if core(sentence) not in said]


def threads_beyond_cores(
    ranks: Iterable[dict[str, Any]],
    threads: int | None,
    world_size: int | None,
    cores: int | None,
    cores_of_hosts: Mapping[str, int | None] | None = None,
    one_machine: bool = False,
) -> bool | None:
    """True where ranks on one host have more CPU threads than it has cores; None if unknown.

    ``cores``: of every host that is not among ``cores_of_hosts``. ``one_machine``: what are hosts
    by name share these cores.

    ``ranks``: the rank records of one launch (one process per record, so that a strategy that
    drives several devices from one process counts once). Without them ``threads`` per rank and
    ``world_size`` on one host are used.
    """
    if cores is None and not cores_of_hosts:
        return None
    per_host: dict[str, int] = {}
    for rank in ranks:
        own = whole(rank.get("threads")) or threads
        if own is None:
            return None
        host = text(rank.get("host")) or ""
        per_host[host] = per_host.get(host, 0) + own
    if per_host and one_machine:
        per_host = {"": sum(per_host.values())}
    if per_host:
        limits = {host: (cores_of_hosts or {}).get(host, cores) for host in per_host}
        if any((limit := limits[host]) is not None and n > limit for host, n in per_host.items()):
            return True
        return None if None in limits.values() else False
    if threads is None or world_size is None or cores is None:
        return None
    return threads * world_size > cores


def _profiler_slow_down(launch: dict[str, Any]) -> float | None:
    profiled = number(launch.get("profiled_step_s"))
    timed = children.first_child_step_s(launch)
    if profiled is None or timed is None or timed <= 0:
        return None
    return profiled / timed


def _once(sentences: list[str]) -> list[str]:
    return list(dict.fromkeys(sentences))
