"""Where the ranks of a case meet, and how they become a process group."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from bench.case import Case
from bench.worker.case_folder import store_file
from bench.worker.loop import Ranks

#: Variables by which launchers tell a process its place. The child's place is the job's to say.
_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
#: Variables that say by which interface, or whether, the ranks can reach each other.
_MEETING_VARIABLE = re.compile(r"(GLOO|NCCL|TP)_SOCKET_IFNAME|NCCL_(IB_HCA|NET|COMM_ID)")


def take_place(job: dict[str, Any]) -> None:
    """This process's place in the job, as a launcher would have told it; nothing of the rank's
    own launcher is left, or env:// would look for torchrun's store."""
    for name in list(os.environ):
        if name.startswith(("TORCHELASTIC_", "PET_")) or name in (
            *_PLACE,
            "GROUP_RANK",
            "GROUP_WORLD_SIZE",
            "ROLE_RANK",
            "ROLE_NAME",
            "ROLE_WORLD_SIZE",
        ):
            del os.environ[name]
    os.environ["RANK"] = str(job["rank"])
    os.environ["WORLD_SIZE"] = str(job["world_size"])
    os.environ["LOCAL_RANK"] = str(job["local_rank"])


def rendezvous(job: dict[str, Any], case: Case, say: Callable[..., None]) -> Any:
    """Where the ranks meet. Rank 0 listens on a port the system gives and says which."""
    if case.init_method == "file":
        if job["rank"] == 0:
            # torch would try again for ever to open a file that cannot be.
            store_file(job).open("ab").close()
            say("rank_rendezvous")
        return None
    store = None
    _resolve(job["host"])
    if job["rank"] == 0:
        # Bound here and not by torch, which would listen on every interface and not say which
        # address is taken.
        listening = _listen(job["host"], job["port"] or 0)
        job["port"] = listening.getsockname()[1]
        # multi_tenant: init_process_group, asked for the same port, shares this server.
        store = dist.TCPStore(
            job["host"],
            job["port"],
            None,
            True,
            wait_for_workers=False,
            multi_tenant=True,
            master_listen_fd=listening.detach(),
        )
        say("rank_rendezvous", port=store.port)
    os.environ["MASTER_ADDR"] = job["host"]
    os.environ["MASTER_PORT"] = str(job["port"])
    return store


def _resolve(host: str) -> None:
    """torch would try again for half an hour, in silence."""
    try:
        socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise ConnectionError(f"the name {host!r} is not known here: {error.strerror}") from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)[0][0]
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(f"rank 0 cannot listen on {host}:{port}: {error.strerror}") from None


#: Some torch (2.13) destroys a gloo group holding Python's lock, and joins a thread that waits for
#: that lock to drop a profiled step's tensors. The end of the process needs no destructor.
_kept_to_the_end: list[Any] = []


def join(job: dict[str, Any], case: Case) -> Ranks:
    if not case.in_group:
        return Ranks(1, None)
    timeout = timedelta(seconds=job["timeout_s"])
    options: dict[str, Any] = {"backend": case.backend, "timeout": timeout}
    if case.init_method == "env":
        options["init_method"] = "env://"
    else:
        address = f"tcp://{job['host']}:{job.get('port')}"
        options["init_method"] = store_file(job).as_uri() if case.init_method == "file" else address
        options |= {"rank": job["rank"], "world_size": job["world_size"]}
    dist.init_process_group(**options)
    if dist.get_world_size() != job["world_size"]:
        raise RuntimeError(
            f"the process group has {dist.get_world_size()} ranks, the case {job['world_size']}"
        )
    # What the ranks agree on between windows never goes through the backend that is measured
    # when that is nccl: it would need the GPU.
    group = dist.new_group(backend="gloo") if case.backend != "gloo" else None
    _kept_to_the_end.extend([dist.group.WORLD, group])
    return Ranks(job["world_size"], group)


def settings_of_meeting(job: dict[str, Any]) -> str:
    """Where the ranks tried to meet, for a failure's message: what the user may have to change."""
    where = (
        f"file store {store_file(job)}"
        if job["case"]["init_method"] == "file"
        else f"address {job['host']}:{job['port'] or 'any port'}"
    )
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if _MEETING_VARIABLE.fullmatch(name)
    ]
    return f" ({', '.join([where, *variables])})"
