"""HTML: the main content of a page with its headings, tables, lists and code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, takewhile

from lxml import etree

from lagotto.documents import storable
from lagotto.errors import EmptySourceError
from lagotto.readers.base import BULLET, Draft, Source, TextBuilder, collapsed, one_line, parse_date
from lagotto.readers.decode import decode
from lagotto.readers.formats import draft_reader
from lagotto.readers.language import language_code

_NO_TEXT = """
script style template noscript head svg iframe object embed canvas audio video map button select
option datalist textarea input progress meter
"""
NO_TEXT = frozenset(_NO_TEXT.split())
FURNITURE = frozenset({"nav", "aside", "form", "dialog"})
PAGE_FURNITURE = frozenset({"header", "footer"})
CONTENT = frozenset({"article", "main", "section"})
CONTAINERS = frozenset({"div", "section", "ul", "ol", "dl", "table", "p", "center"})

LINK_SHARE = 0.75
LINKS_NEEDED = 4

Skip = Callable[[etree._Element], bool]


def walk(root: etree._Element, skip: Skip) -> Iterator[tuple[str, etree._Element]]:
    """Yield start and end of every element below `root`, without recursion.

    A skipped element has "skip" as its only event: the text after it is content.
    """
    inside_skipped = False
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if element is None:
            continue
        if event == "start" and element is not root and skip(element):
            walker.skip_subtree()
            inside_skipped = True
        else:
            yield "skip" if inside_skipped else event, element
            inside_skipped = False


def has_no_text(element: etree._Element) -> bool:
    """Whether an element never holds readable text, such as a script."""
    return element.tag in NO_TEXT


def is_furniture(element: etree._Element) -> bool:
    """Whether an element is navigation, a form, or hidden."""
    style = (element.get("style") or "").replace(" ", "").lower()
    return (
        element.tag in NO_TEXT
        or element.tag in FURNITURE
        or element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or element.get("role") in ("navigation", "banner", "contentinfo", "search")
        or "display:none" in style
        or "visibility:hidden" in style
    )


@dataclass(slots=True)
class _Weight:
    """The amount of text in an open element so far, and how much of it is in links."""

    chars: int = 0
    link_chars: int = 0
    links: int = 0


def _page_furniture(root: etree._Element) -> set[etree._Element]:
    """Header, footer and lists of links of a page; in a main element the header has the title."""
    dropped: set[etree._Element] = set()
    weights = [_Weight()]
    content = 0
    for event, element in walk(root, is_furniture):
        if event == "start":
            content += element.tag in CONTENT
            weights.append(_Weight(chars=len((element.text or "").strip())))
            continue
        if event == "end":
            content -= element.tag in CONTENT
            weight = weights.pop()
            if element.tag == "a":
                weight = _Weight(weight.chars, link_chars=weight.chars, links=1)
            page_level = element.tag in PAGE_FURNITURE and not content
            links = weight.links >= LINKS_NEEDED and weight.link_chars > LINK_SHARE * weight.chars
            if page_level or (element.tag in CONTAINERS and links):
                dropped.add(element)
            else:
                weights[-1].chars += weight.chars
                weights[-1].link_chars += weight.link_chars
                weights[-1].links += weight.links
        weights[-1].chars += len((element.tail or "").strip())
    return dropped


_INLINE = """
a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q rb rp rt
ruby s samp small span strike strong sub sup time tt u var wbr
"""
INLINE = frozenset(_INLINE.split())
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = frozenset({"ul", "ol", "menu"})
CODE = frozenset({"pre", "listing", "xmp"})
WHOLE = frozenset({*HEADINGS, *LISTS, *CODE, "table"})


def render(root: etree._Element, *, skip: Skip, builder: TextBuilder | None = None) -> TextBuilder:
    """Add the text and structure of `root`, without what `skip` selects, to a `builder`."""
    builder = TextBuilder() if builder is None else builder
    line: list[str] = []
    layout = _layout(root)

    def flush() -> None:
        lines = "".join(line).split("\n")
        builder.paragraph("\n".join(part.strip(" ") for part in lines))
        line.clear()

    def is_whole(element: etree._Element) -> bool:
        return element.tag in WHOLE and element not in layout

    for event, element in walk(root, lambda item: skip(item) or is_whole(item)):
        if element.tag not in INLINE:
            flush()
        if event == "start":
            line.append("\n" if element.tag == "br" else collapsed(element.text))
        elif event == "skip" and is_whole(element) and not skip(element):
            _add_whole(builder, element, skip)
        if event != "start" and element is not root:
            line.append(collapsed(element.tail))
    flush()
    return builder


def _layout(root: etree._Element) -> set[etree._Element]:
    """Lists and tables that contain a heading or table, and so only lay out the page."""
    around: set[etree._Element] = set()
    for inner in root.iter(*HEADINGS, "table"):
        around.update(takewhile(lambda outer: outer not in around, inner.iterancestors()))
    return {element for element in around if element.tag in WHOLE}


def _add_whole(builder: TextBuilder, element: etree._Element, skip: Skip) -> None:
    if element.tag in HEADINGS:
        builder.heading(_text(element, skip), level=HEADINGS[element.tag])
    elif element.tag in LISTS:
        builder.items(_items(element, skip))
    elif element.tag in CODE:
        builder.code(_text(element, skip))
    else:
        rows = (row.iterchildren("td", "th") for row in element.iter("tr") if not skip(row))
        builder.table([_text(cell, skip) for cell in row] for row in rows)


def _text(element: etree._Element, skip: Skip) -> str:
    pieces: list[str] = []
    for event, item in walk(element, skip):
        if event == "start":
            pieces.append("\n" if item.tag == "br" else item.text or "")
        elif item is not element:
            pieces.append(item.tail or "")
    return "".join(pieces)


def _items(root: etree._Element, skip: Skip) -> Iterator[str]:
    """Yield the outermost items; nested items are further lines, indented by depth."""
    lines: list[str] = []
    for depth, text in _item_lines(root, skip):
        if depth <= 1 and lines:
            yield "\n".join(lines)
            lines.clear()
        lines.append("  " * (depth - 2) + BULLET + text if depth > 1 and lines else text)
    yield "\n".join(lines)


def _item_lines(root: etree._Element, skip: Skip) -> Iterator[tuple[int, str]]:
    """Yield depth and own text of each item, nested ones included, in reading order.

    Words are on one line, code is on its own lines.
    """
    depth, of_item = 0, 1
    lines: list[str] = []
    words: list[str] = []
    for event, element in walk(root, lambda inner: skip(inner) or inner.tag in CODE):
        if event != "skip" and element.tag in (*LISTS, "li"):
            if text := "\n".join(filter(None, (*lines, one_line("".join(words))))):
                yield of_item, text
            if element.tag in LISTS:
                depth += 1 if event == "start" else -1
            of_item, lines, words = depth, [], []
        gap = "" if element.tag in INLINE and element.tag != "br" else " "
        if event == "start":
            words.append(gap + (element.text or ""))
        elif event == "skip" and element.tag in CODE and not skip(element):
            lines += [one_line("".join(words)), _text(element, skip).strip("\n")]
            words.clear()
        if event != "start" and element is not root:
            words.append(gap + (element.tail or ""))


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


@draft_reader("html")
def read_html(source: Source, limit: int) -> Draft:
    """Read the main content, without scripts, menus, forms, hidden parts and lists of links.

    Main content is `<main>` or an element with that role, a single `<article>`, or else the body.
    If pruning would leave almost nothing, the text of the whole body is used. The head gives title,
    author, summary (`description`), keywords and dates.
    """
    data = source.read(limit=limit)
    root = parse(decode(data, declared=declared_encoding(data)))
    if root is None:
        raise EmptySourceError(source.label, "no text in it; leave it out")
    named = _named_metadata(root)
    title = next(root.iter("title"), None)
    heading = "" if title is None else one_line("".join(map(str, title.itertext())))
    return _page_text(root).draft(
        title=heading or named.get("og:title"),
        summary=named.get("description") or named.get("og:description"),
        language=language_code(root.get("lang")),
        metadata={key: named[key] for key in ("author", "keywords") if key in named},
        created_at=_moment(named, CREATED),
        updated_at=_moment(named, UPDATED),
    )


def declared_encoding(data: bytes) -> str | None:
    """The encoding that a page declares in its first bytes."""
    declared = CHARSET.search(data, 0, 4096)
    return declared[1].decode("ascii") if declared else None


def _page_text(root: etree._Element) -> TextBuilder:
    """The main content of a page, or all its text if that is almost empty."""
    body = next(root.iter("body"), root)
    roles = (item for item in body.iter() if item.get("role") == "main")
    articles = list(body.iter("article"))
    main = next(chain(body.iter("main"), roles, articles if len(articles) == 1 else ()), body)
    dropped = _page_furniture(body) if main is body else set()
    pruned = render(main, skip=lambda element: is_furniture(element) or element in dropped)
    if len(pruned.text) >= ENOUGH:
        return pruned
    whole = render(body, skip=has_no_text)
    return whole if len(pruned.text) < SHARE * len(whole.text) else pruned


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
    moments = (parse_date(named[name]) for name in names if name in named)
    return next((moment for moment in moments if moment), None)


def parse(html: str) -> etree._Element | None:
    """Parse a page, however broken or deeply nested; None if there is nothing to parse.

    There is no network access, and only standard entities are resolved.
    """
    if not html.strip():
        return None
    data = storable(html).encode()
    parser = etree.HTMLParser(
        encoding="utf-8", huge_tree=True, no_network=True, remove_comments=True, remove_pis=True
    )
    root: etree._Element | None = etree.fromstring(data, parser)
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        shallow = etree.HTMLParser(encoding="utf-8", huge_tree=True, target=_ShallowBuilder())
        root = etree.fromstring(data, shallow)
    return root


class _ShallowBuilder:
    """Builds a tree of limited depth; deeper elements are replaced by their text."""

    def __init__(self) -> None:
        self._builder = etree.TreeBuilder()
        self._depth = self._silent = 0

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

    def close(self) -> etree._Element:
        return self._builder.close()
