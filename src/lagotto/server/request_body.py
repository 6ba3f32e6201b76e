"""Requests: bodies of limited size read in limited time, and the records they are parsed into."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, FiniteFloat, create_model
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagotto.documents import DEFAULT_COLLECTION, Language, Record
from lagotto.prefs import RerankPrefs, RetrievalPrefs, SearchRequest, Verb
from lagotto.request_context import RequestContext
from lagotto.server.problems import Problem

CLOSE = {"Connection": "close"}
"""The rest of a body that is not read would be taken for the next request."""


def limited(http: HttpRequest, *, most: int, timeout: float) -> HttpRequest:
    """The request, with problems for a body that is too large or comes too slowly.

    Each part of the body has to arrive within `timeout` seconds, and a whole second's worth of
    waiting is granted for each 10 kB, so that one byte at a time is too slow as well.
    """
    declared = http.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    receive = http.receive
    received = 0
    started = asyncio.get_running_loop().time()

    async def next_part() -> Message:
        nonlocal received
        last = started + timeout + received / 10_000
        try:
            async with asyncio.timeout_at(min(last, asyncio.get_running_loop().time() + timeout)):
                message = await receive()
        except TimeoutError:
            raise Problem(
                "RequestTimeout",
                f"only {received} bytes of the body came in {timeout:g} s; send it faster",
                headers=CLOSE,
            ) from None
        received += len(message.get("body", b""))
        if received > most:
            raise _too_large(most)
        return message

    return HttpRequest(http.scope, next_part)


def _too_large(most: int) -> Problem:
    detail = f"the body is larger than {most:,} bytes, the most that this server accepts here"
    return Problem("ContentTooLarge", detail, headers=CLOSE)


class CancelOnDisconnect:
    """Cancels the work on a request when its client disconnects.

    Pure ASGI. Once the body is complete, nobody but this waits for messages, and the application
    is told of the disconnect here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        connection = _Connection(receive)
        working = asyncio.ensure_future(self.app(scope, connection.receive, send))
        watching = asyncio.create_task(connection.watch(working.cancel))
        try:
            await asyncio.wait([working])
            with suppress(asyncio.CancelledError):
                await working
        finally:
            for task in (watching, working):
                task.cancel()
            await asyncio.wait([watching, working])


class _Connection:
    """The messages of one request."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._complete = asyncio.Event()
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        """The next part of the body, or the disconnect."""
        if self._complete.is_set():
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._complete.set()
        return message

    async def watch(self, cancel: Callable[[], object]) -> None:
        """Call `cancel` when the client is gone."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        cancel()


_OWN = {"query_text", "filters"}
"""Settings that requests write in another way."""
_TEXTS = {"q", "query", "document", "collection", "prefs", "citation"}
"""Parameters of permalinks that are never JSON: a query may well start with a bracket."""


_COUNTS = ("top_k", "top_k_items", "top_k_chunks", "candidates")


def _optional(name: str) -> tuple[Any, None]:
    field = RetrievalPrefs.model_fields[name]
    kind: Any = field.annotation
    for constraint in field.metadata:
        kind = Annotated[kind, constraint]
    return (kind | None, None)


SettingsBody = create_model(
    "SettingsBody",
    __base__=Record,
    __doc__="Any setting of RetrievalPrefs; of a group, only what is given changes.",
    **{name: _optional(name) for name in RetrievalPrefs.model_fields if name not in _OWN},
)  # type: ignore[call-overload]


class SearchBody(SettingsBody):
    """A search: the query, and whatever `retrieve` takes in Python.

    `prefs` is the name of a preset to start from, `timeout` a number of seconds. `highlight` marks
    the words of hits that match the query.
    """

    query: str
    filters: dict[str, Any] | None = None
    prefs: str | None = None
    query_vector: list[FiniteFloat] | None = Field(default=None, min_length=1)
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    highlight: bool = False

    @property
    def largest_count(self) -> int:
        """The largest of the counts of hits, documents and candidates."""
        counts = [getattr(self, name) for name in _COUNTS]
        rerank: RerankPrefs | None = getattr(self, "rerank")  # noqa: B009 made by create_model
        counts.append(rerank.candidates if rerank else 0)
        return max((count for count in counts if isinstance(count, int)), default=0)

    def request(self, verb: Verb | Literal["why_not"], context: RequestContext) -> SearchRequest:
        """The search of this body."""
        names = self.model_fields_set & {*SettingsBody.model_fields, "filters"}
        settings = {name: value for name in names if (value := getattr(self, name)) is not None}
        vector = None
        if self.query_vector is not None:
            with np.errstate(over="ignore"):  # the search refuses what is not finite
                vector = np.array(self.query_vector, np.float32)
        return SearchRequest(verb, self.query, self.prefs, settings, vector, context)


