"""Full text inside the database file, by SQLite's FTS5.

FTS5 gives the BM25 score of each term; how terms add up is decided here, so that alternatives and
weights count as everywhere else. For the same reason its inverse document frequency, which falls to
nothing for a term that half of the chunks hold, is replaced by the usual one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from lagotto.stores.base import ChunkKeys, Term, TextQuery
from lagotto.stores.hits import Hits
from lagotto.stores.reading import counter
from lagotto.stores.sqlite.changes import ChunkText, added_texts, ranges
from lagotto.terms import analyze

_CREATE = """
CREATE VIRTUAL TABLE IF NOT EXISTS chunk_terms USING fts5(terms, tokenize="ascii tokenchars '_'")
"""
_CREATE_VOCABULARY = """
CREATE VIRTUAL TABLE IF NOT EXISTS chunk_vocabulary USING fts5vocab(chunk_terms, row)
"""
_FIND = text("SELECT rowid, -bm25(chunk_terms) FROM chunk_terms WHERE chunk_terms MATCH :term")
_COUNT = text("SELECT count(*) FROM chunk_terms_docsize")
_KNOWN = text("SELECT 1 FROM chunk_vocabulary WHERE term = :term")
_VOCABULARY = text("SELECT term FROM chunk_vocabulary")
_ADD = text("INSERT INTO chunk_terms(rowid, terms) VALUES (:key, :terms)")
_REMOVE = text(
    "DELETE FROM chunk_terms WHERE rowid IN (SELECT key FROM chunk WHERE document_key = :document)"
)

SMALLEST_IDF = 1e-6
"""What FTS5 takes for the inverse document frequency of a term that is everywhere."""


def create_fts5(connection: Connection) -> None:
    """Make the tables."""
    connection.exec_driver_sql(_CREATE)
    connection.exec_driver_sql(_CREATE_VOCABULARY)


class Fts5Leg:
    """Always up to date, since it is written with the chunks."""

    quick = False

    def search(
        self,
        connection: Connection,
        query: TextQuery,
        *,
        k: int,
        allowed: ChunkKeys | None,
    ) -> Hits:
        keys, scores = self._all(connection, query)
        if allowed is not None:
            inside = np.isin(keys, allowed, assume_unique=True)
            keys, scores = keys[inside], scores[inside]
        order = np.lexsort((keys, -scores))[:k]
        return Hits(keys[order], scores[order])

    def scores(
        self, connection: Connection, query: TextQuery, keys: ChunkKeys
    ) -> NDArray[np.float32]:
        found, scores = self._all(connection, query)
        if not len(found):
            return np.zeros(len(keys), np.float32)
        places = np.minimum(np.searchsorted(found, keys), len(found) - 1)
        return np.where(found[places] == keys, scores[places], np.float32(0))

    def unknown(self, connection: Connection, terms: Sequence[str]) -> set[str]:
        known = [connection.scalar(_KNOWN, {"term": term}) for term in terms]
        return {term for term, found in zip(terms, known, strict=True) if not found}

    def vocabulary(self, connection: Connection) -> Sequence[str]:
        return (connection.scalars(_VOCABULARY)).all()

    def index(self, connection: Connection, *, since: int) -> None:
        until = counter(connection, "change")
        for start, stop in ranges(connection, since=since, until=until):
            texts = added_texts(connection, start, stop)
            rows = _rows(texts)
            if rows:
                connection.execute(_ADD, rows)

    def forget(self, connection: Connection, document_keys: Sequence[int]) -> None:
        for key in document_keys:
            connection.execute(_REMOVE, {"document": key})

    def catch_up(self, connection: Connection, *, until: int) -> bool:
        """Nothing to do."""
        return True

    def _all(
        self, connection: Connection, query: TextQuery
    ) -> tuple[ChunkKeys, NDArray[np.float32]]:
        """Every chunk that holds a term, ascending by key, with its score."""
        count = int((connection.execute(_COUNT)).scalar_one())
        words = [[self._term(connection, term, count) for term in word] for word in query.words]
        lists = [keys for word in words for keys, _ in word]
        keys = np.unique(np.concatenate([np.empty(0, np.int64), *lists]))
        total = np.zeros(len(keys))
        for word in words:
            best = np.zeros(len(keys))
            for found, scores in word:
                places = np.searchsorted(keys, found)
                best[places] = np.maximum(best[places], scores)
            total += best
        return keys, total.astype(np.float32)

    def _term(
        self, connection: Connection, term: Term, count: int
    ) -> tuple[ChunkKeys, NDArray[np.float64]]:
        rows = (connection.execute(_FIND, {"term": f'"{term.text}"'})).all()
        having = len(rows)
        theirs = max(math.log((count - having + 0.5) / (having + 0.5)), SMALLEST_IDF)
        ours = math.log(1 + (count - having + 0.5) / (having + 0.5))
        keys = np.fromiter((key for key, _ in rows), np.int64, having)
        scores = np.fromiter((score for _, score in rows), np.float64, having)
        return keys, scores * (term.weight * ours / theirs)


def _rows(texts: Sequence[ChunkText]) -> list[dict[str, object]]:
    return [
        {"key": chunk.key, "terms": " ".join(analyze(chunk.text, chunk.language))}
        for chunk in texts
    ]
