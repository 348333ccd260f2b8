"""The kinds of fault, and which of them a seed chooses.

A kind says what is right after it: the outcome of its case, whose fault it was, and where. The
kinds of family ``in case`` happen inside a rank of one cell (model.py does them), those of family
``around`` happen to the whole sweep (around.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from typing import Any

IN_CASE, AROUND = "in case", "around"

WARM_UP_STEPS = 3
MIN_STEPS = 5
CASE_TIMEOUT_S = 8
#: Steps that every cell goes through in a phase, whatever its speed. A profiled pass has one more
#: than it records; the timed pass and the one without communication begin with windows of
#: MIN_STEPS.
STEPS = {
    "warm-up": WARM_UP_STEPS,
    "timed": MIN_STEPS,
    "profiled": 6,
    "no-communication": MIN_STEPS,
}
#: In the order of a training step. The model's own functions and objects are called there.
IN_STEP = ("forward", "loss", "backward", "optimizer")
ANYWHERE = ("build", "batch", "wrap", *IN_STEP, "teardown")

Draw = Callable[[random.Random], dict[str, Any]]


@dataclass(frozen=True)
class Kind:
    """One kind of fault and what is right after it.

    ``weight``: how many of 200 faults. ``places``: where it may happen. ``outcomes``: those that
    are right. ``type``: the failure's exception type, where one is expected. ``blames_rank`` and
    ``says_phase``: whether the failure must name the rank and the phase of the fault.
    ``step``: "right", or "not wrong" where nobody is left to say it (None is right too), or
    "unchecked" where the fault shows later than it happens.
    ``names``: words, one of which the message of a failure must hold.
    """

    name: str
    family: str
    weight: float
    places: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ("failed",)
    type: str | None = None
    blames_rank: bool = True
    says_phase: bool = True
    step: str = "right"
    names: tuple[str, ...] = ()
    draw: Draw | None = None
    needs_mount: bool = False


@dataclass(frozen=True)
class Fault:
    """One fault, chosen. Of ``around`` only number, kind and options mean anything.

    ``phase`` and ``step``: when it happens, as Life.now and Failure.step name them; ``step`` is
    None outside the phases that are made of steps.
    """

    number: int
    kind: str
    rank: int = 0
    world_size: int = 2
    strategy: str = "ddp"
    where: str = ""
    phase: str = ""
    step: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in asdict(self).items())


def _exception(random_: random.Random) -> dict[str, Any]:
    """The second and third message look like what other ranks say when one is gone."""
    return {
        "type": random_.choice(["ValueError", "RuntimeError", "KeyError", "SampleError"]),
        "message": random_.choice(
            [
                "a sample of nothing but zeros",
                "connection refused by the data server",
                "timed out waiting for a sample",
                "two lines\nof which the second says more",
            ]
        ),
    }


def _grandchild(random_: random.Random) -> dict[str, Any]:
    """A fork holds every file its parent has, a program only those it was given."""
    return {"program": random_.random() < 0.5}


def _moment(random_: random.Random) -> dict[str, Any]:
    """So many seconds after so many cells have been journalled (0: after the journal began, when
    the ranks are being started)."""
    cells = random_.randint(0, 5)
    return {"cells": cells, "delay_s": round(random_.uniform(0, 0.6 if cells else 6), 2)}


def _interruption(random_: random.Random) -> dict[str, Any]:
    """``group``: to pytest's whole group, as a terminal does, or to pytest alone."""
    launches, group = random_.choice([1, 1, 2]), random_.random() < 0.5
    return {**_moment(random_), "launches": launches, "group": group}


def _unwritable(random_: random.Random) -> dict[str, Any]:
    return {"path": random_.choice(["below a file", "below /proc", "in /proc", "a folder"])}


def _filled(random_: random.Random) -> dict[str, Any]:
    return {"cells": random_.randint(1, 3)}


def _exceptions() -> list[Kind]:
    weights = {
        "build": 4,
        "batch": 3,
        "wrap": 4,
        "forward": 8,
        "loss": 6,
        "backward": 8,
        "optimizer": 6,
        "teardown": 4,
    }
    return [
        Kind(f"exception in {place}", IN_CASE, weight, (place,), draw=_exception)
        for place, weight in weights.items()
    ]


def _crash(name: str, weight: float, names: tuple[str, ...] = ()) -> Kind:
    return Kind(name, IN_CASE, weight, ANYWHERE, ("crashed",), step="not wrong", names=names)


def _time_out(name: str, weight: float, places: tuple[str, ...] = ANYWHERE) -> Kind:
    return Kind(name, IN_CASE, weight, places, ("timed out",), step="not wrong")


def _launcher(name: str, weight: float) -> Kind:
    """A fault of torchrun itself: the ranks need it no more once they run, so the case may end
    well."""
    return Kind(
        name,
        IN_CASE,
        weight,
        ANYWHERE,
        ("ok", "crashed"),
        blames_rank=False,
        says_phase=False,
        step="unchecked",
        names=("torchrun", "launcher"),
    )


def _raises(name: str, weight: float, type: str = "ValueError", draw: Draw | None = None) -> Kind:
    return Kind(name, IN_CASE, weight, ANYWHERE, type=type, draw=draw)


def _around(name: str, weight: float, draw: Draw | None = None, needs_mount: bool = False) -> Kind:
    return Kind(name, AROUND, weight, draw=draw, needs_mount=needs_mount)


