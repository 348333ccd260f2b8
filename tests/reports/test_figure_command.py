"""``python -m reports figure``: a figure as a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from reports.__main__ import app
from tests.reports.builder import case, document, entry, sweep
from tests.reports.timelines import timeline, with_timeline

Written = Callable[..., Path]


def figure(*arguments: object) -> Result:
    done = CliRunner().invoke(app, ["figure", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def refusal(*arguments: object) -> str:
    done = figure(*arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line


def test_an_svg_stands_alone(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    done = figure("waterfall", written(sweep()), "-o", path)
    assert (done.exit_code, done.stdout) == (0, f"{path}\n")
    root = ElementTree.parse(path).getroot()
    assert float(root.attrib["width"]) == 720
    assert float(root.attrib["height"]) > 100
    # Its ink is its own: nothing around it says what the current colour is.
    assert root.attrib["color"] == "#1b1f24"
    paper = root[2]
    assert (paper.tag.rpartition("}")[2], paper.attrib["fill"]) == ("rect", "#ffffff")
    assert "style" not in path.read_text()


def test_a_png_is_one(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "out.PNG"
    assert figure("phases", written(sweep()), "-o", path).exit_code == 0
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    width = int.from_bytes(content[16:20], "big")
    assert 600 < width < 1600


def test_dash_prints_svg_and_nothing_else(written: Written) -> None:
    done = figure("memory", written(sweep()), "-o", "-")
    assert ElementTree.fromstring(done.stdout).tag.endswith("svg")


def test_the_names_there_are(written: Written) -> None:
    lines = figure("--list", written(sweep())).stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names == [
        *("throughput", "efficiency", "throughput-strong", "efficiency-strong", "waterfall"),
        *("phases", "all-reduce", "buckets", "bucket-memory", "memory", "step-times"),
    ]
    assert all(line.endswith("resnet18") for line in lines if "bucket" not in line)
    one = figure("--list", written(document([with_timeline(timeline())]), "t.json")).stdout
    assert "timeline           one step on all ranks: resnet18" in one


def test_every_name_that_is_listed_can_be_drawn(written: Written, tmp_path: Path) -> None:
    path = written(sweep())
    for line in figure("--list", path).stdout.splitlines():
        out = tmp_path / "one.svg"
        assert figure(line.split()[0], path, "-o", out).exit_code == 0, line
        out.unlink()


def test_one_of_several_models_and_cases_is_chosen(written: Written, tmp_path: Path) -> None:
    entries = [
        with_timeline(timeline(), model=model, world_size=size)
        for model in ("resnet18", "mlp")
        for size in (2, 4)
    ]
    path, out = written(document(entries)), tmp_path / "out.svg"
    assert refusal("phases", path, "-o", out) == (
        "error: phases: 2 figures fit; choose one with --model: 'resnet18', 'mlp'"
    )
    assert not out.exists()
    assert figure("phases", path, "--model", "mlp", "-o", out).exit_code == 0
    assert "ddp-mlp-w4" in out.read_text()
    assert "resnet18" not in out.read_text()
    # A case that is not the one the page shows.
    assert figure("timeline", path, "--case", "ddp-mlp-w2", "-o", out).exit_code == 0
    assert "One step on all ranks: ddp-mlp-w2" in out.read_text()
    assert figure("step-times", path, "--case", "ddp-mlp-w2", "-o", out).exit_code == 0
    assert "ddp-mlp-w4" not in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("watrefall", "FILE"), "'watrefall' is no figure; did you mean 'waterfall'?"),
        (("waterfall",), "figure waterfall: give a file too"),
        (("waterfall", "FILE", "-o", "x.pdf"), "x.pdf: is neither .svg nor .png"),
        (("waterfall", "FILE", "-o", "no/such/x.svg"), "cannot be written (No such file"),
        (("phases", "FILE", "-o", "no/such/x.png"), "cannot be written (No such file"),
        (("timeline", "FILE"), "timeline: nothing to draw; --list names what there is"),
        (("waterfall", "FILE", "--case", "none"), "nothing to draw with --case none"),
        (("waterfall", "absent.json"), "no such file"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    written: Written, arguments: tuple[str, ...], message: str
) -> None:
    path = str(written(sweep()))
    line = refusal(*(path if one == "FILE" else one for one in arguments))
    assert line.startswith("error: ")
    assert message in line


def test_a_page_that_cannot_hold_a_name_still_can(written: Written, tmp_path: Path) -> None:
    hostile = case(model="<script>x</script>", strategy="ddp")
    out = tmp_path / "out.svg"
    assert figure("phases", written(document([entry(hostile)])), "-o", out).exit_code == 0
    root = ElementTree.parse(out).getroot()
    assert not [node for node in root.iter() if node.tag.endswith("script")]
