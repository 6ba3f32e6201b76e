"""HtmlReader: the main content of a page with its headings, tables, lists and code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from lxml import etree

from lagotto.documents import Document, storable
from lagotto.errors import EmptySourceError, ReadError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.builder import TextBuilder, one_line
from lagotto.readers.decode import decode
from lagotto.readers.draft import Draft, parse_iso_date
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.html.main_content import boilerplate, has_no_text, main_content
from lagotto.readers.html.render import render
from lagotto.readers.language import language_code

CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]*?(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.I
)

ENOUGH = 250
SHARE = 0.25
"""Pruned text is kept if it has this many characters or this share of the page's text."""

CREATED = ("article:published_time", "date", "dc.date", "dcterms.created", "pubdate")
UPDATED = ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified")
MAX_DEPTH = 500
SILENT = frozenset({"script", "style", "template", "noscript", "head", "title"})


class HtmlReader:
    """Reads the main content, without scripts, menus, forms, hidden parts and lists of links.

    Main content is `<main>` or an element with that role, a single `<article>`, or else the body.
    If pruning would leave almost nothing, the text of the whole body is used. The head gives title,
    author, summary (`description`), keywords and dates.
    """

    kind = "html"
    suffixes = SUFFIXES["html"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        data = source.read(limit=options.max_bytes)
        text = decode(data, declared=declared_encoding(data))
        root = parse(storable(text)) if text.strip() else None
        if root is None:
            raise EmptySourceError(source.label, "no text in it; leave it out")
        named = _named_metadata(root)
        content = page_text(root)
        yield Draft(
            kind=self.kind,
            text=content.text,
            headings=content.headings,
            blocks=content.blocks,
            title=_title(root) or named.get("og:title"),
            summary=named.get("description") or named.get("og:description"),
            language=language_code(root.get("lang")),
            metadata={key: named[key] for key in ("author", "keywords") if key in named},
            created_at=_moment(named, CREATED),
            updated_at=_moment(named, UPDATED),
        ).document(source, options=options)


def declared_encoding(data: bytes) -> str | None:
    """The encoding that a page declares in its first bytes."""
    declared = CHARSET.search(data, 0, 4096)
    return declared[1].decode("ascii") if declared else None


def page_text(root: etree._Element) -> TextBuilder:
    """The main content of a page, or all its text if that is almost empty."""
    body = next(root.iter("body"), root)
    main = main_content(body)
    pruned = render(main, skip=boilerplate(main, whole_page=main is body))
    if len(pruned.text) >= ENOUGH:
        return pruned
    whole = render(body, skip=has_no_text)
    return whole if len(pruned.text) < SHARE * len(whole.text) else pruned


def _title(root: etree._Element) -> str | None:
    title = next(root.iter("title"), None)
    return one_line("".join(map(str, title.itertext()))) or None if title is not None else None


def _named_metadata(root: etree._Element) -> dict[str, str]:
    """The `<meta>` elements by lower-case name; the first of each name wins."""
    named: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = meta.get("name") or meta.get("property") or meta.get("itemprop")
        content = one_line(meta.get("content") or "")
        if name and content:
            named.setdefault(name.strip().lower(), content)
    return named


def _moment(named: dict[str, str], names: tuple[str, ...]) -> datetime | None:
    moments = (parse_iso_date(named[name]) for name in names if name in named)
    return next((moment for moment in moments if moment), None)


def parse(html: str) -> etree._Element | None:
    """Parse a page, however broken or deeply nested; None if there is nothing to parse.

    There is no network access, and only standard entities are resolved.
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
    """Builds a tree of limited depth; deeper elements are replaced by their text."""

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
        """Ignore comments."""

    def pi(self, target: str | bytes, data: str | bytes | None = None) -> None:
        """Ignore processing instructions."""

    def close(self) -> etree._Element:
        return self._builder.close()
