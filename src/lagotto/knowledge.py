"""The knowledge base: a store, an embedder and a chunker put together. Assembly only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document
from lagotto.embedders import Embedder, create_embedder
from lagotto.errors import ConfigError, ModelMismatchError
from lagotto.filters import And, Eq, Filter, In, parse_filter
from lagotto.ingest import AddReport, Ingest, OnProgress
from lagotto.readers import Columns, ReadFailure, ReadOptions, load
from lagotto.results import Leg, RetrievalResult
from lagotto.retrieval.fusion import DEFAULT_WEIGHTS, FusionMethod
from lagotto.retrieval.pipeline import Mode, Request, Retriever
from lagotto.stores.base import Store, StoreInfo
from lagotto.stores.registry import create_store

FilterLike = Filter | Mapping[str, object] | str | None
DEFAULT_EMBEDDER = "minilm"


class Results(list[RetrievalResult]):
    """Hits, best first; `degraded` says what could not be used to find them."""

    def __init__(self, hits: Iterable[RetrievalResult], degraded: tuple[str, ...] = ()) -> None:
        super().__init__(hits)
        self.degraded = degraded


class AsyncKnowledgeBase:
    """Documents that can be searched.

    `location` is a file, `:memory:`, or a Store. Everything that is stored stays, whatever
    happens; documents are told apart by collection and id.
    """

    def __init__(
        self,
        location: str | Path | Store = "lagotto.db",
        *,
        embedder: str | Embedder = DEFAULT_EMBEDDER,
        chunker: str = DEFAULT_CHUNKER,
        text_index: str | None = None,
    ) -> None:
        self._store = create_store(location, text_index=text_index)
        self._embedder = create_embedder(embedder)
        self._chunker = CHUNKERS.create(chunker, tokenizer=self._embedder.tokenizer)
        self._retriever = Retriever(self._store, self._embedder)

    async def open(self) -> Self:
        """Open the base, making it if there is none."""
        await self._store.open()
        try:
            await self._check_model()
        except BaseException:
            await self._store.close()
            raise
        return self

    async def close(self) -> None:
        """Let go of the base; may be called twice."""
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
        ingest = self._ingest(progress)
        report = await ingest.run(_results(folders, include, exclude, options))
        roots, failed = _resolved(folders), _resolved(item.source for item in report.failures)
        gone = [
            document.id
            for document in await self.documents(where=Eq("collection", collection))
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
        where: FilterLike = None,
    ) -> list[str]:
        """Remove documents by id, by filter, or a whole collection; the ids that went.

        What is given counts together: ids in a collection, a filter within a collection.
        """
        conditions: list[Filter] = []
        if document_ids:
            conditions.append(In("document_id", document_ids))
        if collection is not None:
            conditions.append(Eq("collection", collection))
        if where is not None:
            conditions.append(parse_filter(where))
        if not conditions:
            raise ConfigError(
                "nothing says what to remove; give ids, a collection or a filter "
                "(where={} removes everything)"
            )
        return await self._store.delete(And(*conditions))

    async def documents(
        self, *, where: FilterLike = None, collection: str | None = None
    ) -> list[Document]:
        """The documents that match, in order of collection and id, without their texts."""
        wanted = _within(collection, where)
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
        query: str,
        *,
        top_k: int = 10,
        mode: Mode = "hybrid",
        where: FilterLike = None,
        collection: str | None = None,
        fusion: FusionMethod = "convex",
        weights: Mapping[Leg, float] | None = None,
        fuzzy: bool = True,
    ) -> Results:
        """The passages that answer `query` best; none for a query without any text.

        `degraded` of the result says what could not be used to find them.
        """
        if top_k < 1:
            raise ConfigError(f"top_k is {top_k}; ask for at least 1 passage")
        if not query.strip():
            return Results(())
        request = Request(
            query=query,
            top_k=top_k,
            mode=mode,
            where=_within(collection, where),
            fusion=fusion,
            weights=_weights(weights),
            fuzzy=fuzzy,
        )
        answer = await self._retriever.retrieve(request)
        return Results(answer.results, answer.degraded)

    async def info(self) -> StoreInfo:
        """How much is in the base, and what it was made with."""
        return await self._store.info()

    def _ingest(self, progress: OnProgress | None) -> Ingest:
        return Ingest(
            store=self._store,
            chunker=self._chunker,
            embedder=self._embedder,
            on_progress=progress,
        )

    async def _check_model(self) -> None:
        info = await self._store.info()
        wanted = self._embedder.info.model_id
        if info.model_id not in (None, wanted):
            raise ModelMismatchError(
                f"{info.location} holds vectors of {info.model_id}, and this embedder is {wanted}; "
                "open it with the embedder it was made with"
            )


def _weights(given: Mapping[Leg, float] | None) -> Mapping[Leg, float]:
    weights = {**DEFAULT_WEIGHTS, **(given or {})}
    if set(weights) != set(DEFAULT_WEIGHTS):
        raise ConfigError(f"weights are for {', '.join(DEFAULT_WEIGHTS)}; got {sorted(weights)}")
    if min(weights.values()) < 0 or not any(weights.values()):
        raise ConfigError(f"weights must not be negative, nor all of them 0; got {weights}")
    return weights


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


def _within(collection: str | None, where: FilterLike) -> Filter:
    wanted = parse_filter(where)
    if collection is None:
        return wanted
    inside = Eq("collection", collection)
    return inside if wanted == And() else And(inside, wanted)


def _resolved(paths: Iterable[str | Path]) -> set[Path]:
    return {Path(path).expanduser().resolve() for path in paths}


def _lies_in(source: str, roots: set[Path]) -> bool:
    path = Path(source)
    return bool(source) and not roots.isdisjoint((path, *path.parents))
