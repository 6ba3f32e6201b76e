"""Full text inside the database file, by SQLite's FTS5.

FTS5 gives the BM25 score of each term; how terms add up is decided here, so that alternatives and
weights count as everywhere else. For the same reason its inverse document frequency, which falls to
nothing for a term that half of the chunks hold, is replaced by the usual one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import with_checkpoints
from lagotto.documents import storable
from lagotto.indexes import base, text_query
from lagotto.indexes.base import ChunkKeys, FilterKeys, Hits, LogPosition, TextSnapshot
from lagotto.indexes.bm25 import ScoredKeys, VocabularyCache, score_words
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.text_query import Likeness, Match, Phrase, Prefix, Term, TextQuery, Word
from lagotto.stores.base import Entry
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.read import counter, setting
from lagotto.stores.sql.statements import ReadConnection, Statement
from lagotto.terms import Vocabulary, index_terms

_FIND = "SELECT rowid, -bm25({terms}) FROM {terms} WHERE {terms} MATCH :term"
_COUNT = "SELECT count(*) FROM {terms}_docsize"
_FREQUENCY = "SELECT doc FROM {vocabulary} WHERE term = :term"
_HAVING = "SELECT count(*) FROM {terms} WHERE {terms} MATCH :wanted"
_KEYS = "SELECT id FROM {terms}_docsize ORDER BY id"
_MATCHING = "SELECT rowid FROM {terms} WHERE {terms} MATCH :wanted ORDER BY rowid"
_WITH_TERMS = "SELECT rowid FROM {terms} WHERE terms <> '' ORDER BY rowid"
_VOCABULARY = "SELECT term FROM {vocabulary}"
_ADD = "INSERT INTO {terms}(rowid, terms) VALUES (?, ?)"
_REMOVE = "DELETE FROM {terms} WHERE rowid IN (SELECT key FROM chunk WHERE document_key = ?)"
_COUNTED = {
    "missing": "SELECT count(*) FROM chunk WHERE level <> 'parent' AND generation = :generation "
    "AND key NOT IN (SELECT id FROM {terms}_docsize)",
    "surplus": "SELECT count(*) FROM {terms}_docsize WHERE id NOT IN (SELECT key FROM chunk)",
}
_CREATE = (
    """CREATE VIRTUAL TABLE {terms} USING fts5(terms, tokenize="ascii tokenchars '_'")""",
    "CREATE VIRTUAL TABLE {vocabulary} USING fts5vocab({terms}, row)",
)
_DROP = ("DROP TABLE IF EXISTS {vocabulary}", "DROP TABLE IF EXISTS {terms}")
_ALL = (
    "SELECT substr(name, 12) FROM sqlite_master WHERE name = 'chunk_terms' "
    "OR name GLOB 'chunk_terms_[0-9]*' AND name NOT GLOB 'chunk_terms_*_*'"
)

T = TypeVar("T")

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
    return setting(connection, RULES_SETTING) == base.text_rules()


@dataclass(frozen=True, slots=True)
class Fts5Tables:
    """The tables of a generation, as a connection sees them."""

    connection: ReadConnection
    generation: int

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        return Statement(self.named(sql)).rows(self.connection, **values)

    def scalar(self, sql: str, **values: Any) -> int:
        """The only value, 0 if there is none."""
        return int(Statement(self.named(sql)).scalar(self.connection, **values) or 0)

    def keys(self, sql: str, **values: str) -> ChunkKeys:
        return Statement(self.named(sql)).keys(self.connection, **values)

    def run(self, sql: str, values: Any = ()) -> None:
        self.connection.exec_driver_sql(self.named(sql), values)

    def named(self, sql: str) -> str:
        """A statement with the names of these tables."""
        suffix = f"_{self.generation}" if self.generation else ""
        return sql.format(terms=f"chunk_terms{suffix}", vocabulary=f"chunk_vocabulary{suffix}")

    def create(self) -> None:
        for statement in _CREATE:
            self.run(statement)

    def drop(self) -> None:
        for statement in _DROP:
            self.run(statement)

    def add(self, since: int, prepared: PreparedTexts) -> None:
        """Add the chunks that came after a change, in the same transaction."""
        head = LogPosition(counter(self.connection, "change"), 0)
        changes = SqlChangeLog(self.connection, head=head, generation=self.generation)
        for start, stop in changes.ranges(since=since):
            rows = []
            for chunk in with_checkpoints(changes.added_texts(start, stop)):
                terms = prepared.get((chunk.text, chunk.language))
                if terms is None:
                    terms = index_terms(chunk.text, chunk.language)
                rows.append((chunk.key, " ".join(terms)))
            if rows:
                self.run(_ADD, rows)

    def remove(self, document_keys: Sequence[int]) -> None:
        """Remove the chunks of documents, in the transaction that removes these."""
        for key in document_keys:
            self.run(_REMOVE, (key,))


def fts5_generations(connection: ReadConnection) -> list[int]:
    return [int(suffix.strip("_") or 0) for (suffix,) in Statement(_ALL).rows(connection)]


class Fts5Index(base.TextIndex[SqlChangeLog]):
    """A text index inside the record's file: written with the chunks, so it never lags."""

    kind = "fts5"
    position = base.START

    def __init__(self, site: IndexSite) -> None:
        self.generation = site.generation
        self.vocabularies = VocabularyCache()
        self.chunks: dict[LogPosition, int] = {}
        """How many chunks there were at the last position that was asked about."""

    def catch_up(self, changes: SqlChangeLog) -> Fts5Text:
        return Fts5Text(self, changes)

    def applied_seq(self, changes: SqlChangeLog) -> int:
        return changes.head.seq

    def check(self, changes: SqlChangeLog) -> base.Finding:
        tables = Fts5Tables(changes.connection, self.generation)
        missing = tables.scalar(_COUNTED["missing"], generation=self.generation)
        surplus = tables.scalar(_COUNTED["surplus"])
        if not missing and not surplus:
            return base.ok(f"the text index in the file is up to date ({changes.head.seq} changes)")
        what = f"the text index lacks {missing} chunks, and has {surplus} that were removed"
        return base.problem(what, base.REBUILD)


