"""Sweeps over several hosts as a user starts them: real ranks in network namespaces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bench import namespaces
from bench.hosts import Hosts, clean_up
from tests.hosts_here import needs_hosts
from tests.sweeps import ROOT, Sweep, processes_of, start_sweep

OTHER_PYTHON = os.environ.get("LOCKSTEP_OTHER_PYTHON", "")
PORT = 29477
SHORT = (
    *("--launches", "1", "--max-seconds", "1", "--min-steps", "20", "--warm-up-steps", "3"),
    *("--axis", "strategy=ddp", "--axis", "scaling=weak", "--axis", "batch_size=32"),
    *("-k", "test_scaling"),
)
#: Steps slow enough to be cut in their middle; the file says when the middle is reached.
SLOW = """
import time
from pathlib import Path
import torch
from torch import nn

MIDDLE = Path(__file__).with_name("middle")

class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(8, 4), 0

    def forward(self, x):
        time.sleep(0.1)
        self.calls += 1
        if self.calls == 10:
            MIDDLE.touch()
        return self.layer(x)

def build(): return Slow()
def batch(n, rank, step): return (torch.randn(n, 8),), torch.randn(n, 4)
def loss(output, target): return (output - target).square().mean()
"""


def wait_until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with Hosts.up(2, 1e9) as made:
        yield made


def torchrun(python: str, *arguments: str, controller: str, token: Path) -> list[str]:
    return [
        *(python, "-m", "torch.distributed.run", *arguments, "-m", "bench.worker"),
        *("--controller", controller, "--token-file", str(token), "--stay", "90"),
    ]


@needs_hosts
def test_a_cable_is_pulled_in_mid_case(tmp_path: Path, hosts: Hosts) -> None:
    """Two hosts, a torchrun on each that somebody else starts, one case across them after another:
    the one in flight fails and names the host, the next finds the ranks again."""
    (tmp_path / "slow.py").write_text(SLOW)
    token, controller = tmp_path / "token", f"{hosts.controller_address}:{PORT}"
    running = start_sweep(
        tmp_path,
        *SHORT,
        *(
            "--axis",
            f"model=mlp,{tmp_path / 'slow.py'},sleep:layers=1:forward_ms=1",
            "--axis",
            "world_size=2",
        ),
        *("--ranks", "external", "--bind", controller, "--token-file", str(token)),
        *("--case-timeout", "10"),
    )
    started = []
    try:
        wait_until(lambda: token.exists() and token.stat().st_size > 0)
        for index in range(2):
            ranks = torchrun(
                sys.executable,
                *("--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(index)),
                *("--master-addr", hosts.addresses[0], "--master-port", "29499"),
                controller=controller,
                token=token,
            )
            started.append(subprocess.Popen(hosts.command(index, ranks), cwd=ROOT))
        wait_until((tmp_path / "middle").exists)
        hosts.cut(1)
        wait_until(lambda: running.journal_lines >= 3)  # the header, a result, the failure
        hosts.mend(1)
        ran = running.end()
        # Whoever has started them need not end them.
        assert [each.wait(30) for each in started] == [0, 0]
    finally:
        for each in (*started, running.process):
            each.kill()
            each.wait()
    good, cut, after = (outcome for outcome in ran.document["lockstep"]["outcomes"])
    assert [good["outcome"], cut["outcome"], after["outcome"]] == ["ok", "timed out", "ok"], cut
    assert (cut["failure"]["rank"], cut["failure"]["host"]) == (1, "host1")
    assert cut["failure"]["phase"] == "timed"
    assert "rank 1 on host1 in timed" in cut["reason"]
    assert "rank 1 on host1 timed out in timed" in ran.output
    hosts_seen = ran.document["lockstep"]["hosts"]
    assert [(each["host"], each["ranks"]) for each in hosts_seen] == [
        ("host0", [0]),
        ("host1", [1]),
    ]
    assert [each["address"] for each in hosts_seen] == hosts.addresses
    for case_id in (good["id"], after["id"]):
        assert [rank["host"] for rank in ran.launch(case_id)["ranks"]] == ["host0", "host1"]


@needs_hosts
def test_what_a_killed_sweep_leaves_the_next_one_removes(tmp_path: Path) -> None:
    running = start_sweep(
        tmp_path,
        *SHORT,
        *("--axis", "model=mlp", "--axis", "world_size=2", "--emulate", "hosts=2,rate=1gbit"),
    )
    tag = namespaces.tag_of(running.process.pid)
    # The first hosts are up when their ranks are started.
    wait_until(lambda: any("bench.worker" in each for each in processes_of(running.mark)))
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    wait_until(lambda: not running.processes())
    assert any(tag in name for name in namespaces.listed())
    removed = clean_up()  # as everyone does who makes hosts
    assert any(tag in name for name in removed)
    assert not any(tag in name for name in namespaces.listed())
    # The kernel takes the other end of a cable away a moment later.
    wait_until(lambda: not any(str(running.process.pid) in name for name in psutil.net_if_addrs()))


def test_ranks_with_another_torch_than_the_controllers(tmp_path: Path) -> None:
    if not OTHER_PYTHON:
        pytest.skip("LOCKSTEP_OTHER_PYTHON names no interpreter with another torch")
    token, controller = tmp_path / "token", f"127.0.0.1:{PORT + 1}"
    running = start_sweep(
        tmp_path,
        *SHORT,
        *("--axis", "model=mlp", "--axis", "world_size=1,2,4", "--launches", "2"),
        *("--ranks", "external", "--bind", controller, "--token-file", str(token)),
    )
    wait_until(lambda: token.exists() and token.stat().st_size > 0)
    ranks = torchrun(
        OTHER_PYTHON,
        *("--standalone", "--nproc-per-node", "2"),
        controller=controller,
        token=token,
    )
    started = subprocess.Popen(ranks, cwd=ROOT)
    try:
        ran: Sweep = running.end()
        assert started.wait(30) == 0
    finally:
        started.kill()
    told = subprocess.run(
        [OTHER_PYTHON, "-c", "import torch; print(torch.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert ran.document["lockstep"]["interpreters"][""]["torch"] == told
    for case_id in ("ddp-mlp-w1", "ddp-mlp-w2"):
        launches = ran.entry(case_id)["extra_info"]["result"]["launches"]
        assert {rank["software"]["torch"] for each in launches for rank in each["ranks"]} == {told}
        # A launch is new processes, though nobody has started any.
        assert len({each["ranks"][0]["pid"] for each in launches}) == 2
    assert ran.outcome("ddp-mlp-w4")["reason"] == "needs 4 ranks, 2 are connected"
