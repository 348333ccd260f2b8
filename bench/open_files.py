"""Room for the connections of many ranks: each is an open file, and systems allow few at first."""

from __future__ import annotations

import resource

#: The controller's own: pipes, logs, the journal, libraries.
_BESIDE = 256


class TooFewFiles(Exception):
    """The system does not allow as many open files as are needed; in one line, with what to do."""


def make_room(ranks: int) -> None:
    """Raise this process's own limit, where it is too low and the system lets us.

    Raises TooFewFiles. Nothing is changed where there is room: what we start inherits the limit.
    """
    needed = ranks + _BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise TooFewFiles(
            f"{ranks} ranks need {needed} open files here and the system allows {hard}: raise its "
            f"hard limit (ulimit -Hn {needed}, or nofile in /etc/security/limits.conf)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
