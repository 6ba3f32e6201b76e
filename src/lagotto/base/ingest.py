"""Adding documents: read, skip what is unchanged, chunk, embed and write, as a pipeline."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from lagotto import errors
from lagotto._internal.concurrency import in_thread, interruptible
from lagotto._internal.display import counted
from lagotto.chunkers import Chunker, chunk_document
from lagotto.documents import (
    Chunk,
    Document,
    DocumentRef,
    Record,
    Vector,
    Vectors,
    digest,
    language_tag,
    storable,
)
from lagotto.embedders.base import unknown_languages
from lagotto.embedders.chunk_embedder import ChunkEmbedder, Works
from lagotto.errors import ConfigError, LagottoError, NativeEmbeddingError, StoreError
from lagotto.filters import And
from lagotto.readers import Columns, Loading, ReadFailure, ReadOptions, Skipped
from lagotto.readers.base import ID_FROM
from lagotto.readers.language import with_language
from lagotto.stores.base import Entry, Staging, Store, Version, WriteGuard, fingerprint


def paths_and_documents(
    sources: Sequence[str | Path | Document], language: str | None
) -> tuple[list[str | Path], Iterator[Document]]:
    """The paths and addresses among `sources`, and the Documents with their languages."""
    for source in sources:
        if not isinstance(source, str | os.PathLike | Document):
            several = isinstance(source, Iterable) and not isinstance(source, bytes | Mapping)
            advice = "; pass its items one by one, as in add(*documents)" if several else ""
            raise ConfigError(
                f"add takes paths, addresses and Documents, not {type(source).__name__}{advice}"
            )
    paths = [source for source in sources if not isinstance(source, Document)]
    documents = (source for source in sources if isinstance(source, Document))
    return paths, (with_language(document, language) for document in documents)


def read_options(
    collection: str,
    language: str | None,
    metadata: Mapping[str, Any] | None,
    columns: Columns | None,
    id_from: str | None = None,
) -> ReadOptions:
    """How to read files; ConfigError for a collection without a proper name."""
    if id_from is not None and not ID_FROM.fullmatch(id_from):
        raise ConfigError(f"id_from={id_from!r} is unknown; write path, or front-matter:KEY")
    if not collection:
        raise ConfigError("a collection needs a name; leave it out for the default one")
    if collection != storable(collection):
        raise ConfigError(f"the collection {collection!r} is not valid Unicode text; rename it")
    try:
        language = language_tag(language or "")
    except ValueError as exc:
        raise ConfigError(str(exc)) from None
    return ReadOptions(
        collection=collection,
        language=language,
        metadata=dict(metadata or {}),
        columns=columns or Columns(),
        id_from=id_from,
    )


async def stored_versions(
    store: Store | Staging, documents: Iterable[Document]
) -> dict[DocumentRef, Version]:
    by_collection: dict[str, list[str]] = {}
    for document in documents:
        by_collection.setdefault(document.collection, []).append(document.id)
    return {
        DocumentRef(collection, name): version
        for collection, ids in by_collection.items()
        for name, version in (await store.versions(collection, ids)).items()
    }


def batches(
    results: Iterable[Document | ReadFailure], *, documents: int, characters: int
) -> Iterator[list[Document | ReadFailure]]:
    """The results in groups of so many, or fewer with so many characters."""
    group: list[Document | ReadFailure] = []
    size = 0
    for result in results:
        group.append(result)
        size += len(result.text) if isinstance(result, Document) else 0
        if len(group) == documents or size >= characters:
            yield group
            group, size = [], 0
    if group:
        yield group


log = logging.getLogger(__name__)

SHORTEST_STEP = 2_000
LONGEST_STEP = 16_000
GROWTH = 8
"""A step is an eighth of what is indexed, within these limits: each one is a commit of its own."""

MIN_CHANGES_TO_INDEX = 200
"""Fewer changes are read by the next search, in some ten milliseconds, whichever process it is in;
a program that adds many documents one by one need not wait for as many commits."""


class BackgroundIndexing:
    """Indexes in steps, one at a time, beside whatever else an ingest does.

    Without it the first search after an ingest would have to index everything. An index that
    can't be written now does not stop an ingest: it follows at the next search.
    """

    def __init__(self, store: Store | Staging) -> None:
        self._store = store
        self._waiting = 0
        self._indexed = 0
        self._step: asyncio.Task[None] | None = None

    def wrote(self, chunks: int) -> None:
        """Count chunks that were written, and start a step once there are enough of them."""
        self._waiting += chunks
        enough = min(max(self._indexed // GROWTH, SHORTEST_STEP), LONGEST_STEP)
        if self._waiting >= enough and (self._step is None or self._step.done()):
            self._start()

    async def finish(self) -> None:
        """Index the rest, unless it is little."""
        await self.settle()
        self._start(least=MIN_CHANGES_TO_INDEX)
        await self.settle()

    async def settle(self) -> None:
        """Wait for the step that is running."""
        if self._step is not None:
            await asyncio.shield(self._step)

    async def stop(self) -> None:
        """Give up the step that is running, if there is one: the next search continues it."""
        if self._step is not None:
            self._step.cancel()
            await asyncio.wait([self._step])

    def _start(self, *, least: int = 1) -> None:
        self._indexed += self._waiting
        self._waiting = 0
        self._step = asyncio.create_task(self._update(least))

    async def _update(self, least: int) -> None:
        started = time.monotonic()
        try:
            await self._store.update_indexes(least=least)
            log.info("indexes brought up to date in %.2f s", time.monotonic() - started)
        except StoreError as exc:
            log.warning("the indexes are not up to date, the next search continues: %s", exc)


BATCH_DOCUMENTS = 256
BATCH_CHARACTERS = 60_000
QUEUED_BATCHES = 2
STEP_SECONDS = 2.0
FIRST_STEP = 32
"""Documents are written after about so many seconds of embedding, whatever their number; the first
ones after so many chunks. A run that is stopped loses little more than that."""
KEEP_SECONDS = 4.0
"""The vectors of a document that takes longer are kept so often, until it is complete."""
GRACE = 0.05
"""Seconds that a cancelled run waits for a write that is under way."""

T = TypeVar("T", Entry, Document)

_UNSERIALISABLE = (TypeError, ValueError, RecursionError, OverflowError)
"""What a database driver or JSON raises for values that a Document would have refused."""


class Progress(Record):
    """The progress of an ingest; what it counts is stored durably, but for the last five.

    These run ahead: documents read and the last source of them, chunks made, chunks embedded, and
    the share of the files' bytes that is done; None if their sizes are not known. `files` and
    `size` say what there is to read: how many files, of so many bytes.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks: int = 0
    seconds: float = 0.0
    source: str = ""
    read: int = 0
    reading: str = ""
    found: int = 0
    embedded: int = 0
    share: float | None = None
    files: int = 0
    size: int = 0

    @property
    def documents(self) -> int:
        return self.added + self.updated + self.unchanged + self.failed


