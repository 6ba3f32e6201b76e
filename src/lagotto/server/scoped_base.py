"""A base as one caller sees it. Endpoints have no other way to documents."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, cast

from lagotto.base.ingest import AddReport, OnProgress
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.protocol import BaseVerbs, FilterLike, document_called
from lagotto.context import CitedPassage, ContextPack
from lagotto.context.cite import CitationKey, cited
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, storable
from lagotto.errors import CitationError
from lagotto.filters import And, Eq, Not, Or, field_name, matches, parse_filter
from lagotto.prefs import RetrievalPrefs, SearchRequest
from lagotto.results import Results, RetrievalStats
from lagotto.retrieval.explain import strict_error
from lagotto.retrieval.why_not import WhyNot
from lagotto.server.access import Access
from lagotto.server.problems import LOGGER, Problem, invalid_field, no_document
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import Lease, StoreInfo, WriteGuard

COUNTED = 10_000
"""Documents that are read for it at most."""

MOST_VALUES = 50
"""Values shown of a field, the most frequent ones."""

MOST_FIELDS = 100
"""Fields shown, those of the most documents."""

LONGEST_VALUE = 200
"""Characters; longer values are left out, for nobody picks one from a list."""

OWN = ("collection", "kind", "language", "source")
"""Fields of the document itself that people filter by."""

Value = str | int | float | bool


class FieldCounts:
    """Counts the values of documents, one document after another."""

    def __init__(self) -> None:
        self.documents = 0
        self._values: dict[str, Counter[tuple[str, Value]]] = defaultdict(Counter)
        self._having: Counter[str] = Counter()

    def add(self, document: Document) -> None:
        self.documents += 1
        own = [(name, value) for name in OWN if (value := getattr(document, name))]
        triples = {
            # the kind tells `True` from 1, which are equal in Python and not in a filter
            (name, "number" if type(value) in (int, float) else type(value).__name__, value)
            for name, value in (*own, *_leaves(document.metadata, ()))
        }
        for name, kind, value in triples:
            self._values[name][kind, value] += 1
        self._having.update({name for name, _, _ in triples})

    def answer(self, *, complete: bool) -> dict[str, Any]:
        ordered = sorted(self._having, key=lambda name: (-self._having[name], name))
        fields = []
        for name in ordered[:MOST_FIELDS]:
            values = self._values[name]
            best = sorted(values.items(), key=lambda item: (-item[1], *item[0]))[:MOST_VALUES]
            about = {"name": name, "documents": self._having[name]}
            shown = [{"value": value, "documents": count} for (_, value), count in best]
            fields.append({**about, "values": shown, "values_total": len(values)})
        counted = {"counted": self.documents, "complete": complete}
        return {"fields": fields, "fields_total": len(ordered), **counted}


def _leaves(mapping: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    for key, value in mapping.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, here)
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str | int | float) and len(str(item)) <= LONGEST_VALUE:
                yield field_name(here), item


OF_ALL_DOCUMENTS = ("filter:", "text: no document is indexed as")
"""How notes begin that name fields or languages of documents which a caller may not see."""

Observe = Callable[[SearchRequest, Awaitable[Any]], Awaitable[Any]]
"""Awaits the answer to a search, and notes how it ends."""


@dataclass(eq=False, repr=False)
class ScopedBase(BaseVerbs):
    """The verbs of a base for one caller, within its visibility and the limits of the server."""

    _base: AsyncKnowledgeBase
    _access: Access
    _settings: ServerSettings
    _observe: Observe | None = None

    def __post_init__(self) -> None:
        self._visibility = self._access.visibility

    def checked(self, request: SearchRequest) -> SearchRequest:
        """The request with all its settings; a problem if it exceeds the limits of the server.

        These settings are shown to the caller; what runs is narrowed by its visibility.
        """
        limits = self._settings
        check_filter(request.settings.get("filters"), limits)
        request = request.resolve(self._base.prefs)
        prefs = request.preferences
        judged = prefs.rerank.candidates
        counts = {
            "top_k": prefs.top_k,
            "top_k_items": prefs.top_k_items,
            "top_k_chunks": prefs.top_k_chunks,
            "candidates": prefs.candidates if isinstance(prefs.candidates, int) else 0,
            "rerank/candidates": prefs.depth(prefs.top_k) if judged == "all" else judged or 0,
        }
        for name, count in counts.items():
            if count > limits.max_top_k:
                raise invalid_field(name, f"{count} is more than {limits.max_top_k}, the most here")
        if len(prefs.query_text) > limits.max_query:
            most = f"longer than {limits.max_query} characters, the most here"
            raise invalid_field("query", most)
        if prefs.rerank.reranker is not None and prefs.rerank.enabled:
            check_reranker(prefs.rerank.reranker, limits)
        dimension = self._base.embedder.info.dimension
        if request.vector is not None and len(request.vector) != dimension:
            detail = f"{len(request.vector)} numbers; the vectors of this base have {dimension}"
            raise invalid_field("query_vector", detail)
        return request

    async def answer(self, request: SearchRequest) -> Any:
        checked = self.checked(request)
        work = self._answer(checked)
        outcome = await (self._observe(checked, work) if self._observe else work)
        return outcome if checked.preferences.debug else _with_stats(outcome, _without_measurements)

    async def _answer(self, request: SearchRequest) -> Any:
        prefs, everything = request.preferences, self._visibility.everything
        if request.verb == "why_not":
            name, collection = storable(request.document_id), prefs.collection
            document = await document_called(self, name, collection=collection, is_local=False)
            if document is None:
                raise no_document(request.document_id, collection or DEFAULT_COLLECTION)
            home = document.collection
            request = replace(request, document_id=document.id, document_collection=home)
        # Times are measured always. An error of a strict search would show what `_visible_stats`
        # hides, so that raises it.
        changes = {
            "filters": self._visibility.where(prefs.filters),
            "debug": True,
            "strict": prefs.strict and everything,
        }
        narrowed = prefs.model_copy(update=changes)  # they have been checked
        outcome = await self._base.answer(replace(request, prefs=narrowed))
        if isinstance(outcome, WhyNot):
            reason = outcome.reason.replace(repr(narrowed.filters), repr(prefs.filters))
            outcome = outcome.model_copy(update={"reason": reason})
        if isinstance(outcome, ContextPack):
            notes = tuple(public(note) for note in outcome.trace.notes if self._may_show(note))
            trace = outcome.trace.model_copy(update={"notes": notes})
            outcome = outcome.model_copy(update={"trace": trace})
        return _with_stats(outcome, partial(self._visible_stats, prefs=prefs))

    async def resolve(self, citation: str) -> tuple[CitedPassage | None, bool]:
        """What a citation refers to now, and whether that has changed since it was made."""
        key = CitationKey.parse(citation)
        document = await self.get(key.document_id, collection=key.collection)
        if document is None:
            raise no_document(key.document_id, key.collection)
        try:
            return cited(document, key), False
        except CitationError:
            if not key.check:
                raise
        with suppress(CitationError):
            return cited(document, key._replace(check="")), True
        return None, True

    async def iter_documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> AsyncIterator[Document]:
        where = self._visibility.where(parse_filter(filters))
        async for document in self._base.iter_documents(filters=where, collection=collection):
            yield document

    async def outline(self, document_id: str, *, collection: str) -> Document | None:
        """A document without its text, None if the caller sees no such document."""
        named = Eq("document_id", storable(document_id))
        documents = await self.documents(filters=named, collection=storable(collection))
        return documents[0] if documents else None

    async def get(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> Document | None:
        """A document with its text, None if the caller sees no such document."""
        if await self.outline(document_id, collection=collection) is None:
            return None
        latest = await self._base.get(document_id, collection=collection)
        # it may have been replaced in between
        return latest if latest is not None and matches(self._visibility.where(), latest) else None

    async def chunks(self, document_id: str, *, collection: str) -> list[Chunk] | None:
        """The chunks of a document, None if the caller sees no such document."""
        name = storable(collection), storable(document_id)
        if chunks := await self._base.store.chunks(*name, where=self._visibility.where()):
            return chunks
        return None if await self.outline(document_id, collection=collection) is None else []

    async def collections(self) -> dict[str, int]:
        if self._visibility.everything:
            return await self._base.collections()
        return dict(Counter([item.collection async for item in self.iter_documents()]))

    async def fields(self, *, collection: str | None = None) -> dict[str, Any]:
        """The fields of the documents that the caller sees, with their values."""
        counts = FieldCounts()
        async for document in self.iter_documents(collection=collection):
            if counts.documents == COUNTED:
                return counts.answer(complete=False)
            counts.add(document)
        return counts.answer(complete=True)

    async def info(self) -> StoreInfo:
        if not self._visibility.everything:
            raise Problem("Forbidden", "this key sees a part of the base; use /v1/collections")
        return await self._base.info()

    async def remove(
        self, *document_ids: str, collection: str | None = None, filters: FilterLike = None
    ) -> list[str]:
        self._access.check("write")
        nothing = not document_ids and filters is None
        narrowed = None if nothing else self._visibility.where(parse_filter(filters))
        return await self._base.remove(*document_ids, filters=narrowed, collection=collection)

    async def add_documents(
        self,
        documents: Sequence[Document],
        *,
        replace: bool = True,
        progress: OnProgress | None = None,
        lease: Lease | None = None,
    ) -> AddReport:
        """Add documents that the caller would see; others are refused before any is added.

        A document that the caller does not see when they are written is not replaced, and without
        `replace` none is. They are written only under the `lease`, if there is one.
        """
        self._access.check("write")
        await self.check_writable(documents)
        guard = WriteGuard(self._visibility.where() if replace else Or(), lease)
        return await self._base.add_guarded(documents, guard, progress=progress)

    async def check_writable(self, documents: Sequence[Document]) -> None:
        """Raise a problem if the caller would not see a document, or replace what it can't see."""
        where = self._visibility.where()
        for document in () if self._visibility.everything else documents:
            if not matches(where, document):
                hidden = f"the document {document.id!r} would not be visible to this key"
                raise Problem("Forbidden", f"{hidden}: check its collection and metadata")
            named = And(Eq("collection", document.collection), Eq("document_id", document.id))
            async for stored in self._base.iter_documents(filters=named):
                if not matches(where, stored):
                    raise Problem("Forbidden", f"the id {document.id!r} can't be used by this key")

    def _visible_stats(self, stats: RetrievalStats, *, prefs: RetrievalPrefs) -> RetrievalStats:
        """The statistics that the caller may see; the log has the errors in them.

        `params` are those of the request, without the filter of the key.
        """
        errors = [note for note in stats.degraded if public(note) != note]
        if errors:
            LOGGER.warning(json.dumps({"request_id": stats.trace_id, "degraded": errors}))
        degraded = tuple(public(note) for note in stats.degraded if self._may_show(note))
        if prefs.strict and degraded and not self._visibility.everything:
            raise strict_error(degraded[0])
        changes: dict[str, Any] = {"degraded": degraded}
        if not self._visibility.everything:
            changes["synonyms"] = {}  # they may be of a collection that the caller does not see
        if stats.params:
            changes["params"] = prefs.model_dump(mode="json")
        return stats.model_copy(update=changes)

    def _may_show(self, note: str) -> bool:
        return self._visibility.everything or not note.startswith(OF_ALL_DOCUMENTS)


