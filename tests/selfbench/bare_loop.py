"""A bare DDP loop as anyone would write it, started by torchrun: what Lockstep is compared with.

    torchrun --nproc-per-node 2 bare_loop.py MODEL BATCH_SIZE THREADS WARM_UP_STEPS STEPS

Prints the slowest rank's median step in seconds.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
from time import perf_counter

import torch
import torch.distributed as dist

from models.registry import load


def main(name: str, batch_size: int, threads: int, warm_up_steps: int, steps: int) -> None:
    torch.set_num_threads(threads)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = load(name)
    ddp = torch.nn.parallel.DistributedDataParallel(model.build())
    optimizer = model.optimizer(ddp.parameters())
    args, target = model.batch(batch_size, dist.get_rank(), 0)

    def step() -> None:
        model.loss(ddp(*args), target).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(warm_up_steps):
        step()
    marks = []
    for _ in range(steps):
        marks.append(perf_counter())
        step()
    marks.append(perf_counter())
    times = torch.tensor([b - a for a, b in itertools.pairwise(marks)], dtype=torch.float64)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(f"median {statistics.median(times.tolist())!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", sys.argv[3])
    main(sys.argv[1], *map(int, sys.argv[2:6]))
