"""What only PostgreSQL can do: ts_rank, trigrams of whole texts, both legs in one statement.

The table chunk_words has chunks as the server's text search configurations read them. It exists
only in a base that was searched with ts_rank or ts_rank_cd, since it takes space and time that BM25
has no use for. Once it exists, every write keeps it up to date. The setting `native_text` lists the
configurations that it was built with: those the server had then.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, LiteralString

import numpy as np
from numpy.typing import NDArray
from psycopg import errors
from sqlalchemy import Connection, text

from lagotto.documents import storable
from lagotto.errors import ConfigError, QueryError, StoreError
from lagotto.indexes.base import ChunkKeys, ChunkText, FilterKeys, Hits, top_k
from lagotto.indexes.bm25 import K1, B
from lagotto.indexes.text_query import NativeQuery, TextQuery
from lagotto.prefs import FtsMode
from lagotto.stores.base import HybridHits, HybridQuery, Passage, Scale
from lagotto.stores.postgres.database import KeysParameter, ReadTransaction, VectorParameter
from lagotto.stores.postgres.schema import CREATE_WORDS
from lagotto.stores.postgres.vector_index import PgVectors, Way
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.generations import read_next
from lagotto.stores.sql.read import passages_of, read_config, setting
from lagotto.stores.sql.statements import FINDABLE, PASSAGE_COLUMNS, SELECT_PASSAGES, joined_keys
from lagotto.stores.sql.write import put_setting
from lagotto.terms.languages import NAMES, UNSTEMMED, is_language, language_of

if TYPE_CHECKING:
    from lagotto.stores.postgres.text_index import Statistics

Change = Callable[[Callable[[Connection], Any]], Coroutine[None, None, Any]]
"""Runs a change of the base while nobody else writes."""

log = logging.getLogger(__name__)

_KNOWN = text(
    "SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace "
    "ORDER BY cfgname"
)
_RIGHTS = text(
    "SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' "
    "ELSE quote_ident(pg_get_userbyid(grantee)) END "
    "FROM pg_class, aclexplode(relacl) WHERE oid = 'chunk'::regclass AND grantee != relowner"
)

_READ_BY: Mapping[FtsMode, LiteralString] = {
    "web": "websearch_to_tsquery(config::regconfig, %(text)s)",
    "plain": "plainto_tsquery(config::regconfig, %(text)s)",
    "phrase": "phraseto_tsquery(config::regconfig, %(text)s)",
    "strict": "to_tsquery(config::regconfig, %(text)s)",
    # No function joins words by OR. A lexeme may contain anything, so it is quoted.
    "any": r"""(
        SELECT string_agg(
            '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''', ' | '
        )::tsquery
        FROM unnest(tsvector_to_array(to_tsvector(config::regconfig, %(text)s))) AS lexeme
    )""",
}

# Materialized, or the query would be parsed again for every chunk.
_MATCHES: LiteralString = """
WITH queries AS MATERIALIZED (
    SELECT config, {query} AS query FROM unnest(%(configs)s::text[]) AS config
)
SELECT chunk_key, {function}(words, query) AS score
FROM queries JOIN chunk_words
    ON words @@ query AND (chunk_words.config = queries.config OR %(everywhere)s)
    AND chunk_words.generation = %(generation)s {within}
