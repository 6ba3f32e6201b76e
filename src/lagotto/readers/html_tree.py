"""HTML to an element tree, however broken or deeply nested it is."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

MAX_DEPTH = 500
SILENT = frozenset({"script", "style", "template", "noscript", "head", "title"})


def parse(html: str) -> etree._Element | None:
    """The root element, or None if there is nothing to parse.

    Only what the text itself holds is used: no network, no entities but the standard ones.
    """
    data = html.encode()
    parser = etree.HTMLParser(
        encoding="utf-8", huge_tree=True, no_network=True, remove_comments=True, remove_pis=True
    )
    root: etree._Element | None = etree.fromstring(data, parser)
    too_deep = any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log)
    return _parse_shallow(data) if too_deep else root


def _parse_shallow(data: bytes) -> etree._Element | None:
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, target=_ShallowBuilder())
    root: etree._Element | None = etree.fromstring(data, parser)
    return root


class _ShallowBuilder:
    """Builds a tree of limited depth: deeper elements dissolve into their text."""

    def __init__(self) -> None:
        self._builder = etree.TreeBuilder()
        self._depth = 0
        self._silent = 0

    def start(self, tag: str | bytes, attrib: Mapping[str | bytes, str | bytes]) -> None:
        self._depth += 1
        if self._depth <= MAX_DEPTH:
            self._builder.start(tag, dict(attrib))
        else:
            self._silent += tag in SILENT
            self._builder.data(" ")

    def end(self, tag: str | bytes) -> None:
        if self._depth <= MAX_DEPTH:
            self._builder.end(tag)
        else:
            self._silent -= tag in SILENT
        self._depth -= 1

    def data(self, data: str | bytes) -> None:
        if not self._silent:
            self._builder.data(data)

    def comment(self, text: str | bytes) -> None:
        """Comments are left out."""

    def pi(self, target: str | bytes, data: str | bytes | None = None) -> None:
        """So are processing instructions."""

    def close(self) -> etree._Element:
        return self._builder.close()
