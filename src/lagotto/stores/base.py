"""The contract of stores, which hold documents and what is derived from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import (
    Chunk,
    Document,
    DocumentRef,
    Metadata,
    Record,
    Vector,
    Vectors,
    digest,
)
from lagotto.errors import ModelMismatchError, RebuiltError, StoreBusyError, StoreError
from lagotto.filters import And, Filter
from lagotto.indexes.base import ChunkKeys, Finding, Hits, IndexState
from lagotto.indexes.text_query import Match, Term, TextQuery, Word
from lagotto.terms.synonyms import Synonyms

if TYPE_CHECKING:
    from lagotto.stores.postgres.native import PostgresNative


def rebuilt(location: str) -> RebuiltError:
    """The error for chunks or vectors of a generation that is no longer that of the base."""
    return RebuiltError(f"{location} was rebuilt since it was opened; open it again")


def agreed_config(stored: BaseConfig, entry: Entry, *, location: str) -> BaseConfig:
    """What is stored once an entry is written; the first one decides.

    All vectors must be of one model. Chunks of other chunkers do no harm: a store may be filled
    with documents that were chunked differently, as a copy of an older base is.
    """
    if entry.generation not in (None, stored.generation):
        raise rebuilt(location)
    dimension = entry.vectors.shape[1]
    if stored.model_id is None:
        pooling = "late" if "+late" in entry.model_id else "chunk"
        fields = {"model_id": entry.model_id, "dimension": dimension, "pooling": pooling}
        stored = stored.model_copy(update={**fields, "embedder": entry.embedder})
    elif (stored.model_id, stored.dimension) != (entry.model_id, dimension):
        raise ModelMismatchError(
            f"{location} holds vectors of {stored.model_id} with dimension {stored.dimension}, not "
            f"of {entry.model_id} with dimension {dimension}; use the embedder of the base, or "
            "change it with `lagotto rebuild --embedder NAME`"
        )
    if stored.chunker_id is None and entry.chunks:
        stored = stored.model_copy(update={"chunker_id": entry.chunks[0].chunker_id})
    return stored


def check_complete(config: BaseConfig, *, location: str) -> None:
    """Raise for a base to which another is being copied, or was when that was stopped."""
    source = config.unfinished_copy_of
    if source is not None:
        raise StoreError(
            f"{location} is an unfinished copy of {source}, and lacks some of its documents; run "
            f"`lagotto copy {quote(source)} {quote(location)}` to complete it"
        )


class SourceFile(NamedTuple):
    """The state of a file when its documents were stored.

    `path` is where the folder has it, which is not the source if there are links. `mtime_ns` is
    None if the file was too new for a later change to show. `options` is a digest of how it was
    read, `documents` one of the documents read from it.
    """

    path: str
    size: int
    mtime_ns: int | None
    options: str
    documents: str


class SourceDocument(NamedTuple):
    """A stored document: its id, its source, and hashes of its content and its other fields."""

    id: str
    source: str
    content_hash: str
    fingerprint: str


class SourceFiles(Protocol):
    """Keeps the state of source files, by collection and source. It may forget any of them."""

    async def documents(self, collection: str) -> list[SourceDocument]:
        """All documents of a collection, in any order."""

    async def with_contents(self, hashes: Sequence[str]) -> list[DocumentRef]:
        """A document of each of these contents that any collection has."""

    async def load(self, collection: str) -> dict[str, SourceFile]:
        """The files of a collection, by their sources."""

    async def save(
        self, collection: str, files: Mapping[str, SourceFile], *, gone: Collection[str] = ()
    ) -> None:
        """Store the state of files, and forget those that are gone."""

    async def path_metadata(self, collection: str) -> dict[str, Metadata]:
        """The metadata that was given for paths of a collection, by path."""

    async def set_path_metadata(self, collection: str, metadata: Mapping[str, Metadata]) -> None:
        """Store the metadata given for paths, in place of what was stored for them."""


JUDGEMENT = "judgement"
"""The kind of judgements: unlike keys and tasks, they are copied with the documents of a base."""


SYNONYMS = "synonyms"
"""The kind of synonyms, by collection; they are copied as well, and views show them."""


class KeyedValue(NamedTuple):
    """A value with its name and its version, which counts the times it was written, from 1."""

    name: str
    version: int
    value: dict[str, Any]


def synonyms_of(values: Iterable[KeyedValue]) -> dict[str, Synonyms]:
    """The synonyms of each collection, as they are stored."""
    return {value.name: Synonyms(value.value["groups"]) for value in values}


class NewValue(NamedTuple):
    """A value that is not stored yet."""

    kind: str
    name: str
    value: Mapping[str, Any]
    data: bytes | None = None


class KeyedValues(Protocol):
    """Values by kind and name, each with some bytes beside it if wanted.

    A write is durable and seen by every process as soon as `put` returns. `expected` makes it
    conditional, so that of several processes that change a value at once one succeeds.
    """

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        """The value, None if there is none."""

    async def data(self, kind: str, name: str) -> bytes | None:
        """The bytes beside a value, None if there are none."""

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        """The values of a kind with names greater than `after`, in the order of their names."""

    async def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        *,
        data: bytes | None = None,
        expected: int | None = None,
    ) -> bool:
        """Store a value; False if its version is not the expected one, 0 for a new value.

        Without `data`, the bytes beside it stay as they are.
        """

    async def create(self, values: Sequence[NewValue]) -> None:
        """Store values under new names, all of them or none."""

    async def remove(self, kind: str, name: str) -> bool:
        """Remove a value and its bytes; whether there was one."""


class MemoryKeyedValues:
    """Keyed values in a dictionary."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], tuple[KeyedValue, bytes | None]] = {}

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        return self._values.get((kind, name), (None, None))[0]

    async def data(self, kind: str, name: str) -> bytes | None:
        return self._values.get((kind, name), (None, None))[1]

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        values = [
            value
            for (of_kind, name), (value, _) in sorted(self._values.items())
            if of_kind == kind and name > after
        ]
        return values[:limit]

    async def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        *,
        data: bytes | None = None,
        expected: int | None = None,
    ) -> bool:
        former, former_data = self._values.get((kind, name), (KeyedValue(name, 0, {}), None))
        if expected not in (None, former.version):
            return False
        stored = KeyedValue(name, former.version + 1, dict(value))
        self._values[kind, name] = (stored, former_data if data is None else data)
        return True

    async def create(self, values: Sequence[NewValue]) -> None:
        for each in values:
            await self.put(each.kind, each.name, each.value, data=each.data)

    async def remove(self, kind: str, name: str) -> bool:
        return self._values.pop((kind, name), None) is not None


