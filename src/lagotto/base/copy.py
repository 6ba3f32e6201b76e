"""Copying a base to another store: documents, chunks and vectors, unchanged.

Nothing is chunked or embedded again, so no embedder is needed. The source is read in one state, in
batches, and each batch is durable before the next one starts, so an interrupted copy can be
resumed. At the end every document is read back from the target and compared by hashes. Until then a
target that was empty is marked as an unfinished copy, which can't be opened as a base. The chunk
cache, and the keys and tasks of a server, are not copied; judgements and synonyms are.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lagotto.base.ingest import stored_versions
from lagotto.documents import Document, DocumentRef, Record, digest
from lagotto.errors import ModelMismatchError, StoreDamagedError, StoreError
from lagotto.filters import And
from lagotto.stores.base import (
    JUDGEMENT,
    SYNONYMS,
    BaseConfig,
    Entry,
    Store,
    StoredChunks,
    Version,
    View,
    check_complete,
    fingerprint,
)

BATCH_DOCUMENTS = 500
BATCH_CHUNKS = 2_000

Name = tuple[str, str]
"""Collection and id."""


class CopyReport(Record):
    """The progress of a copy, and its result.

    `documents` counts the documents of the source: each is `copied`, or `unchanged` if the target
    had it already. `chunks` counts the copied chunks. `verified` documents were read back from the
    target and are equal.
    """

    documents: int = 0
    copied: int = 0
    unchanged: int = 0
    chunks: int = 0
    verified: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.copied} copied, {self.unchanged} unchanged, {self.verified} verified "
            f"({self.chunks} chunks, {self.seconds:.1f} s)"
        )


OnProgress = Callable[[CopyReport], None]


async def copy_base(
    source: Store, target: Store, *, progress: OnProgress | None = None
) -> CopyReport:
    """Copy all documents of an open store into another one.

    The target must be empty or have vectors of the same model (ModelMismatchError). Its other
    documents stay. A document that differs in the end is a StoreError that names it. Documents
    added to the source during the copy are not copied.
    """
    return await _Copy(source, target, progress or (lambda _: None)).run()


def _seal(entry: Entry) -> dict[str, str]:
    """Hashes of everything that is copied: a document, its chunks and its vectors."""
    return {
        "contents": digest(entry.document.model_dump(mode="json")),
        "chunks": digest([chunk.model_dump(mode="json") for chunk in entry.chunks]),
        "vectors": digest(entry.model_id, entry.vectors.astype("<f4").tobytes().hex()),
    }


@dataclass(eq=False)
class _Copy:
    _source: Store
    _target: Store
    _on_progress: OnProgress

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._done = CopyReport()
        self._seals: dict[DocumentRef, dict[str, str]] = {}

    async def run(self) -> CopyReport:
        config = await self._source.config()
        check_complete(config, location=self._source.location)
        there = await self._target.config()
        is_new = there.unfinished_copy_of or not (await self._target.info()).documents
        await self._check_models()
        if is_new:
            await self._target.mark_copy(self._source.location)
        names = [document.ref async for document in self._source.documents(And())]
        self._report(documents=len(names))
        async with self._source.view(And()) as view:
            async for entries in _batches(view, names, config):
                await self._write(entries)
        files = self._target.source_files
        for collection in sorted({name.collection for name in names}):
            if path_metadata := await self._source.source_files.path_metadata(collection):
                await files.set_path_metadata(collection, path_metadata)
        for kind in (JUDGEMENT, SYNONYMS):
            for item in await self._source.keyed_values.items(kind):  # the target's own stay
                await self._target.keyed_values.put(kind, item.name, item.value, expected=0)
        names = list(self._seals)
        self._report(documents=len(names))
        async with self._target.view(And()) as view:
            async for entries in _batches(view, names, config):
                self._compare(entries)
        for name in self._seals:
            raise _difference(name, "is missing")
        if is_new:
            await self._target.mark_copy(None)
        return self._done

    async def _check_models(self) -> None:
        ours, theirs = await self._source.info(), await self._target.info()
        if None in (ours.model_id, theirs.model_id):
            return
        if (ours.model_id, ours.dimension) != (theirs.model_id, theirs.dimension):
            raise ModelMismatchError(
                f"{ours.location} has vectors of {ours.model_id} (dimension {ours.dimension}), but "
                f"{theirs.location} has vectors of {theirs.model_id} (dimension "
                f"{theirs.dimension}); copy to a new base"
            )

    async def _write(self, entries: Sequence[Entry]) -> None:
        documents = [entry.document for entry in entries]
        there = await stored_versions(self._target, documents)
        new = [entry for entry in entries if there.get(entry.document.ref) != _version(entry)]
        if new:
            await self._target.write(new)
        self._seals |= {entry.document.ref: _seal(entry) for entry in entries}
        self._report(
            copied=self._done.copied + len(new),
            unchanged=self._done.unchanged + len(entries) - len(new),
            chunks=self._done.chunks + sum(len(entry.vectors) for entry in new),
        )

    def _compare(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            name, seals = entry.document.ref, _seal(entry)
            for part, seal in self._seals.pop(name).items():
                if seals[part] != seal:
                    raise _difference(name, f"differs in its {part}")
        self._report(verified=self._done.verified + len(entries))

    def _report(self, **changes: int) -> None:
        seconds = time.monotonic() - self._started
        self._done = self._done.model_copy(update={**changes, "seconds": seconds})
        self._on_progress(self._done)


async def _batches(
    view: View, names: Sequence[Name], config: BaseConfig
) -> AsyncIterator[list[Entry]]:
    """The documents of `names` that exist, in that order.

    A batch has at most BATCH_CHUNKS chunks, or is a single larger document.
    """
    for start in range(0, len(names), BATCH_DOCUMENTS):
        some = names[start : start + BATCH_DOCUMENTS]
        stored = await view.stored(some)
        batch: list[Name] = []
        size = 0
        for name in some:
            count = len(stored[name].keys) if name in stored else 0
            if batch and size + count > BATCH_CHUNKS:
                yield await read_entries(view, batch, stored, config)
                batch, size = [], 0
            batch.append(name)
            size += count
        yield await read_entries(view, batch, stored, config)


async def read_entries(
    view: View, names: Sequence[Name], stored: Mapping[Name, StoredChunks], config: BaseConfig
) -> list[Entry]:
    """Documents with their chunks and vectors; `config` is that of their base.

    StoreDamagedError if one can't be read: a search may leave it out, nothing else may.
    """
    lists = [stored[name].keys for name in names if name in stored]
    keys = np.concatenate([np.empty(0, np.int64), *lists])
    chunks = {passage.key: passage.chunk for passage in await view.passages(keys)}
    parents = await view.parents([chunk for chunk in chunks.values() if chunk.parent_id])
    vectors = dict(zip(keys.tolist(), await view.vectors(keys), strict=True))
    documents = await view.sources(names)
    for key in keys.tolist():
        if key not in chunks:
            raise _damaged(f"the chunk {key} can't be read")
        if not vectors[key].any():
            raise _damaged(f"the chunk {key} has no vector")
    if missing := stored.keys() & set(names) - {document.ref for document in documents}:
        collection, document_id = min(missing)
        raise _damaged(f"the document {document_id!r} of {collection!r} can't be read")

    def entry(document: Document) -> Entry:
        record = stored.get(document.ref)
        own = record.keys.tolist() if record else []
        findable = [chunks[key] for key in own]
        above = {chunk.parent_id for chunk in findable if chunk.parent_id}
        rows = np.array([vectors[key] for key in own], np.float32)
        return Entry(
            document,
            [*sorted((parents[name] for name in above), key=lambda one: one.ordinal), *findable],
            rows.reshape(len(own), config.dimension or 0),
            config.model_id or "",
            config.embedder,
        )

    return [entry(document) for document in documents]


def _damaged(problem: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"the database is damaged: {problem}; `lagotto doctor` names the documents, remove them "
        "and add them again"
    )


def _version(entry: Entry) -> Version:
    document = entry.document
    made_by = (entry.chunks[0].chunker_id, entry.model_id) if entry.chunks else None
    return Version(document.content_hash, document.language, fingerprint(document), made_by)


def _difference(name: DocumentRef, problem: str) -> StoreError:
    return StoreError(
        f"the copy differs: the document {name.id!r} of the collection {name.collection!r} "
        f"{problem} in the target; copy to a new base, and check both with `lagotto doctor`"
    )
