"""Elements of XML by their local names: the namespaces may be transitional or strict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree

PARSING: dict[str, Any] = {"resolve_entities": False, "remove_comments": True, "remove_pis": True}
"""Entities are not resolved, and nothing is fetched: that is the default of lxml."""


def name_of(element: etree._Element) -> str:
    """The tag without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: etree._Element | None, *names: str) -> Iterator[etree._Element]:
    """The child elements with these local names."""
    return (item for item in (() if element is None else element) if name_of(item) in names)


def child(element: etree._Element | None, *path: str) -> etree._Element | None:
    """The first element along a path of local names."""
    for name in path:
        element = next(children(element, name), None)
    return element


WRAPPERS = frozenset({"sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag", "grpSp"})


def inside(element: etree._Element | None, *names: str) -> Iterator[etree._Element]:
    """The children of these names, including those in content controls, insertions and groups."""
    for item in children(element, *names, *WRAPPERS):
        if name_of(item) in WRAPPERS:
            yield from inside(item, *names)
        else:
            yield item


def value(element: etree._Element | None, name: str = "val") -> str | None:
    items = () if element is None else element.items()
    return next((str(text) for key, text in items if str(key).rpartition("}")[2] == name), None)


def number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 8 else None


BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
WITHOUT_TEXT = frozenset({"pPr", "rPr", "del", "moveFrom", "Fallback", "rPh"})
"""Settings, what was deleted, and the readings of Japanese words."""


def run_text(element: etree._Element | None) -> str:
    """The text of the runs of an Office Open XML element, its paragraphs on lines of their own."""
    text = ""
    for item in () if element is None else element:
        name = name_of(item)
        if name == "t":
            text += item.text or ""
        elif name in BREAKS:
            text += BREAKS[name]
        elif name not in WITHOUT_TEXT:
            text += run_text(item) + ("\n" if name == "p" else "")
    return text
