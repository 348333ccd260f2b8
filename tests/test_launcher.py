"""A launcher of the user's own, as a template."""

from __future__ import annotations

import re

import pytest

from bench.launcher import check, fill

VALUES = {
    "python": "/py",
    "controller": "node-a:4242",
    "token_file": "/home/me/a token",
    "world_size": "4",
    "nodes": "2",
    "ranks_per_node": "2",
}
WORKER = ["-m", "bench.worker", "--controller", "node-a:4242", "--token-file", "/home/me/a token"]


def test_the_worker_comes_last_where_it_is_not_named() -> None:
    assert fill("srun -N {nodes} -n {world_size} {python}", VALUES, WORKER) == [
        *("srun", "-N", "2", "-n", "4", "/py"),
        *WORKER,
    ]


def test_the_worker_where_it_is_named() -> None:
    template = "torchrun --nnodes={nodes} --nproc-per-node={ranks_per_node} {worker} --stay 5"
    assert fill(template, VALUES, WORKER) == [
        *("torchrun", "--nnodes=2", "--nproc-per-node=2"),
        *WORKER,
        *("--stay", "5"),
    ]


def test_what_another_shell_reads_is_quoted_for_it() -> None:
    command = fill("ssh host 'cd /w && RANK=0 {python} {worker}'", VALUES, WORKER)
    assert command == [
        *("ssh", "host"),
        "cd /w && RANK=0 /py -m bench.worker --controller node-a:4242 "
        "--token-file '/home/me/a token'",
    ]


def test_braces_that_mean_themselves() -> None:
    assert fill("echo {{x}} {worker}", VALUES, ["w"]) == ["echo", "{x}", "w"]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("srun -n {worldsize}", "unknown {worldsize}; did you mean 'world_size'? (there are {pyth"),
        ("srun {python.x}", "unknown {python.x}"),
        ("srun {0}", "unknown {0}"),
        ("srun {", "'{': Single '{' encountered in format string (write {{ for a brace)"),
        ("srun 'x", "no closing quotation"),
        ("  ", "--launcher is empty"),
    ],
)
def test_a_template_that_cannot_be_filled(template: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as refused:
        check(template)
    assert "\n" not in str(refused.value)


def test_a_template_that_can() -> None:
    check("srun -n {world_size} -N {nodes} --ntasks-per-node {ranks_per_node} {python} {worker}")
