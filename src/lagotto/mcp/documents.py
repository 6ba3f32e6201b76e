"""Documents and parts of them by name: ids, sections, pages, lines, cited excerpts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

from lagotto._internal.locations import is_web_address
from lagotto._internal.registry import did_you_mean
from lagotto.chunkers.structure import Structure
from lagotto.context.cite import CitationKey, key_of_text
from lagotto.documents import DEFAULT_COLLECTION, Document, Heading, Location, Span, digest
from lagotto.errors import CitationError, ConfigError
from lagotto.mcp.quotation import BYTES_PER_TOKEN, NOTICE, label, label_room, most, on_wire, quoted
from lagotto.results import format_citation, named_document

URI = "lagotto://documents/"
URI_TEMPLATE = f"{URI}{{collection}}/{{id}}"
CHECK = 8
"""Hexadecimal digits of a hash in a cursor."""


Name = tuple[str, str]
"""Collection and id of a document."""


def address_of(name: Name) -> str:
    """A document in its collection as one word, `collection/id`; behind `URI`, its resource."""
    return "/".join(quote(part, safe="", errors="replace") for part in name)


def parse_address(text: str) -> Name:
    """The document at an address or URI; an id alone is one of the default collection."""
    word = text.strip().removeprefix(URI)
    collection, slash, document_id = word.partition("/")
    if not slash:
        collection, document_id = DEFAULT_COLLECTION, word
    if not collection or not document_id:
        raise ConfigError(f"id {text[:200]!r} names no document; pass an id of search")
    return unquote(collection), unquote(document_id)


def parse_id(text: str) -> tuple[Name, CitationKey | None]:
    """The document of an id of `search`, a citation key or address; the passage of a key."""
    try:
        key = CitationKey.parse(text)
    except CitationError:
        return parse_address(text), None
    return (key.collection, key.document_id), key


def url_of(source: str, name: Name) -> str:
    """The address that a document was read from, if it is one of the web, or its resource."""
    return source if is_web_address(source) else URI + address_of(name)


def make_cursor(*numbers: int, of: object) -> str:
    """A cursor at these numbers, for calls with the same arguments, `of`, alone."""
    return f"{'-'.join(map(str, numbers))}.{digest(of)[:CHECK]}"


def parse_cursor(cursor: str | None, *, of: object) -> tuple[int, ...]:
    """The numbers of a cursor, 0 without one; ConfigError if it is not one, or of another call."""
    if not cursor:
        return (0,)
    numbers, _, check = cursor.strip().partition(".")
    parts = numbers.split("-")
    if check != digest(of)[:CHECK] or not all(part.isdecimal() for part in parts):
        raise ConfigError(
            f"cursor {cursor[:60]!r} does not belong to this call, or the document has changed; "
            "repeat the arguments that the cursor came with, or leave it out to start again"
        )
    return tuple(map(int, parts))


_LINE_END = re.compile("\n")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def sections(document: Document) -> list[tuple[str, Heading]]:
    """The sections with their numbers in the outline, such as 2.1."""
    result = []
    open_levels: list[int] = []
    counts = [0]
    for heading in document.headings:
        while open_levels and open_levels[-1] >= heading.level:
            open_levels.pop()
        open_levels.append(heading.level)
        depth = len(open_levels)
        counts = [*counts[:depth], *([0] * (depth - len(counts)))]
        counts[depth - 1] += 1
        result.append((".".join(map(str, counts)), heading))
    return result


def section_span(document: Document, number_or_title: str) -> Span:
    """The section of this number or title; ConfigError if there is none, or several."""
    parts = sections(document)
    if not parts:
        raise ConfigError("the document has no sections; pass page or lines, or nothing")
    name = number_or_title.strip()
    matches = [part for part in parts if part[0] == name.rstrip(".")]
    matches = matches or [part for part in parts if part[1].title.casefold() == name.casefold()]
    if not matches:
        near = did_you_mean(name, [number for number, _ in parts])
        wrong = f"no section has the number or title {name[:100]!r}{near}"
        raise ConfigError(f"{wrong}; `outline` lists all {len(parts)}")
    if len(matches) > 1:
        numbers = ", ".join(number for number, _ in matches[:20])
        raise ConfigError(f"{len(matches)} sections have this title: {numbers}; pass a number")
    ((_, heading),) = matches
    return Span(heading.start, heading.end)


def page_span(document: Document, pages: str) -> Span:
    """The text of a page or of pages, `3` or `3-5`; ConfigError if there are none."""
    first, last = _parsed(pages, "page")
    matches = [page for page in document.pages if first <= page.number <= last]
    if not document.pages:
        raise ConfigError("the document has no pages; pass section or lines, or nothing")
    if not matches:
        numbers = f"{document.pages[0].number} to {document.pages[-1].number}"
        raise ConfigError(f"page is {pages[:40]!r}; the document has the pages {numbers}")
    return Span(min(page.start for page in matches), max(page.end for page in matches))


def line_span(document: Document, lines: str) -> Span:
    """The text of a line or of lines, counted from 1; ConfigError if there are none."""
    first, last = _parsed(lines, "lines")
    starts = [0, *(match.end() for match in _LINE_END.finditer(document.text))]
    if not 1 <= first <= len(starts):
        raise ConfigError(f"lines is {lines[:40]!r}; the document has {len(starts)} lines")
    end = starts[last] if last < len(starts) else len(document.text)
    return Span(starts[first - 1], end)


PARTS: Mapping[str, Callable[[Document, str], Span]] = {
    "section": section_span,
    "page": page_span,
    "lines": line_span,
}


def _parsed(text: str, name: str) -> tuple[int, int]:
    match = _RANGE.fullmatch("".join(text.split()))
    if match is None or (match[2] and int(match[2]) < int(match[1])):
        raise ConfigError(f'{name} is {text[:40]!r}; write a number or a range, such as "3-5"')
    return int(match[1]), int(match[2] or match[1])


SLACK = 16
"""Tokens by which the keys of two parts of a text may differ, since they have other hashes: `abcd`
is one token, `a1b2` four. The most seen in 12,000 excerpts was 4."""
BREAKS = ("\n\n", "\n", ". ", "。", " ")
"""Where a text is cut, the best first."""


def status(unit: str, count: int, total: int, cursor: str | None) -> str:
    """The first line of an answer: how much of it there is, and how to get the rest."""
    return f"{unit} shown: {count}, total: {total}, cursor: {cursor or 'none'}"


def scope_of(document: Document) -> list[str]:
    """What a cursor in a document is valid for: the text as it is now."""
    return [*document.ref, document.content_hash]


def excerpt(document: Document, span: Span, *, whole: Span, budget: int) -> str:
    """The text of `span` as far as it fits; of `whole`, it is what is left."""
    name = named_document(document.title, document.source, document.kind, document.metadata)
    name = name or document.id
    where, title = Structure(document).heading_path(span.start), None
    if document.is_only_title:
        span, whole, where, title = Span(0, 0), Span(0, 0), (), document.title

    def render(length: int) -> str:
        end, total = span.start + length, whole.end - whole.start
        more = make_cursor(end, whole.start, whole.end, of=scope_of(document))
        state = status("characters", length, total, more if end < span.end else None)
        text = document.text[span.start : end]
        location = Location(start=span.start, end=end, heading_path=where)
        key = key_of_text(*document.ref, span.start, text)
        cited = label(format_citation(name, location), most=label_room(budget))
        return "\n".join([state, f"{cited} key={key}", NOTICE, quoted(title or text)])

    return render(fitting(document.text, span, render, budget=budget))


def fitting(text: str, span: Span, render: Callable[[int], str], *, budget: int) -> int:
    """The number of characters of a span that fit, cut where a paragraph or a sentence ends."""
    limit = min(span.end - span.start, BYTES_PER_TOKEN * budget)
    if limit == span.end - span.start and on_wire(render(limit)) <= budget:
        return limit
    room = most(limit, render, budget=budget - SLACK)
    part = text[span.start : span.start + room]
    for mark in BREAKS:
        at = part.rfind(mark)
        if at >= room // 2:
            return at + len(mark)
    return room
