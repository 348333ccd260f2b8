"""Start one rank, or several by torch.multiprocessing; imports torch once for all its cases.

    python -m bench.worker --controller HOST:PORT            (one rank; torchrun starts these)
    python -m bench.worker --controller HOST:PORT --spawn N  (N ranks by torch.multiprocessing)

The token comes in the environment (LOCKSTEP_TOKEN), never on a command line. The protocol is the
docstring of bench/wire.py.
"""

from __future__ import annotations

import argparse
import os
import sys

from bench.wire import TOKEN_VARIABLE
from bench.worker.rank import be_rank, spawned_rank


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.worker")
    parser.add_argument("--controller", required=True, metavar="HOST:PORT")
    parser.add_argument("--spawn", type=int, metavar="N")
    options = parser.parse_args(arguments)
    host, _, port = options.controller.rpartition(":")
    token = os.environ.get(TOKEN_VARIABLE, "")
    if options.spawn is None:
        be_rank(int(os.environ.get("RANK", 0)), host, int(port), token)
        return 0
    import torch.multiprocessing as multiprocessing

    multiprocessing.start_processes(
        spawned_rank,
        args=(options.spawn, host, int(port), token),
        nprocs=options.spawn,
        start_method="spawn",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