MOST_LANGUAGES = 8
"""A query is stemmed in this many of a base's languages."""

LanguageCounts = Mapping[str, Mapping[str, int]]
"""How many documents of each collection are in each language, without unknown ones."""


def count_languages(
    documents: Iterable[Document], stored: LanguageCounts | None = None
) -> dict[str, Counter[str]]:
    """The languages of documents, by collection, together with those that are counted already."""
    counts = {name: Counter(languages) for name, languages in (stored or {}).items()}
    for document in documents:
        if document.language:
            counts.setdefault(document.collection, Counter())[document.language] += 1
    return counts


def main_language(counts: LanguageCounts, collection: str) -> str | None:
    """The language of most documents of a collection, None if none is known."""
    return next(iter(by_frequency(counts.get(collection, {}))), None)


def by_frequency(counts: Mapping[str, int]) -> list[str]:
    """Languages, the most frequent first, equally frequent ones by name."""
    return sorted(counts, key=lambda name: (-counts[name], name))


def query_languages(counts: Mapping[str | None, int]) -> list[str | None]:
    """The languages to stem a query in, given how many documents are in each.

    Unknown comes last, however frequent it is: it matters only for documents that were indexed
    before any language of their collection was known.
    """
    known = by_frequency({name: count for name, count in counts.items() if name})
    return [*known[:MOST_LANGUAGES], *([None] if None in counts else [])]


EVERYTHING = And()
"""The filter that every document matches."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A document with its chunks, and a vector for each one that can be found.

    Only flat and child chunks can be found; parents are read. `embedder` is the name of what made
    the vectors, None if it has none. `generation` is the one of the base that they were made for,
    None if any will do.
    """

    document: Document
    chunks: Sequence[Chunk]
    vectors: Vectors
    model_id: str
    embedder: str | None = None
    generation: int | None = None


