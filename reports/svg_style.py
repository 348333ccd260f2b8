"""Styles of a drawing as presentation attributes, which a Content-Security-Policy lets through.

matplotlib writes ``style="fill: none; stroke: #0173b2"``. A page that allows only style sheets it
knows by their hash ignores such an attribute. ``fill="none" stroke="#0173b2"`` says the same (SVG
2, 6.6), and is no style.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

#: What matplotlib's own style sheet says of every element; both are inherited.
_DEFAULTS = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
#: The properties matplotlib uses that are presentation attributes as well; without any other a
#: figure would look different, so it is an error.
_PRESENTATION = frozenset(
    (
        *("fill", "fill-opacity", "fill-rule", "opacity", "stroke", "stroke-opacity"),
        *("stroke-width", "stroke-linejoin", "stroke-linecap", "stroke-miterlimit"),
        *("stroke-dasharray", "stroke-dashoffset", "text-anchor", "font-size", "font-style"),
        *("font-weight", "clip-path", "display"),
    )
)
#: The rest of a font is the page's.
_FONT = re.compile(r"(?:(italic|oblique) )?(?:(bold|[1-9]00) )?([0-9.]+(?:px)?) ")
_NOT_KEPT = frozenset(("font-family", "font-variant", "font-stretch"))


def use_attributes(root: ElementTree.Element) -> None:
    """Turns the style of every element into attributes, and the style sheet into the root's.

    Raises ValueError for a property that no attribute can say.
    """
    for element in root.iter():
        said = presented(element.attrib)
        element.attrib.clear()
        element.attrib.update(said)
    for name, value in _DEFAULTS.items():
        root.attrib.setdefault(name, value)


def presented(attributes: dict[str, str]) -> dict[str, str]:
    """The attributes with those that say what ``style`` said.

    Raises ValueError for a property that no attribute can say.
    """
    found = {key: value for key, value in attributes.items() if key != "style"}
    for declaration in filter(None, map(str.strip, attributes.get("style", "").split(";"))):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font":
            found |= _font(value)
        elif key in _PRESENTATION:
            found[key] = value
        elif key not in _NOT_KEPT:
            raise ValueError(f"style {key!r} has no presentation attribute")
    if "font-size" in found:
        found["font-size"] = found["font-size"].removesuffix("px")
    return found


def _font(shorthand: str) -> dict[str, str]:
    match = _FONT.match(shorthand)
    if match is None:
        raise ValueError(f"font {shorthand!r} is of unknown form")
    slant, weight, size = match.groups()
    said = {"font-style": slant, "font-weight": weight, "font-size": size}
    return {key: value for key, value in said.items() if value is not None}
