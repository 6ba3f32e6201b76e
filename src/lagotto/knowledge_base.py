"""The knowledge base: assembles a store, an embedder, a chunker and a retriever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lagotto.base_parts import (
    Choice,
    check_choice,
    create_parts,
    create_parts_to_rebuild,
)
from lagotto.chunkers import CHUNKERS
from lagotto.concurrency import LoopGuard
from lagotto.context import (
    Citation,
    CitedPassage,
    resolve,
)
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, storable
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import Pooling
from lagotto.errors import ConfigError, LagottoError, StoreError
from lagotto.filters import And, Eq, Filter, In, parse_filter
from lagotto.locations import is_missing_file
from lagotto.prefs import RetrievalPrefs
from lagotto.readers import Columns, FetchLimits, Ocr, ReadOptions
from lagotto.rerankers import Reranker
from lagotto.results import RetrievalResult
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.traced import TracedRetriever
from lagotto.search_verbs import (
    Assembled,
    FilterLike,
    SearchVerbs,
    follows_rebuilds,
    home_of,
    preferences,
)
from lagotto.stores.base import BaseConfig, Store, StoreInfo
from lagotto.stores.registry import create_store

if TYPE_CHECKING:  # a search does without these: importing them takes a fiftieth of its time
    from lagotto.folder_sync import Move
    from lagotto.given_metadata import GivenMetadata
    from lagotto.ingest import AddReport, Ingest, OnProgress
    from lagotto.interchange import ExportFormat
    from lagotto.judgements import Judgements, RelevanceJudgement
    from lagotto.rebuild import OnProgress as OnRebuildProgress
    from lagotto.rebuild import RebuildProgress


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
            if (await self._store.config()).model_id is None:
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
        from lagotto.readers import check_paths, load
        from lagotto.sources import paths_and_documents, read_options

        options = read_options(collection, language, metadata, columns)
        paths, documents = paths_and_documents(sources, language)
        chosen: Any = {"include": include, "exclude": exclude, "everything": everything}
        await asyncio.to_thread(check_paths, paths, **chosen)
        ingest = await self._ingest(progress)
        loading = load(paths, options=options, fetch_limits=fetch_limits, ocr=ocr, **chosen)
        given = await self._given(paths, options)
        results = chain(documents, given.applied(loading))
        report = await ingest.run(results, interrupt=loading.interrupt)
        return report.model_copy(
            update={"skipped": loading.skipped, "notes": (*report.notes, *loading.notes)}
        )

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
        from lagotto.folder_sync import FolderSync
        from lagotto.readers import load
        from lagotto.sources import read_options

        options = read_options(collection, language, metadata, columns)
        ingest = await self._ingest(progress)
        given = await self._given(folders, options)
        state = FolderSync(
            self._store.source_files, options=options, given=given, checksum=checksum
        )
        await state.start()
        loading = load(
            folders,
            include=include,
            exclude=exclude,
            everything=everything,
            options=options,
            ocr=ocr,
            tracker=state,
        )
        report = await ingest.run(given.applied(loading), interrupt=loading.interrupt)
        outcome = await state.finish(
            folders, seen=ingest.seen, failures=report.failures, moved=moved
        )
        await self._move(outcome.moved, given, collection)
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

    async def _given(self, paths: Sequence[str | Path], options: ReadOptions) -> GivenMetadata:
        from lagotto.given_metadata import GivenMetadata

        files = self._store.source_files
        return await GivenMetadata.load(files, options.collection, paths, options.metadata)

    async def _move(self, moved: Sequence[Move], given: GivenMetadata, collection: str) -> None:
        """Take the metadata that was given for the old paths of documents to the new ones."""
        from lagotto.given_metadata import with_metadata

        carried = {
            move: {**old, **given.of(move.target)}
            for move in moved
            if (old := given.of(move.origin))
        }
        if not carried:
            return
        await self._store.source_files.give(
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
        from lagotto.interchange import export_to
        from lagotto.judgements import write_judgements

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
        from lagotto.interchange import import_from

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
        return await self._store.chunks(storable(collection), storable(document_id))

    async def resolve(self, citation: Citation | str) -> CitedPassage:
        """Return the text that a citation, or the key of one, refers to, with its location."""
        return await resolve(citation, document_of=self._cited)

    async def judge(
        self, query: str, passage: Citation | RetrievalResult | str, relevance: int | None
    ) -> RelevanceJudgement | None:
        """Store whether a hit, or what a citation refers to, is relevant for a query: 1 or 0.

        It replaces the judgement before; None takes it back.
        """
        from lagotto.judgements import citation_of

        return await self._judgements.put(query, citation_of(passage), relevance)

    async def judgements(self, *, query: str | None = None) -> list[RelevanceJudgement]:
        """List all judgements, the oldest first; of one query if given."""
        return await self._judgements.list(query=query)

    @property
    def _judgements(self) -> Judgements:
        from lagotto.judgements import Judgements

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
        from lagotto.rebuild import rebuild_base

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

    async def _ingest(self, progress: OnProgress | None) -> Ingest:
        from lagotto.ingest import Ingest

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
