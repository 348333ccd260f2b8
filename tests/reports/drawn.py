"""Reads numbers back from a figure: where its bars, lines and marks stand on its axes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_NUMBER = re.compile(r"-?[0-9.]+(?:e-?[0-9]+)?")


@dataclass(frozen=True)
class Box:
    """From ``left`` to ``right`` on the horizontal axis, in its unit; ``top`` and ``bottom`` in
    the figure's own, downwards."""

    left: float
    right: float
    top: float
    bottom: float
    fill: str
    stroke: str

    @property
    def length(self) -> float:
        return self.right - self.left

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


class Drawn:
    def __init__(self, svg: str | None) -> None:
        assert svg is not None
        self.svg = svg
        self.root = ElementTree.fromstring(svg)
        ticks = list(self._ticks("xtick"))
        self._slope, self._origin = 1.0, 0.0
        if len(ticks) > 1:
            (a, at_a), (b, at_b) = ticks[0], ticks[-1]
            self._slope = (b - a) / (at_b - at_a)
            self._origin = a - at_a * self._slope

    @property
    def title(self) -> str:
        return self.root.findtext(f"{_SVG}title") or ""

    @property
    def desc(self) -> str:
        """The text alternative, with plain spaces."""
        text = self.root.findtext(f"{_SVG}desc") or ""
        return text.replace("\u00a0", " ")

    @property
    def texts(self) -> list[str]:
        return [(node.text or "").replace("\u00a0", " ") for node in self.root.iter(f"{_SVG}text")]

    def place(self, text: str) -> float:
        """How far down the first such text stands."""
        for node in self.root.iter(f"{_SVG}text"):
            if (node.text or "").replace("\u00a0", " ") == text:
                if "y" in node.attrib:
                    return float(node.attrib["y"])
                *_, y = map(float, _NUMBER.findall(node.attrib["transform"].split(")")[0]))
                return y
        raise AssertionError(f"no {text!r} among {self.texts}")

    def bars(self, fill: str | None = None) -> list[Box]:
        """Filled areas, in the order drawn."""
        return [
            box
            for box in self._boxes()
            if box.fill not in ("none", "") and fill in (None, box.fill)
        ]

    def hollow(self, stroke: str) -> list[Box]:
        """Areas with an outline alone: four corners and closed."""
        return [
            box for box in self._boxes(closed=True) if (box.fill, box.stroke) == ("none", stroke)
        ]

    def strokes(self, stroke: str) -> list[Box]:
        """Open lines."""
        return [
            box for box in self._boxes(closed=False) if (box.fill, box.stroke) == ("none", stroke)
        ]

    def marks(self, colour: str) -> list[tuple[float, float]]:
        """(value on the horizontal axis, how far down) of the marks of lines in this colour."""
        return [
            (self._value(float(node.attrib["x"])), float(node.attrib["y"]))
            for node in self.root.iter(f"{_SVG}use")
            if colour in (node.get("fill"), node.get("stroke"))
        ]

    def _boxes(self, closed: bool | None = None) -> Iterator[Box]:
        axes = next(
            node for node in self.root.iter(f"{_SVG}g") if node.get("id", "").endswith("axes_1")
        )
        for group in axes:
            if not re.search(r"(patch|line2d|QuadMesh)_[0-9]+$", group.get("id", "")):
                continue
            for path in group.iter(f"{_SVG}path"):
                d = path.attrib["d"]
                if closed is not None and closed != d.strip().endswith("z"):
                    continue
                numbers = list(map(float, _NUMBER.findall(d)))
                x, y = numbers[::2], numbers[1::2]
                yield Box(
                    *(self._value(min(x)), self._value(max(x)), min(y), max(y)),
                    path.get("fill", ""),
                    path.get("stroke", "none"),
                )

    def _value(self, x: float) -> float:
        return self._origin + self._slope * x

    def _ticks(self, kind: str) -> Iterator[tuple[float, float]]:
        for group in self.root.iter(f"{_SVG}g"):
            if not re.search(rf"{kind}_[0-9]+$", group.get("id", "")):
                continue
            use = next(iter(group.iter(f"{_SVG}use")), None)
            text = next(iter(group.iter(f"{_SVG}text"))).text or ""
            number = text.replace("\u2212", "-").removesuffix(" %")
            if use is not None and _NUMBER.fullmatch(number.removeprefix("+")):
                yield float(number), float(use.attrib["x"])
