"""Full text inside the database file, by SQLite's FTS5.

FTS5 gives the BM25 score of each term; how terms add up is decided here, so that alternatives and
weights count as everywhere else. For the same reason its inverse document frequency, which falls to
nothing for a term that half of the chunks hold, is replaced by the usual one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import checkpoint
from lagotto.documents import storable
from lagotto.indexes.base import (
    REBUILD,
    START,
    ChunkKeys,
    ChunkText,
    FilterKeys,
    Finding,
    Hits,
    LogPosition,
    TextIndex,
    TextSnapshot,
    TextStatistics,
    text_rules,
    top_k,
)
from lagotto.indexes.bm25 import VocabularyCache, idf
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.text_query import (
    Either,
    Every,
    Likeness,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Without,
    Word,
)
from lagotto.stores.sql.changelog import RecordReader, SqlChangeLog
from lagotto.stores.sql.read import setting
from lagotto.stores.sql.statements import ReadConnection, Statement
from lagotto.terms import index_terms
from lagotto.terms.vocabulary import Vocabulary

_FIND = Statement("SELECT rowid, -bm25(chunk_terms) FROM chunk_terms WHERE chunk_terms MATCH :term")
_COUNT = Statement("SELECT count(*) FROM chunk_terms_docsize")
_FREQUENCY = Statement("SELECT doc FROM chunk_vocabulary WHERE term = :term")
_HAVING = Statement("SELECT count(*) FROM chunk_terms WHERE chunk_terms MATCH :wanted")
_KEYS = Statement("SELECT id FROM chunk_terms_docsize ORDER BY id")
_MATCHING = Statement(
    "SELECT rowid FROM chunk_terms WHERE chunk_terms MATCH :wanted ORDER BY rowid"
)
_WITH_TERMS = Statement("SELECT rowid FROM chunk_terms WHERE terms <> '' ORDER BY rowid")
_VOCABULARY = Statement("SELECT term FROM chunk_vocabulary")
_ADD = "INSERT INTO chunk_terms(rowid, terms) VALUES (?, ?)"
_REMOVE = "DELETE FROM chunk_terms WHERE rowid IN (SELECT key FROM chunk WHERE document_key = ?)"
_COUNTED = {
    "missing": Statement(
        "SELECT count(*) FROM chunk WHERE level <> 'parent' "
        "AND key NOT IN (SELECT id FROM chunk_terms_docsize)"
    ),
    "surplus": Statement(
        "SELECT count(*) FROM chunk_terms_docsize WHERE id NOT IN (SELECT key FROM chunk)"
    ),
}

# FTS5 would cut other strings into pieces, or read capitals as small letters.
_is_term = re.compile(r"(?:[a-z0-9_]|[^\x00-\x7f\ud800-\udfff])+").fullmatch

RULES_SETTING = "text_rules"

ContextText = tuple[str, str | None]
"""A chunk's text under its title and headings, and its language."""

PreparedTexts = Mapping[ContextText, Sequence[str]]
"""Texts with their terms."""

SMALLEST_IDF = 1e-6
"""What FTS5 takes for the inverse document frequency of a term that is everywhere."""


def is_current(connection: ReadConnection) -> bool:
    """Whether the terms are those that this version makes of the chunks."""
    return setting(connection, RULES_SETTING) == text_rules()


class Fts5Index(TextIndex[SqlChangeLog]):
    """A text index inside the record's file: written with the chunks, so it never lags."""

    kind = "fts5"
    position = START

    def __init__(self) -> None:
        self._vocabularies = VocabularyCache()
        self._chunks: dict[LogPosition, int] = {}

    def catch_up(self, changes: SqlChangeLog) -> Fts5Text:
        return Fts5Text(changes.reader, changes.head, self._vocabularies, self._chunks)

    def applied_seq(self, changes: SqlChangeLog) -> int:
        return changes.head.seq

    def check(self, changes: SqlChangeLog) -> Finding:
        missing, surplus = (
            _COUNTED[kind].scalar(changes.connection) for kind in ("missing", "surplus")
        )
        if not missing and not surplus:
            what = f"the text index in the file is up to date ({changes.head.seq} changes)"
            return Finding(level="ok", what=what)
        return Finding(
            level="problem",
            what=f"the text index lacks {missing} chunks, and has {surplus} that were removed",
            advice=REBUILD,
        )


