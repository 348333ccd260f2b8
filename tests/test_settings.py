"""What is refused of the options that say where ranks come from."""

from __future__ import annotations

import argparse
import re
from types import SimpleNamespace
from typing import Any

import pytest

from bench.hosts import Emulation
from bench.options import add_options
from bench.settings import Settings, emulation_text


class Config:
    """As much of pytest's as an option needs."""

    def __init__(self, *arguments: str) -> None:
        parser = argparse.ArgumentParser()
        group = SimpleNamespace(addoption=parser.add_argument)
        add_options(SimpleNamespace(getgroup=lambda *_: group))  # type: ignore[arg-type]
        self._found = vars(parser.parse_args(arguments))

    def getoption(self, name: str, default: Any = None) -> Any:
        return self._found.get(name.removeprefix("--").replace("-", "_"), default)


def settings(*arguments: str) -> Settings:
    return Settings.from_pytest(Config(*arguments), "/py")


def test_where_ranks_come_from() -> None:
    plain = settings()
    assert (plain.ranks, plain.launcher, plain.nodes, plain.emulate) == ("launched", None, 1, None)
    assert plain.bind == ("127.0.0.1", 0)
    assert settings("--bind", "[fe80::1]:29400").bind == ("fe80::1", 29400)
    assert settings("--emulate", "hosts=3,rate=200Mbit").emulate == Emulation(3, 2e8)
    there = settings("--launcher", "srun {python}", "--nodes", "2", "--bind", "0.0.0.0:0")
    assert (there.launcher, there.nodes, there.bind) == ("srun {python}", 2, ("0.0.0.0", 0))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--ranks external", "--ranks external needs --bind HOST:PORT"),
        ("--ranks external --bind 10.0.0.1:0", "needs --bind HOST:PORT"),
        ("--ranks external --bind 10.0.0.1:1 --torch a=/py", "leave out --torch"),
        ("--ranks external --bind 10.0.0.1", "--bind: '10.0.0.1' is no HOST:PORT"),
        ("--bind :80", "is no HOST:PORT"),
        ("--bind a:99999", "is no HOST:PORT"),
        ("--emulate hosts=2 --launcher srun", "--launcher and --emulate: ranks have one origin"),
        ("--emulate host=2", "--emulate: 'host=2' is neither"),
        ("--nodes 2", "give one"),
        ("--nodes 2 --launcher srun", "say --bind HOST:0"),
        ("--nodes 0 --launcher srun", "--nodes must be at least 1"),
        ("--launcher {pyton}", "unknown {pyton}; did you mean 'python'?"),
    ],
)
def test_what_does_not_fit_together(arguments: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as refused:
        settings(*arguments.split(" "))
    assert "\n" not in str(refused.value)


def test_an_emulation_is_written_as_it_is_typed() -> None:
    for text in ("hosts=2,rate=1Gbit", "hosts=4"):
        emulate = settings("--emulate", text).emulate
        assert emulate is not None
        assert emulation_text(emulate) == text
