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
from sqlalchemy import Connection, TextClause, text

from lagotto.documents import storable
from lagotto.indexes.base import START, ChunkKeys, Finding, LogPosition
from lagotto.indexes.bm25 import idf
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import (
    Either,
    Every,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Without,
    Word,
)
from lagotto.stores.sql.changelog import ChunkText, added_texts, ranges
from lagotto.stores.sql.read import counter
from lagotto.stores.sqlite.fts5_match import expression
from lagotto.terms import analyze

_CREATE = """
CREATE VIRTUAL TABLE IF NOT EXISTS chunk_terms USING fts5(terms, tokenize="ascii tokenchars '_'")
"""
_CREATE_VOCABULARY = """
CREATE VIRTUAL TABLE IF NOT EXISTS chunk_vocabulary USING fts5vocab(chunk_terms, row)
"""
_FIND = text("SELECT rowid, -bm25(chunk_terms) FROM chunk_terms WHERE chunk_terms MATCH :term")
_COUNT = text("SELECT count(*) FROM chunk_terms_docsize")
_FREQUENCY = text("SELECT doc FROM chunk_vocabulary WHERE term = :term")
_KEYS = text("SELECT id FROM chunk_terms_docsize ORDER BY id")
_MATCHING = text("SELECT rowid FROM chunk_terms WHERE chunk_terms MATCH :wanted ORDER BY rowid")
_WITH_TERMS = text("SELECT rowid FROM chunk_terms WHERE terms <> '' ORDER BY rowid")
_VOCABULARY = text("SELECT term FROM chunk_vocabulary")
_ADD = text("INSERT INTO chunk_terms(rowid, terms) VALUES (:key, :terms)")
_REMOVE = text(
    "DELETE FROM chunk_terms WHERE rowid IN (SELECT key FROM chunk WHERE document_key = :document)"
)
_COUNTED = {
    "missing": text(
        "SELECT count(*) FROM chunk WHERE level <> 'parent' "
        "AND key NOT IN (SELECT id FROM chunk_terms_docsize)"
    ),
    "surplus": text(
        "SELECT count(*) FROM chunk_terms_docsize WHERE id NOT IN (SELECT key FROM chunk)"
    ),
}

SMALLEST_IDF = 1e-6
"""What FTS5 takes for the inverse document frequency of a term that is everywhere."""


def create_fts5(connection: Connection) -> None:
    """Make the tables."""
    connection.exec_driver_sql(_CREATE)
    connection.exec_driver_sql(_CREATE_VOCABULARY)


def drop_fts5(connection: Connection) -> None:
    """Delete the tables, if there are any."""
    for table in ("chunk_vocabulary", "chunk_terms"):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS main.{table}")


def copy_fts5(connection: Connection, *, source: str) -> None:
    """Take over the terms of all chunks from an attached database."""
    connection.exec_driver_sql(
        f"INSERT INTO main.chunk_terms(rowid, terms) SELECT rowid, terms FROM {source}.chunk_terms"
    )


def rebuild_fts5(connection: Connection) -> None:
    """Index all chunks again."""
    connection.exec_driver_sql("DELETE FROM chunk_terms")
    Fts5Index().index(connection, since=0)


