"""A base as one caller sees it. Endpoints have no other way to documents."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from lagotto.base.ingest import AddReport, OnProgress
from lagotto.base.knowledge_base import AsyncKnowledgeBase, home_of
from lagotto.context import CitedPassage, ContextPack
from lagotto.context.cite import CitationKey, cited
from lagotto.documents import Chunk, Document, Vector, storable
from lagotto.errors import CitationError
from lagotto.filters import And, Eq, Filter, Gt, Or, conditions, matches, parse_filter
from lagotto.filters.fields import field_name
from lagotto.prefs import RetrievalPrefs, Verb
from lagotto.request_context import RequestContext
from lagotto.results import Results, RetrievalBundle, RetrievalStats
from lagotto.retrieval.explain import strict_error
from lagotto.retrieval.why_not import WhyNot
from lagotto.server.access import Access
from lagotto.server.metrics import LOGGER
from lagotto.server.problems import FieldProblem, Problem
from lagotto.server.request_body import ContextBody, SearchBody
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
        """Count the values of one document, each value of a list once."""
        self.documents += 1
        found = {(name, _kind(value), value) for name, value in _leaves(document)}
        for name, kind, value in found:
            self._values[name][kind, value] += 1
        self._having.update({name for name, _, _ in found})

    def answer(self, *, complete: bool) -> dict[str, Any]:
        """The fields, those of the most documents first, with their most frequent values."""
        ordered = sorted(self._having, key=lambda name: (-self._having[name], name))
        return {
            "fields": [self._field(name) for name in ordered[:MOST_FIELDS]],
            "fields_total": len(ordered),
            "counted": self.documents,
            "complete": complete,
        }

    def _field(self, name: str) -> dict[str, Any]:
        values = self._values[name]
        best = sorted(values.items(), key=lambda item: (-item[1], item[0][0], item[0][1]))
        return {
            "name": name,
            "documents": self._having[name],
            "values": [
                {"value": value, "documents": count} for (_, value), count in best[:MOST_VALUES]
            ],
            "values_total": len(values),
        }


def _kind(value: Value) -> str:
    """Tells `True` from 1, which are equal in Python and not in a filter."""
    return "text" if isinstance(value, str) else "bool" if isinstance(value, bool) else "number"


def _leaves(document: Document) -> Iterator[tuple[str, Value]]:
    for name in OWN:
        if value := getattr(document, name):
            yield name, value
    yield from _inside(document.metadata, ())


def _inside(found: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    for key, value in found.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _inside(value, here)
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str | int | float) and len(str(item)) <= LONGEST_VALUE:
                yield field_name(here), item


T = TypeVar("T")

OF_ALL_DOCUMENTS = ("filter:", "text: no document is indexed as")
"""How notes begin that name fields or languages of documents which a caller may not see."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A search: the settings that the caller asked for, and the query's vector, if it sent one.

    These settings are shown to the caller; what runs is narrowed by its sight.
    """

    prefs: RetrievalPrefs
    vector: Vector | None = None


class ScopedBase:
    """The verbs of a base for one caller."""

    def __init__(
        self, base: AsyncKnowledgeBase, access: Access, *, settings: ServerSettings
    ) -> None:
        self._base = base
        self._sight = access.sight
        self._settings = settings

    def plan(self, verb: Verb, body: SearchBody) -> Planned:
        """What a request asks for, checked against the limits of the server."""
        settings = body.settings()
        top_k = settings.pop("top_k", None)
        asked = self._base._asked(
            verb,
            body.prefs,
            settings,
            query_text=body.query,
            filters=body.filters,
            **{"top_k_chunks" if verb == "search" else "top_k": top_k},
        )
        self._check(asked)
        return Planned(asked, self._vector(body))

    async def retrieve(self, planned: Planned, ctx: RequestContext) -> Results:
        """The ranked list."""
        found = await self._base.retrieve(**self._arguments(planned), request=ctx)
        return self._shown_list(found, planned.prefs)

    async def search(self, planned: Planned, ctx: RequestContext) -> RetrievalBundle:
        """The bundle of documents and evidence."""
        found = await self._base.search(**self._arguments(planned), request=ctx)
        return found.model_copy(update={"stats": self._shown(found.stats, planned.prefs)})

    async def context(
        self, planned: Planned, body: ContextBody, ctx: RequestContext
    ) -> ContextPack:
        """The cited pack."""
        pack = await self._base.context(
            **self._arguments(planned),
            max_tokens=body.max_tokens,
            format=body.format,
            request=ctx,
        )
        notes = tuple(public(note) for note in pack.trace.notes if self._may_show(note))
        stats = self._shown(pack.trace.stats, planned.prefs)
        trace = pack.trace.model_copy(update={"notes": notes, "stats": stats})
        return pack.model_copy(update={"trace": trace})

    async def why_not(self, planned: Planned, document_id: str, ctx: RequestContext) -> WhyNot:
        """Why a document is not among the hits, or at which rank it is."""
        where, asked = Eq("document_id", storable(document_id)), planned.prefs.collection
        seen = [item.collection for item in await self.documents(filters=where, collection=asked)]
        collection = asked or home_of(seen)
        if collection not in seen:
            raise _no_document(document_id, collection)
        narrowed = self._narrowed(planned.prefs)
        found = await self._base._why_not(
            narrowed,
            (collection, storable(document_id)),
            query_vector=planned.vector,
            request=ctx,
        )
        hidden, shown = repr(narrowed.filters), repr(planned.prefs.filters)
        return found.model_copy(
            update={
                "reason": found.reason.replace(hidden, shown),
                "results": self._shown_list(found.results, planned.prefs),
            }
        )

    async def resolve(self, citation: str) -> tuple[CitedPassage | None, bool]:
        """What a citation refers to now, and whether that has changed since it was made."""
        key = CitationKey.parse(citation)
        document = await self.get(key.document_id, collection=key.collection)
        if document is None:
            raise _no_document(key.document_id, key.collection)
        try:
            return cited(document, key), False
        except CitationError:
            if not key.check:
                raise
        try:
            return cited(document, key._replace(check="")), True
        except CitationError:
            return None, True

    async def documents(
        self,
        *,
        filters: Filter | None = None,
        collection: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Document]:
        """Documents without their texts, by collection and id, those after a name."""
        wanted = And(parse_filter(filters), _later(after)) if after else parse_filter(filters)
        found: list[Document] = []
        async for document in self._base.iter_documents(
            filters=self._sight.where(wanted), collection=collection
        ):
            found.append(document)
            if len(found) == limit:
                break
        return found

    async def outline(self, document_id: str, *, collection: str) -> Document | None:
        """A document without its text, None if the caller sees no such document."""
        named = Eq("document_id", storable(document_id))
        found = await self.documents(filters=named, collection=storable(collection), limit=1)
        return found[0] if found else None

    async def get(self, document_id: str, *, collection: str) -> Document | None:
        """A document with its text, None if the caller sees no such document."""
        if await self.outline(document_id, collection=collection) is None:
            return None
        found = await self._base.get(document_id, collection=collection)
        # it may have been replaced in between
        return found if found is not None and matches(self._sight.where(), found) else None

    async def chunks(self, document_id: str, *, collection: str) -> list[Chunk] | None:
        """The chunks of a document, None if the caller sees no such document."""
        seen = self._sight.where()
        if found := await self._base._chunks(document_id, collection, seen):
            return found
        return None if await self.outline(document_id, collection=collection) is None else []

    async def collections(self) -> dict[str, int]:
        """Collections with the number of documents that the caller sees."""
        if self._sight.everything:
            return (await self._base.info()).collections
        return dict(Counter(item.collection for item in await self.documents()))

    async def fields(self, *, collection: str | None = None) -> dict[str, Any]:
        """The fields of the documents that the caller sees, with their values."""
        counts = FieldCounts()
        found = self._base.iter_documents(filters=self._sight.where(), collection=collection)
        async for document in found:
            if counts.documents == COUNTED:
                return counts.answer(complete=False)
            counts.add(document)
        return counts.answer(complete=True)

    def default_settings(self) -> dict[str, Any]:
        """The settings of a search that sets none."""
        asked = self._base._asked("retrieve", None, {}, query_text="")
        return asked.model_dump(mode="json", exclude={"query_text"})

    async def info(self) -> StoreInfo:
        """The state of the whole base, for callers that see all of it."""
        if not self._sight.everything:
            raise Problem("Forbidden", "this key sees a part of the base; use /v1/collections")
        return await self._base.info()

    async def remove(
        self, *ids: str, filters: Filter | None = None, collection: str | None = None
    ) -> list[str]:
        """Remove documents that the caller sees; their ids."""
        narrowed = None if not ids and filters is None else self._sight.where(filters)
        return await self._base.remove(*ids, filters=narrowed, collection=collection)

    async def add(
        self,
        documents: Sequence[Document],
        *,
        replace: bool = True,
        lease: Lease | None = None,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add documents that the caller would see; others are refused before any is added.

        A document that the caller does not see when they are written is not replaced, and without
        `replace` none is. They are written only under the `lease`, if there is one.
        """
        for document in documents:
            await self.check_writable(document)
        guard = WriteGuard(self._sight.where() if replace else Or(), lease)
        return await self._base._add_guarded(documents, guard, progress=progress)

    async def check_writable(self, document: Document) -> None:
        """Raise a problem if the caller would not see a document, or replace what it can't see."""
        if self._sight.everything:
            return
        if not matches(self._sight.where(), document):
            raise Problem(
                "Forbidden",
                f"the document {document.id!r} would not be visible to this key: check its "
                "collection and metadata",
            )
        named = And(Eq("collection", document.collection), Eq("document_id", document.id))
        async for stored in self._base.iter_documents(filters=named):
            if not matches(self._sight.where(), stored):
                raise Problem("Forbidden", f"the id {document.id!r} can't be used by this key")

    def _arguments(self, planned: Planned) -> dict[str, Any]:
        narrowed = self._narrowed(planned.prefs)
        return {
            "query": narrowed.query_text,
            "prefs": narrowed,
            "query_vector": planned.vector,
        }

    def _narrowed(self, prefs: RetrievalPrefs) -> RetrievalPrefs:
        """What runs: within the caller's sight, and with its times measured.

        An error of a strict search would show what `_shown` hides, so that raises it.
        """
        strict = prefs.strict and self._sight.everything
        return prefs.replace(filters=self._sight.where(prefs.filters), debug=True, strict=strict)

    def _vector(self, body: SearchBody) -> Vector | None:
        if body.query_vector is None:
            return None
        dimension = self._base.embedder.info.dimension
        if len(body.query_vector) != dimension:
            detail = f"{len(body.query_vector)} numbers; the vectors of this base have {dimension}"
            raise _invalid("query_vector", detail)
        with np.errstate(over="ignore"):  # the search refuses what is not finite
            return np.array(body.query_vector, np.float32)

    def _check(self, prefs: RetrievalPrefs) -> None:
        limits = self._settings
        counts = {
            "top_k": prefs.top_k,
            "top_k_items": prefs.top_k_items,
            "top_k_chunks": prefs.top_k_chunks,
            "candidates": prefs.candidates if isinstance(prefs.candidates, int) else 0,
            "rerank/candidates": _judged(prefs),
        }
        for name, count in counts.items():
            if count > limits.max_top_k:
                raise _invalid(name, f"{count} is more than {limits.max_top_k}, the most here")
        if len(prefs.query_text) > limits.max_query:
            raise _invalid("query", f"longer than {limits.max_query} characters, the most here")
        check_filter(prefs.filters, limits)
        named = prefs.rerank.reranker
        if named is not None and prefs.rerank.enabled:
            check_reranker(named, limits)

    def _shown_list(self, found: Results, prefs: RetrievalPrefs) -> Results:
        stats = self._shown(found.stats, prefs)
        return Results(found, candidates=found.candidates, stats=stats)

    def _shown(self, stats: RetrievalStats, prefs: RetrievalPrefs) -> RetrievalStats:
        """The statistics that the caller may see; the log has the errors in them.

        `params` are those that were asked for, without the filter of the key.
        """
        errors = [note for note in stats.degraded if public(note) != note]
        if errors:
            LOGGER.warning(json.dumps({"request_id": stats.trace_id, "degraded": errors}))
        degraded = tuple(public(note) for note in stats.degraded if self._may_show(note))
        if prefs.strict and degraded:
            raise strict_error(degraded[0])
        changes: dict[str, Any] = {"degraded": degraded}
        if stats.params:
            changes["params"] = prefs.model_dump(mode="json")
        return stats.model_copy(update=changes)

    def _may_show(self, note: str) -> bool:
        return self._sight.everything or not note.startswith(OF_ALL_DOCUMENTS)


