"""Network namespaces: made, listed, and taken away with all that runs in them (Linux, root).

A name says whose a namespace is: ``lockstep-<pid>-<start>-<n>-<what>``, where the start of the
process tells it from a later one with the same pid; ``lockstep-keep-<what>`` belongs to nobody and
stays until it is taken down.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

KEPT = "keep"
_NAME = re.compile(r"lockstep-(keep|(\d+)-(\d+)-\d+)-(switch|host\d+)")
_LOCK = Path("/run/lockstep-hosts.lock")
#: Files here take the place of those in /etc for what ``ip netns exec`` starts.
_ETC = Path("/etc/netns")
_TOOLS = ("ip", "tc", "unshare")
#: What was killed is gone within this time, or we say so.
_GONE_WITHIN_S = 5.0


class HostsError(Exception):
    """Hosts that cannot be made, in one line with what is needed."""


def why_not() -> str | None:
    """Why this machine cannot have test hosts; None where it can, as far as can be seen."""
    if not os.path.exists("/proc/self/ns/net"):
        return "test hosts are network namespaces: they need Linux"
    if os.geteuid() != 0:
        return "test hosts are network namespaces: making them needs root"
    missing = [tool for tool in _TOOLS if not _found(tool)]
    if missing:
        return f"test hosts need {' and '.join(missing)}: install iproute2 and util-linux"
    return None


def _found(tool: str) -> str | None:
    """Where it is: a user's PATH may lack the folders of what only root can use."""
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")


def run(*command: str) -> str:
    """What the command prints. Raises HostsError in one line."""
    tool, *arguments = command
    try:
        done = subprocess.run(
            [_found(tool) or tool, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise HostsError(f"cannot start {command[0]}: {error.strerror}") from None
    if done.returncode:
        words = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise HostsError(f"{' '.join(command)}: {words}")
    return done.stdout


def tag_of(pid: int) -> str:
    """Names the process among all that ever had its pid since the machine started."""
    return f"{pid}-{_start_ticks(pid)}"


def listed() -> list[str]:
    """Our namespaces on this machine, whoever made them."""
    names = [entry["name"] for entry in json.loads(run("ip", "-j", "netns", "list") or "[]")]
    # A list that was cut short leaves a folder of files behind.
    with contextlib.suppress(OSError):
        names += [entry.name for entry in _ETC.iterdir()]
    return sorted({name for name in names if _NAME.fullmatch(name)})


def owner_is_gone(name: str) -> bool:
    found = _NAME.fullmatch(name)
    if not found or found[1] == KEPT:
        return False
    return _start_ticks(int(found[2])) != int(found[3])


def add(name: str, files: dict[str, str]) -> None:
    """A namespace with a loopback and, for what runs in it, ``files`` in place of those in /etc."""
    (_ETC / name).mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (_ETC / name / file).write_text(text)
    run("ip", "netns", "add", name)
    # Before any interface is there: no address but ours, and no chatter of IPv6 on the links.
    set_kernel_option(name, "ipv6/conf/all/disable_ipv6", "1")
    set_kernel_option(name, "ipv6/conf/default/disable_ipv6", "1")
    run("ip", "-n", name, "link", "set", "lo", "up")


def set_kernel_option(name: str, option: str, value: str) -> None:
    """Of the namespace alone; an option that this kernel lacks is none to set."""
    path = f"/proc/sys/net/{option}"
    run("ip", "netns", "exec", name, "sh", "-c", f"[ ! -e {path} ] || echo {value} > {path}")


def remove(name: str) -> None:
    """Kill what runs in the namespace and delete it; one that is gone already is no error."""
    end = time.monotonic() + _GONE_WITHIN_S
    while pids := _inside(name):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise HostsError(f"processes in {name} cannot be killed: {pids}")
        time.sleep(0.01)
    if name in _present():
        run("ip", "netns", "del", name)
    shutil.rmtree(_ETC / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        _ETC.rmdir()  # where no other has files


def free_subnet() -> ipaddress.IPv4Network:
    """A /24 of 10.0.0.0/8 that no route of this machine touches."""
    routes = [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in json.loads(run("ip", "-4", "-j", "route", "show", "table", "all") or "[]")
        if route["dst"] != "default"
    ]
    # From the upper end: people begin at the lower one.
    for subnet in reversed(list(ipaddress.IPv4Network("10.0.0.0/8").subnets(new_prefix=24))):
        if not any(subnet.overlaps(route) for route in routes):
            return subnet
    raise HostsError("no subnet of 10.0.0.0/8 is free of this machine's routes")


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two who look for a free subnet at once would find the same one."""
    with open(_LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def enter(name: str, hostname: str, variables: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` in the namespace, in the place of the process that starts it.

    Nothing forks on the way: a signal to it, and one at its parent's end, reach ``argv`` itself.
    """
    script = 'echo "$0" > /proc/sys/kernel/hostname; exec env "$@"'
    inside = ["unshare", "--uts", "sh", "-c", script, hostname, *variables, *argv]
    return [_found("ip") or "ip", "netns", "exec", name, *inside]


def _present() -> set[str]:
    return {entry["name"] for entry in json.loads(run("ip", "-j", "netns", "list") or "[]")}


def _inside(name: str) -> list[int]:
    with contextlib.suppress(HostsError):  # gone already
        return [int(pid) for pid in run("ip", "netns", "pids", name).split()]
    return []


def _start_ticks(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name in brackets may hold anything, brackets too.
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(stat.rpartition(")")[2].split()[19])
    return None
