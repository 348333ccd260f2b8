"""Several hosts on one machine: network namespaces on a switch, with links of a known rate.

    python -m bench.hosts up --hosts 2 --rate 1gbit
    python -m bench.hosts exec host0 -- torchrun …
    python -m bench.hosts down

Every host has a network and a name of its own; processors, memory and file system are shared. The
switch is a bridge in a namespace too, where no firewall of the machine reaches; one interface of
the machine itself leads to it, so that a controller outside can be reached. tc's token buckets
shape both directions of each host's link. A link has a rate and no delay beyond its queue:
adding delay takes netem, which not every kernel has.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from bench import namespaces
from bench.namespaces import KEPT, HostsError, run
from bench.units import parse_rate, rate_text

_MOST_HOSTS = 200
#: What may go out at once after a pause, in bytes: 0.8 % of 16 MiB, which is what a link flatters
#: such a transfer by. It has to hold one of the kernel's own 64 KiB bundles and, beside it, what
#: comes together while a busy processor is late: with 64 KiB links of 1 Gbit/s gave 0.7 of it.
_BURST_BYTES = 128 * 1024
#: How long the queue of a link may become, in seconds: a full window of TCP has room, as in a
#: switch with deep buffers, and a transfer is held by the rate and not by losses.
_QUEUE_S = 0.1
_count = itertools.count()


@dataclass(frozen=True)
class Emulation:
    """The hosts that were asked for; without a rate their links are as fast as the kernel."""

    hosts: int
    rate_bits_per_s: float | None = None


def parse(text: str) -> Emulation:
    """``hosts=2,rate=1gbit``. Raises ValueError in words."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in ("hosts", "rate"):
            raise ValueError(
                f"{part.strip()!r} is neither hosts=N nor rate=RATE (hosts=2,rate=1gbit)"
            )
        found[name] = value.strip()
    hosts = found.get("hosts", "2")
    if not hosts.isdecimal() or not 2 <= int(hosts) <= _MOST_HOSTS:
        raise ValueError(f"hosts={hosts}: must be a number from 2 to {_MOST_HOSTS}")
    return Emulation(int(hosts), parse_rate(found["rate"]) if "rate" in found else None)


class Hosts:
    """Test hosts that are up; a context manager that takes them down for certain.

    What a killed process leaves is removed when the next one calls ``up``.
    """

    def __init__(self, tag: str, count: int, rate_bits_per_s: float | None) -> None:
        self.names = [f"host{index}" for index in range(count)]
        self.rate_bits_per_s = rate_bits_per_s
        self.addresses: list[str] = []
        self.controller_address = ""
        self._spaces = [f"lockstep-{tag}-{name}" for name in self.names]
        self._switch = f"lockstep-{tag}-switch"

    @classmethod
    def up(cls, count: int, rate_bits_per_s: float | None, keep: bool = False) -> Hosts:
        """Make them. ``keep``: they outlive this process. Raises HostsError."""
        if problem := namespaces.why_not():
            raise HostsError(problem)
        if not 1 <= count <= _MOST_HOSTS:
            raise HostsError(f"{count} hosts: there can be 1 to {_MOST_HOSTS}")
        number = next(_count)
        tag = KEPT if keep else f"{namespaces.tag_of(os.getpid())}-{number}"
        hosts = cls(tag, count, rate_bits_per_s)
        with namespaces.one_at_a_time():
            clean_up()
            if keep and hosts._switch in namespaces.listed():
                raise HostsError("hosts are up already: python -m bench.hosts down takes them down")
            try:
                hosts._build("lockstep-keep" if keep else f"ls{os.getpid()}-{number}")
            except BaseException:
                hosts.down()
                raise
        return hosts

    def command(self, index: int, argv: Sequence[str]) -> list[str]:
        """What runs ``argv`` on a host: in its network, under its name, with its interface."""
        return _on(self._spaces[index], argv)

    def cut(self, index: int) -> None:
        """Pull the host's cable: what it sends and what it should receive is lost, unsaid."""
        run("ip", "-n", self._switch, "link", "set", self.names[index], "down")

    def mend(self, index: int) -> None:
        run("ip", "-n", self._switch, "link", "set", self.names[index], "up")

    def set_rate(self, rate_bits_per_s: float | None) -> None:
        """Of every link, in both directions; None takes the limit away."""
        for space, name in zip(self._spaces, self.names, strict=True):
            _shape(space, "eth0", rate_bits_per_s)
            _shape(self._switch, name, rate_bits_per_s)
        self.rate_bits_per_s = rate_bits_per_s

    def down(self) -> None:
        """Kill what still runs on the hosts and remove them. A second time does nothing."""
        problems = []
        for space in [*self._spaces, self._switch]:
            try:
                namespaces.remove(space)
            except HostsError as error:  # the others go all the same
                problems.append(error)
        if problems:
            raise problems[0]

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()

    def _build(self, uplink: str) -> None:
        subnet = namespaces.free_subnet()
        *addresses, controller = itertools.islice(subnet.hosts(), len(self.names) + 1)
        self.addresses, self.controller_address = [str(one) for one in addresses], str(controller)
        known = "".join(
            f"{address} {name}\n" for address, name in zip(self.addresses, self.names, strict=True)
        )
        # Without a name server here nobody waits 6 s for one that cannot be reached: torch asks for
        # the names of addresses such as ::ffff:10.0.0.1, which no list of hosts holds.
        files = {"hosts": f"127.0.0.1 localhost\n{known}", "resolv.conf": "# no name server\n"}
        namespaces.add(self._switch, {})
        run("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", self._switch, "link", "set", "switch", "up")
        for space, name, address in zip(self._spaces, self.names, self.addresses, strict=True):
            namespaces.add(space, files)
            # Every kernel has it, and on links that lose nothing it fills them.
            namespaces.set_kernel_option(space, "ipv4/tcp_congestion_control", "reno")
            self._plug(name, ["name", "eth0", "netns", space])
            run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
        self._plug("uplink", ["name", uplink, "netns", str(os.getpid())])
        run("ip", "addr", "add", f"{controller}/24", "dev", uplink)
        run("ip", "link", "set", uplink, "up")
        if self.rate_bits_per_s is not None:
            self.set_rate(self.rate_bits_per_s)

    def _plug(self, port: str, peer: list[str]) -> None:
        """A cable from a port of the switch."""
        at = ("ip", "-n", self._switch, "link")
        run(*at, "add", port, "type", "veth", "peer", *peer)
        run(*at, "set", port, "master", "switch", "up")


