"""Whether this machine can have test hosts: tried, since a container's root may lack the right."""

from __future__ import annotations

import pytest

from bench import namespaces
from bench.hosts import Hosts, HostsError


def why_not() -> str | None:
    """In words; None where they could be made."""
    if reason := namespaces.why_not():
        return reason
    try:
        Hosts.up(2, 1e9).down()
    except HostsError as error:
        return f"test hosts cannot be made here: {error}"
    return None


_REASON = why_not()
needs_hosts = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))
