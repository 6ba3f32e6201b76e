"""The knowledge base: assembles a store, an embedder, a chunker and a retriever; its verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from lagotto._internal.concurrency import LoopGuard, in_thread
from lagotto._internal.locations import is_missing_file
from lagotto.base.parts import BaseParts, Choice, check_choice, create_parts
from lagotto.base.protocol import AsyncBase, FilterLike, ReadResults, document_called
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, DocumentRef, storable
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import Pooling
from lagotto.errors import ConfigError, LagottoError, RebuiltError, StoreError
from lagotto.filters import And, Eq, Filter, In, Or, parse_filter
from lagotto.prefs import RetrievalPrefs, SearchRequest, preferences
from lagotto.request_context import cancel_scope
from lagotto.rerankers import Reranker
from lagotto.results import Results, RetrievalResult
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.retriever import HybridRetriever, as_bundle, as_list
from lagotto.stores.base import (
    SYNONYMS,
    BaseConfig,
    Store,
    StoreInfo,
    WriteGuard,
    check_complete,
    synonyms_of,
)
from lagotto.stores.registry import create_store
from lagotto.terms.synonyms import Synonyms, parse_synonyms

if TYPE_CHECKING:
    from lagotto.base.ingest import AddReport, Ingest, OnProgress
    from lagotto.base.judgements import RelevanceJudgement
    from lagotto.base.rebuild import OnProgress as OnRebuildProgress
    from lagotto.base.rebuild import RebuildProgress
    from lagotto.context import Citation, CitedPassage
    from lagotto.readers import Columns, Loading, Ocr


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts of an open base, and what searches with them."""

    parts: BaseParts
    retriever: HybridRetriever
    generation: int


