"""Documents and collections, judgements, and the fields and options that a caller can use."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from lagotto import __version__
from lagotto._internal.concurrency import in_thread
from lagotto.base.judgements import Judgements
from lagotto.base.protocol import page_of_documents
from lagotto.context.cite import CitationKey
from lagotto.documents import Chunk, Document
from lagotto.filters import Filter, parse_filter
from lagotto.prefs import RetrievalPrefs
from lagotto.presets import load_preset, preset_names
from lagotto.server.operations import Call, Operation
from lagotto.server.problems import Problem, invalid_field, no_document
from lagotto.server.request_body import (
    DocumentQuery,
    DocumentsQuery,
    FieldsQuery,
    JudgementBody,
    JudgementsQuery,
    RemoveBody,
)
from lagotto.server.responses import (
    ChunksAnswer,
    CollectionsAnswer,
    DocumentsAnswer,
    FieldsAnswer,
    JudgedAnswer,
    JudgementsAnswer,
    OptionsAnswer,
    RemoveAnswer,
)
from lagotto.server.scoped_base import check_filter
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import StoreInfo


async def list_documents(call: Call) -> object:
    """Answer with a page of documents, without their texts."""
    wanted: DocumentsQuery = call.query
    found = await page_of_documents(
        call.base,
        filters=await in_thread(_checked, wanted.filters, call.state.settings),
        collection=wanted.collection,
        after=_parsed(wanted.after) if wanted.after else None,
        limit=wanted.limit + 1,
    )
    shown = found[: wanted.limit]
    return {"documents": shown, "next": _cursor(shown[-1]) if len(found) > len(shown) else None}


async def get(call: Call) -> Document:
    """Answer with a document and its text."""
    found = await call.base.get(call.path("document_id"), collection=call.query.collection)
    if found is None:
        raise _missing(call)
    return found


async def chunks(call: Call) -> dict[str, list[Chunk]]:
    """Answer with the chunks of a document."""
    found = await call.base.chunks(call.path("document_id"), collection=call.query.collection)
    if found is None:
        raise _missing(call)
    return {"chunks": found}


async def remove_one(call: Call) -> object:
    """Remove the document in the path."""
    name = call.path("document_id")
    gone = await call.base.remove(name, collection=call.query.collection)
    if not gone:
        raise _missing(call)
    return {"removed": gone}


async def remove(call: Call) -> object:
    """Remove documents by ids, by filter, or both."""
    body: RemoveBody = call.body
    filters = None
    if body.filters is not None:
        filters = await in_thread(_checked, body.filters, call.state.settings)
    gone = await call.base.remove(*(body.ids or ()), filters=filters, collection=body.collection)
    return {"removed": gone}


async def collections(call: Call) -> object:
    """Answer with the collections that the key may see."""
    found = await call.base.collections()
    return {"collections": [{"name": name, "documents": found[name]} for name in sorted(found)]}


async def info(call: Call) -> StoreInfo:
    """Answer with the state of the base, without its location on the server."""
    found = await call.base.info()
    return found.model_copy(update={"location": "", "degraded": (), "embedder": None})


def _checked(given: str | dict[str, Any] | None, settings: ServerSettings) -> Filter:
    where = parse_filter(given)
    check_filter(where, settings)
    return where


def _missing(call: Call) -> Problem:
    return no_document(call.path("document_id"), call.query.collection)


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


OPERATIONS = (
    Operation(
        "GET", "/v1/documents", "listDocuments", "Documents, a page at a time.",
        list_documents, DocumentsAnswer, query=DocumentsQuery, heavy=True,
    ),
    Operation(
        "POST", "/v1/documents/remove", "remove", "Remove documents by ids or filter.",
        remove, RemoveAnswer, "write", body=RemoveBody, heavy=True,
    ),
    Operation(
        "GET", "/v1/documents/{document_id:path}", "getDocument", "A document with its text.",
        get, Document, query=DocumentQuery, heavy=True, problems=(404,),
    ),
    Operation(
        "DELETE", "/v1/documents/{document_id:path}", "removeDocument", "Remove a document.",
        remove_one, RemoveAnswer, "write", query=DocumentQuery, heavy=True, problems=(404,),
    ),
    Operation(
        "GET", "/v1/chunks/{document_id:path}", "chunks", "The chunks of a document.",
        chunks, ChunksAnswer, query=DocumentQuery, heavy=True, problems=(404,),
    ),
    Operation(
        "GET", "/v1/collections", "collections", "The collections that the key may see.",
        collections, CollectionsAnswer, heavy=True,
    ),
    Operation(
        "GET", "/v1/info", "info", "The size and the making of the whole base.",
        info, StoreInfo, heavy=True,
    ),
)  # fmt: skip


async def judge(call: Call) -> object:
    """Store a judgement of the caller on a passage that it sees, or take it back."""
    body: JudgementBody = call.body
    key = CitationKey.parse(body.citation)
    if await call.base.outline(key.document_id, collection=key.collection) is None:
        raise no_document(key.document_id, key.collection)
    judge = call.access.key_id or ""
    made = await call.state.judgements.put(body.query, body.citation, body.relevance, judge=judge)
    return {"judgement": made}


async def list_judgements(call: Call) -> object:
    """Answer with the judgements of the caller, or all of them for one who sees everything."""
    judgements: Judgements = call.state.judgements
    everybody = call.access.is_admin and not call.query.mine
    judge = None if everybody else call.access.key_id or ""
    return {"judgements": await judgements.list(query=call.query.q, judge=judge)}


JUDGEMENT_OPERATIONS = (
    Operation(
        "POST", "/v1/judgements", "judge", "Say whether a passage is relevant for a query.",
        judge, JudgedAnswer, "write", body=JudgementBody, heavy=True, problems=(404,),
    ),
    Operation(
        "GET", "/v1/judgements", "listJudgements", "The judgements of the key.",
        list_judgements, JudgementsAnswer, query=JudgementsQuery, heavy=True,
    ),
)  # fmt: skip


async def options(call: Call) -> object:
    """Answer with what requests may name, and the scopes of the key."""
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


async def fields(call: Call) -> object:
    """Answer with the fields that documents have, and their values."""
    return await call.base.fields(collection=call.query.collection)


OPTION_OPERATIONS = (
    Operation(
        "GET", "/v1/options", "options", "What requests may name, and what the key allows.",
        options, OptionsAnswer,
    ),
    Operation(
        "GET", "/v1/fields", "fields", "The fields of documents and their values, for filters.",
        fields, FieldsAnswer, query=FieldsQuery, heavy=True,
    ),
)  # fmt: skip