def prepare_terms(texts: Iterable[ContextText]) -> PreparedTexts:
    """What `index_chunks` needs of texts, computed before the transaction that adds them.

    A transaction keeps other writers waiting, so it should not analyse texts.
    """
    prepared: dict[ContextText, Sequence[str]] = {}
    for each in texts:
        checkpoint()
        prepared[each] = index_terms(*each)
    return prepared


def remove_terms(changes: SqlChangeLog, document_keys: Sequence[int]) -> None:
    """Remove the chunks of documents, in the transaction that removes them."""
    for key in document_keys:
        changes.connection.exec_driver_sql(_REMOVE, (key,))


def open_fts5(_site: IndexSite) -> Fts5Index:
    """The FTS5 index of a base; its tables are in the file."""
    return Fts5Index()


class Fts5Text(TextSnapshot):
    """A TextSnapshot: what the transaction of a search sees of the tables.

    `chunks` is how many there were at the last position that was asked about.
    """

    def __init__(
        self,
        record: RecordReader,
        position: LogPosition,
        vocabularies: VocabularyCache,
        chunks: dict[LogPosition, int],
    ) -> None:
        self.position = position
        self._record = record
        self._vocabularies = vocabularies
        self._chunks = chunks

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        among = allowed.keys if allowed is not None else None
        return await self._record.ask(lambda connection: _search(connection, query, k, among))

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        return await self._record.ask(lambda connection: _scores(connection, query, keys))

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        return await self._record.ask(lambda connection: _matching(connection, match, among))

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return await self._record.ask(
            lambda connection: [_frequency(connection, word) for word in words],
            brief=all(len(word.terms) == 1 for word in words),
        )

    async def statistics(self) -> TextStatistics:
        """FTS5 keeps the mean length to itself."""
        position = self.position
        count = self._chunks.get(position)
        if count is None:
            count = int(await self._record.ask(_COUNT.scalar) or 0)
            self._chunks.clear()
            self._chunks[position] = count
        return TextStatistics(count, None)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        return await self._record.ask(
            lambda connection: wanted.find_all(self._vocabulary(connection), words)
        )

    def _vocabulary(self, connection: ReadConnection) -> Vocabulary:
        return self._vocabularies.at(self.position, lambda: _VOCABULARY.column(connection))


def expression(match: Word | Prefix | Phrase) -> str | None:
    """What FTS5 takes after MATCH for the chunks for which `match` holds; None for no chunk."""
    if isinstance(match, Word):
        return _any_of([(term,) for term in match.terms])
    if isinstance(match, Prefix):
        return f'"{match.start}" *' if _is_term(match.start) else None
    return _any_of(match.variants)


def _any_of(phrases: Sequence[Sequence[str]]) -> str | None:
    possible = [phrase for phrase in phrases if phrase and all(map(_is_term, phrase))]
    return " OR ".join(f'"{" ".join(phrase)}"' for phrase in possible) or None


def _frequency(connection: ReadConnection, word: Word) -> int:
    """How many chunks hold one of the word's terms; the vocabulary counts those of a single one."""
    if len(word.terms) == 1:
        return int(_FREQUENCY.scalar(connection, term=storable(word.terms[0])) or 0)
    wanted = expression(word)
    return int(_HAVING.scalar(connection, wanted=wanted)) if wanted else 0


def index_chunks(changes: SqlChangeLog, *, since: int, prepared: PreparedTexts) -> None:
    for start, stop in changes.ranges(since=since):
        if rows := _rows(changes.added_texts(start, stop), prepared):
            changes.connection.exec_driver_sql(_ADD, rows)


def _search(connection: ReadConnection, query: TextQuery, k: int, among: ChunkKeys | None) -> Hits:
    return top_k(*_found(connection, query, among=among), k)