def public(note: str) -> str:
    """A note without the message of the error behind it, which may name files and servers."""
    said, bracket, _ = note.partition(" (")
    return said if bracket and note.endswith(")") else note


def check_filter(where: Filter, settings: ServerSettings) -> None:
    """Raise a problem for a filter of more conditions than requests may have."""
    most = settings.max_conditions
    if sum(1 for _ in islice(conditions(where), most + 1)) > most:
        raise _invalid("filters", f"more than {most} conditions, the most here; use $in for values")


def check_reranker(name: str, settings: ServerSettings) -> None:
    """Raise a problem unless requests may name this reranker: others open files and connections."""
    if name not in settings.rerankers:
        raise Problem(
            "Forbidden",
            f"the reranker {name!r} is not allowed on this server, which has "
            f"{', '.join(settings.rerankers)}; `lagotto serve --allow-reranker` adds others",
        )


def _judged(prefs: RetrievalPrefs) -> int:
    """How many passages a reranker is asked to see, as far as the request says so."""
    given = prefs.rerank.candidates
    return prefs.depth(prefs.top_k) if given == "all" else given or 0


def _invalid(name: str, detail: str) -> Problem:
    field = FieldProblem(pointer=f"/{name}", detail=detail)
    return Problem("InvalidRequest", f"/{name}: {detail}", fields=[field])


def _no_document(document_id: str, collection: str) -> Problem:
    return Problem("NotFound", f"there is no document {document_id!r} in {collection!r}")


def _later(name: tuple[str, str]) -> Filter:
    collection, document_id = name
    same = And(Eq("collection", collection), Gt("document_id", document_id))
    return Or(Gt("collection", collection), same)