def retry_after_rebuild(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A verb that starts again, with other parts, if the base was rebuilt since it was opened."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except RebuiltError:
            self._settled = False
            return await method(self, *args, **kwargs)

    return call


class AsyncKnowledgeBase(AsyncBase):
    """A searchable collection of documents.

    `location` is a file, `:memory:`, `postgresql://...`, or a Store. Documents are identified by
    collection and id. `prefs`, RetrievalPrefs or the name of a preset, are the default settings of
    searches. `embedder`, `chunker`, `pooling`, `text_index` and `vector_index` are for a new base;
    an existing one has its own, which `rebuild` changes. An index may be behind a network, such as
    `qdrant://host:6333`. A part that is passed wins over what `prefs` name.

    A base belongs to the event loop and the process that opened it. In another loop, or after a
    fork, every call is a StoreError: open a base of its own there.
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
        vector_index: str | None = None,
    ) -> None:
        if chunker is not None:
            from lagotto.chunkers import CHUNKERS

            CHUNKERS.get(chunker.partition(":")[0])
        self._guard = LoopGuard()
        self._record = create_store(location, text_index=text_index, vector_index=vector_index)
        self._choice = Choice(embedder=embedder, chunker=chunker, pooling=pooling)
        self._reranker = reranker
        self._expander = expander
        self.prefs = preferences(prefs)
        """The settings of searches that set none."""
        if reranker is not None:
            self.prefs = self.prefs.replace(rerank={"reranker": None})
        self._assembled: Assembled | None = None
        self._former: list[Assembled] = []
        self._settled = False
        """Whether the base has documents made with the assembled embedder and chunker."""

    async def open(self) -> Self:
        """Open the base, and create it if it does not exist.

        If the base was made with another embedder or chunker than requested, or its embedder can't
        be created, documents can still be listed, read and removed; adding and searching raise.
        """
        self._guard.bind()
        try:
            if is_missing_file(self._record.location):
                self._assembled = self._assemble(BaseConfig())  # or an empty base would be left
            await self.store.open()
            stored = await self.store.config()
            check_complete(stored, location=self._record.location)
            if stored.model_id is None:
                await self._ready()
        except BaseException:
            await self.store.close()
            self._assembled = None
            self._guard.release()
            raise
        return self

    async def close(self) -> None:
        """Close the base; closing it again has no effect.

        In a forked process it returns at once: open files and connections belong to the parent.
        """
        if not self._guard.release():
            return
        assembled, self._assembled, self._settled = self._assembled, None, False
        for each in (*self._former, *([assembled] if assembled else [])):
            await each.retriever.close()
            if each.parts.spec is not None:
                await each.parts.embedder.close()
        self._former.clear()
        await self.store.close()
        if isinstance(self._choice.embedder, Embedder):
            await self._choice.embedder.close()

    @retry_after_rebuild
    async def answer(self, request: SearchRequest) -> Any:
        request = request.resolve(self.prefs)
        ready = await self._ready()
        if request.verb == "why_not":
            return await ready.retriever.why_not(await self._with_document(request))
        if request.queries:
            outcomes = await ready.retriever.run_many(request.each())
        else:
            outcomes = [await ready.retriever.run(request)]
        async with cancel_scope(request.context):
            if request.verb == "retrieve":
                return await as_list(outcomes[0])
            if request.verb == "search":
                return await as_bundle(outcomes[0])
            from lagotto.context import as_pack, token_counter  # not needed by other verbs

            count = token_counter(request.counter or ready.parts.embedder.tokenizer)
            return await as_pack(*outcomes, count=count)

    @retry_after_rebuild
    async def _answer_each(self, queries: Sequence[str], request: SearchRequest) -> list[Results]:
        request = request.resolve(self.prefs)
        retriever = (await self._ready()).retriever
        outcomes = await retriever.run_many([request.with_query(query) for query in queries])
        async with cancel_scope(request.context):
            return [await as_list(outcome) for outcome in outcomes]

    async def _with_document(self, request: SearchRequest) -> SearchRequest:
        """The request with the id and the collection of its document."""
        name, collection = storable(request.document_id), request.preferences.collection
        if request.document_collection is not None:
            return replace(request, document_id=name)
        document = await document_called(self, name, collection=collection)
        ref = document.ref if document else DocumentRef(collection or DEFAULT_COLLECTION, name)
        return replace(request, document_id=ref.id, document_collection=ref.collection)

    add = retry_after_rebuild(AsyncBase.add)
    import_documents = retry_after_rebuild(AsyncBase.import_documents)

    async def add_documents(
        self,
        documents: Sequence[Document],
        *,
        replace: bool = True,
        progress: OnProgress | None = None,
    ) -> AddReport:
        guard = None if replace else WriteGuard(replaceable=Or())
        return await self.add_guarded(documents, guard, progress=progress)

    @retry_after_rebuild
    async def add_guarded(
        self,
        documents: Sequence[Document],
        guard: WriteGuard | None,
        *,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add Documents, for a writer that may not replace every stored one."""
        from lagotto.base.ingest import paths_and_documents

        ingest = await self._ingest(progress, guard)
        return await ingest.run(paths_and_documents(documents, None)[1])

    async def _add_all(
        self, results: ReadResults, progress: OnProgress | None, loading: Loading | None = None
    ) -> AddReport:
        """Add documents, and files with the metadata given for their paths, now or before."""
        from lagotto.base.sync import PathMetadata

        ingest = await self._ingest(progress)
        if loading is not None:
            files, options = self.store.source_files, loading.options
            path_metadata = await PathMetadata.load(files, loading.paths, options)
            if options.id_from:
                stored = await files.documents(options.collection)
                loading.source_by_id.update((document.id, document.source) for document in stored)
            results = chain(results, path_metadata.applied(loading))
        return await ingest.run(results, loading=loading)

    @retry_after_rebuild
    async def sync(
        self,
        *folders: str | Path,
        collection: str = DEFAULT_COLLECTION,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        everything: bool = False,
        language: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        columns: Columns | None = None,
        id_from: str | None = None,
        ocr: str | Ocr | None = None,
        checksum: bool = False,
        moved: bool = False,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add folders, and remove the documents of files that were deleted from them.

        Files are not read again if their size and modification time are those of the last sync,
        unless `checksum` is set. A document is kept as long as its file exists, even if the file is
        excluded or ignored now, or can't be read; a note in the report counts these. Nothing is
        removed if one of `folders` is missing or empty: it may be a disk that is not mounted.
        `metadata` and `id_from` are as in `add`.

        With `moved`, documents of files that are gone from anywhere are removed too if a file with
        the same content is in `folders` now, and the metadata given for the old path goes with it.
        """
        from lagotto.base.ingest import NAMED, read_options
        from lagotto.base.sync import FolderSync
        from lagotto.readers import load

        options = read_options(collection, language, metadata, columns, id_from)
        ingest = await self._ingest(progress)
        state = FolderSync(self.store, folders, options, checksum=checksum, moved=moved)
        await state.start()
        loading = load(
            folders,
            include=include,
            exclude=exclude,
            everything=everything,
            options=options,
            ocr=ocr,
            needs_reading=state.needs_reading,
        )
        loading.source_by_id.update(state.sources)
        await in_thread(loading.find_files)  # what it finds wrong is a failure in the report
        report = await ingest.run(state.metadata.applied(loading), loading=loading)
        gone, unchanged, notes = await state.finish(
            read=loading.complete, seen=ingest.seen, failures=report.failures
        )
        removed = await self.remove(*gone, collection=collection) if gone else []
        lost = tuple(dict.fromkeys(state.sources[name] for name in removed))[:NAMED]
        return report.model_copy(
            update={
                "removed": len(removed),
                "changed": {**report.changed, **({"removed": lost} if lost else {})},
                "unchanged": report.unchanged + unchanged,
                "skipped": loading.skipped,
                "notes": (*report.notes, *loading.notes, *notes),
            }
        )

    async def remove(
        self, *document_ids: str, collection: str | None = None, filters: FilterLike = None
    ) -> list[str]:
        if not document_ids and filters is None:
            inside = f" in {collection!r}" if collection is not None else ""
            raise ConfigError(
                "no ids and no filter are given, so nothing was removed; pass ids, or filters={} "
                f"to remove every document{inside}"
            )
        named = [In("document_id", document_ids)] if document_ids else []
        return await self.store.delete(And(_within(collection, filters), *named))

    async def iter_documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> AsyncIterator[Document]:
        async for document in self.store.documents(_within(collection, filters)):
            yield document

    async def get(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> Document | None:
        return await self.store.get(storable(collection), storable(document_id))

    async def chunks(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> list[Chunk]:
        return await self.store.chunks(storable(collection), storable(document_id))

    async def resolve(self, citation: Citation | str) -> CitedPassage:
        from lagotto.context import resolve

        return await resolve(
            citation, document_of=lambda collection, name: self.get(name, collection=collection)
        )

    async def judge(
        self, query: str, passage: Citation | RetrievalResult | str, relevance: int | None
    ) -> RelevanceJudgement | None:
        from lagotto.base.judgements import Judgements, citation_of

        return await Judgements(self.store.keyed_values).put(query, citation_of(passage), relevance)

    async def judgements(self, *, query: str | None = None) -> list[RelevanceJudgement]:
        from lagotto.base.judgements import Judgements

        return await Judgements(self.store.keyed_values).list(query=query)

    async def synonyms(self) -> dict[str, list[tuple[str, ...]]]:
        """Return the synonyms of each collection that has some."""
        by_collection = synonyms_of(await self.store.keyed_values.items(SYNONYMS))
        return {name: list(synonyms.groups) for name, synonyms in by_collection.items()}

    async def set_synonyms(
        self, groups: Iterable[Sequence[str]] | str, *, collection: str = DEFAULT_COLLECTION
    ) -> int:
        """Replace the synonyms of a collection; without groups, it has none. Return their number.

        A group is words and phrases that mean the same: `("PTO", "paid time off")`. As a text, it
        is a line with commas between them. Searches in all collections use those of all.
        """
        checked = Synonyms(parse_synonyms(groups) if isinstance(groups, str) else groups).groups
        values, name = self.store.keyed_values, storable(collection)
        if checked:
            await values.put(SYNONYMS, name, {"groups": checked})
        else:
            await values.remove(SYNONYMS, name)
        return len(checked)

    @property
    def location(self) -> str:
        return self._record.location

    @property
    def store(self) -> Store:
        """The store, for what no verb offers.

        Every verb gets it here, so none runs in a foreign process or event loop.
        """
        self._guard.check()
        return self._record

    async def rebuild(
        self,
        *,
        embedder: str | Embedder | None = None,
        chunker: str | None = None,
        pooling: Pooling | None = None,
        text_index: str | None = None,
        vector_index: str | None = None,
        progress: OnRebuildProgress | None = None,
    ) -> RebuildProgress:
        """Rebuild chunks, vectors and indexes from the stored documents.

        Arguments left out keep their current values; without any, only the indexes are rebuilt.
        With `chunker` all documents are cut again, even by the chunker that the base has.
        Until the rebuild is complete, searches in all processes use the current state, and
        documents can be added. Call an interrupted rebuild again with the same arguments to resume
        it.
        """
        from lagotto.base.rebuild import rebuild_base

        choice = Choice(embedder=embedder, chunker=chunker, pooling=pooling)
        with suppress(LagottoError):
            # an embedder that was passed as an object is known in no other way
            own = (await self._ready()).parts
            choice = Choice(
                embedder=embedder or own.spec or own.embedder,
                chunker=chunker or own.chunker_id,
                pooling=pooling or own.pooling,
            )
        location = self.store.location
        parts = create_parts(choice, await self.store.config(), location=location)
        try:
            done = await rebuild_base(
                self.store,
                parts,
                text_index=text_index,
                vector_index=vector_index,
                cut_again=chunker is not None,
                progress=progress,
            )
        finally:
            if parts.spec is not None:
                await parts.embedder.close()
        self._choice = Choice(embedder=None if parts.spec else parts.embedder)
        self._settled = False
        return done

    async def prepare(self) -> None:
        await self._ready()

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
        return await self.store.info()

    async def collections(self) -> dict[str, int]:
        return (await self.info()).collections

    async def _ingest(self, progress: OnProgress | None, guard: WriteGuard | None = None) -> Ingest:
        from lagotto.base.ingest import Ingest

        ready = await self._ready()
        return Ingest(
            store=self.store,
            chunker=ready.parts.chunker,
            vectors=ready.parts.vectors,
            embedder=ready.parts.spec,
            generation=ready.generation,
            guard=guard,
            on_progress=progress,
        )

    async def _ready(self) -> Assembled:
        """The embedder, the chunker and the retriever of the base, as it is made now.

        Raises if the base was made with others than those asked for.
        """
        self._guard.check()
        if self._assembled is not None and self._settled:
            return self._assembled
        stored = await self.store.config()
        if (open_with := self._assembled) is not None:
            config = open_with.parts.config
            if (
                stored.generation != open_with.generation
                or stored.model_id not in (None, config.model_id)
                or stored.chunker_id not in (None, config.chunker_id)
            ):
                self._former.append(open_with)  # searches with it may be running
                self._assembled = None
        if self._assembled is None:
            self._assembled = self._assemble(stored)
        self._settled = stored.model_id is not None
        return self._assembled

    def _searching_embedder(self, embedder: Embedder) -> Embedder:
        """The embedder for queries; a server has one that batches those of concurrent searches."""
        return embedder

    def _assemble(self, stored: BaseConfig) -> Assembled:
        parts = create_parts(self._choice, stored, location=self.store.location)
        check_choice(parts, stored, location=self.store.location)
        retriever = HybridRetriever(
            store=self.store,
            embedder=self._searching_embedder(parts.embedder),
            reranker=self._reranker,
            expander=self._expander,
            chunk_vectors=parts.vectors,
            chunker=parts.chunker_id,
            generation=stored.generation,
        )
        return Assembled(parts, retriever, stored.generation)


def _within(collection: str | None, filters: FilterLike) -> Filter:
    condition = parse_filter(filters)
    return condition if collection is None else Eq("collection", collection) & condition
