"""The contract of stores, which hold documents and what is derived from them, and search both.

A store knows nothing of fusion, rerankers or budgets. It answers three questions for a search,
one per leg (which chunks are nearest to this vector, which hold these terms, which terms are
like this word), and it can score any chunk for any leg afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, Record, Vector, Vectors, digest
from lagotto.filters import Filter
from lagotto.indexes.base import ChunkKeys, Finding, IndexState
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import Match, Term, TextQuery, Word
from lagotto.stores.capabilities import NativeRanking, SingleQueryHybrid, TrigramTextSearch
from lagotto.stores.keyed_values import KeyedValues
from lagotto.stores.source_files import SourceFiles


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

    What else only some stores can do is a part of their views: see `lagotto.stores.capabilities`.
    """

    semantic: bool = True
    text: bool = True
    fuzzy: bool = True
    rank_functions: tuple[str, ...] = ("bm25",)


class BaseConfig(Record):
    """What the chunks and vectors of a base were made with; None where nothing is stored yet.

    `embedder` is a name that `create_embedder` takes; an embedder that was passed as an object has
    none, and only its `model_id` is known. `generation` counts the rebuilds of the base.
    """

    embedder: str | None = None
    model_id: str | None = None
    dimension: int | None = None
    pooling: Literal["chunk", "late"] | None = None
    chunker_id: str | None = None
    text_index: str | None = None
    vector_index: str | None = None
    generation: int = 0


class StoreInfo(Record):
    """How much is in a store, and what it was made with."""

    location: str
    documents: int
    chunks: int
    collections: dict[str, int]
    languages: tuple[str, ...]
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
        ...


class View(ItemRepo, Protocol):
    """The store as one search sees it: one state, one filter, resolved once for all legs.

    Every method sees only chunks that the filter allows. If k of them match a leg, k come back.
    Scores are exact, lists are sorted by score, then by key.
    """

    @property
    def generation(self) -> int:
        """How often the base was rebuilt."""
        ...

    @property
    def languages(self) -> Sequence[str | None]:
        """The languages that documents are in, the most frequent ones, most frequent first.

        None comes last if there are documents of unknown language.
        """
        ...

    @property
    def immediate(self) -> bool:
        """Whether legs take about a millisecond each and don't suspend.

        Then asking them one after another costs less than side by side.
        """
        ...

    @property
    def degraded(self) -> Sequence[DegradedLeg]:
        """What a search should report: an index that can't be brought up to date just now."""
        ...

    @property
    def filter_notes(self) -> Sequence[str]:
        """What to know of the filter: fields that no document has, or not with such values."""
        ...

    @property
    def native(self) -> NativeRanking | None:
        """Ranking by functions of the store's own server, None if it has none."""
        ...

    @property
    def trigram(self) -> TrigramTextSearch | None:
        """Trigram search over whole texts, None if the store has none."""
        ...

    @property
    def single_query(self) -> SingleQueryHybrid | None:
        """Both legs in one statement, None if the store has none."""
        ...

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        """The chunks whose vectors have the greatest cosine with `query`."""
        ...

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        """The chunks with the greatest BM25 score; only those that hold a term at all."""
        ...

    async def semantic_scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        """The cosine of each of `keys`."""
        ...

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """The BM25 score of each of `keys`, 0 for those without any term."""
        ...

    async def idf(self, words: Sequence[Word]) -> NDArray[np.float64]:
        """BM25's inverse document frequency of each word, over all chunks.

        A chunk has a word if it holds one of its terms; a word that no chunk has gets the greatest.
        """
        ...

    async def excluding(self, match: Match) -> View:
        """The same view of the chunks for which `match` does not hold."""
        ...

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        """For each word, the index terms it may be a misspelling of; none if it is a term."""
        ...

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        """For each word, the index terms that are like it by their trigrams, itself included."""
        ...

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        """The vector of each of `keys`, all of which are in the store; a row each."""
        ...

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        """The chunks of `keys` with their texts, in that order, without those that are gone."""
        ...

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        """The parents of `chunks`, by id."""
        ...

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        """The stored chunks around each of `chunks`, themselves included, in document order.

        Of the same document and level: up to `near` before and after the chunk, and up to
        `across` that end before its first page or begin after its last one. As with `parents`,
        the filter does not apply.
        """
        ...

    async def stored(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredChunks]:
        """All chunks of each of these documents that the filter allows, parents left out."""
        ...


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
        ...

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        """Keep sets, for `ttl` seconds or until their content changes.

        One whose document is gone or has another content by now is left out, and a base that
        can't be written to keeps nothing.
        """
        ...

    async def clear(self) -> int:
        """Drop all entries; return how many there were."""
        ...


