from __future__ import annotations

import pytest

from bench.worker.place import place

SLURM = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, (0, 0, 1)),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, (3, 1, 4)),
        (SLURM, (5, 1, 8)),
        # torchrun within a task of srun: its ranks are meant, not srun's tasks.
        ({**SLURM, "RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16"}, (9, 1, 16)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "4",
                "PMI_RANK": "7",
            },
            (2, 0, 4),
        ),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}, (2, 0, 4)),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, (2, 2, 4)),
    ],
)
def test_a_rank_knows_its_place(environment: dict[str, str], told: tuple[int, int, int]) -> None:
    assert place(environment) == told


def test_half_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="torchrun has set RANK and not WORLD_SIZE"):
        place({"RANK": "1"})
    with pytest.raises(ValueError, match="srun has told no numbers"):
        place({"SLURM_PROCID": "one", "SLURM_NTASKS": "2"})
