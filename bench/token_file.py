"""The token by which ranks and controller know each other: from the environment or a file.

Never on a command line, which everyone on a machine can read.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from bench.wire import TOKEN_VARIABLE

#: Of a token that is ours; a user's own may be shorter, but not so short that it can be guessed.
_BYTES = 32
_SHORTEST = 16


def read_token(file: str | None, environment: Mapping[str, str]) -> str:
    """The file's, where one is named and there, otherwise the environment's.

    A launcher may hand on the environment and not the file, or the other way round. Raises
    ValueError, in one line.
    """
    told = environment.get(TOKEN_VARIABLE, "")
    if file is None or (told and not Path(file).exists()):
        if not told:
            raise ValueError(
                f"no token: set {TOKEN_VARIABLE} to that of the controller, or name its "
                "--token-file"
            )
        return _checked(told, TOKEN_VARIABLE)
    try:
        with open(file) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ValueError(
                    f"--token-file {file} can be read by others; take that away with "
                    f"chmod 600 {file}"
                )
            return _checked(opened.read().strip(), f"--token-file {file}")
    except OSError as error:
        raise ValueError(f"--token-file {file}: {error.strerror}") from None


def made_token(file: str) -> str:
    """The token of the file, which is made, for its owner alone, where there is none."""
    with contextlib.suppress(FileExistsError):
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise
        except OSError as error:
            raise ValueError(f"--token-file {file}: {error.strerror}") from None
        with open(descriptor, "w") as opened:
            opened.write(secrets.token_hex(_BYTES) + "\n")
    return read_token(file, {})


def _checked(token: str, where: str) -> str:
    if len(token) < _SHORTEST or not token.isprintable():
        raise ValueError(
            f"{where} holds no token: at least {_SHORTEST} characters, as from openssl rand -hex 32"
        )
    return token
