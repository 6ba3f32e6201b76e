"""A store in memory: small, plain, and right. Every other store is compared with it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto import filters
from lagotto.documents import Chunk, Document, DocumentRef, Metadata, Vector, Vectors
from lagotto.errors import ReplaceRefusedError
from lagotto.filters import Filter, ScalarKind, matches
from lagotto.indexes import text_query
from lagotto.indexes.base import (
    START,
    ChunkKeys,
    FilterKeys,
    Finding,
    Hits,
    LogPosition,
    TextSnapshot,
    TextStatistics,
    VectorSnapshot,
    ok,
    top_k,
)
from lagotto.indexes.bm25 import CountedTerms, idf
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word, as_terms, holds
from lagotto.stores import base
from lagotto.stores.base import CachedChunks, CacheKey, Entry, Passage, StoredChunks, WriteGuard
from lagotto.terms.synonyms import Synonyms
from lagotto.terms.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class _Item:
    """A chunk that can be found."""

    chunk: Chunk
    document: Document
    vector: Vector
    text: CountedTerms


class MemoryStore:
    """Keeps everything in dictionaries and looks at all of it for every search."""

    location = ":memory:"
    capabilities = base.Capabilities()

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._items: dict[int, _Item] = {}
        self._last_key = 0
        self._config = base.BaseConfig()
        self.chunk_cache = MemoryChunkCache(self._entries)
        self.source_files = MemorySourceFiles(self._entries)
        self.keyed_values = base.MemoryKeyedValues()

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do: the contents stay as long as the object."""

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        await self._check_guard(guard, [entry.document for entry in entries])
        config = self._config
        for entry in entries:
            config = _checked(entry, config)
        self._config = config
        for entry in entries:
            self._remove(entry.document.ref)
            self._entries[entry.document.ref] = entry
        self._index(entries)

    async def _check_guard(self, guard: WriteGuard | None, documents: Sequence[Document]) -> None:
        if guard is None:
            return
        if guard.lease is not None:
            stored = await self.keyed_values.get(guard.lease.kind, guard.lease.name)
            guard.lease.check(stored.value if stored else None)
        names = {item.ref for item in documents} & self._entries.keys()
        replaceable = guard.replaceable
        refused = {name for name in names if not matches(replaceable, self._entries[name].document)}
        if refused:
            raise ReplaceRefusedError(refused)

    async def update(
        self, documents: Sequence[Document], *, guard: WriteGuard | None = None
    ) -> None:
        await self._check_guard(guard, documents)
        for document in documents:
            former = self._entries.get(document.ref)
            if former and _made_of(former.document) == _made_of(document):
                await self.write([replace(former, document=document, generation=None)])

    async def delete(self, where: Filter) -> list[str]:
        gone = [document async for document in self.documents(where)]
        for document in gone:
            self._remove(document.ref)
        return [document.id for document in gone]

    async def update_indexes(self, *, least: int = 1) -> None:
        """Nothing to do: there are no indexes."""

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, base.Version]:
        versions = {}
        for name in ids:
            if entry := self._entries.get((collection, name)):
                made_by = (entry.chunks[0].chunker_id, entry.model_id) if entry.chunks else None
                made_of = _made_of(entry.document)
                versions[name] = base.Version(*made_of, base.fingerprint(entry.document), made_by)
        return versions

    async def get(self, collection: str, document_id: str) -> Document | None:
        entry = self._entries.get((collection, document_id))
        return entry.document if entry else None

    async def documents(self, where: Filter) -> AsyncIterator[Document]:
        where = filters.merged(where)
        for _, entry in sorted(self._entries.items()):
            if matches(where, entry.document):
                yield outline(entry.document)

    async def chunks(
        self, collection: str, document_id: str, *, where: Filter = base.EVERYTHING
    ) -> list[Chunk]:
        entry = self._entries.get((collection, document_id))
        return list(entry.chunks) if entry and matches(where, entry.document) else []

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[MemoryView]:
        view = MemoryView(self._entries, dict(self._items), filters.merged(where))
        view.generation = self._config.generation
        view.synonyms = base.synonyms_of(await self.keyed_values.items(base.SYNONYMS))
        yield view

    async def info(self) -> base.StoreInfo:
        documents = [entry.document for entry in self._entries.values()]
        by_language = Counter(item.language for item in documents if item.language)
        return base.StoreInfo(
            location=self.location,
            documents=len(documents),
            chunks=len(self._items),
            collections=dict(sorted(Counter(item.collection for item in documents).items())),
            languages=tuple(sorted(by_language)),
            by_language=dict(sorted(by_language.items())),
            of_unknown_language=len(documents) - by_language.total(),
            **self._config.model_dump(exclude={"generation", "unfinished_copy_of"}),
            bytes_on_disk=0,
        )

    async def config(self) -> base.BaseConfig:
        return self._config

    async def mark_copy(self, source: str | None) -> None:
        self._config = self._config.model_copy(update={"unfinished_copy_of": source})

    @asynccontextmanager
    async def staging(self, config: base.BaseConfig) -> AsyncIterator[MemoryStaging]:
        yield MemoryStaging(self, config)

    async def check(self) -> list[Finding]:
        return [ok(f"{len(self._items)} chunks in memory")]

    def _remove(self, name: tuple[str, str]) -> None:
        self._entries.pop(name, None)
        self.chunk_cache.forget(*name)
        self._items = {key: item for key, item in self._items.items() if item.document.ref != name}

    def _index(self, entries: Iterable[Entry]) -> None:
        counts = base.count_languages(entry.document for entry in self._entries.values())
        for entry in entries:
            document = entry.document
            language = document.language or base.main_language(counts, document.collection)
            findable = [chunk for chunk in entry.chunks if chunk.level != "parent"]
            for chunk, vector in zip(findable, entry.vectors, strict=True):
                self._last_key += 1
                text = chunk.in_context(document.title)
                counted = CountedTerms.of(text, language)
                self._items[self._last_key] = _Item(chunk, document, vector, counted)