def prepare_terms(entries: Sequence[Entry], main: Mapping[str, str | None]) -> PreparedTexts:
    """What `Fts5Tables.add` needs of texts; `main` are the languages of collections.

    Computed before the transaction that adds them: it keeps other writers waiting.
    """
    prepared: dict[ContextText, Sequence[str]] = {}
    for entry in entries:
        document = entry.document
        language = document.language or main[document.collection]
        for chunk in with_checkpoints(entry.chunks):
            if chunk.level != "parent":
                text = chunk.in_context(document.title)
                prepared[text, language] = index_terms(text, language)
    return prepared


class Fts5Text(TextSnapshot):
    """A TextSnapshot: what the transaction of a search sees of the tables."""

    def __init__(self, index: Fts5Index, changes: SqlChangeLog) -> None:
        self.position = changes.head
        self._index = index
        self._record = changes.reader

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        among = allowed.keys if allowed is not None else None

        def search(tables: Fts5Tables) -> Hits:
            hits = _hits(tables, query, among=among)
            return base.top_k(hits.keys, hits.scores, k)

        return await self._ask(search)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        hits = await self._ask(lambda tables: _hits(tables, query, among=np.unique(keys)))
        return hits.scores_of(keys, ascending=True)

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        return await self._ask(lambda tables: _matching(tables, match, among))

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return await self._ask(
            lambda tables: [_frequency(tables, word) for word in words],
            brief=all(len(word.terms) == 1 for word in words),
        )

    async def statistics(self) -> base.TextStatistics:
        """FTS5 keeps the mean length to itself."""
        known = self._index.chunks
        if (count := known.get(self.position)) is None:
            count = await self._ask(lambda tables: tables.scalar(_COUNT))
            known.clear()
            known[self.position] = count
        return base.TextStatistics(count, None)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        def find(tables: Fts5Tables) -> list[tuple[Term, ...]]:
            vocabulary = self._index.vocabularies.at(
                self.position, lambda: Vocabulary(term for (term,) in tables.rows(_VOCABULARY))
            )
            return wanted.find_all(vocabulary, words)

        return await self._ask(find)

    async def _ask(self, question: Callable[[Fts5Tables], T], *, brief: bool = False) -> T:
        generation = self._index.generation
        return await self._record.ask(
            lambda connection: question(Fts5Tables(connection, generation)), brief=brief
        )


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


def _frequency(tables: Fts5Tables, word: Word) -> int:
    """How many chunks hold one of the word's terms; the vocabulary counts those of a single one."""
    if len(word.terms) == 1:
        return tables.scalar(_FREQUENCY, term=storable(word.terms[0]))
    wanted = expression(word)
    return tables.scalar(_HAVING, wanted=wanted) if wanted else 0


def _matching(tables: Fts5Tables, match: Match, among: ChunkKeys | None) -> ChunkKeys:
    """FTS5 finds words and phrases; its AND and OR only go so deep, and it has no NOT."""
    if isinstance(match, text_query.Every):
        for part in match.parts:
            among = _matching(tables, part, among)
        return tables.keys(_KEYS) if among is None else among
    if isinstance(match, text_query.Either):
        return base.union([_matching(tables, part, among) for part in match.parts])
    if isinstance(match, text_query.Without):
        seen = tables.keys(_KEYS) if among is None else among
        wrong = _matching(tables, match.part, seen)
        return np.setdiff1d(seen, wrong, assume_unique=True)
    if match == Prefix(""):
        keys = tables.keys(_WITH_TERMS)
    elif wanted := expression(match):
        keys = tables.keys(_MATCHING, wanted=wanted)
    else:
        keys = np.empty(0, np.int64)
    return keys if among is None else np.intersect1d(among, keys, assume_unique=True)


def _hits(tables: Fts5Tables, query: TextQuery, *, among: ChunkKeys | None) -> Hits:
    """Every chunk that the query asks for, ascending by key."""
    count = tables.scalar(_COUNT)
    scored = score_words(query.words, partial(_scored, tables, count=count), count=count)
    if query.where is not None:
        keys = _matching(tables, query.where, among)
    elif among is None:
        return scored
    else:
        keys = np.intersect1d(scored.keys, among, assume_unique=True)
    return Hits(keys, scored.scores_of(keys, ascending=True))


def _scored(tables: Fts5Tables, term: Term, *, count: int) -> ScoredKeys:
    """The chunks that hold a term, with its weighted score without an IDF."""
    wanted = expression(Word((term.text,)))
    rows = tables.rows(_FIND, term=wanted) if wanted else []
    having = len(rows)
    theirs = max(math.log((count - having + 0.5) / (having + 0.5)), SMALLEST_IDF)
    keys = np.fromiter((key for key, _ in rows), np.int64, having)
    scores = np.fromiter((score for _, score in rows), np.float64, having)
    return keys, scores * (term.weight / theirs)
