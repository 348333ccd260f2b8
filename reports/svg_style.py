"""Styles of a drawing as presentation attributes, which a Content-Security-Policy lets through.

matplotlib writes ``style="fill: none; stroke: #0173b2"``. A page that allows only style sheets it
knows by their hash ignores such an attribute. ``fill="none" stroke="#0173b2"`` says the same (SVG
2, 6.6: every property that matplotlib uses has an attribute of its name), and is no style.
"""

from __future__ import annotations

from xml.etree import ElementTree

#: What matplotlib's own style sheet says of every element; both are inherited.
_DEFAULTS = {"stroke-linejoin": "round", "stroke-linecap": "butt"}


def use_attributes(root: ElementTree.Element) -> None:
    """Turns the style of every element into attributes, and the style sheet into the root's."""
    for element in root.iter():
        for name, value in _declarations(element.attrib.pop("style", "")):
            element.set(name, value)
    for name, value in _DEFAULTS.items():
        root.attrib.setdefault(name, value)


def _declarations(style: str) -> list[tuple[str, str]]:
    """Its names and values. Nothing that matplotlib quotes (names of fonts) holds a ';'."""
    found = [declaration.partition(":") for declaration in style.split(";")]
    return [(name.strip(), value.strip()) for name, colon, value in found if colon]
