"""Both legs of a search, their fusion and the best passages in one SQL statement.

Used where possible and faster. Scores are rounded to single precision where separate legs round
them, so that both ways give the same ties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, LiteralString

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, column, make_url, select, table

from lagotto.documents import storable
from lagotto.indexes.base import FilterKeys
from lagotto.indexes.bm25 import K1, B
from lagotto.indexes.hits import Hits, top_k
from lagotto.indexes.text_query import TextQuery
from lagotto.stores.base import Passage
from lagotto.stores.capabilities import HybridFound, HybridQuery, Scale
from lagotto.stores.postgres.adapters import KeysParameter, VectorParameter
from lagotto.stores.postgres.native.search import NativeSearch
from lagotto.stores.postgres.text_index.search import Statistics
from lagotto.stores.postgres.transaction import ReadTransaction
from lagotto.stores.postgres.vector_index.search import MARGIN, PgVectors
from lagotto.stores.sql.read import passages_of
from lagotto.stores.sql.statements import select_passages
from lagotto.stores.sql.tables import ChunkRow

Way = Literal["exact", "graph", "among"]
"""How the nearest vectors are found: all rows, the graph, or the allowed rows."""

_COSINE: LiteralString = "(-(vector <#> %(query)s))::float4"

_NEAREST: Mapping[Way, LiteralString] = {
    "exact": """
    SELECT chunk_key, vector FROM embedding
    ORDER BY vector <#> %(query)s, chunk_key LIMIT {depth}""",
    "graph": """
    SELECT chunk_key, vector FROM embedding
    ORDER BY (vector::halfvec({dimension})) <#> %(query)s::halfvec({dimension}) LIMIT {reach}""",
    "among": """
    SELECT chunk_key, vector FROM embedding WHERE chunk_key = ANY(%(allowed)s)""",
}

# An out-of-line value would be fetched again for every byte; concatenation makes it inline.
BY_TERMS: LiteralString = f"""
WITH records AS MATERIALIZED (
    SELECT term, records || ''::bytea AS records FROM posting WHERE term = ANY(%(terms)s)
), held AS MATERIALIZED (
    SELECT term, get_byte(records, at) + (get_byte(records, at + 1) << 8)
        + (get_byte(records, at + 2) << 16) + (get_byte(records, at + 3)::bigint << 24)
        AS chunk_key,
        (get_byte(records, at + 4) + (get_byte(records, at + 5) << 8))::float8 AS times,
        (get_byte(records, at + 6) + (get_byte(records, at + 7) << 8))::float8 AS length
    FROM records, generate_series(0, octet_length(records) - 8, 8) AS at
), living AS MATERIALIZED (
    SELECT * FROM held WHERE NOT EXISTS (SELECT FROM gone WHERE gone.chunk_key = held.chunk_key)
), given AS (
    SELECT * FROM unnest(%(asked)s::text[], %(words)s::int[], %(weights)s::float8[])
        AS given (term, word, weight)
), held_by AS (
    SELECT word, count(DISTINCT chunk_key) AS holders
    FROM living JOIN given USING (term) GROUP BY word
), asked AS (
    SELECT term, word,
        weight * ln(1 + (%(chunks)s - holders + 0.5::float8) / (holders + 0.5::float8)) AS tells
    FROM given JOIN held_by USING (word)
), worded AS (
    SELECT chunk_key, word, max(
        tells * times * ({K1} + 1)::float8
        / (times + {K1}::float8 * (1 - {B}::float8 + {B}::float8 * length / %(mean)s))
    ) AS score
    FROM living JOIN asked USING (term) GROUP BY chunk_key, word
)
SELECT chunk_key, sum(score ORDER BY word)::float4 AS score FROM worded GROUP BY chunk_key
"""
"""BM25 from the postings: a word has one IDF, and counts by its best alternative."""

