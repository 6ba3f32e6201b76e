"""Requests: bodies of limited size read in limited time, and the records they are parsed into."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, FiniteFloat, create_model
from starlette.requests import Request as HttpRequest
from starlette.types import Message

from lagotto.documents import Language, Record
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
    large = f"the body is larger than {most:,} bytes, the most that this server accepts here"
    too_large = Problem("ContentTooLarge", large, headers=CLOSE)
    declared = http.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    receive = http.receive
    received = 0
    now = asyncio.get_running_loop().time
    started = now()

    async def next_part() -> Message:
        nonlocal received
        last = started + timeout + received / 10_000
        try:
            async with asyncio.timeout_at(min(last, now() + timeout)):
                message = await receive()
        except TimeoutError:
            slow = f"only {received} bytes of the body came in {timeout:g} s; send it faster"
            raise Problem("RequestTimeout", slow, headers=CLOSE) from None
        received += len(message.get("body", b""))
        if received > most:
            raise too_large
        return message

    return HttpRequest(http.scope, next_part)


_OWN = {"query_text", "filters"}
"""Settings that requests write in another way."""
_OF_A_VERB = {"max_tokens", "format", "queries", "document_id"}
"""What a body has for one verb, as SearchRequest has it."""
_TEXTS = {"q", "query", "document", "collection", "prefs", "citation"}
"""Parameters of permalinks that are never JSON: a query may well start with a bracket."""


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
        names = ("top_k", "top_k_items", "top_k_chunks", "candidates")
        counts = [getattr(self, name) for name in names]
        rerank: RerankPrefs | None = getattr(self, "rerank")  # noqa: B009 made by create_model
        counts.append(rerank.candidates if rerank else 0)
        return max((count for count in counts if isinstance(count, int)), default=0)

    def request(self, verb: Verb | Literal["why_not"], context: RequestContext) -> SearchRequest:
        names = self.model_fields_set & {*SettingsBody.model_fields, "filters"}
        settings = {name: value for name in names if (value := getattr(self, name)) is not None}
        vector = None
        if self.query_vector is not None:
            with np.errstate(over="ignore"):  # the search refuses what is not finite
                vector = np.array(self.query_vector, np.float32)
        own = {name: value for name, value in self if name in _OF_A_VERB}
        return SearchRequest(verb, self.query, self.prefs, settings, vector, context, **own)


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


def nested(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The parameters of a permalink as a body: `scoring.blend=rrf` is in the group `scoring`.

    Objects and lists are written as JSON; queries and names are texts, whatever they look like.
    ValueError if a name is given twice.
    """
    body: dict[str, Any] = {}
    for name, value in pairs:
        *groups, last = name.split(".")
        inner = body
        for group in groups:
            inner = inner.setdefault(group, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{name}: {group} has a value of its own already")
        if last in inner:
            raise ValueError(f"{name} is given twice; give it once")
        is_json = value[:1] in ("{", "[") and name not in _TEXTS
        inner[last] = json.loads(value) if is_json else value
    return body
