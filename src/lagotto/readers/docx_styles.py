"""WordprocessingML: finding things by local name, and what a paragraph's style makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
LIST = re.compile(r"list \w+ (\d)", re.IGNORECASE)
LEVELS = range(9)


def parse_xml(data: bytes) -> etree._Element:
    """The root element; entities stay unresolved and nothing is fetched."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True
    )
    return etree.fromstring(data, parser)


def local_name(element: etree._Element) -> str:
    """The tag without its namespace, of which there are two (transitional and strict)."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: etree._Element | None, *names: str) -> Iterator[etree._Element]:
    """The child elements of these local names."""
    return (
        (item for item in element if local_name(item) in names) if element is not None else iter(())
    )


def child(element: etree._Element | None, *path: str) -> etree._Element | None:
    """The first element along a path of local names."""
    for name in path:
        element = next(children(element, name), None)
    return element


def value(element: etree._Element | None, name: str = "val") -> str | None:
    """An attribute by its local name."""
    if element is None:
        return None
    found = (text for key, text in element.items() if str(key).rpartition("}")[2] == name)
    return next((str(text) for text in found), None)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a paragraph is: a heading of a level, an item of a list at a depth, or the title."""

    level: int | None = None
    depth: int | None = None
    is_title: bool = False


class Styles:
    """The paragraph styles of a document, with what they take from the styles they build on."""

    def __init__(self, root: etree._Element | None) -> None:
        self._styles = {value(style, "styleId"): style for style in children(root, "style")}

    def shape(self, paragraph: etree._Element) -> Shape:
        """A paragraph's own settings win over its style's, the style's over its parent's."""
        own = child(paragraph, "pPr")
        styles = list(self._chain(value(child(own, "pStyle"))))
        settings = [own, *(child(style, "pPr") for style in styles)]
        names = [value(child(style, "name")) or "" for style in styles]
        return Shape(
            level=_level(settings, names),
            depth=_depth(settings, names),
            is_title="Title" in names[:1],
        )

    def _chain(self, style_id: str | None) -> Iterator[etree._Element]:
        seen: set[str | None] = set()
        while style_id in self._styles and style_id not in seen:
            seen.add(style_id)
            style = self._styles[style_id]
            yield style
            style_id = value(child(style, "basedOn"))


def _level(settings: list[etree._Element | None], names: list[str]) -> int | None:
    for item in settings:
        outline = _number(value(child(item, "outlineLvl")))
        if outline is not None:
            return outline + 1 if outline in LEVELS else None
    matches = (HEADING.fullmatch(name) for name in names)
    return next((int(match[1]) for match in matches if match and int(match[1])), None)


def _depth(settings: list[etree._Element | None], names: list[str]) -> int | None:
    for item in settings:
        numbering = child(item, "numPr")
        if numbering is not None:
            if value(child(numbering, "numId")) == "0":
                return None
            by_name = LIST.fullmatch(names[0]) if names else None
            by_level = _number(value(child(numbering, "ilvl"))) or 0
            return by_level or (int(by_name[1]) - 1 if by_name else 0)
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 5 else None