def clean_up() -> list[str]:
    """Remove the hosts of processes that are gone; the names of what was removed."""
    left = [name for name in namespaces.listed() if namespaces.owner_is_gone(name)]
    for name in left:
        namespaces.remove(name)
    return left


def _on(space: str, argv: Sequence[str]) -> list[str]:
    # Left alone, gloo and nccl would look the host's name up, or take an interface that they like.
    variables = ["GLOO_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth0"]
    return namespaces.enter(space, space.rpartition("-")[2], variables, argv)


def _shape(space: str, interface: str, rate_bits_per_s: float | None) -> None:
    at = ("tc", "-n", space, "qdisc")
    if rate_bits_per_s is None:
        if "tbf" in run(*at, "show", "dev", interface):
            run(*at, "del", "dev", interface, "root")
        return
    limit = ("burst", str(_BURST_BYTES), "latency", f"{_QUEUE_S * 1e3:g}ms")
    rate = f"{round(rate_bits_per_s)}bit"
    run(*at, "replace", "dev", interface, "root", "tbf", "rate", rate, *limit)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hosts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make hosts that stay until they are taken down")
    up.add_argument("--hosts", type=int, default=2)
    up.add_argument("--rate", help="of each link, e.g. 1gbit; without it there is no limit")
    commands.add_parser("list", help="the hosts of this machine, whoever made them")
    execute = commands.add_parser("exec", help="run a command on a host that was kept up")
    execute.add_argument("host", help="host0, or a name that list gives")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    commands.add_parser("down", help="take down what up has made")
    given = parser.parse_args()
    try:
        _obey(given)
    except (HostsError, ValueError) as error:
        sys.exit(f"{parser.prog} {given.command}: {error}")


def _obey(given: argparse.Namespace) -> None:
    if problem := namespaces.why_not():
        raise HostsError(problem)
    if given.command == "up":
        hosts = Hosts.up(given.hosts, parse_rate(given.rate) if given.rate else None, keep=True)
        rate = rate_text(hosts.rate_bits_per_s) if hosts.rate_bits_per_s else "no limit"
        for name, address in zip(hosts.names, hosts.addresses, strict=True):
            print(f"{name}  {address}  {rate}")
        print(f"this machine is {hosts.controller_address} to them")
    elif given.command == "list":
        for name in namespaces.listed():
            print(f"{name}{'  (its process is gone)' if namespaces.owner_is_gone(name) else ''}")
    elif given.command == "down":
        for name in namespaces.listed():
            if name.startswith(f"lockstep-{KEPT}-"):
                namespaces.remove(name)
        clean_up()
    else:
        name = given.host if given.host.startswith("lockstep-") else f"lockstep-{KEPT}-{given.host}"
        if name not in namespaces.listed():
            raise HostsError(f"there is no host {given.host}; up makes hosts, list shows them")
        argv = given.argv[1:] if given.argv[:1] == ["--"] else given.argv
        command = _on(name, argv or ["sh"])
        os.execvp(command[0], command)


if __name__ == "__main__":
    main()