NAMED = 5
"""Sources that a report names of those added, updated and removed."""


class AddReport(Record):
    """What an ingest did; `changed` has the first sources that were added, updated and removed."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0
    seconds: float = 0.0
    failures: tuple[ReadFailure, ...] = ()
    skipped: Skipped = Skipped()
    notes: tuple[str, ...] = ()
    changed: dict[str, tuple[str, ...]] = Field(default_factory=dict, exclude=True)

    def __str__(self) -> str:
        counts = f"{self.added} added, {self.updated} updated, {self.unchanged} unchanged"
        if self.removed:
            counts += f", {self.removed} removed"
        text = f"{counts} ({counted(self.chunks, 'chunk')}, {self.seconds:.1f} s)"
        if self.skipped.total:
            text += f"\n{self.skipped}"
        text += "".join(f"\nnote: {note}" for note in self.notes)
        if self.failures:
            text += f"\n{len(self.failures)} failed:"
            text += "".join(f"\n  {failure}" for failure in self.failures)
        return text


def sum_reports(reports: Iterable[AddReport]) -> AddReport:
    """One report of several runs."""
    each = list(reports)
    sums = ("added", "updated", "unchanged", "chunks", "seconds")
    return AddReport(
        **{name: sum(getattr(report, name) for report in each) for name in sums},
        failures=tuple(failure for report in each for failure in report.failures),
        notes=tuple(dict.fromkeys(note for report in each for note in report.notes)),
    )


OnProgress = Callable[[Progress], None]


Change = Literal["added", "nothing", "metadata", "content"]


@dataclass(slots=True)
class _Batch:
    """Documents that pass through the stages together."""

    new: list[tuple[Document, list[Chunk]]] = field(default_factory=list)
    changed_metadata: list[Document] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    changes: dict[DocumentRef, Change] = field(default_factory=dict)
    """What has changed in each document, without those that failed."""
    failures: list[ReadFailure] = field(default_factory=list)
    source: str = ""

    def fail(self, document: Document, reason: str, error: Exception) -> None:
        """Record the failure of a document, which is then not counted as added or updated."""
        source, kind = document.source or document.id, type(error).__name__
        self.failures.append(ReadFailure(source=source, reason=reason, error=kind))
        self.changes.pop(document.ref, None)

    @property
    def to_embed(self) -> int:
        return sum(len(findable(chunks)) for _, chunks in self.new)

    def first(self, chunks: int) -> _Batch:
        """Take out the first documents, with at most so many chunks together, but at least one."""
        part = _Batch()
        while self.new:
            document, own = self.new[0]
            if part.new and part.to_embed + len(findable(own)) > chunks:
                break
            part.new.append(self.new.pop(0))
            part.changes[document.ref] = self.changes.pop(document.ref)
            part.source = document.source
        return part


Batches = asyncio.Queue[_Batch | None]
"""None is the end of them."""


@dataclass(kw_only=True, eq=False)
class Ingest:
    """One run over a stream of documents.

    `embedder` is the name that the store records. `generation` is the generation of the base that
    chunker and embedder belong to: if the base was rebuilt meanwhile, writing is a RebuiltError.
    What `guard` does not allow to replace is listed as a failure. `staging` is the next generation
    of the base in `store`, to which its documents are added instead. `seen` is every
    document that was read, stored or not.
    """

    store: Store
    chunker: Chunker
    vectors: ChunkEmbedder
    embedder: str | None = None
    generation: int | None = None
    guard: WriteGuard | None = None
    staging: Staging | None = None
    on_progress: OnProgress | None = None
    seen: set[DocumentRef] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reuse = VectorReuse(self.store, self.vectors)
        self._target = self.staging or self.store
        self._made_by = (self.chunker.id, self.vectors.model_id)
        self._step = FIRST_STEP
        self._started = time.monotonic()
        self._done = Progress()
        self._failures: list[ReadFailure] = []
        self._changed: dict[str, dict[str, None]] = {"added": {}, "updated": {}}
        self._languages: Counter[str] = Counter()
        self._file_ends: Mapping[str, int] = {}
        self._bytes_read = self._bytes_stored = 0

    async def run(
        self, results: Iterable[Document | ReadFailure], *, loading: Loading | None = None
    ) -> AddReport:
        """Add all documents of `results`, which come from `loading`, if files are read.

        On cancellation, a running write is completed if that is a matter of milliseconds, and
        otherwise rolled back; the reader in another thread is stopped.
        """
        if loading is not None and self.on_progress:
            ends = self._file_ends = await in_thread(loading.file_ends)
            self._report(files=len(ends), size=max(ends.values(), default=0))
        interrupt = loading.interrupt if loading else lambda: None
        prepared, embedded = Batches(QUEUED_BATCHES), Batches(QUEUED_BATCHES)
        reading = self._prepare(results, prepared, interrupt)
        stages = (reading, self._embed(prepared, embedded), self._write(embedded))
        parts = self._target.location, *self._made_by
        log.info("adding documents to %s, chunks of %s, vectors of %s", *parts)
        tasks = [asyncio.create_task(stage) for stage in stages]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                if not task.cancelling():  # cancelling twice would also stop the running write
                    task.cancel()
            await asyncio.wait(tasks)
        report = self.report()
        log.info("%s", str(report).partition("\n")[0])
        return report

    def report(self) -> AddReport:
        done, info = self._done, self.vectors.embedder.info
        new = done.added + done.updated
        note = unknown_languages(info, self._languages, total=new, what="new document")
        return AddReport(
            **done.model_dump(include={"added", "updated", "unchanged", "chunks"}),
            seconds=time.monotonic() - self._started,
            failures=tuple(self._failures),
            notes=(note,) if note else (),
            changed={what: tuple(sources) for what, sources in self._changed.items() if sources},
        )

    async def _prepare(
        self, results: Iterable[Document | ReadFailure], out: Batches, interrupt: Callable[[], None]
    ) -> None:
        groups = batches(results, documents=BATCH_DOCUMENTS, characters=BATCH_CHARACTERS)
        while group := await interruptible(lambda: next(groups, None), interrupt=interrupt):
            batch = await self._sort_out(group)
            self._report(
                read=self._done.read + len(group),
                reading=batch.source,
                found=self._done.found + batch.to_embed,
            )
            await out.put(batch)
        await out.put(None)

    async def _sort_out(self, group: Sequence[Document | ReadFailure]) -> _Batch:
        """Find the new and changed documents of a group, and chunk them."""
        failures = [item for item in group if isinstance(item, ReadFailure)]
        documents = {item.ref: item for item in group if isinstance(item, Document)}
        under_way = self.seen & documents.keys()
        self.seen |= documents.keys()
        stored = await stored_versions(self._target, documents.values())
        batch = _Batch(failures=failures, source=group[-1].source)
        todo = []
        for name, document in documents.items():
            try:
                change = self._change(document, stored.get(name))
            except _UNSERIALISABLE as exc:
                batch.fail(document, f"it can't be stored ({exc})", exc)
                continue
            exists = name in stored or name in under_way
            batch.changes[name] = change if exists else "added"
            if change == "metadata":
                batch.changed_metadata.append(document)
            elif change == "content":
                todo.append(document)
        batch.new = await in_thread(self._chunk, todo, batch)
        for failure in failures:
            log.info("failed: %s (%s)", failure.source, failure.error)
        sizes = len(group), batch.source, len(todo), batch.to_embed
        log.debug("read %d documents up to %s: %d to embed, %d chunks", *sizes)
        return batch

    def _change(self, document: Document, stored: Version | None) -> Change:
        """What has changed in a document: nothing, its metadata, or its content."""
        if stored is None or stored.made_by not in (None, self._made_by):
            return "content"
        if stored.made_by is None and document.is_only_title:  # stored when it could not be found
            return "content"
        if (stored.content_hash, stored.language) != (document.content_hash, document.language):
            return "content"
        return "nothing" if stored.fingerprint == fingerprint(document) else "metadata"

    def _chunk(
        self, documents: Sequence[Document], batch: _Batch
    ) -> list[tuple[Document, list[Chunk]]]:
        """The chunks of each document; one that can't be chunked is recorded as a failure."""
        chunked = []
        for document in documents:
            try:
                chunked.append((document, chunk_document(self.chunker, document)))
            except Exception as exc:  # noqa: BLE001 a chunker of another package may raise anything
                batch.fail(document, f"chunking failed ({exc})", exc)
        return chunked

    async def _embed(self, batches: Batches, out: Batches) -> None:
        """Embed batches in parts, each of about `STEP_SECONDS`."""
        while (batch := await batches.get()) is not None:
            while batch.to_embed > self._step and len(batch.new) > 1:
                await out.put(await self._embed_part(batch.first(self._step)))
            await out.put(await self._embed_part(batch))
        await out.put(None)

    async def _embed_part(self, batch: _Batch) -> _Batch:
        started, before = time.monotonic(), self._done.embedded
        stored = [
            document.ref
            for document, _ in batch.new
            if self.staging is not None or batch.changes[document.ref] == "content"
        ]
        if self.staging is None:  # a copy of what is stored has its vectors
            contents = {document.content_hash for document, _ in batch.new}
            stored += await self.store.source_files.with_contents(sorted(contents))
        reusable = await self._reuse.reusable(batch.new, stored=stored)
        if len(batch.new) == 1 and batch.to_embed > self._step:
            results = [await self._embed_large(*batch.new[0], reusable)]
        else:
            results = await self.vectors.embed_each(
                batch.new, known=reusable, embedded=partial(self._embedded, before)
            )
        self._embedded(before, batch.to_embed)
        self._pace(batch.to_embed, started)
        log.debug("embedded %d chunks", batch.to_embed)
        made_by = self.vectors.model_id, self.embedder, self.generation
        for (document, chunks), vectors in zip(batch.new, results, strict=True):
            if isinstance(vectors, NativeEmbeddingError):
                batch.fail(document, f"embedding failed ({vectors})", vectors)
                continue
            self._languages.update([document.language] if document.language else [])
            batch.entries.append(Entry(document, chunks, vectors, *made_by))
        return batch

    async def _embed_large(
        self, document: Document, chunks: Sequence[Chunk], reusable: Mapping[str, Vector]
    ) -> Vectors | NativeEmbeddingError:
        """Embed a document in steps, whose vectors are kept in case that this run is stopped."""
        before, own = self._done.embedded, findable(chunks)
        parts: list[Vectors] = []
        done = first = 0
        last = time.monotonic()
        while done < len(own):
            started, some = time.monotonic(), own[done : done + self._step]
            report = partial(self._embedded, before + done)
            (vectors,) = await self.vectors.embed_each(
                [(document, some)], known=reusable, embedded=report
            )
            if isinstance(vectors, NativeEmbeddingError):
                return vectors
            self._pace(len(some), started)
            parts.append(vectors)
            done += len(some)
            if time.monotonic() - last >= KEEP_SECONDS and done < len(own):
                rows = np.concatenate(parts)
                await self._reuse.keep(document, own, rows[first:], first=first)
                first, last = done, time.monotonic()
        return np.concatenate(parts)

    def _pace(self, chunks: int, started: float) -> None:
        """Adapt the size of a step to the speed of embedding."""
        if chunks:
            rate = chunks / max(time.monotonic() - started, 1e-6)
            self._step = max(1, int(rate * STEP_SECONDS))

    async def _write(self, batches: Batches) -> None:
        indexing = BackgroundIndexing(self._target)
        try:
            while (batch := await batches.get()) is not None:
                await self._write_batch(batch)
                indexing.wrote(sum(len(entry.vectors) for entry in batch.entries))
            await indexing.finish()
        finally:
            await indexing.stop()

    async def _write_batch(self, batch: _Batch) -> None:
        writing = asyncio.ensure_future(self._commit(batch))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing], timeout=GRACE)
            writing.cancel()  # what takes longer is rolled back
            await asyncio.wait([writing])
            if writing.cancelled() and batch.entries:
                first = batch.entries[0].document
                stored = await stored_versions(self._target, [first])
                if self._change(first, stored.get(first.ref)) == "nothing":
                    self._count(batch)  # it was committed just before, as one transaction
            raise

    async def _commit(self, batch: _Batch) -> None:
        write, update = self._target.write, self._target.update
        if self.guard is not None:
            write, update = partial(write, guard=self.guard), partial(update, guard=self.guard)
        await self._store_each(write, batch.entries, batch)
        await self._store_each(update, batch.changed_metadata, batch)
        await self._reuse.remove_kept(batch.new)
        self._count(batch)

    def _count(self, batch: _Batch) -> None:
        self._failures += batch.failures
        for document in (*map(_document, batch.entries), *batch.changed_metadata):
            if change := batch.changes.get(document.ref):
                sources = self._changed["added" if change == "added" else "updated"]
                if len(sources) < NAMED and document.source:
                    sources[document.source] = None
        done, counts = self._done, Counter(batch.changes.values())
        stored = [entry for entry in batch.entries if entry.document.ref in batch.changes]
        self._report(
            added=done.added + counts["added"],
            updated=done.updated + counts["metadata"] + counts["content"],
            unchanged=done.unchanged + counts["nothing"],
            failed=done.failed + len(batch.failures),
            chunks=done.chunks + sum(len(entry.vectors) for entry in stored),
            source=batch.source,
        )
        log.debug("stored %d documents, %d chunks so far", self._done.documents, self._done.chunks)

    def _embedded(self, before: int, count: int) -> None:
        self._report(embedded=before + count)

    def _report(self, **changes: int | str) -> None:
        """Note how far the run has come, and say so."""
        seconds = time.monotonic() - self._started
        self._done = self._done.model_copy(update={**changes, "seconds": seconds})
        if self.on_progress:
            self._done = self._done.model_copy(update={"share": self._share()})
            self.on_progress(self._done)

    def _share(self) -> float | None:
        """The share of bytes in files that are done; of those under way, by their chunks."""
        done, total = self._done, self._done.size
        if not total:
            return None
        self._bytes_read = self._file_ends.get(done.reading, self._bytes_read)
        self._bytes_stored = self._file_ends.get(done.source, self._bytes_stored)
        under_way = done.found - done.chunks
        embedded = (done.embedded - done.chunks) / under_way if under_way > 0 else 0.0
        ahead = max(0, self._bytes_read - self._bytes_stored) * min(1.0, embedded)
        # a progress that goes back would confuse
        return max(done.share or 0.0, (self._bytes_stored + ahead) / total)

    async def _store_each(
        self, store: Callable[[Sequence[T]], Awaitable[None]], items: Sequence[T], batch: _Batch
    ) -> None:
        """Store documents at once, or, if one of them can't be serialised, each for itself.

        Those that may not take the place of stored ones are left out.
        """
        if not items:
            return
        try:
            await store(items)
        except errors.ReplaceRefusedError as exc:
            documents = {_document(item).ref: _document(item) for item in items}
            for name in documents.keys() & exc.names:
                batch.fail(documents[name], "its id is taken by another document", exc)
            allowed = [item for item in items if _document(item).ref not in exc.names]
            await self._store_each(store, allowed, batch)
        except LagottoError:
            raise
        except _UNSERIALISABLE as exc:
            if len(items) > 1:
                for item in items:
                    await self._store_each(store, [item], batch)
            else:
                batch.fail(_document(items[0]), f"it can't be stored ({exc})", exc)