def stats_of(answer: Any) -> RetrievalStats:
    """The statistics of a search, wherever its answer has them."""
    if isinstance(answer, ContextPack):
        answer = answer.trace
    return cast("RetrievalStats", (answer.results if isinstance(answer, WhyNot) else answer).stats)


def _with_stats(answer: Any, change: Callable[[RetrievalStats], RetrievalStats]) -> Any:
    if isinstance(answer, Results):
        return Results(answer, candidates=answer.candidates, stats=change(answer.stats))
    if isinstance(answer, WhyNot):
        return answer.model_copy(update={"results": _with_stats(answer.results, change)})
    if isinstance(answer, ContextPack):
        return answer.model_copy(update={"trace": _with_stats(answer.trace, change)})
    return answer.model_copy(update={"stats": change(answer.stats)})


def _without_measurements(stats: RetrievalStats) -> RetrievalStats:
    """Times, counts and parameters are measured always, and shown if `debug` asks for them."""
    shown = ("degraded", "corrections", "synonyms", "candidates", "fusion")
    return RetrievalStats(**{name: getattr(stats, name) for name in shown})


def public(note: str) -> str:
    """A note without the message of the error behind it, which may name files and servers."""
    message, bracket, _ = note.partition(" (")
    return message if bracket and note.endswith(")") else note


def check_filter(filters: object, settings: ServerSettings) -> None:
    """Raise a problem for the JSON form of a filter with more conditions than requests may have.

    Before it is parsed, which takes a second for 40,000.
    """
    most = settings.max_conditions
    if sum(1 for _ in islice(_conditions(filters), most + 1)) > most:
        detail = f"more than {most} conditions, the most here; use $in for values"
        raise invalid_field("filters", detail)


def _conditions(filters: object) -> Iterator[object]:
    parts = [filters]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts.extend(part)
        for key, value in part.items() if isinstance(part, Mapping) else ():
            if key in (And.operator, Or.operator, Not.operator):
                parts.append(value)
            else:
                yield from value if isinstance(value, Mapping) else [key]


def check_reranker(name: str, settings: ServerSettings) -> None:
    """Raise a problem unless requests may name this reranker: others open files and connections."""
    if name not in settings.rerankers:
        names = ", ".join(settings.rerankers)
        refused = f"the reranker {name!r} is not allowed on this server, which has {names}"
        raise Problem("Forbidden", f"{refused}; `lagotto serve --allow-reranker` adds others")