class Staging(Protocol):
    """The next generation of a base, built beside the one that searches see.

    Documents are written to `store` in small transactions, in any order; when it is complete, all
    chunks and vectors of the base are replaced by its own in one transaction. Until then nothing
    of it is visible, and whatever is written survives the process.
    """

    @property
    def store(self) -> Store:
        """Where the documents of the next generation are written."""
        ...

    async def pending(self) -> Pending:
        """What has to be done before `switch`."""
        ...

    async def documents(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        """The documents of the base with these collections and ids, whole."""
        ...

    async def build_indexes(self) -> None:
        """Build the derived indexes, so that the first search after `switch` finds them."""
        ...

    async def switch(self) -> bool:
        """Replace the chunks and vectors of the base; False if documents changed meanwhile."""
        ...


class Pending(NamedTuple):
    """Documents that the next generation lacks, and those that it should not have."""

    missing: list[tuple[str, str]]
    surplus: list[tuple[str, str]]


class SearchableStore(Protocol):
    """The part of a Store that searches need; see there."""

    @property
    def location(self) -> str:
        """Where the base is, for messages; without passwords."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The legs that this store can run."""
        ...

    @property
    def chunk_cache(self) -> ChunkCacheRepo | None:
        """Where chunks made at query time are kept, None if this store keeps none."""
        ...

    async def get(self, collection: str, document_id: str) -> Document | None:
        """A document, whole."""
        ...

    def view(self, where: Filter) -> AbstractAsyncContextManager[View]:
        """A consistent state of the store, seen through a filter."""
        ...


@runtime_checkable
class Store(SearchableStore, Protocol):
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
        ...

    @property
    def keyed_values(self) -> KeyedValues:
        """Keys and tasks of servers."""
        ...

    async def open(self) -> None:
        """Connect, migrate, load or repair the derived indexes."""
        ...

    async def close(self) -> None:
        """Finish writing and release all resources; may be called twice."""
        ...

    async def write(self, entries: Sequence[Entry]) -> None:
        """Store documents, each replacing its earlier version."""
        ...

    async def delete(self, where: Filter) -> list[str]:
        """Remove the matching documents with everything derived; their ids."""
        ...

    async def update(self, documents: Sequence[Document]) -> None:
        """Store new metadata for documents whose content has not changed."""
        ...

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        """What is stored of each of `ids`; those that are not stored are left out."""
        ...

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        """The matching documents in order of collection and id, without text and structure."""
        ...

    async def chunks(self, collection: str, document_id: str) -> list[Chunk]:
        """The chunks of a document, parents first, in order."""
        ...

    async def update_indexes(self, *, least: int = 1) -> None:
        """Bring the indexes that lack `least` changes or more up to date.

        A search does that as well, but has to wait for it. StoreError if an index can't be written.
        """
        ...

    async def info(self) -> StoreInfo:
        """What is in the store."""
        ...

    async def config(self) -> BaseConfig:
        """What the chunks and vectors in the store were made with."""
        ...

    def staging(self, config: BaseConfig) -> AbstractAsyncContextManager[Staging]:
        """The next generation of the base, to be made as `config` says.

        One that was left unfinished is resumed if it was to be made in the same way, otherwise it
        is dropped. StoreBusyError if another process is building one.
        """
        ...

    async def check(self) -> list[Finding]:
        """Check the base without changing anything; return at least one finding.

        What can't be read at all is a StoreError.
        """
        ...