class ContextBody(SearchBody):
    """A search for a context pack."""

    max_tokens: int | None = Field(default=None, ge=1)
    format: Literal["plain", "markdown", "xml"] = "plain"

    def request(self, verb: Verb | Literal["why_not"], context: RequestContext) -> SearchRequest:
        """The search of this body."""
        request = super().request(verb, context)
        return replace(request, max_tokens=self.max_tokens, format=self.format)


class WhyNotBody(SearchBody):
    """A search, and the id of a document: why is it there, or why not?"""

    document: str = Field(min_length=1)

    def request(self, verb: Verb | Literal["why_not"], context: RequestContext) -> SearchRequest:
        """The search of this body."""
        return replace(super().request(verb, context), document_id=self.document)


class ResolveBody(Record):
    """The key of a citation."""

    citation: str


class JudgementBody(Record):
    """Whether a passage, named by its citation key, is relevant for a query: 1 or 0.

    Without a relevance, the judgement is taken back.
    """

    query: str = Field(min_length=1, max_length=10_000)
    citation: str = Field(max_length=10_000)
    relevance: Literal[0, 1] | None = None


class JudgementsQuery(Record):
    """The query that the judgements are of, None for all; `mine` leaves out those of other keys."""

    q: str | None = None
    mine: bool = False


class DocumentBody(Record):
    """A document to add; what is left out is as in Document."""

    model_config = ConfigDict(extra="allow")

    text: str


class AddBody(Record):
    """Documents to add, as in Document; without a language it is detected, or as given here.

    Without `replace`, a document whose id is taken is not stored, and is listed as a failure.
    """

    documents: list[DocumentBody] = Field(min_length=1, max_length=10_000)
    language: Language = None
    replace: bool = True


class RemoveBody(Record):
    """Documents to remove: by ids, by filter, or both, within a collection if given."""

    ids: list[str] | None = None
    filters: dict[str, Any] | None = None
    collection: str | None = Field(default=None, min_length=1)


class RerankText(Record):
    """A text to rerank, as an object."""

    text: str


class RerankBody(Record):
    """Texts to rerank, as services of this kind take them."""

    model_config = ConfigDict(extra="ignore")

    query: str
    documents: list[str | RerankText]
    model: str | None = None
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False


class EmbeddingsBody(Record):
    """Texts to embed, as services of this kind take them."""

    model_config = ConfigDict(extra="ignore")

    input: str | list[str]
    model: str | None = None
    input_type: Literal["query", "document"] = "document"
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] = "float"


class DocumentsQuery(Record):
    """Which documents to list."""

    filters: str | None = None
    collection: str | None = Field(default=None, min_length=1)
    after: str | None = None
    limit: int = Field(default=100, ge=1, le=1_000)


class DocumentQuery(Record):
    """The collection of the document in the path."""

    collection: str = Field(default=DEFAULT_COLLECTION, min_length=1)


class FieldsQuery(Record):
    """The collection of the fields, None for all."""

    collection: str | None = Field(default=None, min_length=1)


class TasksQuery(Record):
    """Which tasks to list."""

    after: str | None = None
    limit: int = Field(default=100, ge=1, le=1_000)


def nested(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The parameters of a permalink as a body: `scoring.blend=rrf` is in the group `scoring`.

    Objects and lists are written as JSON; queries and names are texts, whatever they look like.
    ValueError if a name is given twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        *groups, last = name.split(".")
        inner = found
        for group in groups:
            inner = inner.setdefault(group, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{name}: {group} has a value of its own already")
        if last in inner:
            raise ValueError(f"{name} is given twice; give it once")
        is_json = value[:1] in ("{", "[") and name not in _TEXTS
        inner[last] = json.loads(value) if is_json else value
    return found
