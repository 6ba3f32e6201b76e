"""The knowledge base: a store, an embedder and a chunker put together. Assembly only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER
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
from lagotto.embedders import Embedder, create_embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder, Pooling
from lagotto.errors import ConfigError, ModelMismatchError
from lagotto.filters import And, Eq, Filter, In, parse_filter
from lagotto.ingest import AddReport, Ingest, OnProgress
from lagotto.prefs import Mode, RetrievalPrefs
from lagotto.readers import Columns, ReadFailure, ReadOptions, load
from lagotto.request_context import RequestContext
from lagotto.rerankers import Reranker
from lagotto.results import RetrievalBundle
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.retriever import Results, Retriever
from lagotto.retrieval.why_not import WhyNot
from lagotto.stores.base import Store, StoreInfo
from lagotto.stores.registry import create_store
from lagotto.tokens import Tokenizer

FilterLike = Filter | Mapping[str, object] | str | None
DEFAULT_EMBEDDER = "minilm"


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
        embedder: str | Embedder = DEFAULT_EMBEDDER,
        chunker: str = DEFAULT_CHUNKER,
        pooling: Pooling = "chunk",
        reranker: str | Reranker | None = None,
        expander: Expander | None = None,
        prefs: RetrievalPrefs | str | None = None,
        text_index: str | None = None,
    ) -> None:
        self._store = create_store(location, text_index=text_index)
        self._embedder = create_embedder(embedder)
        self._chunker = CHUNKERS.create(chunker, tokenizer=self._embedder.tokenizer)
        self._vectors = ChunkEmbedder(self._embedder, pooling=pooling)
        self._prefs = _preferences(prefs)
        self._model_checked = False
        self._retriever = Retriever(
            store=self._store,
            embedder=self._embedder,
            reranker=reranker,
            expander=expander,
            chunk_vectors=self._vectors,
            chunker=chunker,
        )

    async def open(self) -> Self:
        """Open the base, making it if there is none.

        With another embedder than it was made with, it can be looked at and removed from; adding
        and searching raise ModelMismatchError.
        """
        await self._store.open()
        self._model_checked = False
        return self

    async def close(self) -> None:
        """Let go of the base; may be called twice."""
        await self._retriever.close()
        await self._store.close()
        await self._embedder.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

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
        await self._check_model()
        ingest = self._ingest(progress)
        return await ingest.run(_results(sources, include, exclude, options))

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
        await self._check_model()
        ingest = self._ingest(progress)
        report = await ingest.run(_results(folders, include, exclude, options))
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
        """The passages that answer `query` best; none for a query without any text.

        `prefs`, or a preset's name, say how to search, by default those of the base; the other
        arguments, and any setting of RetrievalPrefs by its name, override them. `degraded` of the
        result says what could not be used.
        """
        asked = self._asked(
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=_filter(filters),
            collection=collection,
        )
        await self._check_model()
        return await self._retriever.retrieve(asked, query_vector=query_vector, context=request)

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
            prefs, settings, top_k=top_k, mode=mode, filters=_filter(filters), collection=collection
        )
        asked = [first.model_copy(update={"query_text": query}) for query in queries]
        await self._check_model()
        return await self._retriever.retrieve_many(asked, context=request)

    async def search(
        self,
        context: RequestContext,
        prefs: RetrievalPrefs,
        *,
        query_vector: Vector | None = None,
    ) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        await self._check_model()
        return await self._retriever.search(context, prefs, query_vector=query_vector)

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
        request: RequestContext | None = None,
        **settings: Any,
    ) -> ContextPack:
        """Cited evidence for a prompt, at most `max_tokens` of it.

        `counter` counts tokens as the model does that will read the pack: a Tokenizer, a
        function, or `tiktoken:ENCODING`; by default the embedder's tokenizer.
        """
        budget = {} if max_tokens is None else {"context": {"max_tokens": max_tokens}}
        asked = self._asked(
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=_filter(filters),
            collection=collection,
        ).replace(**budget)
        count = token_counter(counter or self._embedder.tokenizer)
        await self._check_model()
        found = await self._retriever.retrieve(asked, context=request)
        return await build_pack(
            query,
            results=found,
            chunks_of=self._store.chunks,
            count=count,
            prefs=asked.context,
            format=format,
            candidates=found.candidates,
            notes=found.degraded,
        )

    async def resolve(self, citation: Citation | str) -> CitedPassage:
        """The exact text that a citation, or its key, stands for, and where it is."""
        return await resolve(citation, document_of=self._store.get)

    async def why_not(
        self,
        /,
        query: str,
        document_id: str,
        *,
        collection: str = DEFAULT_COLLECTION,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        prefs: RetrievalPrefs | str | None = None,
        **settings: Any,
    ) -> WhyNot:
        """Why a document is not among the results of `retrieve`, in numbers."""
        asked = self._asked(
            prefs, settings, query_text=query, top_k=top_k, mode=mode, filters=_filter(filters)
        )
        await self._check_model()
        return await self._retriever.why_not(asked, collection=collection, document_id=document_id)

    async def info(self) -> StoreInfo:
        """How much is in the base, and what it was made with."""
        return await self._store.info()

    def _asked(
        self, prefs: RetrievalPrefs | str | None, settings: Mapping[str, Any], **given: Any
    ) -> RetrievalPrefs:
        """The preferences of one call: those of the base, or `prefs`, with what was given."""
        changes = {name: value for name, value in given.items() if value is not None}
        start = self._prefs if prefs is None else _preferences(prefs)
        return start.replace(**changes, **settings)

    def _ingest(self, progress: OnProgress | None) -> Ingest:
        return Ingest(
            store=self._store,
            chunker=self._chunker,
            vectors=self._vectors,
            on_progress=progress,
        )

    async def _check_model(self) -> None:
        """Raise if the vectors of the base are of another model; seen once, it stays that way."""
        if self._model_checked:
            return
        info = await self._store.info()
        wanted = self._vectors.model_id
        self._model_checked = info.model_id == wanted
        if info.model_id not in (None, wanted):
            raise ModelMismatchError(
                f"{info.location} holds vectors of {info.model_id}, and this embedder is {wanted}; "
                "open it with the embedder it was made with"
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
) -> Iterator[Document | ReadFailure]:
    paths = [source for source in sources if not isinstance(source, Document)]
    documents = [source for source in sources if isinstance(source, Document)]
    return chain(documents, load(paths, include=include, exclude=exclude, options=options))


def _filter(filters: FilterLike) -> Filter | None:
    return None if filters is None else parse_filter(filters)


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
