"""Documents as resources, for clients that let people pick what a model reads."""

from __future__ import annotations

import mcp_types as types

from lagotto.documents import Document, Span
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.budget import DEFAULT_TOKENS, MOST_TOKENS, most
from lagotto.mcp.excerpts import excerpt
from lagotto.mcp.names import URI_TEMPLATE, DocumentAddress
from lagotto.mcp.quotation import shortened, to_json
from lagotto.mcp.tools.base import found_document

PAGE = 50
MEDIA_TYPE = "text/markdown"
"""A quotation, as `read` shows it, is a block quote of Markdown."""
TEMPLATE = types.ResourceTemplate(
    name="document",
    uri_template=URI_TEMPLATE,
    description="A document, quoted. The tool read shows what is too long for one answer.",
    mime_type=MEDIA_TYPE,
)


async def list_resources(base: AgentBase, cursor: str | None) -> types.ListResourcesResult:
    """A page of documents, as many as an answer has room for."""
    after = DocumentAddress.parse(cursor) if cursor else None
    found = await base.documents(after=after, limit=PAGE + 1)
    listed = list(map(_resource, found[:PAGE]))

    def render(number: int) -> str:
        return to_json([each.model_dump(mode="json", by_alias=True) for each in listed[:number]])

    shown = max(1, most(len(listed), render, budget=DEFAULT_TOKENS))
    more = str(DocumentAddress.of(found[shown - 1])) if shown < len(found) else None
    return types.ListResourcesResult(resources=listed[:shown], next_cursor=more)


async def read_resource(base: AgentBase, uri: str) -> types.ReadResourceResult:
    """A document as a quotation, as much of it as an answer may have."""
    document = await found_document(base, DocumentAddress.parse(uri))
    span = Span(0, len(document.text))
    text = excerpt(document, span, whole=span, budget=MOST_TOKENS)
    contents = types.TextResourceContents(uri=uri, mime_type=MEDIA_TYPE, text=text)
    return types.ReadResourceResult(contents=[contents])


def _resource(document: Document) -> types.Resource:
    name = DocumentAddress.of(document)
    title = shortened(document.title or document.source or document.id, most=80)
    return types.Resource(
        uri=name.uri, name=shortened(str(name), most=80), title=title, mime_type=MEDIA_TYPE
    )
