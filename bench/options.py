"""The command-line options of a sweep, and what each says of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.launcher import NAMES
from bench.settings import ALL_PASSES, Settings
from bench.wire import TOKEN_VARIABLE


def add_options(parser: pytest.Parser) -> None:
    defaults = Settings()
    group = parser.getgroup("lockstep", "Lockstep: what is swept and how it is measured")
    add = group.addoption
    add(
        "--matrix",
        default=defaults.matrix,
        metavar="quick|full|collectives|FILE.toml",
        help="cells to sweep",
    )
    add(
        "--axis",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        help="replace the values of an axis (a field of a case); repeatable",
    )
    add("--launches", type=int, default=defaults.launches, help="times the whole matrix is run")
    add(
        "--torch",
        action="append",
        default=[],
        metavar="LABEL=PYTHON",
        help="an interpreter to measure (or the folder of its virtual environment); several are "
        "measured side by side, child by child, and compared with the first "
        "(default: the one pytest runs under)",
    )
    add(
        "--children",
        type=int,
        default=None,
        metavar="N",
        help="processes forked for a case in each launch, one after another; the launch's value is "
        "their median (default: 3 where interpreters are compared, else 1)",
    )
    add(
        "--order-seed",
        type=int,
        default=defaults.order_seed,
        metavar="N",
        help="of the random order in which interpreters take turns within a case",
    )
    add(
        "--no-confirm",
        action="store_false",
        default=defaults.confirm,
        dest="confirm",
        help="do not measure cases that look slower once more with fresh pairs",
    )
    add("--min-steps", type=int, default=defaults.min_steps, help="timed steps a launch, at least")
    add("--warm-up-steps", type=int, default=defaults.warm_up_steps, help="steps before them")
    add(
        "--precision",
        type=float,
        default=defaults.precision,
        help="stop when the median's interval is this small, as a ratio",
    )
    add(
        "--max-seconds",
        type=float,
        default=defaults.max_seconds,
        help="or when a case's timed steps, over all launches, took this long",
    )
    add(
        "--passes",
        default=",".join(ALL_PASSES),
        help="comma-separated, of " + ", ".join(ALL_PASSES),
    )
    add(
        "--isolation",
        choices=("fork", "launch"),
        default=defaults.isolation,
        help="a forked child, or new ranks, for every case",
    )
    add(
        "--case-timeout",
        type=float,
        default=None,
        metavar="SECONDS",
        help="after this a launch of a case is given up, and after a share of it each of its "
        "phases (default: 600 and five times its share of --max-seconds)",
    )
    add(
        "--launch-timeout",
        type=float,
        default=defaults.launch_timeout_s,
        metavar="SECONDS",
        help="ranks that take longer to start are given up",
    )
    add(
        "--min-busbw",
        default=None,
        metavar="RATE",
        help="what an all_reduce of the largest size, and every pair of ranks, has to give (10GB, "
        "900Mbit): below it the exit status is 1, and the slowest rank or pair is named "
        "(--matrix collectives)",
    )
    add(
        "--resume",
        action="store_true",
        help="go on with the journal of a run into the same --benchmark-json: measure only what "
        "it has no good result for",
    )
    add(
        "--master-addr",
        default=defaults.master_addr,
        metavar="HOST",
        help="where rank 0 listens (default: 127.0.0.1, and where a case is on several hosts the "
        "address at which the controller sees rank 0's)",
    )
    add(
        "--master-port",
        type=int,
        default=defaults.master_port,
        metavar="PORT",
        help="and on which port (default: one the system gives, new for every case)",
    )
    _add_hosts(add, defaults)
    add(
        "--save-traces",
        action="store_true",
        help="keep the traces of the profiled pass beside the JSON, for Perfetto and "
        "python -m reports trace",
    )
    add("--data-root", default=None, metavar="FOLDER", help="where CIFAR10 is (data=loader)")
    add("--download", action="store_true", help="fetch CIFAR10 into --data-root")


def _add_hosts(add: Callable[..., None], defaults: Settings) -> None:
    """Where ranks come from when it is not a torchrun on this host."""
    add(
        "--launcher",
        default=None,
        metavar="COMMAND",
        help="a command that starts the ranks in place of torchrun, such as "
        "'srun -N {nodes} -n {world_size} {python} {worker}'; filled in are "
        + ", ".join(f"{{{name}}}" for name in NAMES),
    )
    add(
        "--nodes",
        type=int,
        default=defaults.nodes,
        metavar="N",
        help="hosts that --launcher starts them on, equally many on each",
    )
    add(
        "--ranks",
        choices=("launched", "external"),
        default=defaults.ranks,
        help="external: wait for ranks that somebody else starts with "
        "torchrun ... -m bench.worker --controller HOST:PORT",
    )
    add(
        "--bind",
        default=None,
        metavar="HOST:PORT",
        help="where the controller listens for ranks of other hosts (default: 127.0.0.1, any port)",
    )
    add(
        "--token-file",
        default=None,
        metavar="FILE",
        help="holds the token by which ranks and controller know each other; made if it is not "
        f"there (otherwise {TOKEN_VARIABLE} of the environment)",
    )
    add(
        "--emulate",
        default=None,
        metavar="hosts=N,rate=RATE",
        help="run on N hosts made of network namespaces, with links of this rate "
        "(hosts=2,rate=1gbit); needs root and iproute2",
    )
