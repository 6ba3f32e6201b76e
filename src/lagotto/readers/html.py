"""HTML: the main content of a page with its headings, tables, lists and code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from lxml import etree

from lagotto.documents import Document, storable
from lagotto.errors import EmptySourceError, ReadError
from lagotto.readers.base import (
    BULLET,
    ReadOptions,
    Source,
    TextBuilder,
    one_line,
    parse_iso_date,
)
from lagotto.readers.decode import decode
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.language import language_code

NO_TEXT = frozenset(
    (
        *("script", "style", "template", "noscript", "head", "svg", "iframe", "object", "embed"),
        *("canvas", "audio", "video", "map", "button", "select", "option", "datalist", "textarea"),
        *("input", "progress", "meter"),
    )
)
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


def main_content(body: etree._Element) -> etree._Element:
    """The `<main>` element or one with that role, the only article, or else the whole body."""
    main = next(body.iter("main"), None)
    if main is None:
        main = next((item for item in body.iter() if item.get("role") == "main"), None)
    if main is not None:
        return main
    articles = list(body.iter("article"))
    return articles[0] if len(articles) == 1 else body


def boilerplate(root: etree._Element, *, whole_page: bool) -> Skip:
    """A predicate for the elements of `root` that are navigation, hidden, or link lists.

    On a `whole_page` header, footer and link lists are boilerplate. Inside a page's main element
    they are not: there, the header holds the title and links are content.
    """
    if not whole_page:
        return lambda element: has_no_text(element) or _is_furniture(element)
    dropped = _page_furniture(root)
    return lambda element: has_no_text(element) or _is_furniture(element) or element in dropped


def _is_furniture(element: etree._Element) -> bool:
    style = (element.get("style") or "").replace(" ", "").lower()
    return (
        element.tag in FURNITURE
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

    def add(self, other: _Weight) -> None:
        self.chars += other.chars
        self.link_chars += other.link_chars
        self.links += other.links

    @property
    def is_link_list(self) -> bool:
        return self.links >= LINKS_NEEDED and self.link_chars > LINK_SHARE * self.chars


def _page_furniture(root: etree._Element) -> set[etree._Element]:
    dropped: set[etree._Element] = set()
    weights = [_Weight()]
    content = 0
    for event, element in walk(root, lambda item: has_no_text(item) or _is_furniture(item)):
        if event == "start":
            content += element.tag in CONTENT
            weights.append(_Weight(chars=_length(element.text)))
        if event == "end":
            content -= element.tag in CONTENT
            weight = weights.pop()
            if element.tag == "a":
                weight = _Weight(weight.chars, link_chars=weight.chars, links=1)
            page_level = element.tag in PAGE_FURNITURE and not content
            if page_level or (element.tag in CONTAINERS and weight.is_link_list):
                dropped.add(element)
            else:
                weights[-1].add(weight)
        if event != "start":
            weights[-1].chars += _length(element.tail)
    return dropped


def _length(text: str | None) -> int:
    return len(text.strip()) if text else 0


INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del"),
        *("dfn", "em", "font", "i", "img", "ins", "kbd", "label", "mark", "q", "rb", "rp", "rt"),
        *("ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt"),
        *("u", "var", "wbr"),
    )
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = frozenset({"ul", "ol", "menu"})
CODE = frozenset({"pre", "listing", "xmp"})
WHOLE = frozenset({*HEADINGS, *LISTS, *CODE, "table"})
SPACE = re.compile(r"\s+")


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
            line.append("\n" if element.tag == "br" else _collapsed(element.text))
        elif event == "skip" and is_whole(element) and not skip(element):
            _add_whole(builder, element, skip)
        if event != "start" and element is not root:
            line.append(_collapsed(element.tail))
    flush()
    return builder


def _layout(root: etree._Element) -> set[etree._Element]:
    """Lists and tables that contain a heading or table, and so only lay out the page."""
    around: set[etree._Element] = set()
    for inner in root.iter(*HEADINGS, "table"):
        for outer in inner.iterancestors():
            if outer in around:
                break
            around.add(outer)
    return {element for element in around if element.tag in WHOLE}


def _add_whole(builder: TextBuilder, element: etree._Element, skip: Skip) -> None:
    if element.tag in HEADINGS:
        builder.heading(_text(element, skip), level=HEADINGS[element.tag])
    elif element.tag in LISTS:
        builder.items(_items(element, skip))
    elif element.tag in CODE:
        builder.code("".join(_pieces(element, skip)))
    else:
        builder.table(_rows(element, skip))


def _pieces(element: etree._Element, skip: Skip) -> Iterator[str]:
    """Yield all text in `element` unchanged, with a line end for each `<br>`."""
    for event, item in walk(element, skip):
        if event == "start":
            yield "\n" if item.tag == "br" else item.text or ""
        elif item is not element:
            yield item.tail or ""


def _text(element: etree._Element, skip: Skip) -> str:
    return one_line("".join(_pieces(element, skip)))


def _rows(table: etree._Element, skip: Skip) -> Iterator[list[str]]:
    for row in table.iter("tr"):
        if not skip(row):
            yield [_text(cell, skip) for cell in row if cell.tag in ("td", "th")]


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
    """Yield depth and own text of each item, nested ones included, in reading order."""
    depth = 0
    item = _Item()
    for event, element in walk(root, lambda inner: skip(inner) or inner.tag in CODE):
        if event != "skip" and element.tag in (*LISTS, "li"):
            if text := item.text():
                yield item.depth, text
            if element.tag in LISTS:
                depth += 1 if event == "start" else -1
            item = _Item(depth)
        if event == "start":
            item.add(element, element.text)
        elif event == "skip" and element.tag in CODE and not skip(element):
            item.add_code("".join(_pieces(element, skip)))
        if event != "start" and element is not root:
            item.add(element, element.tail)


class _Item:
    """Collects the text of a list item: words on one line, code on its own lines."""

    def __init__(self, depth: int = 1) -> None:
        self.depth = depth
        self._lines: list[str] = []
        self._words: list[str] = []

    def add(self, element: etree._Element, text: str | None) -> None:
        """Add text at the start or end of an element; a block is separated by a space."""
        inline = element.tag in INLINE and element.tag != "br"
        self._words.append((text or "") if inline else f" {text or ''}")

    def add_code(self, code: str) -> None:
        """Add a block of code."""
        self._lines += [one_line("".join(self._words)), code.strip("\n")]
        self._words.clear()

    def text(self) -> str:
        """The collected text."""
        lines = (*self._lines, one_line("".join(self._words)))
        return "\n".join(line for line in lines if line)


def _collapsed(text: str | None) -> str:
    return SPACE.sub(" ", text) if text else ""


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
        yield content.draft(
            self.kind,
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
