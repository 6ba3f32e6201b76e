"""The knowledge base: a store, an embedder and a chunker put together. Assembly only."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from lagotto.base_parts import (
    BaseParts,
    Choice,
    check_choice,
    create_parts,
    create_parts_to_rebuild,
)
from lagotto.chunkers import CHUNKERS
from lagotto.context import (
    Citation,
    CitedPassage,
    ContextPack,
    PackFormat,
    TokenCounter,
    build_pack,
    resolve,
    token_counter,
)
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, Vector
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import Pooling
from lagotto.errors import ConfigError, LagottoError, RebuiltError, StoreError
from lagotto.filters import And, Eq, Filter, In, parse_filter
from lagotto.ingest import AddReport, Ingest, OnProgress
from lagotto.prefs import Mode, RetrievalPrefs, Verb
from lagotto.readers import Columns, Loading, ReadOptions, load
from lagotto.rebuild import OnProgress as OnRebuildProgress
from lagotto.rebuild import RebuildProgress, rebuild_base
from lagotto.request_context import RequestContext
from lagotto.rerankers import Reranker
from lagotto.results import Results, RetrievalBundle
from lagotto.retrieval.base import Retriever
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.retrieval.why_not import WhyNot
from lagotto.stores.base import BaseConfig, Store, StoreInfo
from lagotto.stores.pinned import PinnedStore
from lagotto.stores.registry import create_store
from lagotto.tokens import Tokenizer

FilterLike = Filter | Mapping[str, object] | str | None


P = ParamSpec("P")
T = TypeVar("T")


def follows_rebuilds(
    method: Callable[Concatenate[AsyncKnowledgeBase, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncKnowledgeBase, P], Coroutine[Any, Any, T]]:
    """A verb that starts again, with other parts, if the base was rebuilt since it was opened."""

    @wraps(method)
    async def call(self: AsyncKnowledgeBase, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except RebuiltError:
            self._settled = False
            return await method(self, *args, **kwargs)

    return call


class AsyncKnowledgeBase:
    """Documents that can be searched.

    `location` is a file, `:memory:`, or a Store. Everything that is stored stays, whatever
    happens; documents are told apart by collection and id. `prefs` are how the base searches
    unless a call says otherwise: RetrievalPrefs, or the name of a preset.
    """

    def __init__(
        self,
        location: str | Path | Store = "lagotto.db",
        *,
        embedder: str | Embedder | None = None,
        chunker: str | None = None,
        pooling: Pooling | None = None,
        reranker: str | Reranker | None = None,
        expander: Expander | None = None,
        prefs: RetrievalPrefs | str | None = None,
        text_index: str | None = None,
    ) -> None:
        if chunker is not None:
            CHUNKERS.get(chunker.partition(":")[0])
        self._store = create_store(location, text_index=text_index)
        self._choice = Choice(embedder=embedder, chunker=chunker, pooling=pooling)
        self._reranker = reranker
        self._expander = expander
        self._prefs = _preferences(prefs)
        self._assembled: Assembled | None = None
        self._former: list[Assembled] = []
        self._settled = False
        """Whether the base has documents, whose embedder and chunker are those assembled."""

    async def open(self) -> Self:
        """Open the base, creating it if there is none.

        A base that can't be searched with the embedder or chunker asked for, or whose own embedder
        can't be created, can still be listed, shown and removed from; adding and searching raise.
        """
        await self._store.open()
        try:
            if (await self._store.config()).model_id is None:
                await self._ready()
        except BaseException:
            await self._store.close()
            raise
        return self

    async def close(self) -> None:
        """Close the base; may be called twice."""
        assembled, self._assembled, self._settled = self._assembled, None, False
        for each in (*self._former, *([assembled] if assembled else [])):
            await each.retriever.close()
            if each.parts.spec is not None:
                await each.parts.embedder.close()
        self._former.clear()
        await self._store.close()
        if isinstance(self._choice.embedder, Embedder):
            await self._choice.embedder.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @follows_rebuilds
    async def add(
        self,
        *sources: str | Path | Document,
        collection: str = DEFAULT_COLLECTION,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        language: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        columns: Columns | None = None,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add files, folders and Documents; what is unchanged is skipped, what changed replaced.

        Files that can't be read are listed in the report. A Document keeps its own collection.
        """
        options = _options(collection, language, metadata, columns)
        ingest = await self._ingest(progress)
        documents, loading = _results(sources, include, exclude, options)
        return await ingest.run(chain(documents, loading), interrupt=loading.interrupt)

    @follows_rebuilds
    async def sync(
        self,
        *folders: str | Path,
        collection: str = DEFAULT_COLLECTION,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        language: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        columns: Columns | None = None,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add folders, and remove what came from them and is there no more.

        A document stays if its file, or a folder above it, can't be read just now. So nothing is
        removed if one of `folders` is missing or empty: it may be a disk that is not there.
        """
        options = _options(collection, language, metadata, columns)
        ingest = await self._ingest(progress)
        documents, loading = _results(folders, include, exclude, options)
        report = await ingest.run(chain(documents, loading), interrupt=loading.interrupt)
        roots, failed = _resolved(folders), _resolved(item.source for item in report.failures)
        gone = [
            document.id
            for document in await self.documents(filters=Eq("collection", collection))
            if _lies_in(document.source, roots)
            and (collection, document.id) not in ingest.seen
            and not _lies_in(document.source, failed)
        ]
        removed = await self.remove(*gone, collection=collection) if gone else []
        return report.model_copy(update={"removed": len(removed)})

    async def remove(
        self,
        *document_ids: str,
        collection: str | None = None,
        filters: FilterLike = None,
    ) -> list[str]:
        """Remove documents by id, by filter, or both; the ids that went.

        `collection` only narrows down what ids and `filters` name, so that an empty list of ids
        never removes a whole collection: that takes `filters={}`.
        """
        if not document_ids and filters is None:
            inside = f" in {collection!r}" if collection is not None else ""
            raise ConfigError(
                "no ids and no filter are given, so nothing was removed; pass ids, or filters={} "
                f"to remove every document{inside}"
            )
        conditions: list[Filter] = [_within(collection, filters)]
        if document_ids:
            conditions.append(In("document_id", document_ids))
        return await self._store.delete(And(*conditions))

    async def documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> list[Document]:
        """The documents that match, in order of collection and id, without their texts."""
        wanted = _within(collection, filters)
        return [document async for document in self._store.documents(wanted)]

    async def get(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> Document | None:
        """A document with its text, None if there is none of that id."""
        return await self._store.get(collection, document_id)

    async def chunks(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> list[Chunk]:
        """The chunks of a document in order, parents first; none if there is no such document."""
        return await self._store.chunks(collection, document_id)

    @follows_rebuilds
    async def retrieve(
        self,
        /,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> Results:
        """The passages that answer `query` best, ranked; none for a query without any text.

        `prefs`, or a preset's name, say how to search, by default those of the base; the other
        arguments, and any setting of RetrievalPrefs by its name, override them. `degraded` of the
        result names what could not be used.
        """
        asked = self._asked(
            "retrieve",
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        retriever = (await self._ready()).retriever
        return await retriever.retrieve(asked, query_vector=query_vector, ctx=request)

    @follows_rebuilds
    async def retrieve_many(
        self,
        /,
        queries: Sequence[str],
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> list[Results]:
        """What `retrieve` gives for each of `queries`, in less time than one by one."""
        first = self._asked(
            "retrieve",
            prefs,
            settings,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        asked = [first.model_copy(update={"query_text": query}) for query in queries]
        retriever = (await self._ready()).retriever
        return await retriever.retrieve_many(asked, ctx=request)

    @follows_rebuilds
    async def search(
        self,
        /,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it.

        The arguments are those of `retrieve`; `top_k` is the number of passages, `top_k_chunks`.
        """
        asked = self._asked(
            "search",
            prefs,
            settings,
            query_text=query,
            top_k_chunks=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        retriever = (await self._ready()).retriever
        return await retriever.search(request or RequestContext(), asked, query_vector=query_vector)

    @follows_rebuilds
    async def context(
        self,
        /,
        query: str,
        *,
        max_tokens: int | None = None,
        format: PackFormat = "plain",  # noqa: A002
        counter: TokenCounter | Tokenizer | str | None = None,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> ContextPack:
        """Cited evidence for a prompt, at most `max_tokens` of it.

        `counter` counts tokens as the model does that will read the pack: a Tokenizer, a
        function, or `tiktoken:ENCODING`; by default the embedder's tokenizer. The other arguments
        are those of `retrieve`.
        """
        asked = self._asked(
            "context",
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        if max_tokens is not None:
            asked = asked.replace(context={"max_tokens": max_tokens})
        ready = await self._ready()
        count = token_counter(counter or ready.parts.embedder.tokenizer)
        material = await ready.retriever.pack_material(
            asked, query_vector=query_vector, ctx=request
        )
        found, diagnostics = material.results, material.diagnostics
        with diagnostics.stage("pack"):
            pack = await build_pack(
                query,
                results=found,
                chunks=material.chunks,
                count=count,
                prefs=asked.context,
                format=format,
                candidates=found.candidates,
                notes=found.degraded,
            )
        return pack.with_stats(diagnostics.stats(asked, found.stats.counts))

    async def resolve(self, citation: Citation | str) -> CitedPassage:
        """The exact text that a citation, or its key, stands for, and its location."""
        return await resolve(citation, document_of=self._store.get)

    @follows_rebuilds
    async def why_not(
        self,
        /,
        query: str,
        document_id: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> WhyNot:
        """Why a document is not among the results of `retrieve`, in numbers.

        The arguments are those of `retrieve`, which is run once: `results` of the answer are what
        it gives. The document is looked up in `collection`, or in the default one.
        """
        asked = self._asked(
            "retrieve",
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        retriever = (await self._ready()).retriever
        return await retriever.why_not(
            asked,
            collection=asked.collection or DEFAULT_COLLECTION,
            document_id=document_id,
            query_vector=query_vector,
            ctx=request,
        )

    @property
    def retriever(self) -> Retriever:
        """The protocol of bundles: `await base.retriever.search(ctx, prefs)`."""
        return KnowledgeBaseRetriever(self)

    @follows_rebuilds
    async def _search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        return await (await self._ready()).retriever.search(ctx, prefs)

    async def rebuild(
        self,
        *,
        embedder: str | Embedder | None = None,
        chunker: str | None = None,
        pooling: Pooling | None = None,
        text_index: str | None = None,
        progress: OnRebuildProgress | None = None,
    ) -> RebuildProgress:
        """Rebuild chunks, vectors and indexes from the stored documents; what is left out stays.

        Searches, here and in other processes, see the former state until the new one is complete,
        and documents may be added meanwhile. An interrupted rebuild goes on when it is called again
        with the same choice. With nothing chosen, only the indexes are built anew.
        """
        current = None
        with suppress(LagottoError):
            current = (await self._ready()).parts
        stored = await self._store.config()
        parts = create_parts_to_rebuild(
            Choice(embedder=embedder, chunker=chunker, pooling=pooling),
            stored,
            current,
            location=self._store.location,
        )
        try:
            done = await rebuild_base(self._store, parts, text_index=text_index, progress=progress)
        finally:
            if parts.spec is not None:
                await parts.embedder.close()
        self._choice = Choice(embedder=None if parts.spec else parts.embedder)
        self._settled = False
        return done

    @property
    def embedder(self) -> Embedder:
        """The embedder of the base, once it is open."""
        if self._assembled is None:
            raise StoreError(
                "the embedder of a base is known once it is open, and only if it can be created; "
                "open the base first"
            )
        return self._assembled.parts.embedder

    async def info(self) -> StoreInfo:
        """How much is in the base, and what it was made with."""
        return await self._store.info()

    def _asked(
        self,
        verb: Verb,
        prefs: RetrievalPrefs | str | None,
        settings: Mapping[str, Any],
        **given: Any,
    ) -> RetrievalPrefs:
        """The preferences of one call: those of the base, or `prefs`, with what was given."""
        changes = {name: value for name, value in given.items() if value is not None}
        if twice := sorted(changes.keys() & settings.keys()):
            raise ConfigError(f"{', '.join(twice)}: given twice in one call; give it once")
        if isinstance(filters := changes.get("filters"), str | Mapping):
            changes["filters"] = parse_filter(filters)
        start = self._prefs if prefs is None else _preferences(prefs)
        asked = start.replace(**changes, **settings)
        asked.check_call(verb, settings)
        return asked

    async def _ingest(self, progress: OnProgress | None) -> Ingest:
        ready = await self._ready()
        parts = ready.parts
        return Ingest(
            store=self._store,
            chunker=parts.chunker,
            vectors=parts.vectors,
            embedder=parts.spec,
            generation=ready.generation,
            on_progress=progress,
        )

    async def _ready(self) -> Assembled:
        """The embedder, the chunker and the retriever of the base, as it is made now.

        Raises if the base was made with others than those asked for.
        """
        if self._assembled is not None and self._settled:
            return self._assembled
        stored = await self._store.config()
        if self._assembled is None or not self._assembled.fits(stored):
            if self._assembled is not None:
                self._former.append(self._assembled)  # searches with it may be running
                self._assembled = None
            self._assembled = self._assemble(stored)
        self._settled = stored.model_id is not None
        return self._assembled

    def _assemble(self, stored: BaseConfig) -> Assembled:
        parts = create_parts(self._choice, stored, location=self._store.location)
        check_choice(parts, stored, location=self._store.location)
        retriever = HybridRetriever(
            store=PinnedStore(self._store, generation=stored.generation),
            embedder=parts.embedder,
            reranker=self._reranker,
            expander=self._expander,
            chunk_vectors=parts.vectors,
            chunker=parts.chunker.id,
        )
        return Assembled(parts, retriever, stored.generation)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseRetriever:
    """A Retriever that searches a base; preferences are taken as they are given."""

    base: AsyncKnowledgeBase

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        return await self.base._search(ctx, prefs)


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts of an open base, and what searches with them."""

    parts: BaseParts
    retriever: HybridRetriever
    generation: int

    def fits(self, stored: BaseConfig) -> bool:
        """Whether the base is still made with these parts."""
        made = self.parts.config
        return (
            stored.generation == self.generation
            and stored.model_id in (None, made.model_id)
            and stored.chunker_id in (None, made.chunker_id)
        )


def _preferences(given: RetrievalPrefs | str | None) -> RetrievalPrefs:
    return RetrievalPrefs.preset(given) if isinstance(given, str) else given or RetrievalPrefs()


def _options(
    collection: str,
    language: str | None,
    metadata: Mapping[str, Any] | None,
    columns: Columns | None,
) -> ReadOptions:
    if not collection:
        raise ConfigError("a collection needs a name; leave it out for the default one")
    return ReadOptions(
        collection=collection,
        language=language,
        metadata=dict(metadata or {}),
        columns=columns or Columns(),
    )


def _results(
    sources: Sequence[str | Path | Document],
    include: Sequence[str],
    exclude: Sequence[str],
    options: ReadOptions,
) -> tuple[list[Document], Loading]:
    paths = [source for source in sources if not isinstance(source, Document)]
    documents = [source for source in sources if isinstance(source, Document)]
    return documents, load(paths, include=include, exclude=exclude, options=options)


def _within(collection: str | None, filters: FilterLike) -> Filter:
    wanted = parse_filter(filters)
    if collection is None:
        return wanted
    inside = Eq("collection", collection)
    return inside if wanted == And() else And(inside, wanted)


def _resolved(paths: Iterable[str | Path]) -> set[Path]:
    return {Path(path).expanduser().resolve() for path in paths}


def _lies_in(source: str, roots: set[Path]) -> bool:
    path = Path(source)
    return bool(source) and not roots.isdisjoint((path, *path.parents))