def _scores(connection: ReadConnection, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
    found, scores = _found(connection, query, among=np.unique(keys))
    return _of(keys, found, scores)


def _matching(connection: ReadConnection, match: Match, among: ChunkKeys | None) -> ChunkKeys:
    """FTS5 finds words and phrases; its AND and OR only go so deep, and it has no NOT."""
    if isinstance(match, Every):
        for part in match.parts:
            among = _matching(connection, part, among)
        return _keys(connection, _KEYS) if among is None else among
    if isinstance(match, Either):
        lists = [_matching(connection, part, among) for part in match.parts]
        return np.unique(np.concatenate([np.empty(0, np.int64), *lists]))
    if isinstance(match, Without):
        seen = _keys(connection, _KEYS) if among is None else among
        wrong = _matching(connection, match.part, seen)
        return np.setdiff1d(seen, wrong, assume_unique=True)
    held = _holding(connection, match)
    return held if among is None else np.intersect1d(among, held, assume_unique=True)


def _found(
    connection: ReadConnection, query: TextQuery, *, among: ChunkKeys | None
) -> tuple[ChunkKeys, NDArray[np.float32]]:
    """Every chunk that the query asks for, ascending by key, with its score."""
    scored, scores = _scored(connection, query)
    if query.where is not None:
        found = _matching(connection, query.where, among)
    else:
        found = scored if among is None else np.intersect1d(scored, among, assume_unique=True)
    return found, _of(found, scored, scores)


def _scored(connection: ReadConnection, query: TextQuery) -> tuple[ChunkKeys, NDArray[np.float32]]:
    """Every chunk that holds a term, ascending by key, with its score."""
    count = int(_COUNT.scalar(connection))
    words = [_word(connection, word, count) for word in query.words]
    keys = _united([found for found, _ in words])
    total = np.zeros(len(keys))
    for found, scores in words:
        total[np.searchsorted(keys, found)] += scores
    return keys, total.astype(np.float32)


def _word(
    connection: ReadConnection, word: Sequence[Term], count: int
) -> tuple[ChunkKeys, NDArray[np.float64]]:
    """The chunks that hold a word, ascending, each with the score of its best alternative."""
    terms = [_term(connection, term, count) for term in word]
    keys = _united([found for found, _ in terms])
    best = np.zeros(len(keys))
    for found, scores in terms:
        positions = np.searchsorted(keys, found)
        best[positions] = np.maximum(best[positions], scores)
    return keys, best * idf(len(keys), count=count)


def _term(
    connection: ReadConnection, term: Term, count: int
) -> tuple[ChunkKeys, NDArray[np.float64]]:
    """The chunks that hold a term, with its weighted score without an IDF."""
    wanted = expression(Word((term.text,)))
    rows = _FIND.rows(connection, term=wanted) if wanted else []
    having = len(rows)
    theirs = max(math.log((count - having + 0.5) / (having + 0.5)), SMALLEST_IDF)
    keys = np.fromiter((key for key, _ in rows), np.int64, having)
    scores = np.fromiter((score for _, score in rows), np.float64, having)
    return keys, scores * (term.weight / theirs)


def _united(lists: Sequence[ChunkKeys]) -> ChunkKeys:
    return np.unique(np.concatenate([np.empty(0, np.int64), *lists]))


def _holding(connection: ReadConnection, match: Word | Prefix | Phrase) -> ChunkKeys:
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


def _keys(connection: ReadConnection, query: Statement, **values: str) -> ChunkKeys:
    keys = query.column(connection, **values)
    return np.fromiter(keys, np.int64, len(keys))


def _rows(texts: Sequence[ChunkText], prepared: PreparedTexts) -> list[tuple[int, str]]:
    rows: list[tuple[int, str]] = []
    for chunk in texts:
        checkpoint()
        terms = prepared.get((chunk.text, chunk.language))
        if terms is None:
            terms = index_terms(chunk.text, chunk.language)
        rows.append((chunk.key, " ".join(terms)))
    return rows