"""
_WITHIN: LiteralString = "AND chunk_key = ANY(%(allowed)s)"
_ALL: LiteralString = """
SELECT string_agg(int8send(chunk_key), ''), string_agg(float4send(score), '')
FROM ({matches}) AS matching
"""

_HAS_CONFIG: LiteralString = """
SELECT EXISTS (
    SELECT 1 FROM pg_ts_config AS c JOIN pg_namespace AS n ON n.oid = cfgnamespace,
        parse_ident(%(name)s) AS path
    WHERE path = ARRAY[nspname::text, cfgname::text]
        OR path = ARRAY[cfgname::text] AND pg_ts_config_is_visible(c.oid)
)
"""

LONGEST = 10_000  # characters of a query that are used: the server's stack is limited
FEW = 5_000
"""A filter that leaves at most this many chunks is sent to the server, which ranks only these."""

REFUSALS = (errors.SyntaxError, errors.ProgramLimitExceeded, errors.StatementTooComplex)

MOST_CHARACTERS = 2_500_000
"""Characters that one core compares in about half a second: 3,000 chunks of 800, for example."""

MOST_CHUNKS = 20_000  # with more chunks, their characters are not counted

_ANY: LiteralString = "level <> 'parent' AND generation = %(generation)s"
_THESE: LiteralString = "chunk.key = ANY(%(keys)s)"
_WORK: LiteralString = 'SELECT coalesce(sum("end" - start), 0)::bigint FROM chunk WHERE '
_SIMILARITY: LiteralString = "word_similarity(%(words)s, chunk_text.text)"
_NEARER: LiteralString = (
    f"{_SIMILARITY} + %(bonus)s * (1 - {_SIMILARITY}) * (chunk_text.text ~* %(near)s)::int"
)
_COMPARED: LiteralString = """
SELECT chunk.key, {similarity} AS score
FROM chunk JOIN chunk_text ON chunk_text.chunk_key = chunk.key WHERE """
_ALIKE: LiteralString = "%(words)s::text <%% chunk_text.text AND "
_BEST: LiteralString = " ORDER BY score DESC, chunk.key LIMIT %(limit)s"
_THRESHOLD: LiteralString = (
    "SELECT set_config('pg_trgm.word_similarity_threshold', %(threshold)s, true)"
)
_INDEX = "chunk_text_trigrams"
_EXISTS: LiteralString = (
    f"SELECT to_regclass(quote_ident(current_schema()) || '.{_INDEX}') IS NOT NULL"
)

_CREATE_TRIGRAMS = text(
    f"CREATE INDEX IF NOT EXISTS {_INDEX} ON chunk_text USING gin (text gin_trgm_ops)"
)

_COSINE: LiteralString = "(-(vector <#> %(query)s))::float4"

# An out-of-line value would be fetched again for every byte; concatenation makes it inline.
BY_TERMS: LiteralString = f"""
WITH records AS MATERIALIZED (
    SELECT term, records || ''::bytea AS records FROM posting
    WHERE term = ANY(%(terms)s) AND generation = %(generation)s
), counts AS MATERIALIZED (
    SELECT term, get_byte(records, at) + (get_byte(records, at + 1) << 8)
        + (get_byte(records, at + 2) << 16) + (get_byte(records, at + 3)::bigint << 24)
        AS chunk_key,
        (get_byte(records, at + 4) + (get_byte(records, at + 5) << 8))::float8 AS times,
        (get_byte(records, at + 6) + (get_byte(records, at + 7) << 8))::float8 AS length
    FROM records, generate_series(0, octet_length(records) - 8, 8) AS at
), live AS MATERIALIZED (
    SELECT * FROM counts WHERE NOT EXISTS (SELECT FROM gone WHERE gone.chunk_key = counts.chunk_key)
), terms AS (
    SELECT * FROM unnest(%(texts)s::text[], %(words)s::int[], %(weights)s::float8[])
        AS terms (term, word, weight)
), frequencies AS (
    SELECT word, count(DISTINCT chunk_key) AS holders
    FROM live JOIN terms USING (term) GROUP BY word
), weights AS (
    SELECT term, word,
        weight * ln(1 + (%(chunks)s - holders + 0.5::float8) / (holders + 0.5::float8)) AS tells
    FROM terms JOIN frequencies USING (word)
), worded AS (
    SELECT chunk_key, word, max(
        tells * times * ({K1} + 1)::float8
        / (times + {K1}::float8 * (1 - {B}::float8 + {B}::float8 * length / %(mean)s))
    ) AS score
    FROM live JOIN weights USING (term) GROUP BY chunk_key, word
)
SELECT chunk_key, sum(score ORDER BY word)::float4 AS score FROM worded GROUP BY chunk_key
"""
"""BM25 from the postings: a word has one IDF, and counts by its best alternative."""

_RECIPROCAL: LiteralString = "coalesce((%(rrf_k)s + 1)::float8 / (%(rrf_k)s + {rank}), 0)"
_SHARE: LiteralString = "greatest({score}, 0) / nullif(greatest(max({score}) OVER (), 0), 0)"
_BY_WORDS: LiteralString = _SHARE.format(score="text::float8")
_FUSED: Mapping[Scale, tuple[LiteralString, LiteralString]] = {
    "rrf": (
        _RECIPROCAL.format(rank="semantic_rank"),
        _RECIPROCAL.format(rank="text_rank"),
    ),
    "absolute": (
        "greatest((semantic::float8 - %(floor)s) "
        "/ (greatest(1, max(semantic) OVER ())::float8 - %(floor)s), 0)",
        _BY_WORDS,
    ),
    "theoretical": (_SHARE.format(score="(semantic::float8 + 1)"), _BY_WORDS),
}

_STATEMENT: LiteralString = """
WITH nearest AS MATERIALIZED ({nearest}
), semantic_leg AS MATERIALIZED (
    SELECT chunk_key, score, rank() OVER (ORDER BY score DESC) AS rank FROM (
        SELECT chunk_key, {cosine} AS score FROM nearest
        ORDER BY score DESC, chunk_key LIMIT {depth}
    ) AS best WHERE score >= %(least_semantic)s::float4
), matching AS MATERIALIZED ({matches}
), text_leg AS MATERIALIZED (
    SELECT chunk_key, score, rank() OVER (ORDER BY score DESC) AS rank FROM (
        SELECT chunk_key, score FROM matching WHERE {allowed}
        ORDER BY score DESC, chunk_key LIMIT {depth}
    ) AS best WHERE score >= %(least_text)s::float4
), candidate AS MATERIALIZED (
    SELECT chunk_key, s.rank AS semantic_rank, t.rank AS text_rank,
        {semantic} AS semantic, {text} AS text
    FROM semantic_leg AS s FULL JOIN text_leg AS t USING (chunk_key) {filled}
), fused AS MATERIALIZED (
    SELECT *, least(greatest((
        %(semantic_weight)s * coalesce({by_meaning}, 0) + %(text_weight)s * coalesce({by_words}, 0)
    ) / (%(semantic_weight)s + %(text_weight)s), 0), 1) AS score FROM candidate
), chosen AS (
    SELECT chunk_key FROM fused ORDER BY score DESC, least(semantic_rank, text_rank)
    FETCH FIRST {passages} ROWS WITH TIES
), joined AS (
    SELECT string_agg(
        int8send(chunk_key) || float4send(coalesce(semantic, 'NaN'))
        || float4send(coalesce(text, 'NaN')) || int8send(coalesce(semantic_rank, 0))
        || int8send(coalesce(text_rank, 0)) || float8send(score), '' ORDER BY chunk_key
    ) AS candidates FROM fused
), passage AS ({hydrated})
SELECT CASE row_number() OVER () WHEN 1 THEN candidates END, passage.*
FROM joined LEFT JOIN passage ON true
"""

_CANDIDATE = np.dtype(
    [
        ("key", ">i8"),
        ("semantic", ">f4"),
        ("text", ">f4"),
        ("semantic_rank", ">i8"),
        ("text_rank", ">i8"),
        ("fused", ">f8"),
    ]
)

BoundStatement = tuple[LiteralString, dict[str, Any]]


@dataclass(slots=True)
class PostgresNative:
    """What only the server can do, for one view; `allowed` are the chunks that its filter leaves.

    Three things: ranking by its functions; words compared with whole texts by their trigrams; both
    legs in one statement. `prefetched` has passages that a statement has read on
    the way. `configs` are those of the index of words, None if the search sees a state without.
    """

    reader: ReadTransaction
    indexes: NativeIndexes
    configs: Configs | None
    known: Statistics
    vectors: PgVectors
    languages: Callable[[], Awaitable[Sequence[str | None]]]
    allowed: FilterKeys | None = None
    prefetched: dict[int, Passage] = field(default_factory=dict)
    _new_configs: list[Configs] = field(default_factory=list)  # shared with other filters
    _scored: dict[NativeQuery, Hits] = field(default_factory=dict)

    def within(self, allowed: FilterKeys | None) -> PostgresNative:
        return replace(self, allowed=allowed, _scored={})

    async def prepare(self, query: NativeQuery) -> None:
        """Build the index if needed; run a strict query now, since the server may reject it.

        A QueryError if it can't be parsed, a StoreError if there is no index and none can be built;
        the query can then be asked in another way.
        """
        if query.config is not None and not is_language(query.config):
            ((exists,),) = await self.reader.rows(_HAS_CONFIG, {"name": query.config})
            if not exists:
                raise ConfigError(
                    f"fts.config: {query.config!r} is neither a language nor a text search "
                    "configuration on the search path of this database; name one as english or en, "
                    "or as schema.name (psql lists them with \\dF)"
                )
        if not (self.configs or self._new_configs):
            self._new_configs.append(await self.indexes.words())
        if query.mode == "strict":
            await self._score(query)

    async def search(self, query: NativeQuery, *, k: int) -> Hits:
        hits = await self._score(query)
        return top_k(hits.keys, hits.scores, k)

    async def scores(self, query: NativeQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        return (await self._score(query)).scores_of(keys, ascending=True)

    async def _ranked(self, query: NativeQuery) -> BoundStatement:
        """A statement for all matches with their scores, and its parameters."""
        known = self.configs or next(iter(self._new_configs), ())
        languages = await self.languages() if query.config is None else [query.config]
        own = query.config is not None and not is_language(query.config)
        if not own:
            languages = sorted({config_of(language, known) for language in languages})
        parameters: dict[str, Any] = {
            "text": storable(query.text)[:LONGEST],
            "configs": languages,
            "everywhere": query.config is not None,
            "generation": self.known.generation,
        }
        within: LiteralString = ""
        if self.allowed is not None and len(self.allowed.keys) <= FEW:
            parameters["allowed"], within = KeysParameter(self.allowed.keys), _WITHIN
        read = _READ_BY[query.mode]
        return _MATCHES.format(function=query.function, query=read, within=within), parameters

    async def _score(self, query: NativeQuery) -> Hits:
        """The chunks that match, by ascending keys."""
        if query not in self._scored:
            keys, scores = await self._matches(query)
            seen = keys <= self.known.last_key  # a fresh reader may know newer ones
            if self.allowed is not None:
                seen &= self.allowed.contains(keys)
            order = np.flatnonzero(seen)[np.argsort(keys[seen])]
            self._scored[query] = Hits(keys[order], scores[order])
        return self._scored[query]

    async def _matches(self, query: NativeQuery) -> tuple[ChunkKeys, NDArray[np.float32]]:
        """The rows in the state that the search sees, or in the latest one if that has no index."""
        matches, parameters = await self._ranked(query)
        latest = nullcontext(self.reader) if self.configs else self.indexes.fresh()
        async with latest as reader:
            try:
                ((keys, ranks),) = await reader.rows(_ALL.format(matches=matches), parameters)
            except REFUSALS as exc:
                problem = (
                    f"PostgreSQL can't read this as a tsquery ({exc.diag.message_primary}); join "
                    "words by & | ! <-> and close every parenthesis and quotation"
                )
                raise QueryError(query.text, 0, problem) from exc
        return joined_keys(keys), np.frombuffer(ranks or b"", ">f4").astype(np.float32)

    async def comparable(self) -> bool:
        """Whether all texts can be compared within about half a second."""
        count = self.known.chunks if self.allowed is None else len(self.allowed.keys)
        if count > MOST_CHUNKS:
            return False
        which, parameters = self._scope()
        ((work,),) = await self.reader.rows(_WORK + which, parameters)
        if work > MOST_CHARACTERS:
            return False
        await self.indexes.trigrams(self.reader)
        return True

    def _scope(self) -> BoundStatement:
        """The condition for the chunks that are allowed."""
        if self.allowed is None:
            return _ANY, {"generation": self.known.generation}
        return _THESE, {"keys": KeysParameter(self.allowed.keys)}

    async def search_texts(
        self, words: str, *, threshold: float, k: int, near: Sequence[str] = (), bonus: float = 0.0
    ) -> Hits:
        """The `k` chunks whose texts are most like the words, by `threshold` or more.

        The score is the word similarity of trigrams, from 0 to 1: that of the words to the stretch
        of the text that is most like them. A text that has one of the words `near`, too, gets the
        share `bonus` of what it lacks to 1.
        """
        self.reader.soon(_THRESHOLD, {"threshold": str(threshold)})
        # the index of trigrams knows no texts that share none
        alike = _ALIKE if threshold > 0 else ""
        compared, parameters = _compared(words, near, bonus)
        which, scope = self._scope()
        statement = compared + alike + which + _BEST
        rows = await self.reader.rows(statement, {**parameters, **scope, "limit": max(k, 0)})
        keys, scores = zip(*rows, strict=True) if rows else ((), ())
        return Hits(np.array(keys, np.int64), np.array(scores, np.float32))

    async def text_scores(
        self, words: str, keys: ChunkKeys, *, near: Sequence[str] = (), bonus: float = 0.0
    ) -> NDArray[np.float32]:
        """How alike the text of each of `keys` is, 0 for one that is gone."""
        compared, parameters = _compared(words, near, bonus)
        parameters["keys"] = KeysParameter(keys)
        known: dict[int, float] = dict(await self.reader.rows(compared + _THESE, parameters))
        return np.array([known.get(key, 0.0) for key in keys.tolist()], np.float32)

    async def hybrid(self, query: HybridQuery) -> HybridHits | None:
        """What both legs found, as the view's own methods say; None to run them separately.

        The view's `passages` then has the best ones without asking again.
        """
        way = self._way(query.depth)
        text = await self._text_statement(query.text, anyway=query.anyway)
        if way is None or text is None:
            return None
        matches, parameters = text
        least = [-np.inf if score is None else float(score) for score in query.least]
        parameters |= {
            "query": VectorParameter(query.vector),
            "generation": self.known.generation,
            "allowed": None if self.allowed is None else KeysParameter(self.allowed.keys),
            "least_semantic": least[0],
            "least_text": least[1],
            "semantic_weight": query.weights[0],
            "text_weight": query.weights[1],
            "rrf_k": query.rrf_k,
            "floor": query.floor,
        }
        rows = await self.reader.rows(self._statement(query, way, matches), parameters)
        read = (dict(zip(PASSAGE_COLUMNS, row[1:], strict=True)) for row in rows)
        self.prefetched.update(passages_of(row for row in read if row["key"] is not None))
        return _hybrid_hits(rows[0][0])

    def _statement(self, query: HybridQuery, way: Way, matches: LiteralString) -> LiteralString:
        """One statement: a row per passage, the first of which has all candidates."""
        rest = f"(SELECT {_COSINE} FROM embedding WHERE embedding.chunk_key = t.chunk_key)"
        by_meaning, by_words = _FUSED[query.scale]
        return _STATEMENT.format(
            nearest=self.vectors.nearest(way, query.depth),
            cosine=_COSINE,
            matches=matches,
            allowed="chunk_key = ANY(%(allowed)s)" if way == "among" else "true",
            semantic=f"coalesce(s.score, {rest})" if query.fill else "s.score",
            text="coalesce(t.score, m.score, 0)" if query.fill else "t.score",
            filled="LEFT JOIN matching AS m USING (chunk_key)" if query.fill else "",
            by_meaning=by_meaning,
            by_words=by_words,
            depth=query.depth,
            passages=query.passages,
            hydrated=f"{SELECT_PASSAGES} WHERE chunk.key IN (SELECT chunk_key FROM chosen)",
        )

    def _way(self, depth: int) -> Way | None:
        """How the nearest vectors are found; None if that may need a second statement."""
        if self.vectors.dimension is None:
            return None
        if self.allowed is None:
            return "graph" if self.vectors.indexed else "exact"
        by_graph = self.vectors.by_graph(depth, len(self.allowed.keys))
        return None if by_graph else "among"

    async def _text_statement(self, query: TextQuery, *, anyway: bool) -> BoundStatement | None:
        """A statement for all matches; None if there is none, or if it would take longer."""
        native = query.native
        if native is None:
            return self._by_terms(query) if anyway and query.where is None else None
        if self.configs is None or native in self._scored:
            return None
        return await self._ranked(native)

    def _by_terms(self, query: TextQuery) -> BoundStatement:
        terms = [(term, number) for number, word in enumerate(query.words) for term in word]
        texts = [storable(term.text) for term, _ in terms]
        return BY_TERMS, {
            "terms": sorted(set(texts)),
            "texts": texts,
            "words": [number for _, number in terms],
            "weights": [term.weight for term, _ in terms],
            "chunks": float(self.known.chunks),
            "mean": self.known.mean_length or 1.0,
        }


def _compared(words: str, near: Sequence[str], bonus: float) -> BoundStatement:
    """A statement for chunks, up to its condition; a text that has one of `near` gains `bonus`."""
    parameters: dict[str, Any] = {"words": storable(words)}
    if near:
        parameters |= {"near": rf"\m({'|'.join(map(re.escape, near))})\M", "bonus": bonus}
    return _COMPARED.format(similarity=_NEARER if near else _SIMILARITY), parameters


def _hybrid_hits(joined: bytes | None) -> HybridHits:
    candidates = np.frombuffer(joined or b"", _CANDIDATE)
    return HybridHits(
        semantic=_leg(candidates, "semantic"),
        text=_leg(candidates, "text"),
        keys=candidates["key"].astype(np.int64),
        semantic_scores=candidates["semantic"].astype(np.float32),
        text_scores=candidates["text"].astype(np.float32),
        fused=candidates["fused"].astype(np.float64),
    )


def _leg(candidates: NDArray[np.void], name: str) -> Hits:
    """A leg's own list: by score and then by key."""
    own = candidates[candidates[f"{name}_rank"] > 0]
    keys, scores = own["key"].astype(np.int64), own[name].astype(np.float32)
    return top_k(keys, scores, len(keys))