class Fts5Index:
    """Always up to date, since it is written with the chunks."""

    quick = False

    def search(
        self,
        connection: Connection,
        query: TextQuery,
        *,
        k: int,
        allowed: FilterKeys | None,
    ) -> Hits:
        keys, scores = self._found(connection, query, among=allowed.keys if allowed else None)
        order = np.lexsort((keys, -scores))[:k]
        return Hits(keys[order], scores[order])

    def scores(
        self, connection: Connection, query: TextQuery, keys: ChunkKeys
    ) -> NDArray[np.float32]:
        found, scores = self._found(connection, query, among=np.unique(keys))
        return _of(keys, found, scores)

    def matching(
        self, connection: Connection, match: Match, among: ChunkKeys | None = None
    ) -> ChunkKeys:
        """FTS5 looks for words and phrases; its AND and OR only go so deep, and it has no NOT."""
        if isinstance(match, Every):
            for part in match.parts:
                among = self.matching(connection, part, among)
            return _keys(connection, _KEYS) if among is None else among
        if isinstance(match, Either):
            lists = [self.matching(connection, part, among) for part in match.parts]
            return np.unique(np.concatenate([np.empty(0, np.int64), *lists]))
        if isinstance(match, Without):
            seen = _keys(connection, _KEYS) if among is None else among
            wrong = self.matching(connection, match.part, seen)
            return np.setdiff1d(seen, wrong, assume_unique=True)
        held = _holding(connection, match)
        return held if among is None else np.intersect1d(among, held, assume_unique=True)

    def frequencies(self, connection: Connection, terms: Sequence[str]) -> list[int]:
        return [connection.scalar(_FREQUENCY, {"term": storable(term)}) or 0 for term in terms]

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

    @property
    def position(self) -> LogPosition:
        """It has none: what a connection sees of it is what it sees of the chunks."""
        return START

    def catch_up(self, connection: Connection, *, until: LogPosition) -> bool:
        """Nothing to do."""
        return True

    def discard(self, former: LogPosition) -> None:
        """Nothing to do."""

    def check(self, connection: Connection, *, until: LogPosition) -> Finding:
        missing, surplus = (connection.scalar(_COUNTED[kind]) for kind in ("missing", "surplus"))
        if not missing and not surplus:
            return Finding(level="ok", what="the text index in the file is up to date")
        return Finding(
            level="problem",
            what=f"the text index lacks {missing} chunks, and has {surplus} that are gone",
            advice="`lagotto copy` makes a base with a new one",
        )

    def _found(
        self, connection: Connection, query: TextQuery, *, among: ChunkKeys | None
    ) -> tuple[ChunkKeys, NDArray[np.float32]]:
        """Every chunk that the query asks for, ascending by key, with its score."""
        scored, scores = self._scored(connection, query)
        if query.where is not None:
            found = self.matching(connection, query.where, among)
        else:
            found = scored if among is None else np.intersect1d(scored, among, assume_unique=True)
        return found, _of(found, scored, scores)

    def _scored(
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
        wanted = expression(Word((term.text,)))
        rows = connection.execute(_FIND, {"term": wanted}).all() if wanted else []
        having = len(rows)
        theirs = max(math.log((count - having + 0.5) / (having + 0.5)), SMALLEST_IDF)
        keys = np.fromiter((key for key, _ in rows), np.int64, having)
        scores = np.fromiter((score for _, score in rows), np.float64, having)
        return keys, scores * (term.weight * idf(having, count=count) / theirs)


def _holding(connection: Connection, match: Word | Prefix | Phrase) -> ChunkKeys:
    """The chunks for which `match` holds, ascending."""
    if match == Prefix(""):
        return _keys(connection, _WITH_TERMS)
    wanted = expression(match)
    return _keys(connection, _MATCHING, wanted=wanted) if wanted else np.empty(0, np.int64)


def _of(keys: ChunkKeys, found: ChunkKeys, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """The score of each of `keys`, 0 for those that are not among the ascending `found`."""
    if not len(found):
        return np.zeros(len(keys), np.float32)
    places = np.minimum(np.searchsorted(found, keys), len(found) - 1)
    return np.where(found[places] == keys, scores[places], np.float32(0))


def _keys(connection: Connection, statement: TextClause, **values: str) -> ChunkKeys:
    keys = connection.scalars(statement, values).all()
    return np.fromiter(keys, np.int64, len(keys))


def _rows(texts: Sequence[ChunkText]) -> list[dict[str, object]]:
    return [
        {"key": chunk.key, "terms": " ".join(analyze(chunk.text, chunk.language))}
        for chunk in texts
    ]
