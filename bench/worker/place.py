"""A rank's place in its launch, as whichever launcher has told it."""

from __future__ import annotations

from collections.abc import Mapping

#: (launcher, its variables for rank, local rank and world size). The first whose rank is set
#: counts: torchrun under srun sets its own, and those are meant.
_TOLD = (
    ("torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("srun", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ),
    ("MPICH", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
)


def place(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """(rank, local rank, world size); rank 0 of 1 where no launcher has said anything.

    A launcher that does not say the local rank is believed to number within one host. Raises
    ValueError, in one line, for a rank without a world size and for what is no number.
    """
    for launcher, rank, local_rank, world_size in _TOLD:
        if rank not in environment:
            continue
        if world_size not in environment:
            raise ValueError(f"{launcher} has set {rank} and not {world_size}")
        try:
            return (
                int(environment[rank]),
                int(environment.get(local_rank, environment[rank])),
                int(environment[world_size]),
            )
        except ValueError:
            told = {name: environment.get(name) for name in (rank, local_rank, world_size)}
            raise ValueError(f"{launcher} has told no numbers: {told}") from None
    return 0, 0, 1
