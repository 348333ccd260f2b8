"""The options of a sweep, read once at pytest's edge."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import interpreters, launcher
from bench.hosts import Emulation
from bench.hosts import parse as parse_emulation
from bench.units import parse_rate, rate_text
from bench.wire import address_of

#: Addresses that mean another host on every host.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
ALL_PASSES = ("timed", "check", "profiled", "no_communication", "checkpoint")


@dataclass(frozen=True)
class Settings:
    """How a sweep is measured. Times are in seconds, ``precision`` is a ratio."""

    matrix: str = "quick"
    axes: tuple[str, ...] = ()
    launches: int = 3
    #: Forked children per launch and case; None is one, or three where interpreters are compared.
    children: int | None = None
    order_seed: int = 0
    confirm: bool = True
    min_steps: int = 20
    warm_up_steps: int = 10
    precision: float = 0.02
    max_seconds: float = 6.0
    profiled_steps: int = 5
    passes: tuple[str, ...] = ALL_PASSES
    isolation: str = "fork"
    case_timeout_s: float | None = None
    launch_timeout_s: float = 180.0
    #: Where rank 0 listens; None is 127.0.0.1, or its own address where a case is on several hosts.
    master_addr: str | None = None
    master_port: int = 0
    #: A command that starts the ranks, as a template (bench/launcher.py); None is torchrun here.
    launcher: str | None = None
    #: Hosts that it starts them on.
    nodes: int = 1
    #: Who starts the ranks: us (launched), or somebody else (external).
    ranks: str = "launched"
    #: Where the controller listens for ranks of other hosts; port 0 is any free one.
    bind: tuple[str, int] = ("127.0.0.1", 0)
    token_file: str | None = None
    emulate: Emulation | None = None
    #: Below this busbw the sweep fails, in bytes per second; None judges nothing.
    min_busbw_bytes_per_s: float | None = None
    resume: bool = False
    save_traces: bool = False
    data_root: str | None = None
    download: bool = False
    #: By label: an empty one where the only interpreter is pytest's own.
    pythons: Mapping[str, str] = field(default_factory=dict)
    json_path: Path | None = None

    @classmethod
    def from_pytest(cls, config: Any, python: str) -> Settings:
        """Raises ValueError, in one line, for values that make no sense."""
        option = config.getoption
        passes = tuple(part.strip() for part in option("--passes").split(",") if part.strip())
        unknown = [name for name in passes if name not in ALL_PASSES]
        if unknown:
            raise ValueError(
                f"--passes: {unknown[0]!r} is not a pass (choose from {', '.join(ALL_PASSES)})"
            )
        json_file = option("benchmark_json", default=None)
        settings = cls(
            matrix=option("--matrix"),
            axes=tuple(option("--axis")),
            launches=option("--launches"),
            children=option("--children"),
            order_seed=option("--order-seed"),
            confirm=option("confirm"),
            min_steps=option("--min-steps"),
            warm_up_steps=option("--warm-up-steps"),
            precision=option("--precision"),
            max_seconds=option("--max-seconds"),
            passes=("timed", *(name for name in passes if name != "timed")),
            isolation=option("--isolation"),
            case_timeout_s=option("--case-timeout"),
            launch_timeout_s=option("--launch-timeout"),
            master_addr=option("--master-addr"),
            master_port=option("--master-port"),
            launcher=option("--launcher"),
            nodes=option("--nodes"),
            ranks=option("--ranks"),
            bind=_bind(option("--bind")),
            token_file=option("--token-file"),
            emulate=_emulation(option("--emulate")),
            min_busbw_bytes_per_s=_bytes_per_s(option("--min-busbw")),
            resume=option("--resume"),
            save_traces=option("--save-traces"),
            data_root=option("--data-root"),
            download=option("--download"),
            pythons=interpreters.parse(option("--torch")) or {"": python},
            json_path=Path(json_file) if json_file else None,
        )
        for name in ("launches", "children", "min_steps", "warm_up_steps", "nodes"):
            value = getattr(settings, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1")
        for name in ("precision", "max_seconds", "case_timeout_s", "launch_timeout_s"):
            value = getattr(settings, name)
            if value is not None and not 0 < value < math.inf:  # nor nan
                raise ValueError(
                    f"--{name.removesuffix('_s').replace('_', '-')} must be above 0, and finite"
                )
        if settings.case_limit_s < settings.max_seconds_per_child:
            raise ValueError(
                f"--case-timeout {settings.case_limit_s:g} is less than the "
                f"{settings.max_seconds_per_child:g} s of timed steps a launch may take "
                "(--max-seconds over --launches and --children)"
            )
        if not 0 <= settings.master_port < 65536:
            raise ValueError("--master-port must lie between 0 (any free port) and 65535")
        _check_hosts(settings, bool(option("--torch")), option("--bind"))
        if settings.save_traces and settings.json_path is None:
            raise ValueError(
                "--save-traces needs --benchmark-json: traces are put beside that file"
            )
        if settings.save_traces and "profiled" not in settings.passes:
            raise ValueError("--save-traces needs the profiled pass (--passes)")
        if settings.resume and settings.json_path is None:
            raise ValueError("--resume needs the --benchmark-json of the run it goes on with")
        return settings

    def one_step(self) -> Settings:
        """What --benchmark-disable asks for: run everything once, measure nothing."""
        return dataclasses.replace(
            self,
            launches=1,
            children=1,
            min_steps=1,
            warm_up_steps=1,
            max_seconds=1e-9,
            passes=("timed",),
        )

    @property
    def comparing(self) -> bool:
        """Whether several interpreters are measured side by side."""
        return len(self.pythons) > 1

    @property
    def base(self) -> str:
        """The label of the interpreter that the others are compared with: the first."""
        return next(iter(self.pythons), "")

    @property
    def children_per_launch(self) -> int:
        return self.children or (3 if self.comparing else 1)

    @property
    def max_seconds_per_child(self) -> float:
        """``max_seconds`` is a case's budget for timed steps over all launches."""
        return self.max_seconds / (self.launches * self.children_per_launch)

    @property
    def case_limit_s(self) -> float:
        """How long one child of a case may take: ten minutes beside its timed steps."""
        if self.case_timeout_s is not None:
            return self.case_timeout_s
        return 600.0 + 5 * self.max_seconds_per_child

    @property
    def journal_path(self) -> Path | None:
        return self.json_path.with_suffix(".journal.jsonl") if self.json_path else None

    @property
    def traces_folder(self) -> Path | None:
        """Where --save-traces puts them: absolute, for ranks stand elsewhere."""
        if not self.save_traces or self.json_path is None:
            return None
        return self.json_path.with_suffix(".traces").absolute()