def _document(item: Entry | Document) -> Document:
    return item.document if isinstance(item, Entry) else item


UNFINISHED = "unfinished-vectors"
"""The kind of the values that hold them."""

LARGE = 64
"""Chunks; a document of more may take so long that its vectors are kept before it is complete."""

KEPT_SECONDS = 7 * 24 * 3600.0
"""Afterwards, the vectors of a document that was never completed are removed."""


class VectorReuse:
    """Vectors that need not be computed again: those of the same text under the same model.

    Stored chunks have them: those of an earlier content of a document, or of another chunker. So
    has an interrupted run: the vectors of a large document are kept while it is being embedded.
    """

    def __init__(self, store: Store, vectors: ChunkEmbedder) -> None:
        self._store = store
        self._vectors = vectors

    async def reusable(self, works: Works, *, stored: Sequence[DocumentRef]) -> dict[str, Vector]:
        """Vectors by what they depend on, of documents that are `stored` and of unfinished ones."""
        by_text: dict[str, Vector] = {}
        for document, chunks in works:
            if len(chunks) > LARGE:
                by_text |= await self._unfinished(document, findable(chunks))
        return by_text | await self._of(stored) if stored else by_text

    async def keep(
        self, document: Document, chunks: Sequence[Chunk], vectors: Vectors, *, first: int
    ) -> None:
        """Keep the vectors of the chunks from `first` on, until the document is complete."""
        name, data = f"{self._name(document, chunks)}/{first}", vectors.astype("<f4").tobytes()
        await self._store.keyed_values.put(UNFINISHED, name, {"at": time.time()}, data=data)

    async def remove_kept(self, works: Works) -> None:
        """Remove what was kept of documents that are stored now, and what is too old."""
        names = {self._name(document, chunks) for document, chunks in works if len(chunks) > LARGE}
        if not names:
            return
        values = self._store.keyed_values
        for value in await values.items(UNFINISHED):
            age = time.time() - float(value.value.get("at", 0.0))
            if value.name.partition("/")[0] in names or age > KEPT_SECONDS:
                await values.remove(UNFINISHED, value.name)

    async def _unfinished(self, document: Document, chunks: Sequence[Chunk]) -> dict[str, Vector]:
        name = self._name(document, chunks)
        vectors = np.empty((0, self._vectors.embedder.info.dimension), np.float32)
        while data := await self._store.keyed_values.data(UNFINISHED, f"{name}/{len(vectors)}"):
            rows = np.frombuffer(data, "<f4").reshape(-1, vectors.shape[1])
            vectors = np.concatenate([vectors, rows])
        return self._by_text(zip([document] * len(vectors), chunks, vectors, strict=False))

    async def _of(self, names: Sequence[DocumentRef]) -> dict[str, Vector]:
        """The vectors of stored documents that this model has made."""
        async with self._store.view(And()) as view:
            stored = (await view.stored(names)).values()
            parts = [one.keys for one in stored if one.model_id == self._vectors.model_id]
            keys = np.concatenate([np.empty(0, np.int64), *parts])
            vectors = dict(zip(keys.tolist(), await view.vectors(keys), strict=True))
            passages = await view.passages(keys)
        return self._by_text((one.document, one.chunk, vectors[one.key]) for one in passages)

    def _by_text(self, items: Iterable[tuple[Document, Chunk, Vector]]) -> dict[str, Vector]:
        dimension = self._vectors.embedder.info.dimension
        texts = ((self._vectors.text_of(document, chunk), row) for document, chunk, row in items)
        return {
            text: row
            for text, row in texts
            if text is not None and len(row) == dimension and row.any()  # a damaged one is zero
        }

    def _name(self, document: Document, chunks: Sequence[Chunk]) -> str:
        made_by = (chunks[0].chunker_id, self._vectors.model_id)
        return digest(*document.ref, document.content_hash, *made_by)


def findable(chunks: Sequence[Chunk]) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.level != "parent"]