class Lease(NamedTuple):
    """Work that a process has claimed: the keyed value that says so, and the process in `owner`."""

    kind: str
    name: str
    owner: str

    def check(self, stored: Mapping[str, Any] | None) -> None:
        """StoreBusyError if the value says that another process has the work by now."""
        if stored is None or stored.get("owner") != self.owner:
            raise StoreBusyError(f"another process has taken over the {self.kind} {self.name}")


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """What must hold when documents are written, checked in the transaction that writes them.

    A document takes the place of a stored one only if that matches `replaceable`. Another process
    may have taken over the writer's work meanwhile: with a `lease`, it writes only if that is still
    its own.
    """

    replaceable: Filter = EVERYTHING
    lease: Lease | None = None


class Version(NamedTuple):
    """Tells whether a document must be written again: other content, or only other metadata.

    Terms depend on the language, so another one counts as other content.
    `made_by` are the chunker and the model that its chunks were made with, None without chunks.
    """

    content_hash: str
    language: str | None
    fingerprint: str
    made_by: tuple[str, str] | None


def fingerprint(document: Document) -> str:
    """A hash of what `content_hash` leaves out."""
    rest = document.model_dump(
        mode="json", exclude={"text", "pages", "headings", "blocks", "content_hash"}
    )
    return digest(rest)


class Capabilities(Record):
    """The legs that a store can run, and by which functions it can rank words.

    What else only some stores can do is a part of their views: see `lagotto.stores.base`.
    """

    semantic: bool = True
    text: bool = True
    fuzzy: bool = True
    rank_functions: tuple[str, ...] = ("bm25",)


class BaseConfig(Record):
    """What the chunks and vectors of a base were made with; None where nothing is stored yet.

    `embedder` is a name that `create_embedder` takes; an embedder that was passed as an object has
    none, and only its `model_id` is known. `generation` counts the rebuilds of the base.
    `unfinished_copy_of` is the location of the base that is being copied here, or was when the
    copy was stopped: some documents are missing.
    """

    embedder: str | None = None
    model_id: str | None = None
    dimension: int | None = None
    pooling: Literal["chunk", "late"] | None = None
    chunker_id: str | None = None
    text_index: str | None = None
    vector_index: str | None = None
    generation: int = 0
    unfinished_copy_of: str | None = None


