"""HTML: the main content of a page, with its headings, tables, lists and code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from lxml import etree

from lagotto.documents import Document, storable
from lagotto.errors import EmptySourceError, ReadError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.builder import TextBuilder, one_line
from lagotto.readers.dates import parse_iso_date
from lagotto.readers.decode import decode
from lagotto.readers.draft import Draft
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.html_main import boilerplate, has_no_text, main_content
from lagotto.readers.html_render import render
from lagotto.readers.html_tree import parse
from lagotto.readers.language import language_code

CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]*?(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.I
)

ENOUGH = 250
SHARE = 0.25
"""Pruned text is kept if it has this many characters or this share of the page's text."""

CREATED = ("article:published_time", "date", "dc.date", "dcterms.created", "pubdate")
UPDATED = ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified")


class HtmlReader:
    """Reads the main content: no scripts, menus, forms, hidden parts or lists of links.

    Main content is `<main>` or what plays its role, a single `<article>`, or else the body. If
    pruning would leave next to nothing, the text of the whole body is taken. The head gives
    title, author, summary (`description`), keywords and dates.
    """

    kind = "html"
    suffixes = SUFFIXES["html"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        data = source.read(limit=options.max_bytes)
        declared = CHARSET.search(data, 0, 4096)
        text = decode(data, declared=declared[1].decode("ascii") if declared else None)
        root = parse(storable(text)) if text.strip() else None
        if root is None:
            raise EmptySourceError(source.label, "there is no text in it; leave it out")
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


def page_text(root: etree._Element) -> TextBuilder:
    """The main content of a page, or all its text if that is next to nothing."""
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
    """The `<meta>` elements by lower-case name; the first of a name counts."""
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