_RECIPROCAL: LiteralString = "coalesce((%(rrf_k)s + 1)::float8 / (%(rrf_k)s + {place}), 0)"
_SHARE: LiteralString = "greatest({score}, 0) / nullif(greatest(max({score}) OVER (), 0), 0)"
_BY_WORDS: LiteralString = _SHARE.format(score="text::float8")
_FUSED: Mapping[Scale, tuple[LiteralString, LiteralString]] = {
    "rrf": (
        _RECIPROCAL.format(place="semantic_place"),
        _RECIPROCAL.format(place="text_place"),
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
    SELECT chunk_key, score, rank() OVER (ORDER BY score DESC) AS place FROM (
        SELECT chunk_key, {cosine} AS score FROM nearest
        ORDER BY score DESC, chunk_key LIMIT {depth}
    ) AS best WHERE score >= %(least_semantic)s::float4
), matching AS MATERIALIZED ({matches}
), text_leg AS MATERIALIZED (
    SELECT chunk_key, score, rank() OVER (ORDER BY score DESC) AS place FROM (
        SELECT chunk_key, score FROM matching WHERE {allowed}
        ORDER BY score DESC, chunk_key LIMIT {depth}
    ) AS best WHERE score >= %(least_text)s::float4
), candidate AS MATERIALIZED (
    SELECT chunk_key, s.place AS semantic_place, t.place AS text_place,
        {semantic} AS semantic, {text} AS text
    FROM semantic_leg AS s FULL JOIN text_leg AS t USING (chunk_key) {filled}
), fused AS MATERIALIZED (
    SELECT *, least(greatest((
        %(semantic_weight)s * coalesce({by_meaning}, 0) + %(text_weight)s * coalesce({by_words}, 0)
    ) / (%(semantic_weight)s + %(text_weight)s), 0), 1) AS score FROM candidate
), chosen AS (
    SELECT chunk_key FROM fused ORDER BY score DESC, least(semantic_place, text_place)
    FETCH FIRST {passages} ROWS WITH TIES
), joined AS (
    SELECT string_agg(
        int8send(chunk_key) || float4send(coalesce(semantic, 'NaN'))
        || float4send(coalesce(text, 'NaN')) || int8send(coalesce(semantic_place, 0))
        || int8send(coalesce(text_place, 0)) || float8send(score), '' ORDER BY chunk_key
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
        ("semantic_place", ">i8"),
        ("text_place", ">i8"),
        ("fused", ">f8"),
    ]
)

Asked = tuple[LiteralString, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SingleQuery:
    """One search as one statement; `allowed` are the chunks that its filter lets through."""

    reader: ReadTransaction
    vectors: PgVectors
    native: NativeSearch
    statistics: Statistics
    allowed: FilterKeys | None
    prefetched: dict[int, Passage]

    async def hybrid(self, asked: HybridQuery) -> HybridFound | None:
        """What both legs found, None to run them separately; the best passages are prefetched."""
        way = self._way(asked.depth)
        text = await self._text(asked.text, anyway=asked.anyway)
        if way is None or text is None:
            return None
        matches, of_text = text
        whole = statement(
            way=way,
            matches=matches,
            scale=asked.scale,
            fill=asked.fill,
            depth=asked.depth,
            dimension=self.vectors.dimension or 0,
            passages=asked.passages,
        )
        rows = await self.reader.rows(whole, {**self._parameters(asked), **of_text})
        self.prefetched.update(_passages(rows))
        return _found(rows[0][0])

    def _way(self, depth: int) -> Way | None:
        """How the nearest vectors are found; None if that may need a second statement."""
        if self.vectors.dimension is None:
            return None
        if self.allowed is None:
            return "graph" if self.vectors.indexed else "exact"
        by_graph = self.vectors.by_graph(depth, len(self.allowed.keys))
        return None if by_graph else "among"

    async def _text(self, query: TextQuery, *, anyway: bool) -> Asked | None:
        """A statement for all matches; None if there is none, or if it would take longer."""
        native = query.native
        if native is None:
            return self._by_terms(query) if anyway and query.where is None else None
        if self.native.configs is None or self.native.is_answered(native):
            return None
        return await self.native.asked(native)

    def _by_terms(self, query: TextQuery) -> Asked:
        given = [(term, number) for number, word in enumerate(query.words) for term in word]
        asked = [storable(term.text) for term, _ in given]
        known = self.statistics
        return BY_TERMS, {
            "terms": sorted(set(asked)),
            "asked": asked,
            "words": [number for _, number in given],
            "weights": [term.weight for term, _ in given],
            "chunks": float(known.chunks),
            "mean": (known.terms / known.chunks if known.chunks else 1.0) or 1.0,
        }

    def _parameters(self, asked: HybridQuery) -> dict[str, Any]:
        least = [-np.inf if score is None else score for score in asked.least]
        allowed = None if self.allowed is None else KeysParameter(self.allowed.keys)
        return {
            "query": VectorParameter(asked.vector),
            "allowed": allowed,
            "least_semantic": float(least[0]),
            "least_text": float(least[1]),
            "semantic_weight": asked.weights[0],
            "text_weight": asked.weights[1],
            "rrf_k": asked.rrf_k,
            "floor": asked.floor,
        }


def _found(joined: bytes | None) -> HybridFound:
    candidates = np.frombuffer(joined or b"", _CANDIDATE)
    return HybridFound(
        semantic=_leg(candidates, "semantic"),
        text=_leg(candidates, "text"),
        keys=candidates["key"].astype(np.int64),
        semantic_scores=candidates["semantic"].astype(np.float32),
        text_scores=candidates["text"].astype(np.float32),
        fused=candidates["fused"].astype(np.float64),
    )


def _leg(candidates: NDArray[np.void], name: str) -> Hits:
    """A leg's own list: by score and then by key."""
    own = candidates[candidates[f"{name}_place"] > 0]
    keys, scores = own["key"].astype(np.int64), own[name].astype(np.float32)
    return top_k(keys, scores, len(keys))


def _passages(rows: Sequence[tuple[Any, ...]]) -> dict[int, Passage]:
    names = passage_columns()
    read = (dict(zip(names, row[1:], strict=True)) for row in rows)
    return passages_of(fields for fields in read if fields["key"] is not None)


def statement(
    *,
    way: Way,
    matches: LiteralString,
    scale: Scale,
    fill: bool,
    depth: int,
    dimension: int,
    passages: int,
) -> LiteralString:
    """One statement: a row per passage, the first of which has all candidates."""
    cosine_of_rest = f"(SELECT {_COSINE} FROM embedding WHERE embedding.chunk_key = t.chunk_key)"
    by_meaning, by_words = _FUSED[scale]
    return _STATEMENT.format(
        nearest=_NEAREST[way].format(depth=depth, dimension=dimension, reach=depth + MARGIN),
        cosine=_COSINE,
        matches=matches,
        allowed="chunk_key = ANY(%(allowed)s)" if way == "among" else "true",
        semantic=f"coalesce(s.score, {cosine_of_rest})" if fill else "s.score",
        text="coalesce(t.score, m.score, 0)" if fill else "t.score",
        filled="LEFT JOIN matching AS m USING (chunk_key)" if fill else "",
        by_meaning=by_meaning,
        by_words=by_words,
        depth=depth,
        passages=passages,
        hydrated=passage_sql(),
    )


@cache
def passage_sql() -> LiteralString:
    """The statement of `read_passages` for the chosen chunks."""
    chosen: Select[tuple[int]] = select(column("chunk_key")).select_from(table("chosen"))
    wanted = select_passages().where(ChunkRow.key.in_(chosen))
    dialect = make_url("postgresql+psycopg://").get_dialect()()
    return str(wanted.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


@cache
def passage_columns() -> tuple[str, ...]:
    """The names of the columns of `passage_sql`."""
    return tuple(select_passages().selected_columns.keys())
