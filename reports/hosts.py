"""The hosts of a run, as its file states them: ``lockstep.hosts`` and the links between them."""

from __future__ import annotations

from typing import Any

from bench.units import rate_text
from reports.frames import Row
from reports.source import count, items, positive, table, tables, text, whole


def host_rows(document: dict[str, Any]) -> list[Row]:
    """host, address, ranks (in words), cores, gpus (in words), torch; nothing where the file
    does not state hosts."""
    found = []
    for host in tables(table(document.get("lockstep")).get("hosts")):
        ranks = [rank for rank in map(whole, items(host.get("ranks"))) if rank is not None]
        gpus = [text(gpu.get("name")) or "unnamed GPU" for gpu in tables(host.get("gpus"))]
        kinds = {name: gpus.count(name) for name in gpus}
        found.append(
            {
                "host": text(host.get("host")) or "not stated",
                "address": text(host.get("address")),
                "ranks": ranges(ranks),
                "cores": count(host.get("cores")),
                "gpus": ", ".join(f"{n} × {name}" for name, n in kinds.items()) or "none",
                "torch": text(host.get("torch")),
            }
        )
    return found


def ranges(numbers: list[int]) -> str:
    """0, 1, 2, 5 as "0-2, 5": there may be hundreds."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def links(document: dict[str, Any]) -> str | None:
    """What is known of the links between the hosts, in words."""
    emulate = table(_settings(document).get("emulate"))
    hosts = count(emulate.get("hosts"))
    if hosts is None:
        return None
    rate = positive(emulate.get("rate_bits_per_s"))
    shaped = f"each link shaped to {rate_text(rate)}/s both ways" if rate else "links not limited"
    return (
        f"{hosts} emulated hosts on one machine (network namespaces that share its cores): {shaped}"
    )


def are_one_machine(document: dict[str, Any]) -> bool:
    return _settings(document).get("hosts_are_one_machine") is True


def cores_of_hosts(document: dict[str, Any]) -> dict[str, int | None]:
    """Of hosts other than the controller's own, whose cores the file states as the machine's."""
    own = _own(document)
    return {host["host"]: host["cores"] for host in host_rows(document) if host["host"] != own}


def elsewhere(document: dict[str, Any], host: str | None) -> str | None:
    """The host, unless it is the controller's own."""
    return None if host == _own(document) else host


def _own(document: dict[str, Any]) -> str | None:
    return text(table(table(document.get("lockstep")).get("machine")).get("host"))


def _settings(document: dict[str, Any]) -> dict[str, Any]:
    return table(table(document.get("lockstep")).get("settings"))
