"""Documents and collections, judgements, and the fields and options that a caller can use."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from lagotto import __version__
from lagotto._internal.concurrency import in_thread
from lagotto.base.judgements import RelevanceJudgement
from lagotto.base.protocol import page_of_documents
from lagotto.context.cite import CitationKey
from lagotto.documents import Chunk, Document
from lagotto.filters import Filter, parse_filter
from lagotto.prefs import RetrievalPrefs
from lagotto.presets import load_preset, preset_names
from lagotto.server.access import Scope
from lagotto.server.operations import Call, operation
from lagotto.server.problems import Problem, invalid_field, no_document
from lagotto.server.request_body import (
    DocumentQuery,
    DocumentsQuery,
    FieldsQuery,
    JudgementBody,
    JudgementsQuery,
    RemoveBody,
)
from lagotto.server.responses import Collection, FieldSummary, PresetSummary
from lagotto.server.scoped_base import check_filter
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import StoreInfo


@operation(
    "GET /v1/documents",
    {"documents": list[Document], "next": str | None},
    takes=DocumentsQuery,
    heavy=True,
)
async def list_documents(call: Call) -> object:
    """Documents without their texts, a page at a time; `after` of the next one is `next`."""
    wanted: DocumentsQuery = call.arguments
    found = await page_of_documents(
        call.base,
        filters=await in_thread(_checked, wanted.filters, call.state.settings),
        collection=wanted.collection,
        after=_parsed(wanted.after) if wanted.after else None,
        limit=wanted.limit + 1,
    )
    shown = found[: wanted.limit]
    return {"documents": shown, "next": _cursor(shown[-1]) if len(found) > len(shown) else None}


@operation(
    "GET /v1/documents/{document_id:path}",
    Document,
    takes=DocumentQuery,
    heavy=True,
    problems=(404,),
)
async def get_document(call: Call) -> object:
    """A document with its text."""
    found = await call.base.get(call.path("document_id"), collection=call.arguments.collection)
    if found is None:
        raise _missing(call)
    return found


@operation(
    "GET /v1/chunks/{document_id:path}",
    {"chunks": list[Chunk]},
    takes=DocumentQuery,
    heavy=True,
    problems=(404,),
)
async def chunks(call: Call) -> object:
    """The chunks of a document."""
    found = await call.base.chunks(call.path("document_id"), collection=call.arguments.collection)
    if found is None:
        raise _missing(call)
    return {"chunks": found}


@operation(
    "DELETE /v1/documents/{document_id:path}",
    {"removed": list[str]},
    scope="write",
    takes=DocumentQuery,
    heavy=True,
    problems=(404,),
)
async def remove_document(call: Call) -> object:
    """Remove a document."""
    name = call.path("document_id")
    gone = await call.base.remove(name, collection=call.arguments.collection)
    if not gone:
        raise _missing(call)
    return {"removed": gone}


@operation(
    "POST /v1/documents/remove",
    {"removed": list[str]},
    scope="write",
    takes=RemoveBody,
    heavy=True,
)
async def remove(call: Call) -> object:
    """Remove documents by ids, by filter, or both."""
    body: RemoveBody = call.arguments
    filters = None
    if body.filters is not None:
        filters = await in_thread(_checked, body.filters, call.state.settings)
    gone = await call.base.remove(*(body.ids or ()), filters=filters, collection=body.collection)
    return {"removed": gone}


@operation("GET /v1/collections", {"collections": list[Collection]}, heavy=True)
async def collections(call: Call) -> object:
    """The collections that the key may see."""
    found = await call.base.collections()
    return {"collections": [{"name": name, "documents": found[name]} for name in sorted(found)]}


@operation("GET /v1/info", StoreInfo, heavy=True)
async def info(call: Call) -> object:
    """The size and the making of the whole base, without its location on the server."""
    found = await call.base.info()
    return found.model_copy(update={"location": "", "degraded": (), "embedder": None})


def _checked(filters: str | dict[str, Any] | None, settings: ServerSettings) -> Filter:
    where = parse_filter(filters)
    check_filter(where, settings)
    return where


def _missing(call: Call) -> Problem:
    return no_document(call.path("document_id"), call.arguments.collection)


def _cursor(last: Document) -> str:
    return base64.urlsafe_b64encode(json.dumps([last.collection, last.id]).encode()).decode()


def _parsed(cursor: str) -> tuple[str, str]:
    try:
        collection, name = json.loads(base64.urlsafe_b64decode(cursor))
        if not isinstance(collection, str) or not isinstance(name, str):
            raise ValueError
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise invalid_field("after", "no cursor; pass `next` of the answer before") from None
    return collection, name


@operation(
    "POST /v1/judgements",
    {"judgement": RelevanceJudgement | None},
    scope="write",
    takes=JudgementBody,
    heavy=True,
    problems=(404,),
)
async def judge(call: Call) -> object:
    """Say whether a passage is relevant for a query, or take it back."""
    body: JudgementBody = call.arguments
    key = CitationKey.parse(body.citation)
    if await call.base.outline(key.document_id, collection=key.collection) is None:
        raise no_document(key.document_id, key.collection)
    judge = call.access.key_id or ""
    made = await call.state.judgements.put(body.query, body.citation, body.relevance, judge=judge)
    return {"judgement": made}


@operation(
    "GET /v1/judgements",
    {"judgements": list[RelevanceJudgement]},
    takes=JudgementsQuery,
    heavy=True,
)
async def list_judgements(call: Call) -> object:
    """The judgements of the key, the oldest first; all of them for one that sees everything."""
    everybody = call.access.is_admin and not call.arguments.mine
    judge = None if everybody else call.access.key_id or ""
    return {"judgements": await call.state.judgements.list(query=call.arguments.q, judge=judge)}


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
    presets = [load_preset(name) for name in preset_names()]
    return {
        "version": __version__,
        "scopes": call.access.scopes,
        "presets": [
            {"name": item.name, "description": item.description, "settings": _settings(item.name)}
            for item in presets
        ],
        "rerankers": call.state.settings.rerankers,
        "settings": call.base.default_settings(),
        "max_top_k": call.state.settings.max_top_k,
    }


def _settings(preset: str) -> dict[str, Any]:
    """All settings in effect with a preset."""
    return RetrievalPrefs.preset(preset).model_dump(mode="json", exclude={"query_text"})


@operation(
    "GET /v1/fields",
    {"fields": list[FieldSummary], "fields_total": int, "counted": int, "complete": bool},
    takes=FieldsQuery,
    heavy=True,
)
async def fields(call: Call) -> object:
    """The fields of documents and their values, for filters.

    Those that the most documents have; `counted` were read, `complete` says whether these are all.
    """
    return await call.base.fields(collection=call.arguments.collection)