class NativeIndexes:
    """The indexes of one base that only native searches need, built on demand.

    `change` runs a change while nobody else writes; `fresh` opens a reader of the latest state.
    """

    def __init__(
        self, change: Change, fresh: Callable[[], AbstractAsyncContextManager[ReadTransaction]]
    ) -> None:
        self._change = change
        self.fresh = fresh
        self._building: asyncio.Task[Configs] | None = None
        self._tried_trigrams = False

    async def words(self) -> Configs:
        """Build the index of words unless it exists, and return its configurations.

        Cancelling the search does not cancel the build: the next search would have to start over.
        """
        if self._building is None or self._building.done():
            self._building = asyncio.create_task(self._change(make_words))
        return await asyncio.shield(self._building)

    async def trigrams(self, reader: ReadTransaction) -> None:
        """Create the index of trigrams of texts unless it exists; it makes `words <% text` faster.

        Without it, texts are compared one by one.
        """
        ((exists,),) = await reader.rows(_EXISTS)
        if exists or self._tried_trigrams:
            return
        self._tried_trigrams = True
        try:
            await self._change(lambda connection: connection.execute(_CREATE_TRIGRAMS))
        except StoreError as exc:
            log.info("texts are compared without an index of their trigrams (%s)", exc)

    async def close(self) -> None:
        """Cancel a build that is running."""
        if self._building is not None:
            self._building.cancel()
            await asyncio.wait([self._building])
            self._building = None