class StoreInfo(Record):
    """How much is in a store, and what it was made with.

    `by_language` is how many documents are in each of its languages.
    """

    location: str
    documents: int
    chunks: int
    collections: dict[str, int]
    languages: tuple[str, ...]
    by_language: Mapping[str, int] = {}
    of_unknown_language: int = 0
    model_id: str | None
    dimension: int | None = None
    chunker_id: str | None
    embedder: str | None = None
    pooling: str | None = None
    text_index: str | None = None
    vector_index: str | None = None
    bytes_on_disk: int
    indexes: tuple[IndexState, ...] = ()
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk as it comes out of the store, with the document it belongs to.

    `document` has all its fields except the text and the structure, which stay in the store.
    """

    key: int
    chunk: Chunk
    document: Document


class DegradedLeg(NamedTuple):
    """A leg that does not see everything, or not as fast as it should, and why."""

    leg: Literal["semantic", "text"]
    why: str


class StoredChunks(NamedTuple):
    """The chunks of a document in their order, and the chunker and the model that made them."""

    keys: ChunkKeys
    chunker_id: str
    model_id: str


@runtime_checkable
class ItemRepo(Protocol):
    """Gives the documents that are cut into chunks at query time, whole."""

    async def sources(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        """The documents of these collections and ids, whole, without those that are gone."""


class View(ItemRepo, Protocol):
    """The store as one search sees it: one state, one filter, resolved once for all legs.

    Every method sees only chunks that the filter allows. If k of them match a leg, k come back.
    Scores are exact, lists are sorted by score, then by key.
    """

    @property
    def generation(self) -> int:
        """How often the base was rebuilt."""

    @property
    def languages(self) -> Sequence[str | None]:
        """The languages that documents are in, the most frequent ones, most frequent first.

        None comes last if there are documents of unknown language.
        """

    @property
    def synonyms(self) -> Mapping[str, Synonyms]:
        """The synonyms of each collection that has some."""

    @property
    def immediate(self) -> bool:
        """Whether legs take about a millisecond each and don't suspend.

        Then asking them one after another costs less than side by side.
        """

    @property
    def degraded(self) -> Sequence[DegradedLeg]:
        """What a search should report: an index that can't be brought up to date just now."""

    @property
    def filter_notes(self) -> Sequence[str]:
        """What to know of the filter: fields that no document has, or not with such values."""

    @property
    def native(self) -> PostgresNative | None:
        """What only the store's own server can do, None if it has none."""

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        """The chunks whose vectors have the greatest cosine with `query`."""

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        """The chunks with the greatest BM25 score; only those that hold a term at all."""

    async def semantic_scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        """The cosine of each of `keys`."""

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """The BM25 score of each of `keys`, 0 for those without any term."""

    async def idf(self, words: Sequence[Word]) -> NDArray[np.float64]:
        """BM25's inverse document frequency of each word, over all chunks.

        A chunk has a word if it holds one of its terms; a word that no chunk has gets the greatest.
        """

    async def excluding(self, match: Match) -> View:
        """The same view of the chunks for which `match` does not hold."""

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        """For each word, the terms it may be a misspelling of; none if it is a term itself.

        As with `similar`, these are terms of chunks that the filter allows: others would find
        nothing, and tell of what is hidden.
        """

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        """For each word, the index terms that are like it by their trigrams, itself included."""

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        """The vector of each of `keys`, all of which are in the store; a row each."""

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        """The chunks of `keys` with their texts, in that order, without those that are gone."""

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        """The parents of `chunks`, by id."""

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        """The stored chunks around each of `chunks`, themselves included, in document order.

        Of the same document and level: up to `near` before and after the chunk, and up to
        `across` that end before its first page or begin after its last one. As with `parents`,
        the filter does not apply.
        """

    async def stored(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredChunks]:
        """All chunks of each of these documents that the filter allows, parents left out."""


class CacheKey(NamedTuple):
    """What a set of derived chunks depends on; another content or model is another key."""

    collection: str
    document_id: str
    content_hash: str
    chunker_id: str
    model_id: str


@dataclass(frozen=True, slots=True)
class CachedChunks:
    """Chunks that were made at query time, and a vector for each one that is not a parent."""

    chunks: Sequence[Chunk]
    vectors: Vectors


@runtime_checkable
class ChunkCacheRepo(Protocol):
    """Caches chunks made at query time; it may drop entries, but never returns wrong ones.

    What can't be read back exactly as it was written (damage, another content, an unknown
    version) is not there. Entries go with their document and with its content.
    """

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        """What is kept and has not expired, of `keys`."""

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        """Keep sets, for `ttl` seconds or until their content changes.

        One whose document is gone or has another content by now is left out, and a base that
        can't be written to keeps nothing.
        """

    async def clear(self) -> int:
        """Drop all entries; return how many there were."""


class WritableStore(Protocol):
    """The part of a Store that writing documents needs; see there."""

    @property
    def location(self) -> str:
        """Where the base is, for messages; without passwords."""

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        """Store documents, each replacing its earlier version.

        ReplaceRefusedError if `guard` does not allow that for all of them, StoreBusyError if its
        lease is lost; then none is stored.
        """

    async def update(
        self, documents: Sequence[Document], *, guard: WriteGuard | None = None
    ) -> None:
        """Store new metadata for documents whose content has not changed; `guard` as in `write`."""

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        """What is stored of each of `ids`; those that are not stored are left out."""

    async def update_indexes(self, *, least: int = 1) -> None:
        """Bring the indexes that lack `least` changes or more up to date.

        A search does that as well, but has to wait for it. StoreError if an index can't be written.
        """


