"""Where the ranks of a sweep come from, as its settings say."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from bench.hosts import Hosts
from bench.rank_sources import EmulatedRanks, LauncherRanks, LocalRanks, RankSource
from bench.settings import Settings
from bench.token_file import made_token, read_token
from bench.wire import TOKEN_VARIABLE


def token(settings: Settings) -> str:
    """That which ranks of somebody else's know too. Raises ValueError, in one line."""
    if settings.token_file is not None:
        return made_token(settings.token_file)
    if not os.environ.get(TOKEN_VARIABLE):
        raise ValueError(
            f"--ranks external needs a token that the ranks have too: --token-file FILE on both "
            f"sides (it is made here), or {TOKEN_VARIABLE} in both environments"
        )
    return read_token(None, os.environ)


def source(
    settings: Settings, ranks_of_hosts: Sequence[int], emulated: Hosts | None, folder: Path
) -> RankSource:
    """Of ranks that are started for this sweep; ``folder`` is its own."""
    if emulated is not None:
        return EmulatedRanks(emulated, ranks_of_hosts)
    if settings.launcher is None:
        return LocalRanks()
    file = settings.token_file
    if file is None:
        file = str(folder / "token")
        Path(file).touch(0o600)
        Path(file).write_text(secrets.token_hex(32))
    else:
        made_token(file)
    return LauncherRanks(settings.launcher, ranks_of_hosts, settings.bind, file)