class MemoryChunkCache:
    """A ChunkCacheRepo in memory; `entries` are the documents of the store that it belongs to."""

    def __init__(self, entries: Mapping[tuple[str, str], Entry]) -> None:
        self._entries = entries
        self._sets: dict[CacheKey, tuple[CachedChunks, float]] = {}

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        now = time.time()
        sets = self._sets
        return {key: sets[key][0] for key in keys if key in sets and sets[key][1] > now}

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        expires = float("inf") if ttl is None else time.time() + ttl
        for key, chunks in entries.items():
            stored = self._entries.get(key[:2])
            if stored and stored.document.content_hash == key.content_hash:
                self._sets[key] = (chunks, expires)

    async def clear(self) -> int:
        count = len(self._sets)
        self._sets.clear()
        return count

    def forget(self, collection: str, document_id: str) -> None:
        for key in [key for key in self._sets if key[:2] == (collection, document_id)]:
            del self._sets[key]


class MemoryStaging:
    """Entries that are going to take the place of those of a store in memory."""

    location = ":memory:"

    def __init__(self, store: MemoryStore, config: base.BaseConfig) -> None:
        self._store = store
        self._config = config
        self._entries: dict[tuple[str, str], Entry] = {}
        self.update = store.update
        self.update_indexes = store.update_indexes

    async def pending(self) -> list[tuple[str, str]]:
        theirs = {name: _made_of(entry.document) for name, entry in self._entries.items()}
        return [
            name
            for name, entry in self._store._entries.items()
            if theirs.get(name) != _made_of(entry.document)
        ]

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        for entry in entries:
            _checked(entry, self._config)
        self._entries |= {entry.document.ref: entry for entry in entries}

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, base.Version]:
        """None: what is written to it is what it lacks."""
        return {}

    async def documents(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        entries = self._store._entries
        return [entries[name].document for name in names if name in entries]

    async def build_indexes(self) -> None:
        """Nothing to do: there are none."""

    async def switch(self) -> bool:
        if await self.pending():
            return False
        store = self._store
        store._items.clear()
        for name, former in store._entries.items():
            store._entries[name] = replace(self._entries[name], document=former.document)
        store._index(store._entries.values())
        store._config = self._config
        return True


def _filter_notes(
    entries: dict[tuple[str, str], Entry], where: Filter, *, matches_some: bool
) -> tuple[str, ...]:
    fields = filters.metadata_fields(where)
    kinds: dict[str, set[ScalarKind | None]] = {}
    texts: dict[str, set[str]] = {}
    for entry in entries.values() if where != base.EVERYTHING else ():
        for name in ("collection", "kind", "language"):
            texts.setdefault(name, set()).add(getattr(entry.document, name) or "")
        for path, value in _values(entry.document.metadata):
            kinds.setdefault(filters.field_name(path), set()).add(filters.kind_of(value))
            if isinstance(value, str):
                texts.setdefault(filters.field_name(path), set()).add(value)
    if unknown := fields - kinds.keys():
        return filters.unknown_field_notes(unknown, kinds)
    if matches_some:
        return ()
    wrong = filters.other_kind_notes(where, lambda name, kind: kind in kinds[name])
    return wrong or filters.misspelt_value_notes(where, lambda name: sorted(texts.get(name, ())))


def _values(
    metadata: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All values with their paths, those of lists and dicts too; None is none."""
    for name, value in metadata.items():
        path = (*above, name)
        if value is not None:
            yield path, value
        if isinstance(value, Mapping):
            yield from _values(value, path)
        if isinstance(value, list):
            yield from ((path, item) for item in value)


class MemoryText(TextSnapshot):
    """A TextSnapshot of chunks by ascending keys, scored one by one."""

    immediate = True

    def __init__(self, chunks: Mapping[int, CountedTerms], position: LogPosition = START) -> None:
        self.chunks, self.position = chunks, position
        lengths = [len(chunk.terms) for chunk in chunks.values()]
        self.mean_length = sum(lengths) / max(1, len(lengths)) or 1.0

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        candidates = [key for key, chunk in self.chunks.items() if chunk.found_by(query)]
        keys = np.array(candidates, np.int64)
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return top_k(keys, await self.scores(query, keys), k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """BM25 over all chunks, whatever the filter: the same chunk always has the same score."""
        idfs = await self.idfs([text_query.as_word(word) for word in query.words])
        known = (self.chunks.get(key) for key in keys.tolist())
        scores = [one.score(query, idfs, mean=self.mean_length) if one else 0.0 for one in known]
        return np.array(scores, np.float32)

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        chunks = self.chunks
        keys = [key for key in among.tolist() if key in chunks and holds(match, chunks[key].terms)]
        return np.array(keys, np.int64)

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return [sum(holds(word, one.terms) for one in self.chunks.values()) for word in words]

    async def idfs(self, words: Sequence[Word]) -> list[float]:
        having = await self.frequencies(words)
        return [idf(number, count=len(self.chunks)) for number in having]

    async def statistics(self) -> TextStatistics:
        return TextStatistics(len(self.chunks), self.mean_length if self.chunks else None)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        terms = set[str]().union(*(chunk.counts for chunk in self.chunks.values()))
        return wanted.find_all(Vocabulary(sorted(terms)), words)


class MemoryVectors(VectorSnapshot):
    """A VectorSnapshot of unit vectors by ascending keys."""

    immediate = True

    def __init__(self, rows: Mapping[int, Vector], position: LogPosition = START) -> None:
        self.rows, self.position = rows, position

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        keys = np.array(list(self.rows), np.int64)
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return top_k(keys, await self.scores(query, keys), k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        zero = np.zeros_like(query)
        rows = [self.rows.get(key, zero) for key in keys.tolist()]
        return np.array([np.vecdot(row, query) for row in rows], np.float32)


class MemoryView:
    """All items that a filter allows."""

    immediate = True
    degraded = ()
    native = None
    generation = 0
    synonyms: Mapping[str, Synonyms] = MappingProxyType({})

    def __init__(
        self, entries: dict[tuple[str, str], Entry], items: dict[int, _Item], where: Filter
    ) -> None:
        self._entries = entries
        self._all = items
        self._text = MemoryText({key: item.text for key, item in items.items()})
        self._vectors = MemoryVectors({key: item.vector for key, item in items.items()})
        self.text_scores, self.semantic_scores = self._text.scores, self._vectors.scores
        self._allowed = {
            key: item for key, item in items.items() if matches(where, item.document, item.chunk)
        }
        self.filter_notes = _filter_notes(entries, where, matches_some=bool(self._allowed))
        self.languages = base.query_languages(
            Counter(entry.document.language for entry in entries.values())
        )

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        return await self._vectors.search(query, k=k, allowed=self._keys())

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        return await self._text.search(query, k=k, allowed=self._keys())

    async def idf(self, words: Sequence[Word]) -> NDArray[np.float64]:
        return np.array(await self._text.idfs(words), np.float64)

    async def excluding(self, match: Match) -> MemoryView:
        rest = copy(self)
        hidden = set((await self._text.matching(match, self._keys().keys)).tolist())
        rest._allowed = {key: item for key, item in self._allowed.items() if key not in hidden}
        return rest

    def _keys(self) -> FilterKeys:
        return FilterKeys(np.array(list(self._allowed), np.int64))

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        known = self._vocabulary()
        return [() if word in known else as_terms(known.corrections(word)) for word in words]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        vocabulary = self._vocabulary()
        return [as_terms(vocabulary.similar(word, threshold=threshold)) for word in words]

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        rows = [self._all[int(key)].vector for key in keys]
        return np.array(rows, np.float32).reshape(len(rows), -1 if rows else 0)

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        items = [(int(key), self._all[int(key)]) for key in keys if int(key) in self._all]
        return [Passage(key, item.chunk, outline(item.document)) for key, item in items]

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        wanted = {chunk.parent_id for chunk in chunks}
        return {
            parent.id: parent
            for chunk in chunks
            for parent in self._entries[chunk.collection, chunk.document_id].chunks
            if parent.id in wanted
        }

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        neighbours: dict[tuple[str, str, str, int], Chunk] = {}
        for chunk in chunks:
            entry = self._entries.get((chunk.collection, chunk.document_id))
            level = [item for item in (entry.chunks if entry else ()) if item.level == chunk.level]
            for item in _around(chunk, level, near=near, across=across):
                neighbours[item.collection, item.document_id, item.level, item.ordinal] = item
        return [neighbours[position] for position in sorted(neighbours)]

    def _vocabulary(self) -> Vocabulary:
        """The terms of what may be seen: others would tell of chunks that are hidden."""
        terms = set[str]().union(*(item.text.counts for item in self._allowed.values()))
        return Vocabulary(sorted(terms))

    async def sources(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return [self._entries[name].document for name in names if name in self._entries]

    async def stored(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredChunks]:
        keys: dict[tuple[str, str], list[int]] = {}
        for key, item in self._allowed.items():
            keys.setdefault(item.document.ref, []).append(key)
        return {
            name: StoredChunks(
                np.array(keys.get(name, ()), np.int64), entry.chunks[0].chunker_id, entry.model_id
            )
            for name in names
            if (entry := self._entries.get(name)) and entry.chunks
        }


def _checked(entry: Entry, config: base.BaseConfig) -> base.BaseConfig:
    """What is stored once an entry is written; an error unless it fits."""
    findable = sum(chunk.level != "parent" for chunk in entry.chunks)
    if findable != len(entry.vectors):
        raise ValueError(f"{findable} chunks have {len(entry.vectors)} vectors")
    return base.agreed_config(config, entry, location=":memory:")


def _around(chunk: Chunk, level: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
    """What `View.neighbours` finds for one chunk among all chunks of its level."""
    ordered = sorted(level, key=lambda item: item.ordinal)
    before = [item for item in ordered if item.ordinal < chunk.ordinal]
    after = [item for item in ordered if item.ordinal > chunk.ordinal]
    nearby = [item for item in ordered if abs(item.ordinal - chunk.ordinal) <= near]
    if chunk.pages is not None and across:
        first, last = chunk.pages
        nearby += [item for item in before if item.pages and item.pages[1] < first][-across:]
        nearby += [item for item in after if item.pages and item.pages[0] > last][:across]
    return nearby


def _made_of(document: Document) -> tuple[str, str | None]:
    """What chunks and terms are made of."""
    return document.content_hash, document.language


def outline(document: Document) -> Document:
    """A document without its text and structure."""
    bare = {"text": "", "pages": (), "headings": (), "blocks": ()}
    return document.model_copy(update=bare)


class MemorySourceFiles:
    """The state of source files, in dictionaries."""

    def __init__(self, entries: Mapping[tuple[str, str], Entry]) -> None:
        self._entries = entries
        self._files: dict[tuple[str, str], base.SourceFile] = {}
        self._path_metadata: dict[str, dict[str, Metadata]] = {}

    async def documents(self, collection: str) -> list[base.SourceDocument]:
        documents = [entry.document for entry in self._entries.values()]
        return [
            base.SourceDocument(item.id, item.source, item.content_hash, base.fingerprint(item))
            for item in documents
            if item.collection == collection
        ]

    async def with_contents(self, hashes: Sequence[str]) -> list[DocumentRef]:
        documents = [entry.document for entry in self._entries.values()]
        refs = {item.content_hash: item.ref for item in documents}
        return [refs[name] for name in hashes if name in refs]

    async def load(self, collection: str) -> dict[str, base.SourceFile]:
        return {source: file for (name, source), file in self._files.items() if name == collection}

    async def save(
        self, collection: str, files: Mapping[str, base.SourceFile], *, gone: Collection[str] = ()
    ) -> None:
        for source in gone:
            self._files.pop((collection, source), None)
        self._files |= {(collection, source): file for source, file in files.items()}

    async def path_metadata(self, collection: str) -> dict[str, Metadata]:
        return dict(self._path_metadata.get(collection, {}))

    async def set_path_metadata(self, collection: str, metadata: Mapping[str, Metadata]) -> None:
        self._path_metadata.setdefault(collection, {}).update(metadata)
