"""`fetch`: the text of a result, as JSON; the other half of the contract of connectors."""

from __future__ import annotations

from functools import partial
from typing import Any

from lagotto.context.cite import CitationKey, cited
from lagotto.documents import Document, Span
from lagotto.errors import CitationError
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.budget import BYTES_PER_TOKEN, estimate, on_wire
from lagotto.mcp.excerpts import fitting, scope_of
from lagotto.mcp.names import DocumentAddress, Target, make_cursor, parse_cursor, url_of
from lagotto.mcp.quotation import label_room, shortened, to_json, visible, visible_fields
from lagotto.mcp.tools.base import Arguments, DocumentId, Tool, found_document
from lagotto.mcp.tools.search import NOTE

CHANGED = "the document has changed since this id was made; search again"


class FetchArguments(Arguments):
    """What `fetch` takes."""

    id: DocumentId


async def fetch(base: AgentBase, asked: FetchArguments) -> str:
    """The whole document if it fits, or else from a little before the passage on."""
    target = Target.parse(asked.id)
    document = await found_document(base, target.name)
    text = document.text or document.title or ""
    metadata = _metadata(document, target.passage, room=asked.max_tokens // 4)
    render = partial(_rendered, asked, document, text, metadata)

    def from_(start: int) -> int:
        """How many characters fit, from there on."""
        span = Span(start, len(text))
        return fitting(text, span, partial(render, start), budget=asked.max_tokens)

    start = 0
    if asked.cursor:
        (start,) = parse_cursor(asked.cursor, of=scope_of(document))
    elif target.passage and not _is_whole(text, render, asked.max_tokens):
        passage = min(target.passage.start, len(text))
        start = _before(text, passage, room=from_(0))
        if start + from_(start) <= passage:  # what is before it takes more tokens than most texts
            start = passage
    return render(start, from_(start))


def _rendered(
    asked: FetchArguments,
    document: Document,
    text: str,
    metadata: dict[str, Any],
    start: int,
    shown: int,
) -> str:
    end = start + shown
    title = document.title or document.source or document.id
    return to_json(
        {
            "id": shortened(asked.id, most=2_000),
            "title": shortened(title, most=label_room(asked.max_tokens)),
            "text": visible(text[start:end]),
            "url": shortened(url_of(document.source, DocumentAddress.of(document)), most=500),
            "metadata": metadata,
            "start": start,
            "shown": shown,
            "total": len(text),
            "cursor": make_cursor(end, of=scope_of(document)) if end < len(text) else None,
            "note": NOTE,
        }
    )


def _is_whole(text: str, render: Any, budget: int) -> bool:
    return len(text) <= BYTES_PER_TOKEN * budget and on_wire(render(0, len(text))) <= budget


def _before(text: str, start: int, *, room: int) -> int:
    """The start of a line or word a little before a passage, so that it is read in its context.

    It takes a quarter of the room, more if the rest of the text needs less, and never all of it.
    """
    needed = len(text) - start
    earliest = max(0, start - min(room * 3 // 4, max(room // 4, room - needed)))
    if earliest == 0:
        return 0
    for mark in ("\n", " "):
        found = text.find(mark, earliest, start)
        if found >= 0:
            return found + 1
    return start


def _metadata(document: Document, passage: CitationKey | None, *, room: int) -> dict[str, Any]:
    """What is known of the document, as much as there is room for."""
    known: dict[str, Any] = {"collection": document.collection, "kind": document.kind}
    if passage is not None and _has_changed(document, passage):
        known["changed"] = CHANGED
    for name, value in visible_fields(document.metadata).items():
        if estimate(to_json(to_json({**known, name: value}))) <= room:
            known.setdefault(name, value)
    return known


def _has_changed(document: Document, passage: CitationKey) -> bool:
    try:
        cited(document, passage)
    except CitationError:
        return True
    return False


FETCH = Tool(
    "fetch",
    "Get a result or document by id. JSON: id, title, text, url, metadata. Of a long document, "
    "the part around the result.",
    FetchArguments,
    fetch,
)
