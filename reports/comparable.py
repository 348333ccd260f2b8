"""May two files be compared? What else than torch differs between the runs, or is not known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from reports import differences, words
from reports.frames import Row
from reports.source import table, text

#: Total memory is a little less under another kernel: the same machine.
SAME_MEMORY = 0.01
#: Settings of a sweep that change a step time itself, and not only how well it is known.
_SETTINGS = ("warm_up_steps", "isolation")
_LONGEST = 60


def refusals(base: Row, new: Row, pairs: Sequence[tuple[Row, Row]]) -> list[str]:
    """Why numbers of the two files are not of the same thing, a part of a sentence each.

    ``base`` and ``new``: rows of files; ``pairs``: cells of both that have one name.
    """
    return of_files(base, new) + of_cases(pairs)


def of_files(base: Row, new: Row) -> list[str]:
    """What two files' machines, settings and environments differ in."""
    found = _of_machines(base, new)
    found += [
        _said(name, base["settings"][name], new["settings"][name])
        for name in _SETTINGS
        if name in base["settings"]
        and name in new["settings"]
        and base["settings"][name] != new["settings"][name]
    ]
    return found + _of_environments(base["environment"], new["environment"])


def of_cases(pairs: Sequence[tuple[Row, Row]]) -> list[str]:
    """What the cases themselves differ in."""
    return _of_pairs(pairs, "threads_per_rank", "threads per rank") + _of_definitions(pairs)


def models_differ(base: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The models of one's own of which the file has changed; for facts of two interpreters."""
    one, other = (table(facts.get("models")) for facts in (base, new))
    found = []
    for name in one.keys() & other.keys():
        digests = [text(table(models[name]).get("sha256")) for models in (one, other)]
        if None not in digests and digests[0] != digests[1]:
            found.append(f"the file of the model {words.shortened(name, _LONGEST)}")
    return sorted(found)


def warnings(base: Row, new: Row) -> list[str]:
    """Sentences about two files that weaken their comparison."""
    found = []
    if base["boot_id"] and new["boot_id"] and base["boot_id"] != new["boot_id"]:
        found.append("The baseline is from another boot of the machine.")
    unknown = [_unknown(base), _unknown(new)]
    if any(unknown):
        files = (base["file"], new["file"])
        named = [
            f"{words.joined(n)} in {file}" for n, file in zip(unknown, files, strict=True) if n
        ]
        if unknown[0] == unknown[1]:
            named = [f"{words.joined(unknown[0])} in either file"]
        found.append(f"Whether this is one machine is not sure; not known: {'; '.join(named)}.")
    if (base["version"], base["schema"]) != (new["version"], new["schema"]):
        found.append(
            f"Measured by {_suite(base)} and by {_suite(new)}: they may measure differently."
        )
    return found


def build_warning(base: dict[str, Any], new: dict[str, Any]) -> str | None:
    """For facts of two interpreters (reports/differences.py)."""
    one, other = differences.build(base), differences.build(new)
    if one is None or other is None or one == other:
        return None
    return (
        f"The builds differ ({base['torch']} and {new['torch']}): this compares builds of torch, "
        "not only versions of it."
    )


def parameters_differ(
    pairs: Sequence[tuple[Row, Row]], launches: dict[int, list[Row]]
) -> list[str]:
    """Names of cases whose model has not as many parameters on both sides."""
    found = []
    for a, b in pairs:
        one, other = ({row["parameters"] for row in launches.get(c["cell"], [])} for c in (a, b))
        if one - {None} and other - {None} and one - {None} != other - {None}:
            found.append(a["pair_name"])
    return found


def _of_machines(base: Row, new: Row) -> list[str]:
    say: dict[str, tuple[str, Callable[[Any], str]]] = {
        "host": ("host", _quoted),
        "cpu": ("CPU", _quoted),
        "cores": ("cores", _quoted),
        "usable_cores": ("usable cores", _quoted),
        "gpus": ("GPUs", _gpus),
        "memory_bytes": ("memory", words.size),
    }
    found = []
    for name, (title, spoken) in say.items():
        a, b = base[name], new[name]
        if a is None or b is None or a == b:
            continue
        if name == "memory_bytes" and abs(a - b) <= SAME_MEMORY * max(a, b):
            continue
        found.append(f"{title} {spoken(a)} and {spoken(b)}")
    return found


def _unknown(file: Row) -> list[str]:
    names = {"host": "host", "cpu": "CPU", "cores": "cores", "memory_bytes": "memory"}
    names["gpus"] = "GPUs"
    return [title for name, title in names.items() if file[name] is None]


def _of_environments(base: Row, new: Row) -> list[str]:
    """Variables that reach the ranks (bench/environment.py)."""
    return [
        _said(name, base.get(name), new.get(name))
        for name in sorted(base.keys() | new.keys())
        if base.get(name) != new.get(name)
    ]


def _of_pairs(pairs: Sequence[tuple[Row, Row]], name: str, title: str) -> list[str]:
    """One part for all pairs with the same difference."""
    found: dict[tuple[Any, Any], list[str]] = {}
    for a, b in pairs:
        if a[name] is not None and b[name] is not None and a[name] != b[name]:
            found.setdefault((a[name], b[name]), []).append(a["pair_name"])
    return [f"{_said(title, *values)} ({words.some(cases)})" for values, cases in found.items()]


def _of_definitions(pairs: Sequence[tuple[Row, Row]]) -> list[str]:
    found = []
    for a, b in pairs:
        if a["definition"] is None or b["definition"] is None or a["definition"] == b["definition"]:
            continue
        one, other = json.loads(a["definition"]), json.loads(b["definition"])
        names = [name for name in (one | other) if one.get(name) != other.get(name)]
        said = [_said(name, one.get(name), other.get(name)) for name in names]
        found.append(f"the definition of {a['pair_name']}: {', '.join(said)}")
    return found


def _said(title: str, a: Any, b: Any) -> str:
    return f"{title} {_quoted(a)} and {_quoted(b)}"


def _quoted(value: Any) -> str:
    if value is None:
        return "unset"
    short = words.shortened(str(value), _LONGEST)
    return repr(short) if isinstance(value, str) else short


def _gpus(gpus: list[str]) -> str:
    return _quoted(", ".join(gpus)) if gpus else "none"


def _suite(file: Row) -> str:
    if file["version"] is None:
        return "another suite"
    return f"Lockstep {file['version']}, schema {file['schema'] or words.BLANK}"
