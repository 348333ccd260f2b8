"""How launches are started on several hosts: the commands, with fakes for the ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import rank_sources
from bench.launch import LaunchError
from bench.rank_sources import EmulatedRanks, LauncherRanks, Wanted, reachable
from tests.fake_ranks import FakeRanks, well

ABOUT = {"torch": "2", "cuda": None, "hip": None, "nccl": None, "models": {}, "cores": 4}
ABOUT |= {"gpus": [], "boot_id": None}


@dataclasses.dataclass
class Started:
    """Stands in for bench.launch.start_together."""

    ranks: FakeRanks
    commands: list[list[str]] = dataclasses.field(default_factory=list)
    world_size: int = 2

    def __call__(
        self, commands: Sequence[Sequence[str]], token: str, threads: int, log: Path
    ) -> FakeRanks:
        self.commands = [list(command) for command in commands]
        assert not any(token in word for command in self.commands for word in command)
        at = self.commands[0].index("--controller") + 1
        host, _, port = self.commands[0][at].rpartition(":")
        return self.ranks(self.world_size, (host, int(port)), token)


def starting(monkeypatch: pytest.MonkeyPatch, ranks: FakeRanks, world_size: int) -> Started:
    made = Started(ranks, world_size=world_size)
    monkeypatch.setattr(rank_sources, "start_together", made)
    return made


def wanted(folder: Path) -> Wanted:
    return Wanted("/py", "torchrun", 2, 1, folder / "ranks.log", 10.0)


def a_token(folder: Path) -> str:
    (folder / "token").write_text("t" * 64 + "\n")
    return str(folder / "token")


def test_a_launcher_is_told_the_nodes_and_its_hosts_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = FakeRanks(well, hosts=("a", "a", "b", "b"), abouts={"a": ABOUT, "b": ABOUT})
    started = starting(monkeypatch, ranks, 4)
    template = "srun -N {nodes} -n {world_size} --ntasks-per-node={ranks_per_node} {python}"
    token = a_token(tmp_path)
    source = LauncherRanks(template, (2, 2), ("127.0.0.1", 0), token)
    group = source.group(wanted(tmp_path))
    (command,) = started.commands
    assert command[:8] == [
        *("srun", "-N", "2", "-n", "4", "--ntasks-per-node=2", "/py", "-m"),
    ]
    assert command[-2:] == ["--token-file", token]
    assert group.world_size == 4
    assert [(host["host"], host["ranks"]) for host in source.hosts] == [
        ("a", [0, 1]),
        ("b", [2, 3]),
    ]
    source.part(group)
    assert len(ranks.stopped) == 1


def test_nodes_without_a_common_torch_are_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = FakeRanks(well, hosts=("a", "b"), abouts={"a": ABOUT, "b": {**ABOUT, "torch": "3"}})
    starting(monkeypatch, ranks, 2)
    source = LauncherRanks("srun {python}", (1, 1), ("127.0.0.1", 0), a_token(tmp_path))
    with pytest.raises(LaunchError, match="a has torch 2, b has 3"):
        source.group(wanted(tmp_path))
    assert len(ranks.stopped) == 1
    assert source.hosts == []


class Hosts:
    names = ("host0", "host1")
    addresses = ("10.0.0.1", "10.0.0.2")
    controller_address = "127.0.0.1"

    def command(self, index: int, argv: Sequence[str]) -> list[str]:
        return ["on", self.names[index], *argv]


def test_every_emulated_host_has_a_torchrun_of_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = FakeRanks(well, hosts=("host0", "host0", "host1", "host1"))
    started = starting(monkeypatch, ranks, 4)
    source = EmulatedRanks(Hosts(), (2, 2))  # type: ignore[arg-type]
    groups = [source.group(wanted(tmp_path)) for _ in range(2)]
    for host, command in enumerate(started.commands):
        words = " ".join(command)
        assert words.startswith(f"on host{host} /py -m torch.distributed.run --nnodes 2")
        assert f"--node-rank {host} --master-addr 10.0.0.1" in words
        assert "--nproc-per-node 2" in words
    ports = [command[command.index("--master-port") + 1] for command in started.commands]
    assert ports == ["29401", "29401"]  # one for each launch: interpreters are side by side
    # These hosts are this machine: their processes are ended from here.
    groups[-1].stop()
    assert ranks.watched


def test_an_address_for_others() -> None:
    assert reachable(("10.0.0.3", 5)) == ("10.0.0.3", 5)
    host, port = reachable(("0.0.0.0", 5))
    assert port == 5
    assert not host.startswith(("0.", "127."))
