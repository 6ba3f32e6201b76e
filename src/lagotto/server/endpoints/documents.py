"""Documents and collections, judgements, and the fields and options that a caller can use."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field, TypeAdapter

from lagotto import __version__
from lagotto._internal.concurrency import in_thread
from lagotto.base.judgements import RelevanceJudgement
from lagotto.base.protocol import page_of_documents
from lagotto.context.cite import CitationKey
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, Record
from lagotto.filters import Filter, parse_filter
from lagotto.prefs import RetrievalPrefs
from lagotto.presets import load_preset, preset_names
from lagotto.server.access import Scope
from lagotto.server.operations import Call, operation
from lagotto.server.problems import Answer, invalid_field, no_document
from lagotto.server.scoped_base import check_filter
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import StoreInfo

CollectionName = Annotated[str, Field(min_length=1)]
CURSOR = TypeAdapter(tuple[str, str])
"""The collection and the id of the last document of a page."""


class DocumentsQuery(Record):
    """Which documents to list."""

    filters: str | None = None
    collection: CollectionName | None = None
    after: str | None = None
    limit: int = Field(default=100, ge=1, le=1_000)


@operation("GET /v1/documents", {"documents": list[Document], "next": str | None}, heavy=True)
async def list_documents(call: Call, query: DocumentsQuery) -> object:
    """Documents without their texts, a page at a time; `after` of the next one is `next`."""
    documents = await page_of_documents(
        call.base,
        filters=await in_thread(_checked, query.filters, call.state.settings),
        collection=query.collection,
        after=_parsed(query.after) if query.after else None,
        limit=query.limit + 1,
    )
    page = documents[: query.limit]
    cursor = None
    if len(documents) > len(page):
        last = json.dumps([page[-1].collection, page[-1].id])
        cursor = base64.urlsafe_b64encode(last.encode()).decode()
    return {"documents": page, "next": cursor}


def _parsed(cursor: str) -> tuple[str, str]:
    try:
        return CURSOR.validate_json(base64.urlsafe_b64decode(cursor))
    except ValueError:
        raise invalid_field("after", "no cursor; pass `next` of the answer before") from None


def _checked(filters: str | dict[str, Any] | None, settings: ServerSettings) -> Filter:
    if isinstance(filters, str):
        filters = parse_filter(filters).to_json()
    check_filter(filters, settings)
    return parse_filter(filters)


class DocumentQuery(Record):
    """The collection of the document in the path."""

    collection: CollectionName = DEFAULT_COLLECTION


@operation("GET /v1/documents/{document_id:path}", Document, heavy=True)
async def get_document(call: Call, query: DocumentQuery) -> object:
    """A document with its text."""
    document = await call.base.get(call.path("document_id"), collection=query.collection)
    return document or _missing(call)


@operation("GET /v1/chunks/{document_id:path}", {"chunks": list[Chunk]}, heavy=True)
async def chunks(call: Call, query: DocumentQuery) -> object:
    """The chunks of a document."""
    items = await call.base.chunks(call.path("document_id"), collection=query.collection)
    return {"chunks": _missing(call) if items is None else items}


@operation(
    "DELETE /v1/documents/{document_id:path}", {"removed": list[str]}, scope="write", heavy=True
)
async def remove_document(call: Call, query: DocumentQuery) -> object:
    """Remove a document."""
    gone = await call.base.remove(call.path("document_id"), collection=query.collection)
    return {"removed": gone or _missing(call)}


def _missing(call: Call) -> NoReturn:
    raise no_document(call.path("document_id"), call.arguments.collection)


class RemoveBody(Record):
    """Documents to remove: by ids, by filter, or both, within a collection if given."""

    ids: list[str] | None = None
    filters: dict[str, Any] | None = None
    collection: CollectionName | None = None


@operation("POST /v1/documents/remove", {"removed": list[str]}, scope="write", heavy=True)
async def remove(call: Call, body: RemoveBody) -> object:
    """Remove documents by ids, by filter, or both."""
    filters = None
    if body.filters is not None:
        filters = await in_thread(_checked, body.filters, call.state.settings)
    gone = await call.base.remove(*(body.ids or ()), filters=filters, collection=body.collection)
    return {"removed": gone}


class Collection(Answer):
    """A collection and the number of its documents."""

    name: str
    documents: int


@operation("GET /v1/collections", {"collections": list[Collection]}, heavy=True)
async def collections(call: Call) -> object:
    """The collections that the key may see."""
    counts = await call.base.collections()
    return {"collections": [{"name": name, "documents": counts[name]} for name in sorted(counts)]}


@operation("GET /v1/info", StoreInfo, heavy=True)
async def info(call: Call) -> object:
    """The size and the making of the whole base, without its location on the server."""
    summary = await call.base.info()
    return summary.model_copy(update={"location": "", "degraded": (), "embedder": None})


class JudgementBody(Record):
    """Whether a passage, named by its citation key, is relevant for a query: 1 or 0.

    Without a relevance, the judgement is taken back.
    """

    query: str = Field(min_length=1, max_length=10_000)
    citation: str = Field(max_length=10_000)
    relevance: Literal[0, 1] | None = None


@operation(
    "POST /v1/judgements",
    {"judgement": RelevanceJudgement | None},
    scope="write",
    heavy=True,
    problems=(404,),
)
async def judge(call: Call, body: JudgementBody) -> object:
    """Say whether a passage is relevant for a query, or take it back."""
    key = CitationKey.parse(body.citation)
    if await call.base.outline(key.document_id, collection=key.collection) is None:
        raise no_document(key.document_id, key.collection)
    judge = call.access.key_id or ""
    record = await call.state.judgements.put(body.query, body.citation, body.relevance, judge=judge)
    return {"judgement": record}


class JudgementsQuery(Record):
    """The query that the judgements are of, None for all; `mine` leaves out those of other keys."""

    q: str | None = None
    mine: bool = False


@operation("GET /v1/judgements", {"judgements": list[RelevanceJudgement]}, heavy=True)
async def list_judgements(call: Call, query: JudgementsQuery) -> object:
    """The judgements of the key, the oldest first; all of them for one that sees everything."""
    everybody = call.access.is_admin and not query.mine
    judge = None if everybody else call.access.key_id or ""
    return {"judgements": await call.state.judgements.list(query=query.q, judge=judge)}


class PresetSummary(Answer):
    """A preset, with all settings in effect."""

    name: str
    description: str
    settings: dict[str, Any]


@operation(
    "GET /v1/options",
    {
        "version": str,
        "scopes": list[Scope],
        "presets": list[PresetSummary],
        "rerankers": list[str],
        "settings": dict[str, Any],
        "max_top_k": int,
    },
)
async def options(call: Call) -> object:
    """What requests may name, what the key allows, and the settings of a search that sets none."""
    presets = {name: RetrievalPrefs.preset(name) for name in preset_names()}
    return {
        "version": __version__,
        "scopes": call.access.scopes,
        "presets": [
            {
                "name": name,
                "description": load_preset(name).description,
                "settings": prefs.model_dump(mode="json", exclude={"query_text"}),
            }
            for name, prefs in presets.items()
        ],
        "rerankers": call.state.settings.rerankers,
        "settings": call.state.base.prefs.model_dump(mode="json", exclude={"query_text"}),
        "max_top_k": call.state.settings.max_top_k,
    }


class FieldsQuery(Record):
    """The collection of the fields, None for all."""

    collection: CollectionName | None = None


class FieldValue(Answer):
    """A value of a field, and how many documents have it."""

    value: str | int | float | bool
    documents: int


class FieldSummary(Answer):
    """A field that documents have, with its most frequent values; `values_total` counts all."""

    name: str
    documents: int
    values: list[FieldValue]
    values_total: int


@operation(
    "GET /v1/fields",
    {"fields": list[FieldSummary], "fields_total": int, "counted": int, "complete": bool},
    heavy=True,
)
async def fields(call: Call, query: FieldsQuery) -> object:
    """The fields of documents and their values, for filters.

    Those that the most documents have; `counted` were read, `complete` says whether these are all.
    """
    return await call.base.fields(collection=query.collection)