class Staging(WritableStore, Protocol):
    """The next generation of a base, built beside the one that searches see.

    What it lacks is written in small transactions, in any order; when it is complete, it takes the
    place of all chunks and vectors of the base in one transaction. Until then nothing of it is
    visible, and whatever is written survives the process. `write` stores chunks and vectors of
    documents of the base, but not of those that have changed.
    """

    async def pending(self) -> list[tuple[str, str]]:
        """The documents that it lacks, by collection and id."""

    async def documents(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        """The documents of the base with these collections and ids, whole."""

    async def build_indexes(self) -> None:
        """Build the derived indexes, so that the first search after `switch` finds them."""

    async def switch(self) -> bool:
        """Replace the chunks and vectors of the base; False if documents changed meanwhile."""


class SearchableStore(Protocol):
    """The part of a Store that searches need; see there."""

    @property
    def location(self) -> str:
        """Where the base is, for messages; without passwords."""

    @property
    def capabilities(self) -> Capabilities:
        """The legs that this store can run."""

    @property
    def chunk_cache(self) -> ChunkCacheRepo | None:
        """Where chunks made at query time are kept, None if this store keeps none."""

    async def get(self, collection: str, document_id: str) -> Document | None:
        """A document, whole."""

    def view(self, where: Filter) -> AbstractAsyncContextManager[View]:
        """A consistent state of the store, seen through a filter."""


@runtime_checkable
class Store(SearchableStore, WritableStore, Protocol):
    """Keeps documents, chunks and vectors; see the module for what it is asked.

    Contract: `write` and `delete` are atomic per document and durable when they return; a reader
    sees a document whole or not at all. Writing a document replaces the one of the same
    collection and id with all that was derived from it. Several readers and writers may work at
    once, in threads and in processes; writers may have to wait for one another. Failures are
    StoreErrors.
    """

    @property
    def source_files(self) -> SourceFiles:
        """The state of the files that `sync` has read."""

    @property
    def keyed_values(self) -> KeyedValues:
        """Keys and tasks of servers."""

    async def open(self) -> None:
        """Connect, migrate, load or repair the derived indexes."""

    async def close(self) -> None:
        """Finish writing and release all resources; may be called twice."""

    async def delete(self, where: Filter) -> list[str]:
        """Remove the matching documents with everything derived; their ids."""

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        """The matching documents in order of collection and id, without text and structure."""

    async def chunks(
        self, collection: str, document_id: str, *, where: Filter = EVERYTHING
    ) -> list[Chunk]:
        """The chunks of a document, parents first, in order; none unless it matches `where`."""

    async def info(self) -> StoreInfo:
        """What is in the store."""

    async def config(self) -> BaseConfig:
        """What the chunks and vectors in the store were made with."""

    async def mark_copy(self, source: str | None) -> None:
        """Store the location that is being copied here as `unfinished_copy_of`; None when done.

        Before `open`, it is for the base that `open` creates, so that there is none without it.
        """

    def staging(self, config: BaseConfig) -> AbstractAsyncContextManager[Staging]:
        """The next generation of the base, to be made as `config` says.

        One that was left unfinished is resumed if it was to be made in the same way, otherwise it
        is dropped. StoreBusyError if another process is building one.
        """

    async def check(self) -> list[Finding]:
        """Check the base without changing anything; return at least one finding.

        What can't be read at all is a StoreError.
        """


Scale = Literal["rrf", "absolute", "theoretical"]


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """The semantic and the text leg at once, and how their scores will become one.

    Each brings `depth` chunks, none below its least score; with `fill` either tells of what the
    other found as well. The best `passages` by the fused score will be read. `weights` and `least`
    are those of the semantic leg and of the text leg. Unless it is asked for `anyway`, a store
    answers only where that takes less time than one leg after the other.
    """

    vector: Vector
    text: TextQuery
    depth: int
    fill: bool
    least: tuple[float | None, float | None]
    scale: Scale
    weights: tuple[float, float]
    rrf_k: int
    floor: float
    passages: int
    anyway: bool = False


@dataclass(frozen=True, slots=True)
class HybridHits:
    """What both legs found, and what they say of each of `keys`, which ascend; NaN for nothing.

    `fused` are the scores by which the passages were chosen.
    """

    semantic: Hits
    text: Hits
    keys: ChunkKeys
    semantic_scores: NDArray[np.float32]
    text_scores: NDArray[np.float32]
    fused: NDArray[np.float64]
