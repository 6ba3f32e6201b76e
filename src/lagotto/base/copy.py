"""Copying a base to another store: documents, chunks and vectors, unchanged.

Nothing is chunked or embedded again, so no embedder is needed. The source is read in one state, in
batches, and each batch is durable before the next one starts, so an interrupted copy can be
resumed. At the end every document is read back from the target and compared by hashes. Until then a
target that was empty is marked as an unfinished copy, which can't be opened as a base. The chunk
cache, and the keys and tasks of a server, are not copied; judgements are.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from lagotto.documents import Chunk, Document, Record, Vector, digest
from lagotto.errors import ModelMismatchError, StoreDamagedError, StoreError
from lagotto.filters import And
from lagotto.stores.base import (
    JUDGEMENT,
    BaseConfig,
    Entry,
    Store,
    StoredChunks,
    StoreInfo,
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


class Seal(NamedTuple):
    """Hashes of a document, its chunks and its vectors."""

    contents: str
    chunks: str
    vectors: str

    @classmethod
    def of(cls, entry: Entry) -> Seal:
        """The hashes of everything that is copied."""
        return cls(
            digest(entry.document.model_dump(mode="json")),
            digest([chunk.model_dump(mode="json") for chunk in entry.chunks]),
            digest(entry.model_id, entry.vectors.astype("<f4").tobytes().hex()),
        )


class _Copy:
    """One run."""

    def __init__(self, source: Store, target: Store, on_progress: OnProgress) -> None:
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._done = CopyReport()
        self._seals: dict[Name, Seal] = {}

    async def run(self) -> CopyReport:
        made = await self._source.config()
        check_complete(made, location=self._source.location)
        there = await self._target.config()
        is_new = there.unfinished_copy_of or not (await self._target.info()).documents
        _check_models(await self._source.info(), await self._target.info())
        if is_new:
            await self._target.mark_copy(self._source.location)
        names = [(item.collection, item.id) async for item in self._source.documents(And())]
        self._report(documents=len(names))
        async with self._source.view(And()) as view:
            await _for_each_batch(view, names, made, self._write)
        await self._copy_given(sorted({collection for collection, _ in names}))
        await self._copy_judgements()
        names = list(self._seals)
        self._report(documents=len(names))
        async with self._target.view(And()) as view:
            await _for_each_batch(view, names, made, self._compare)
        for collection, document_id in self._seals:
            raise StoreError(_difference(collection, document_id, "is missing"))
        if is_new:
            await self._target.mark_copy(None)
        return self._done

    async def _copy_given(self, collections: Sequence[str]) -> None:
        """Copy the metadata that was given for paths."""
        for collection in collections:
            if given := await self._source.source_files.path_metadata(collection):
                await self._target.source_files.set_path_metadata(collection, given)

    async def _copy_judgements(self) -> None:
        """Copy what people said of results; what the target has already stays."""
        for item in await self._source.keyed_values.items(JUDGEMENT):
            await self._target.keyed_values.put(JUDGEMENT, item.name, item.value, expected=0)

    async def _write(self, entries: Sequence[Entry]) -> None:
        there = await self._versions(entries)
        new = [entry for entry in entries if there.get(_name(entry)) != _version(entry)]
        if new:
            await self._target.write(new)
        self._seals |= {_name(entry): Seal.of(entry) for entry in entries}
        self._report(
            copied=self._done.copied + len(new),
            unchanged=self._done.unchanged + len(entries) - len(new),
            chunks=self._done.chunks + sum(len(entry.vectors) for entry in new),
        )

    async def _versions(self, entries: Sequence[Entry]) -> dict[Name, Version]:
        """The versions of these documents in the target; they are sorted by collection."""
        found: dict[Name, Version] = {}
        documents = (entry.document for entry in entries)
        for collection, group in groupby(documents, key=lambda item: item.collection):
            stored = await self._target.versions(collection, [item.id for item in group])
            found |= {(collection, name): version for name, version in stored.items()}
        return found

    async def _compare(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            name = _name(entry)
            pairs = zip(Seal._fields, self._seals.pop(name), Seal.of(entry), strict=True)
            for part, ours, theirs in pairs:
                if ours != theirs:
                    raise StoreError(_difference(*name, f"differs in its {part}"))
        self._report(verified=self._done.verified + len(entries))

    def _report(self, **changes: int) -> None:
        seconds = time.monotonic() - self._started
        self._done = self._done.model_copy(update={**changes, "seconds": seconds})
        self._on_progress(self._done)


async def _for_each_batch(
    view: View,
    names: Sequence[Name],
    made: BaseConfig,
    act: Callable[[Sequence[Entry]], Awaitable[None]],
) -> None:
    """Call `act` with the documents of `names` that exist, in batches, in that order."""
    for start in range(0, len(names), BATCH_DOCUMENTS):
        some = names[start : start + BATCH_DOCUMENTS]
        stored = await view.stored(some)
        for batch in _batches(some, stored):
            await act(await read_entries(view, batch, made, stored=stored))


def _batches(names: Sequence[Name], stored: Mapping[Name, StoredChunks]) -> Iterator[list[Name]]:
    """Batches with at most BATCH_CHUNKS chunks, or of a single larger document."""
    batch: list[Name] = []
    size = 0
    for name in names:
        count = len(stored[name].keys) if name in stored else 0
        if batch and size + count > BATCH_CHUNKS:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += count
    yield batch


async def read_entries(
    view: View,
    names: Sequence[Name],
    made: BaseConfig,
    *,
    stored: Mapping[Name, StoredChunks] | None = None,
) -> list[Entry]:
    """Documents with their chunks and vectors; `made` is the config of their base."""
    if stored is None:
        stored = await view.stored(names)
    lists = [stored[name].keys for name in names if name in stored]
    keys = np.concatenate([np.empty(0, np.int64), *lists])
    chunks = {passage.key: passage.chunk for passage in await view.passages(keys)}
    parents = await view.parents([chunk for chunk in chunks.values() if chunk.parent_id])
    vectors: dict[int, Vector] = dict(zip(keys.tolist(), await view.vectors(keys), strict=True))
    documents = await view.sources(names)
    _check_complete(keys.tolist(), chunks, vectors)
    _check_documents(stored.keys() & set(names), documents)

    def entry(document: Document) -> Entry:
        found = stored.get((document.collection, document.id))
        own = found.keys.tolist() if found else []
        findable = [chunks[key] for key in own]
        rows = np.array([vectors[key] for key in own], np.float32)
        return Entry(
            document,
            [*_above(findable, parents), *findable],
            rows.reshape(len(own), made.dimension or 0),
            made.model_id or "",
            made.embedder,
        )

    return [entry(document) for document in documents]


def _check_complete(
    keys: Sequence[int], chunks: Mapping[int, Chunk], vectors: Mapping[int, Vector]
) -> None:
    """A search may leave out what can't be read; nothing else may."""
    for key in keys:
        if key not in chunks:
            raise _damaged(f"the chunk {key} can't be read")
        if not vectors[key].any():
            raise _damaged(f"the chunk {key} has no vector")


