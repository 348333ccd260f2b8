"""``python -m reports predict``: step times on networks and world sizes not measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reports import predict_page, predict_text, words
from reports.command import bad_input, keep_inputs, note, write
from reports.load import load
from reports.predict_cases import NoPrediction, workloads
from reports.predict_cost import Link
from reports.predict_json import to_json
from reports.predict_report import Asked, reports_of
from reports.source import UnreadableFile

#: More workloads than these are not shown at once.
_MOST = 3


def predict(
    file: Annotated[Path, typer.Argument(metavar="RUN.json", help="A run with cases of ddp.")],
    world_size: Annotated[
        str, typer.Option("--world-size", metavar="N,N", help="Numbers of ranks.")
    ] = "8,64,512",
    link: Annotated[
        list[str] | None,
        typer.Option(
            "--link",
            metavar="RATE[,LATENCY]",
            help="A network, as in 25Gbit,20us; several times for several. Default: the measured.",
        ),
    ] = None,
    bucket_cap_mb: Annotated[
        str, typer.Option("--bucket-cap-mb", metavar="C,C", help="Caps in MiB, or unset.")
    ] = "unset",
    case: Annotated[
        str | None, typer.Option("--case", metavar="ID", help="Predict from this case alone.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Of several models this one.")
    ] = None,
    measured_link: Annotated[
        str | None,
        typer.Option(
            "--measured-link",
            metavar="RATE[,LATENCY]",
            help="The network of the measured run, where the file does not say it.",
        ),
    ] = None,
    compression: Annotated[
        float,
        typer.Option("--compression", metavar="RATIO", help="Bytes sent over bytes of gradients."),
    ] = 1.0,
    queues: Annotated[
        int | None,
        typer.Option(
            "--queues",
            metavar="N",
            min=1,
            help="Buckets reduced at once. Default: 1 for nccl, 2 for gloo.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output instead of tables.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PAGE", help="Also write a page with figures.")
    ] = None,
) -> None:
    """Step time and efficiency of DDP on other networks, world sizes and bucket caps, from one
    measured run, with intervals and beside baselines."""
    keep_inputs({"--html": html}, [file])
    if not 0 < compression <= 1:
        raise bad_input(f"--compression {compression:g}: must lie above 0 and be 1 at most")
    try:
        own = Link.parse(measured_link) if measured_link else None
        found = workloads(load([file]), own, case=case, model=model)
        links = tuple(map(Link.parse, link or []))
        asked = Asked(
            tuple(map(_world_size, world_size.split(","))),
            links or _measured(own or found[0].settings[0].link),
            tuple(map(_cap, bucket_cap_mb.split(","))),
            compression,
            queues,
        )
    except (UnreadableFile, NoPrediction, ValueError) as error:
        raise bad_input(str(error)) from None
    if len(found) > _MOST:
        names = words.joined([f"{one.model} ({one.base.id})" for one in found[_MOST:]][:5])
        note(f"{len(found)} workloads; left out are {names}; choose with --model or --case")
    reports = reports_of(found[:_MOST], asked)
    if as_json:
        typer.echo(json.dumps(to_json(reports), allow_nan=False, indent=1))
    else:
        predict_text.show(reports, Console())
    if html is not None:
        write(html, predict_page.render(reports), "--html")
        typer.echo(words.printable(str(html)), err=as_json)


def _measured(link: Link | None) -> tuple[Link, ...]:
    if link is None:
        raise ValueError("say which network with --link, as in --link 25Gbit,20us")
    return (link,)


def _world_size(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 1_000_000:
        raise ValueError(f"--world-size {text}: write numbers of ranks, as in 8,64,512")
    return value


def _cap(text: str) -> float | None:
    if text.strip().lower() == "unset":
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ValueError(f"--bucket-cap-mb {text}: write caps in MiB or unset, as in 1,25,unset")
    return value
