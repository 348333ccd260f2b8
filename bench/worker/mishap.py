"""What an exception says, in bounded size, whatever it is."""

from __future__ import annotations

import re
import traceback

_MOST_MESSAGE = 20_000
_MOST_TRACEBACK = 50_000
#: A CPU's allocator and some libraries have no exception of their own for it.
_MEMORY_WORDS = re.compile(
    r"can't allocate memory|bad_alloc|cannot allocate memory|ALLOC_FAILED|out of memory",
    re.IGNORECASE,
)


def words(error: BaseException) -> str:
    try:
        return str(error)[:_MOST_MESSAGE]
    except Exception as broken:  # the user's own exception: its words are lost, the case is not
        return f"(no words: str() of it raised {type(broken).__name__})"


def traceback_of(error: BaseException) -> str:
    if len(words(error)) < _MOST_MESSAGE:
        return "".join(traceback.format_exception(error))[-_MOST_TRACEBACK:]
    # A message of megabytes would push the stack out.
    stack = "".join(traceback.format_tb(error.__traceback__))[-_MOST_TRACEBACK:]
    return f"{stack}{type(error).__name__}: {words(error)[:1000]} ..."


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return True
    return isinstance(error, RuntimeError) and bool(_MEMORY_WORDS.search(words(error)))
