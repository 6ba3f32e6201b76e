"""XML of office files: parsed without entities and network, read by local names."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree


def parse_xml(data: bytes) -> etree._Element:
    """Parse XML; entities are not resolved and nothing is fetched."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    return etree.fromstring(data, parser)


def local_name(element: etree._Element) -> str:
    """The tag without its namespace, which may be transitional or strict."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: etree._Element | None, *names: str) -> Iterator[etree._Element]:
    """The child elements with these local names."""
    return (
        (item for item in element if local_name(item) in names) if element is not None else iter(())
    )


def child(element: etree._Element | None, *path: str) -> etree._Element | None:
    """The first element along a path of local names."""
    for name in path:
        element = next(children(element, name), None)
    return element


def value(element: etree._Element | None, name: str = "val") -> str | None:
    """The value of an attribute, by its local name."""
    if element is None:
        return None
    found = (text for key, text in element.items() if str(key).rpartition("}")[2] == name)
    return next((str(text) for text in found), None)


def small_number(text: str | None) -> int | None:
    """A small number that is written in digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 8 else None