def make_words(connection: Connection) -> Configs:
    """Build the index unless it exists; the caller is the only writer."""
    if existing := parse_configs(setting(connection, SETTING)):
        return existing
    log.info("building the index for the server's own full-text search")
    known = tuple(connection.scalars(_KNOWN))
    connection.exec_driver_sql(CREATE_WORDS)
    put_setting(connection, SETTING, ",".join(known))
    for config in (read_config(connection), read_next(connection)):
        if config is not None:
            changes = SqlChangeLog(connection, generation=config.generation)
            for start, stop in changes.ranges(since=0):
                chunks = changes.added_texts(start, stop)
                keys = [chunk.key for chunk in chunks]
                keep_words(connection, keys, chunks, config.generation)
    connection.execute(text("CREATE INDEX chunk_words_by_word ON chunk_words USING gin (words)"))
    connection.execute(text("ANALYZE chunk_words"))
    for right, who in connection.execute(_RIGHTS).all():
        connection.execute(text(f"GRANT {right} ON chunk_words TO {who}"))
    return known


SETTING = "native_text"

MOST_BYTES = 250_000
"""Of a longer chunk only the beginning is indexed: a tsvector holds at most 1 MB, and can be four
times the size of its text."""

Configs = tuple[str, ...]

_ADD = text(
    "INSERT INTO chunk_words (chunk_key, config, words, generation) "
    "SELECT key, config, to_tsvector(config::regconfig, content), :generation "
    "FROM unnest(cast(:keys AS bigint[]), cast(:configs AS text[]), cast(:texts AS text[])) "
    "AS new (key, config, content) "
    "ON CONFLICT (chunk_key) DO UPDATE SET config = excluded.config, words = excluded.words"
)
_WITHOUT = text(
    "SELECT count(*) FROM chunk LEFT JOIN chunk_words ON chunk_key = key "
    f"WHERE {FINDABLE} AND chunk_key IS NULL"
)


