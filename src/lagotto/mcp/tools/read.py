"""`read`: the text of a document, by section, page, lines or cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Self

from pydantic import BeforeValidator, model_validator

from lagotto.documents import Document, Span
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.excerpts import excerpt, scope_of
from lagotto.mcp.names import Target, parse_cursor
from lagotto.mcp.sections import line_span, page_span, section_span
from lagotto.mcp.tools.base import Arguments, DocumentId, Tool, found_document

Part = Annotated[
    str | None,
    BeforeValidator(lambda given: str(given) if isinstance(given, int | float) else given),
]
"""Models write `3` as often as `"3"`."""

PARTS: Mapping[str, Callable[[Document, str], Span]] = {
    "section": section_span,
    "page": page_span,
    "lines": line_span,
}


class ReadArguments(Arguments):
    """What `read` takes: at most one of `section`, `page`, `lines` and `cursor`."""

    id: DocumentId
    section: Part = None
    page: Part = None
    lines: Part = None

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        given = [name for name in (*PARTS, "cursor") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are given; pass one of them")
        return self


async def read(base: AgentBase, asked: ReadArguments) -> str:
    """The part that is asked for, from its start or from the cursor on."""
    target = Target.parse(asked.id)
    document = await found_document(base, target.name)
    whole, rest = _wanted(document, asked, target)
    return excerpt(document, rest, whole=whole, budget=asked.max_tokens)


def _wanted(document: Document, asked: ReadArguments, target: Target) -> tuple[Span, Span]:
    """The part that was asked for, and what is left of it to read."""
    if asked.cursor:
        start, *ends = parse_cursor(asked.cursor, of=scope_of(document))
        whole = Span(*ends)
        return whole, Span(start, whole.end)
    for name, find in PARTS.items():
        wanted = getattr(asked, name)
        if wanted is not None:
            span = find(document, wanted)
            return span, span
    start = min(target.passage.start, len(document.text)) if target.passage else 0
    span = Span(start, len(document.text))
    return span, span


READ = Tool(
    "read",
    'Read a document: a section (number from outline, or title), a page ("3", "3-5"), lines '
    '("10-40"), all from the start or from a passage, or on from a cursor.',
    ReadArguments,
    read,
)