def _bytes_per_s(text: str | None) -> float | None:
    try:
        return parse_rate(text) / 8 if text is not None else None
    except ValueError as error:
        raise ValueError(f"--min-busbw: {error}") from None


def _bind(text: str | None) -> tuple[str, int]:
    try:
        return address_of(text) if text is not None else Settings.bind
    except ValueError as error:
        raise ValueError(f"--bind: {error}") from None


def _emulation(text: str | None) -> Emulation | None:
    try:
        return parse_emulation(text) if text is not None else None
    except ValueError as error:
        raise ValueError(f"--emulate: {error}") from None


def emulation_text(emulation: Emulation) -> str:
    """As it is typed."""
    rate = emulation.rate_bits_per_s
    hosts = f"hosts={emulation.hosts}"
    return hosts if rate is None else f"{hosts},rate={rate_text(rate)}"


def _check_hosts(settings: Settings, torch: bool, bind: str | None) -> None:
    """Whether what was said of hosts fits together. Raises ValueError."""
    external = settings.ranks == "external"
    given = {
        "--launcher": settings.launcher is not None,
        "--ranks external": external,
        "--emulate": settings.emulate is not None,
    }
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise ValueError(f"{' and '.join(chosen)}: ranks have one origin; choose one of them")
    if settings.launcher is not None:
        launcher.check(settings.launcher)
    elif settings.nodes > 1:
        raise ValueError("--nodes says how many hosts a --launcher starts ranks on: give one")
    if settings.nodes > 1 and settings.bind[0] in _LOOPBACK:
        raise ValueError(
            "--nodes: ranks of other hosts have to find the controller; say --bind HOST:0 with an "
            "address of this host (--bind 0.0.0.0:0 is any)"
        )
    if external and torch:
        raise ValueError("--ranks external measures the torch of the ranks: leave out --torch")
    if external and (bind is None or settings.bind[1] == 0):
        raise ValueError(
            "--ranks external needs --bind HOST:PORT, an address of this host at which the ranks "
            "find the controller (--bind 0.0.0.0:29400 is any address)"
        )