def config_of(language: str | None, known: Collection[str]) -> str:
    """The configuration for a language, or of that name, among those that the server has."""
    if language in known:
        return language or UNSTEMMED
    wanted = NAMES.get(language_of(language) or "", UNSTEMMED)
    return wanted if wanted in known else UNSTEMMED


def parse_configs(value: str | None) -> Configs | None:
    """The configurations that the setting lists; None if the table does not exist."""
    return tuple(value.split(",")) if value else None


def keep_words(
    connection: Connection, keys: Sequence[int], chunks: Sequence[ChunkText], generation: int
) -> None:
    """Add new chunks, which have these keys, if the table exists."""
    known = parse_configs(setting(connection, SETTING))
    if not (known and keys):
        return
    beginnings = (chunk.text.encode()[:MOST_BYTES] for chunk in chunks)
    rows = {
        "keys": list(keys),
        "configs": [config_of(chunk.detected, known) for chunk in chunks],
        "texts": [beginning.decode(errors="ignore") for beginning in beginnings],
        "generation": generation,
    }
    connection.execute(_ADD, rows)


def chunks_without_words(connection: Connection) -> int:
    """How many chunks the table lacks, if it exists."""
    return int(connection.scalar(_WITHOUT) or 0) if setting(connection, SETTING) else 0