_IN_CASE = [
    *_exceptions(),
    _crash("SIGKILL of the child", 10),
    _time_out("SIGSTOP of the child", 5),
    _crash("SIGKILL of the rank", 6),
    _time_out("SIGSTOP of the rank", 3),
    _launcher("SIGKILL of torchrun", 5),
    _launcher("SIGSTOP of torchrun", 3),
    _launcher("SIGTERM of torchrun", 4),
    Kind(
        "collective skipped",
        IN_CASE,
        5,
        ("step_fn",),
        # gloo may end the process where buffers of two sizes meet.
        ("failed", "timed out", "crashed"),
        step="unchecked",
        draw=lambda random_: {"how": random_.choice(["no_sync", "no backward"])},
    ),
    _time_out("sleeps for ever", 4, ("forward", "backward")),
    Kind("20 MB printed, exception", IN_CASE, 4, ANYWHERE, draw=_exception),
    _crash("invalid UTF-8 printed, SIGKILL", 4),
    Kind("MemoryError", IN_CASE, 6, ANYWHERE, ("out of memory",), type="MemoryError"),
    Kind("allocation failure", IN_CASE, 6, ANYWHERE, ("out of memory",)),
    _crash("os._exit(0)", 6),
    _crash("os._exit(3)", 6),
    Kind("sys.exit()", IN_CASE, 5, ANYWHERE, ("failed", "crashed"), step="not wrong"),
    _crash("segmentation fault", 6, ("SIGSEGV",)),
    _raises("grandchild, exception", 5, draw=_grandchild),
    Kind("grandchild, ends well", IN_CASE, 4, ANYWHERE, ("ok",), draw=_grandchild),
    _raises("grandchild in its own session", 4, draw=_grandchild),
    _raises("message of 5 MB", 5),
    _raises("no message", 4),
    _raises("control characters", 4),
    _raises("lone surrogates", 4),
    _raises("__str__ raises", 4, "SilentError"),
]
_AROUND = [
    _around("SIGINT of pytest", 6, _interruption),
    _around("SIGTERM of pytest", 5, _interruption),
    _around("SIGKILL of pytest, --resume", 6, _moment),
    _around("master port taken", 3),
    _around("master address unknown", 2),
    _around("GLOO_SOCKET_IFNAME unknown", 2),
    _around("disk full before", 2, needs_mount=True),
    _around("disk full for a while", 2, _filled, needs_mount=True),
    _around("disk full for good", 2, _filled, needs_mount=True),
    _around("results path unwritable", 3, _unwritable),
    _around("rubbish on the controller's port", 2),
]
KINDS = {kind.name: kind for kind in [*_IN_CASE, *_AROUND]}


def chosen(seed: int, count: int, only: Collection[str] = ()) -> list[Fault]:
    """``count`` faults of the kinds ``only`` (empty: all), always the same for a seed.

    How many of each kind goes by weight; which rank, place, phase and step is chance.
    """
    random_ = random.Random(seed)
    kinds = [kind for kind in KINDS.values() if not only or kind.name in only]
    faults = [
        _drawn(number, kind, random_)
        for number, kind in enumerate(_shuffled(_shares(kinds, count), random_), start=1)
    ]
    return faults


def _shares(kinds: list[Kind], count: int) -> dict[str, int]:
    """How many of each kind: by weight, rounded so that the sum is ``count``."""
    total = sum(kind.weight for kind in kinds)
    exact = {kind.name: kind.weight / total * count for kind in kinds}
    shares = {name: int(value) for name, value in exact.items()}
    largest_rest = sorted(exact, key=lambda name: shares[name] - exact[name])
    for name in largest_rest[: count - sum(shares.values())]:
        shares[name] += 1
    return shares


def _shuffled(shares: dict[str, int], random_: random.Random) -> list[Kind]:
    kinds = [KINDS[name] for name, share in shares.items() for _ in range(share)]
    random_.shuffle(kinds)
    return kinds


def _drawn(number: int, kind: Kind, random_: random.Random) -> Fault:
    options = kind.draw(random_) if kind.draw else {}
    if kind.family == AROUND:
        return Fault(number, kind.name, options=options)
    world_size = random_.choice([2, 2, 3])
    where = random_.choice(kind.places)
    strategy = "ddp" if where == "step_fn" else random_.choice(["ddp", "ddp", "ddp", "all_reduce"])
    phase, step = _moment_in_case(where, strategy, random_)
    if where == "backward":
        options = {**options, "hook": random_.random() < 0.5}
    return Fault(
        number,
        kind.name,
        random_.randrange(world_size),
        world_size,
        strategy,
        where,
        phase,
        step,
        options,
    )


def _moment_in_case(where: str, strategy: str, random_: random.Random) -> tuple[str, int | None]:
    if where == "step_fn":
        # Early in a window: what one rank left out shows before the phase is over.
        return "timed", random_.randrange(MIN_STEPS - 2)
    if where not in IN_STEP:
        return {"batch": "build"}.get(where, where), None
    phases = ["warm-up", "timed", "timed", "profiled"]
    if where != "optimizer":  # gradients are checked without a step of the optimizer
        phases.append("check")
    if strategy == "ddp":  # the others' communication cannot be taken out
        phases.append("no-communication")
    phase = random_.choice(phases)
    return phase, random_.randrange(STEPS[phase]) if phase in STEPS else None
