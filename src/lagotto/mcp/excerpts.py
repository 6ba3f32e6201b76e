"""A part of a document as a cited quotation that fits a budget, and where it goes on."""

from __future__ import annotations

from collections.abc import Callable

from lagotto.chunkers.structure import Structure
from lagotto.context.cite import key_of_text
from lagotto.documents import Document, Location, Span
from lagotto.mcp.budget import BYTES_PER_TOKEN, most, on_wire
from lagotto.mcp.names import DocumentAddress, make_cursor
from lagotto.mcp.quotation import NOTICE, label, label_room, quoted
from lagotto.results import format_citation, named_document

SLACK = 16
"""Tokens by which the keys of two parts of a text may differ, since they have other hashes."""
BREAKS = ("\n\n", "\n", ". ", "。", " ")
"""Where a text is cut, the best first."""


def status(unit: str, shown: int, total: int, cursor: str | None) -> str:
    """The first line of an answer: how much of it there is, and how to get the rest."""
    return f"{unit} shown: {shown}, total: {total}, cursor: {cursor or 'none'}"


def scope_of(document: Document) -> list[str]:
    """What a cursor in a document is valid for: the text as it is now."""
    return [*DocumentAddress.of(document), document.content_hash]


def excerpt(document: Document, span: Span, *, whole: Span, budget: int) -> str:
    """The text of `span` as far as it fits; `whole` is what was asked for, of which it is left."""
    if document.is_only_title:
        title = quoted(document.title or "")
        return "\n".join(
            [status("characters", 0, 0, None), _head(document, 0, "", budget=budget), NOTICE, title]
        )
    where = Structure(document).heading_path(span.start)

    def render(length: int) -> str:
        end = span.start + length
        more = make_cursor(end, whole.start, whole.end, of=scope_of(document))
        text = document.text[span.start : end]
        return "\n".join(
            [
                status(
                    "characters", length, whole.end - whole.start, more if end < span.end else None
                ),
                _head(document, span.start, text, where, budget=budget),
                NOTICE,
                quoted(text),
            ]
        )

    return render(fitting(document.text, span, render, budget=budget))


def fitting(text: str, span: Span, render: Callable[[int], str], *, budget: int) -> int:
    """The number of characters of a span that fit, cut where a paragraph or a sentence ends."""
    limit = min(span.end - span.start, BYTES_PER_TOKEN * budget)
    if limit == span.end - span.start and on_wire(render(limit)) <= budget:
        return limit
    room = most(limit, render, budget=budget - SLACK)
    shown = text[span.start : span.start + room]
    for mark in BREAKS:
        found = shown.rfind(mark)
        if found >= room // 2:
            return found + len(mark)
    return room


def _head(
    document: Document, start: int, text: str, where: tuple[str, ...] = (), *, budget: int
) -> str:
    name = named_document(document.title, document.source, document.kind) or document.id
    location = Location(start=start, end=start + len(text), heading_path=where)
    key = key_of_text(document.collection, document.id, start, text)
    shown = label(format_citation(name, location), most=label_room(budget))
    return f"{shown} key={key}"
