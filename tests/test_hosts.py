"""Test hosts: what is made, what it is like there, and that nothing stays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from bench import hosts, namespaces
from bench.hosts import Emulation, Hosts, clean_up, parse
from tests.hosts_here import needs_hosts

#: Sends itself bytes from one host to another, and says in how many seconds.
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7000), timeout=2) as peer:
    begin = time.perf_counter()
    peer.sendall(bytes(int(sys.argv[2])))
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)  # its end of the connection closes when all is there
    print(time.perf_counter() - begin)
"""
RECEIVE = """
import socket
server = socket.create_server(("", 7000))
print("ready", flush=True)
while True:
    peer, _ = server.accept()
    while peer.recv(1 << 16):
        pass
    peer.close()
"""
#: Makes hosts, starts something on one of them, says its pid and waits to be killed.
OWNER = """
import subprocess, sys, time
from bench.hosts import Hosts
up = Hosts.up(2, 1e9)
inside = subprocess.Popen(up.command(0, [sys.executable, "-c", "import time; time.sleep(600)"]))
print(inside.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("text", "rate"),
    [("hosts=3,rate=1gbit", 1e9), ("hosts=3", None), ("rate=200Mbit,hosts=3", 2e8)],
)
def test_parse(text: str, rate: float | None) -> None:
    assert parse(text) == Emulation(3, rate)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "hosts=N"),
        ("hosts=1", "from 2"),
        ("hosts=two", "from 2"),
        ("hosts=2,rate=fast", "is not a rate"),
        ("hosts=2,delay=1ms", "delay=1ms"),
    ],
)
def test_what_cannot_be_parsed(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse(text)


def test_whoever_may_not_is_told_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(hosts.HostsError, match="needs root"):
        Hosts.up(2, None)


def test_an_owner_is_known_by_its_start() -> None:
    own = namespaces.tag_of(os.getpid())
    pid, _, start = own.partition("-")
    assert not namespaces.owner_is_gone(f"lockstep-{own}-0-host1")
    assert namespaces.owner_is_gone(f"lockstep-{pid}-{int(start) - 1}-0-host1")
    for none_of_ours in ("lockstep-keep-host1", "lockstep-x", "other"):
        assert not namespaces.owner_is_gone(none_of_ours)


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[Hosts]:
    with Hosts.up(2, 100e6) as up:
        receiver = subprocess.Popen(
            up.command(1, [sys.executable, "-c", RECEIVE]), stdout=subprocess.PIPE
        )
        assert receiver.stdout and receiver.stdout.readline() == b"ready\n"
        with receiver:
            yield up
            up.down()
        assert receiver.returncode == -signal.SIGKILL  # with its host
    up.down()
    assert not [name for name in namespaces.listed() if namespaces.tag_of(os.getpid()) in name]


def send(up: Hosts, size: int) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", SEND, up.names[1], str(size)]
    return subprocess.run(up.command(0, argv), capture_output=True, text=True, check=False)


@needs_hosts
def test_a_host_has_a_name_and_an_interface_of_its_own(two_hosts: Hosts) -> None:
    argv = ["sh", "-c", "hostname; echo $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME; ip -br -4 addr"]
    for index, name in enumerate(two_hosts.names):
        seen = subprocess.run(two_hosts.command(index, argv), capture_output=True, text=True)
        assert seen.stdout.split()[:3] == [name, "eth0", "eth0"]
        assert two_hosts.addresses[index] in seen.stdout
    assert os.uname().nodename not in two_hosts.names


@needs_hosts
def test_a_link_is_no_faster_than_its_rate(two_hosts: Hosts) -> None:
    size = 4_000_000
    over_the_burst = (size - 2 * hosts._BURST_BYTES) * 8
    assert float(send(two_hosts, size).stdout) > over_the_burst / 100e6
    two_hosts.set_rate(400e6)
    assert over_the_burst / 400e6 < float(send(two_hosts, size).stdout)
    two_hosts.set_rate(None)
    two_hosts.set_rate(None)
    assert send(two_hosts, size).returncode == 0


@needs_hosts
def test_a_cut_link_carries_nothing_until_it_is_mended(two_hosts: Hosts) -> None:
    two_hosts.cut(1)
    cut = send(two_hosts, 1)
    two_hosts.mend(1)
    assert "timed out" in cut.stderr or "No route" in cut.stderr
    assert send(two_hosts, 1).returncode == 0


def command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bench.hosts", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@needs_hosts
def test_hosts_that_are_kept_stay_until_they_are_taken_down() -> None:
    if any("-keep-" in name for name in namespaces.listed()):
        pytest.skip("somebody keeps hosts on this machine")
    try:
        up = command("up", "--hosts", "2", "--rate", "1gbit")
        assert up.stdout.splitlines()[0].split()[::2] == ["host0", "1Gbit"], up.stderr
        assert "are up already" in command("up").stderr
        assert not [name for name in clean_up() if "-keep-" in name]
        inside = command("exec", "host1", "--", "sh", "-c", "hostname; exit 3")
        assert (inside.stdout, inside.returncode) == ("host1\n", 3)
        assert "there is no host host7" in command("exec", "host7", "--", "true").stderr
    finally:
        assert command("down").returncode == 0
    assert "-keep-" not in command("list").stdout


@needs_hosts
def test_what_a_killed_process_leaves_is_cleaned_up() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        inside = int(owner.stdout.readline())
        tag = namespaces.tag_of(owner.pid)
        left = [f"lockstep-{tag}-0-{name}" for name in ("host0", "host1", "switch")]
        assert not set(left) & set(clean_up())  # it lives
        owner.kill()
    assert clean_up() == left
    with contextlib.suppress(psutil.NoSuchProcess):  # or nobody has buried it yet
        assert psutil.Process(inside).status() == psutil.STATUS_ZOMBIE
    assert not set(left) & set(namespaces.listed())
