"""A matplotlib figure -> one inline SVG element that can share a page with others.

matplotlib writes a document of its own: ids that repeat from figure to figure, a style rule that
would reach the whole page, style attributes, black text. Here ids get the figure's name in front,
styles become attributes (svg_style.py), fonts are the page's, and ink takes the colour of the
page's text, so that light and dark both work.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from reports.svg_style import use_attributes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Drawn in this colour, an element has the colour of the text around the figure.
INK = "#010203"
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_savers: list[Callable[[Figure], None]] = []


@contextmanager
def also_saved(save: Callable[[Figure], None]) -> Iterator[None]:
    """Within it every figure that becomes SVG is given to ``save`` as well, before it is closed."""
    _savers.append(save)
    try:
        yield
    finally:
        _savers.remove(save)


def inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """``name`` must be unique on the page and fit an id; the same figure gives the same text."""
    import matplotlib

    for save in _savers:
        save(figure)
    buffer = io.StringIO()
    with quiet_about_fonts(), matplotlib.rc_context({"svg.hashsalt": name}):
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(buffer.getvalue())
    _drop_document_parts(root)
    use_attributes(root)
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _own(key, value, name))
    _describe(root, name, title, description)
    return ElementTree.tostring(root, encoding="unicode")


@contextmanager
def quiet_about_fonts() -> Iterator[None]:
    """Fonts are the reader's; that ours lacks a letter of somebody's label does not matter."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def standing_alone(svg: str, width_px: int = 720) -> str:
    """The same figure as a document of its own: dark on white, with a size and a common font."""
    root = ElementTree.fromstring(svg)
    *_, width, height = map(float, root.attrib["viewBox"].split())
    root.set("width", str(width_px))
    root.set("height", f"{width_px * height / width:.0f}")
    root.set("color", "#1b1f24")
    root.set("font-family", "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif")
    paper = {"width": "100%", "height": "100%", "fill": "#ffffff"}
    root.insert(2, ElementTree.Element(f"{{{_SVG}}}rect", paper))  # after title and desc
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _drop_document_parts(root: ElementTree.Element) -> None:
    """Metadata and the style rule for every element of whatever document this is in."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)


def _own(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key.endswith("href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _REFERENCE.sub(rf"url(#{name}-\1)", value).replace(INK, "currentColor")


def _describe(root: ElementTree.Element, name: str, title: str, description: str) -> None:
    for position, (tag, words) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        element.text = words
        root.insert(position, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    # The page gives the width; the height follows from the view box.
    for key in ("width", "height"):
        root.attrib.pop(key, None)