def _check_documents(stored: Iterable[Name], documents: Iterable[Document]) -> None:
    missing = set(stored) - {(document.collection, document.id) for document in documents}
    if missing:
        collection, document_id = min(missing)
        raise _damaged(f"the document {document_id!r} of {collection!r} can't be read")


def _damaged(problem: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"the database is damaged: {problem}; `lagotto doctor` names the documents, remove them "
        "and add them again"
    )


def _above(chunks: Sequence[Chunk], parents: Mapping[str, Chunk]) -> list[Chunk]:
    """The parents of a document's chunks, in order."""
    ids = {chunk.parent_id for chunk in chunks if chunk.parent_id}
    return sorted((parents[name] for name in ids), key=lambda parent: parent.ordinal)


def _check_models(ours: StoreInfo, theirs: StoreInfo) -> None:
    if None in (ours.model_id, theirs.model_id):
        return
    if (ours.model_id, ours.dimension) != (theirs.model_id, theirs.dimension):
        raise ModelMismatchError(
            f"{ours.location} has vectors of {ours.model_id} (dimension {ours.dimension}), but "
            f"{theirs.location} has vectors of {theirs.model_id} (dimension {theirs.dimension}); "
            "copy to a new base"
        )


def _name(entry: Entry) -> Name:
    return entry.document.collection, entry.document.id


def _version(entry: Entry) -> Version:
    document = entry.document
    made_by = (entry.chunks[0].chunker_id, entry.model_id) if entry.chunks else None
    return Version(document.content_hash, document.language, fingerprint(document), made_by)


def _difference(collection: str, document_id: str, problem: str) -> str:
    return (
        f"the copy differs: the document {document_id!r} of the collection "
        f"{collection!r} {problem} in the target; copy to a new base, and check both with "
        "`lagotto doctor`"
    )
