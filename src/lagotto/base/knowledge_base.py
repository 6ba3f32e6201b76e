"""The knowledge base: assembles a store, an embedder, a chunker and a retriever; its verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from lagotto._internal.concurrency import LoopGuard, in_thread
from lagotto._internal.locations import is_missing_file
from lagotto._internal.tokens import Tokenizer
from lagotto.base.parts import (
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
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, Vector, storable
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import Pooling
from lagotto.errors import ConfigError, LagottoError, RebuiltError, StoreError
from lagotto.filters import And, Eq, Filter, In, Or, parse_filter
from lagotto.prefs import Mode, RetrievalPrefs, Verb
from lagotto.readers import Columns, FetchLimits, Ocr, ReadOptions
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.rerankers import Reranker
from lagotto.results import Results, RetrievalBundle, RetrievalResult
from lagotto.retrieval.base import Retriever
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.retriever import HybridRetriever, PackMaterial
from lagotto.retrieval.tracing import TracedRetriever
from lagotto.retrieval.why_not import WhyNot
from lagotto.stores.base import EVERYTHING, BaseConfig, Store, StoreInfo, WriteGuard, check_complete
from lagotto.stores.registry import create_store

if TYPE_CHECKING:
    from lagotto.base.export import ExportFormat
    from lagotto.base.ingest import AddReport, Ingest, OnProgress
    from lagotto.base.judgements import Judgements, RelevanceJudgement
    from lagotto.base.rebuild import OnProgress as OnRebuildProgress
    from lagotto.base.rebuild import RebuildProgress
    from lagotto.base.sync import Move, PathMetadata


FilterLike = Filter | Mapping[str, object] | str | None

P = ParamSpec("P")
T = TypeVar("T")
Base = TypeVar("Base", bound="SearchVerbs")


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


def follows_rebuilds(
    method: Callable[Concatenate[Base, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Base, P], Coroutine[Any, Any, T]]:
    """A verb that starts again, with other parts, if the base was rebuilt since it was opened."""

    @wraps(method)
    async def call(self: Base, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except RebuiltError:
            self._settled = False
            return await method(self, *args, **kwargs)

    return call


class SearchVerbs(ABC):
    """What can be asked of a knowledge base; `_prefs` are its own preferences."""

    _prefs: RetrievalPrefs
    _settled: bool

    @abstractmethod
    async def _ready(self) -> Assembled:
        """The embedder, the chunker and the retriever of the base, as it is made now."""

    @abstractmethod
    async def _collection_of(self, document_id: str) -> str:
        """The collection that has the document; the default one if it, or none, has it."""

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
        """Return the best passages for `query` as a ranked list; empty for an empty query.

        `prefs` are RetrievalPrefs or the name of a preset, by default those of the base. The other
        arguments, and any setting of RetrievalPrefs passed by name, override them. `degraded` of
        the result lists what could not be used.
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
        """Return the results of `retrieve` for each query; faster than one call per query."""
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
        """Return the best documents for `query`, and the passages that support them.

        The arguments are those of `retrieve`; `top_k` is the number of passages (`top_k_chunks`).
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
        """Return cited passages for a prompt, within `max_tokens`.

        `counter` counts tokens: the tokenizer of the model that will read the pack, a function, or
        `tiktoken:ENCODING`; by default the embedder's tokenizer. The other arguments are those of
        `retrieve`.
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
        ctx = request or RequestContext()
        async with cancel_scope(ctx):  # of the pack as well
            material = await ready.retriever.pack_material(
                asked, query_vector=query_vector, ctx=ctx
            )
            return await pack_of(material, asked, count=count, format=format)

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
        """Explain why a document is not among the results of `retrieve`.

        The arguments are those of `retrieve`, which is run once; `results` of the answer has its
        results. The document is looked up in `collection`; without one, in the default collection
        first, and then in the others.
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
        document_id = storable(document_id)
        name = (asked.collection or await self._collection_of(document_id), document_id)
        return await self._why_not(asked, name, query_vector=query_vector, request=request)

    @property
    def retriever(self) -> Retriever:
        """The base as a Retriever: `await base.retriever.search(ctx, prefs)`."""
        return KnowledgeBaseRetriever(self)

    @follows_rebuilds
    async def _why_not(
        self,
        asked: RetrievalPrefs,
        name: tuple[str, str],
        *,
        query_vector: Vector | None,
        request: RequestContext | None,
    ) -> WhyNot:
        """Explain it of the document with this collection and id."""
        collection, document_id = name
        retriever = (await self._ready()).retriever
        return await retriever.why_not(
            asked,
            collection=collection,
            document_id=document_id,
            query_vector=query_vector,
            ctx=request,
        )

    @follows_rebuilds
    async def _search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        return await (await self._ready()).retriever.search(ctx, prefs)

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
        start = self._prefs if prefs is None else preferences(prefs)
        asked = start.replace(**changes, **settings)
        asked.check_call(verb, settings)
        return asked


@dataclass(frozen=True, slots=True)
class KnowledgeBaseRetriever:
    """A Retriever that searches a base, without the preferences of the base."""

    base: SearchVerbs

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        """Return the best documents for the query, and the passages that support them."""
        return await self.base._search(ctx, prefs)


def home_of(collections: Sequence[str]) -> str:
    """The collection that is meant by an id alone, of those that have a document with this id."""
    elsewhere = DEFAULT_COLLECTION not in collections
    return min(collections) if collections and elsewhere else DEFAULT_COLLECTION


def preferences(given: RetrievalPrefs | str | None) -> RetrievalPrefs:
    """Preferences as they are, by the name of a preset, or the defaults."""
    return RetrievalPrefs.preset(given) if isinstance(given, str) else given or RetrievalPrefs()


async def pack_of(
    material: PackMaterial,
    prefs: RetrievalPrefs,
    *,
    count: TokenCounter,
    format: PackFormat,  # noqa: A002
) -> ContextPack:
    """The pack view of a search."""
    found, diagnostics = material.results, material.diagnostics
    with diagnostics.stage("pack"):
        pack = await build_pack(
            prefs.query_text,
            results=found,
            chunks=material.chunks,
            count=count,
            prefs=prefs.context,
            format=format,
            candidates=material.candidates,
            reranked=material.reranked,
            notes=found.degraded,
        )
    return pack.with_stats(diagnostics.stats(prefs, found.stats.counts))


class AsyncKnowledgeBase(SearchVerbs):
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
            CHUNKERS.get(chunker.partition(":")[0])
        self._guard = LoopGuard()
        self._record = create_store(location, text_index=text_index, vector_index=vector_index)
        self._choice = Choice(embedder=embedder, chunker=chunker, pooling=pooling)
        self._reranker = reranker
        self._expander = expander
        self._prefs = preferences(prefs)
        if reranker is not None:
            self._prefs = self._prefs.replace(rerank={"reranker": None})
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
            await self._store.open()
            stored = await self._store.config()
            check_complete(stored, location=self._record.location)
            if stored.model_id is None:
                await self._ready()
        except BaseException:
            await self._store.close()
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
        everything: bool = False,
        language: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        columns: Columns | None = None,
        fetch_limits: FetchLimits | None = None,
        ocr: str | Ocr | None = None,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add files, folders, web addresses (`https://...`) and Documents.

        Unchanged ones are skipped, changed ones replaced.
        A path that does not exist, and a folder without files to read, are a ReadError before
        anything is added. Files that can't be read, and those that were skipped, are listed in the
        report; `everything` reads hidden, ignored, secret, vendored and minified files too. A
        Document keeps its own collection, and its language; without one, that is `language`, or
        detected as for files.

        `metadata` is merged over that of the files, and stays with their paths: adding them again
        without it does not lose it, and another value replaces it. None takes a value back.
        """
        from lagotto.base.ingest import paths_and_documents, read_options
        from lagotto.readers import load

        options = read_options(collection, language, metadata, columns)
        paths, documents = paths_and_documents(sources, options.language)
        chosen: Any = {"include": include, "exclude": exclude, "everything": everything}
        loading = load(paths, options=options, fetch_limits=fetch_limits, ocr=ocr, **chosen)
        if problem := await in_thread(loading.find_files):
            raise problem
        ingest = await self._ingest(progress)
        known = await self._path_metadata(paths, options)
        results = chain(documents, known.applied(loading))
        report = await ingest.run(results, loading=loading)
        return report.model_copy(
            update={"skipped": loading.skipped, "notes": (*report.notes, *loading.notes)}
        )

    @follows_rebuilds
    async def _add_guarded(
        self,
        documents: Sequence[Document],
        guard: WriteGuard,
        *,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add documents, for a writer that may not replace every stored one."""
        from lagotto.base.ingest import paths_and_documents

        ingest = await self._ingest(progress, guard)
        return await ingest.run(paths_and_documents(documents, None)[1])

    async def _add_new(self, document: Document) -> AddReport:
        """Add a document, unless there is one with its id already."""
        return await self._add_guarded([document], WriteGuard(replaceable=Or()))

    @follows_rebuilds
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
        `metadata` is as in `add`.

        With `moved`, documents of files that are gone from anywhere are removed too if a file with
        the same content is in `folders` now, and the metadata given for the old path goes with it.
        """
        from lagotto.base.ingest import read_options
        from lagotto.base.sync import FolderSync
        from lagotto.readers import load

        options = read_options(collection, language, metadata, columns)
        ingest = await self._ingest(progress)
        known = await self._path_metadata(folders, options)
        state = FolderSync(
            self._store.source_files, options=options, metadata=known, checksum=checksum
        )
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
        await in_thread(loading.find_files)  # what it finds wrong is a failure in the report
        report = await ingest.run(known.applied(loading), loading=loading)
        outcome = await state.finish(
            folders,
            read=loading.complete,
            seen=ingest.seen,
            failures=report.failures,
            moved=moved,
        )
        await self._move(outcome.moved, known, collection)
        gone = outcome.gone
        removed = await self.remove(*gone, collection=collection) if gone else []
        return report.model_copy(
            update={
                "removed": len(removed),
                "unchanged": report.unchanged + outcome.unchanged,
                "skipped": loading.skipped,
                "notes": (*report.notes, *loading.notes, *outcome.notes),
            }
        )

    async def _path_metadata(
        self, paths: Sequence[str | Path], options: ReadOptions
    ) -> PathMetadata:
        from lagotto.base.sync import PathMetadata

        files = self._store.source_files
        return await PathMetadata.load(files, options.collection, paths, options.metadata)

    async def _move(self, moved: Sequence[Move], known: PathMetadata, collection: str) -> None:
        """Take the metadata that was given for the old paths of documents to the new ones."""
        from lagotto.base.sync import with_metadata

        carried = {
            move: {**old, **known.of(move.target)}
            for move in moved
            if (old := known.of(move.origin))
        }
        if not carried:
            return
        await self._store.source_files.set_path_metadata(
            collection, {move.target: metadata for move, metadata in carried.items()}
        )
        for move, metadata in carried.items():
            if document := await self._store.get(collection, move.document_id):
                await self._store.update([with_metadata(document, metadata)])

    async def remove(
        self,
        *document_ids: str,
        collection: str | None = None,
        filters: FilterLike = None,
    ) -> list[str]:
        """Remove documents by id, by filter, or both; returns the ids of the removed documents.

        `collection` only narrows down ids and `filters`, so an empty list of ids never removes a
        whole collection; `filters={}` does.
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
        """List matching documents by collection and id, without their texts."""
        wanted = _within(collection, filters)
        return [document async for document in self._store.documents(wanted)]

    async def iter_documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> AsyncIterator[Document]:
        """Yield what `documents` returns, a few at a time, however many there are."""
        async for document in self._store.documents(_within(collection, filters)):
            yield document

    async def _collection_of(self, document_id: str) -> str:
        """The collection that has the document; the default one if it, or none, has it."""
        where = Eq("document_id", document_id)
        return home_of([item.collection async for item in self.iter_documents(filters=where)])

    async def export_documents(
        self,
        path: str | Path,
        *,
        format: ExportFormat = "jsonl",  # noqa: A002
        filters: FilterLike = None,
        collection: str | None = None,
    ) -> int:
        """Write matching documents to a file, or for `beir` to a folder; return their number.

        For `beir`, judgements become its queries and the relevance of documents.
        """
        from lagotto.base.export import export_to
        from lagotto.base.judgements import write_judgements

        count = await export_to(Path(path), self._whole(filters, collection), format=format)
        if format == "beir":
            write_judgements(Path(path), await self.judgements(), collection=collection)
        return count

    async def _whole(self, filters: FilterLike, collection: str | None) -> AsyncIterator[Document]:
        async for listed in self.iter_documents(filters=filters, collection=collection):
            if document := await self._store.get(listed.collection, listed.id):
                yield document

    @follows_rebuilds
    async def import_documents(
        self,
        path: str | Path,
        *,
        collection: str | None = None,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add what `export_documents` wrote: a file, or a folder in the layout of BEIR.

        Documents keep their ids and, unless `collection` is given, their collections.
        """
        from lagotto.base.export import import_from

        ingest = await self._ingest(progress)
        return await ingest.run(import_from(Path(path), collection=collection))

    async def get(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> Document | None:
        """Return a document with its text, or None if there is no document with this id."""
        return await self._store.get(storable(collection), storable(document_id))

    async def chunks(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> list[Chunk]:
        """Return the chunks of a document in order, parents first; empty if it does not exist."""
        return await self._chunks(document_id, collection, EVERYTHING)

    async def _chunks(self, document_id: str, collection: str, where: Filter) -> list[Chunk]:
        """The chunks of a document, none unless it matches."""
        return await self._store.chunks(storable(collection), storable(document_id), where=where)

    async def resolve(self, citation: Citation | str) -> CitedPassage:
        """Return the text that a citation, or the key of one, refers to, with its location."""
        return await resolve(citation, document_of=self._cited)

    async def judge(
        self, query: str, passage: Citation | RetrievalResult | str, relevance: int | None
    ) -> RelevanceJudgement | None:
        """Store whether a hit, or what a citation refers to, is relevant for a query: 1 or 0.

        It replaces the judgement before; None takes it back.
        """
        from lagotto.base.judgements import citation_of

        return await self._judgements.put(query, citation_of(passage), relevance)

    async def judgements(self, *, query: str | None = None) -> list[RelevanceJudgement]:
        """List all judgements, the oldest first; of one query if given."""
        return await self._judgements.list(query=query)

    @property
    def _judgements(self) -> Judgements:
        from lagotto.base.judgements import Judgements

        return Judgements(self._store.keyed_values)

    async def _cited(self, collection: str, document_id: str) -> Document | None:
        return await self.get(document_id, collection=collection)

    @property
    def location(self) -> str:
        """The location of the base without passwords, for messages."""
        return self._record.location

    @property
    def _store(self) -> Store:
        """The store; every verb gets it here, so none runs in a foreign process or event loop."""
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
            done = await rebuild_base(
                self._store,
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
        """Return the size of the base, what it was made with, and the state of its indexes."""
        return await self._store.info()

    async def collections(self) -> dict[str, int]:
        """Return the number of documents in each collection."""
        return (await self.info()).collections

    async def _ingest(self, progress: OnProgress | None, guard: WriteGuard | None = None) -> Ingest:
        from lagotto.base.ingest import Ingest

        ready = await self._ready()
        parts = ready.parts
        return Ingest(
            store=self._store,
            chunker=parts.chunker,
            vectors=parts.vectors,
            embedder=parts.spec,
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
        stored = await self._store.config()
        if self._assembled is None or not self._assembled.fits(stored):
            if self._assembled is not None:
                self._former.append(self._assembled)  # searches with it may be running
                self._assembled = None
            self._assembled = self._assemble(stored)
        self._settled = stored.model_id is not None
        return self._assembled

    def _searching_embedder(self, embedder: Embedder) -> Embedder:
        """The embedder for queries; a server has one that batches those of concurrent searches."""
        return embedder

    def _assemble(self, stored: BaseConfig) -> Assembled:
        parts = create_parts(self._choice, stored, location=self._store.location)
        check_choice(parts, stored, location=self._store.location)
        retriever = TracedRetriever(
            store=self._store,
            embedder=self._searching_embedder(parts.embedder),
            reranker=self._reranker,
            expander=self._expander,
            chunk_vectors=parts.vectors,
            chunker=parts.chunker_id,
            generation=stored.generation,
        )
        return Assembled(parts, retriever, stored.generation)


def _within(collection: str | None, filters: FilterLike) -> Filter:
    wanted = parse_filter(filters)
    if collection is None:
        return wanted
    inside = Eq("collection", collection)
    return inside if wanted == And() else And(inside, wanted)
