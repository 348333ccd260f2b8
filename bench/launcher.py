"""``--launcher``: a user's own command in place of torchrun, as a template."""

from __future__ import annotations

import shlex
import string
from collections.abc import Mapping, Sequence

from bench.nearest import did_you_mean

#: What is filled in. ``worker`` stands for several words: what makes the interpreter a rank.
NAMES = (
    "python",
    "worker",
    "controller",
    "token_file",
    "world_size",
    "nodes",
    "ranks_per_node",
)


def check(template: str) -> None:
    """Raises ValueError, in one line, for a template that cannot be filled."""
    for word in _words(template):
        for name in _names(word):
            if name not in NAMES:
                raise ValueError(
                    f"--launcher: unknown {{{name}}}{did_you_mean(name, NAMES)} (there are "
                    f"{', '.join(f'{{{known}}}' for known in NAMES)}; write {{{{ for a brace)"
                )


def fill(template: str, values: Mapping[str, str], worker: Sequence[str]) -> list[str]:
    """The command. No shell reads it; where the template names no {worker}, it comes last."""
    words = _words(template)
    if not any("worker" in _names(word) for word in words):
        words.append("{worker}")
    # Within a longer word, which another shell is going to read, the worker's own are quoted.
    filled = {**values, "worker": shlex.join(worker)}
    command: list[str] = []
    for word in words:
        command += worker if word == "{worker}" else [word.format_map(filled)]
    return command


def _words(template: str) -> list[str]:
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise ValueError(f"--launcher {template!r}: {str(error).lower()}") from None
    if not words:
        raise ValueError("--launcher is empty")
    return words


def _names(word: str) -> list[str]:
    try:
        return [name for _, name, _, _ in string.Formatter().parse(word) if name is not None]
    except ValueError as error:
        raise ValueError(f"--launcher: {word!r}: {error} (write {{{{ for a brace)") from None
