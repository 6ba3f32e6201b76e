"""Documents: list, get, chunks, remove; and the collections they are in."""

from __future__ import annotations

import base64
import binascii
import json

from lagotto.documents import Chunk, Document
from lagotto.filters import parse_filter
from lagotto.server.answers import (
    ChunksAnswer,
    CollectionsAnswer,
    DocumentsAnswer,
    RemoveAnswer,
)
from lagotto.server.bodies import DocumentQuery, DocumentsQuery, RemoveBody
from lagotto.server.operations import Call, Operation
from lagotto.server.problems import FieldProblem, Problem
from lagotto.stores.base import StoreInfo


async def list_documents(call: Call) -> object:
    """Answer with a page of documents, without their texts."""
    wanted: DocumentsQuery = call.query
    found = await call.base.documents(
        filters=parse_filter(wanted.filters),
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
    filters = None if body.filters is None else parse_filter(body.filters)
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


def _missing(call: Call) -> Problem:
    name, collection = call.path("document_id"), call.query.collection
    return Problem("NotFound", f"there is no document {name!r} in {collection!r}")


def _cursor(last: Document) -> str:
    return base64.urlsafe_b64encode(json.dumps([last.collection, last.id]).encode()).decode()


def _parsed(cursor: str) -> tuple[str, str]:
    try:
        collection, name = json.loads(base64.urlsafe_b64decode(cursor))
        if not isinstance(collection, str) or not isinstance(name, str):
            raise ValueError
    except (ValueError, TypeError, binascii.Error, RecursionError):
        detail = "no cursor; pass `next` of the answer before"
        field = FieldProblem(pointer="/after", detail=detail)
        raise Problem("InvalidRequest", f"/after: {detail}", fields=[field]) from None
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
