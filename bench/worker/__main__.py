"""Start one rank, or several by torch.multiprocessing; imports torch once for all its cases.

    python -m bench.worker --controller HOST:PORT            (one rank; torchrun starts these)
    python -m bench.worker --controller HOST:PORT --spawn N  (N ranks by torch.multiprocessing)

The token comes in the environment (LOCKSTEP_TOKEN) or in a file that only its owner can read,
never on a command line. The protocol is the docstring of bench/wire.py.
"""

from __future__ import annotations

import argparse
import os
import sys

from bench.token_file import read_token
from bench.wire import address_of
from bench.worker.place import place
from bench.worker.rank import be_rank, spawned_rank


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.worker")
    parser.add_argument("--controller", required=True, metavar="HOST:PORT")
    parser.add_argument("--token-file", metavar="FILE", help="holds the controller's token")
    parser.add_argument(
        "--stay",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="look so long for a controller that is not there (yet, or any more)",
    )
    parser.add_argument("--spawn", type=int, metavar="N")
    options = parser.parse_args(arguments)
    try:
        host, port = address_of(options.controller)
        token = read_token(options.token_file, os.environ)
        own_place = place(os.environ)
    except ValueError as error:
        parser.error(str(error))
    if options.spawn is None:
        be_rank(own_place, host, port, token, options.stay)
        return 0
    import torch.multiprocessing as multiprocessing

    multiprocessing.start_processes(
        spawned_rank,
        args=(options.spawn, host, port, token),
        nprocs=options.spawn,
        start_method="spawn",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
