"""Both legs, their fusion and the best passages as one SQL statement, put together from its parts.

Scores are rounded to single precision where the legs, asked one by one, round them, so that both
ways tell the same ties.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, LiteralString

from sqlalchemy import Select, column, make_url, select, table

from lagotto.indexes.bm25 import K1, B
from lagotto.stores.capabilities import Scale
from lagotto.stores.postgres.vector_index.search import MARGIN
from lagotto.stores.sql.read import select_passages
from lagotto.stores.sql.tables import ChunkRow

Way = Literal["exact", "graph", "among"]
"""How the nearest vectors are found: among all, by the graph, among those that are allowed."""

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

# A value out of line would be fetched anew for every byte of it; joined to nothing, it is in line.
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
), rare AS (
    SELECT term, ln(1 + (%(chunks)s - count(*) + 0.5::float8) / (count(*) + 0.5::float8)) AS idf
    FROM living GROUP BY term
), asked AS (
    SELECT term, word, weight * idf AS tells
    FROM unnest(%(asked)s::text[], %(words)s::int[], %(weights)s::float8[])
        AS given (term, word, weight) JOIN rare USING (term)
), worded AS (
    SELECT chunk_key, word, max(
        tells * times * ({K1} + 1)::float8
        / (times + {K1}::float8 * (1 - {B}::float8 + {B}::float8 * length / %(mean)s))
    ) AS score
    FROM living JOIN asked USING (term) GROUP BY chunk_key, word
)
SELECT chunk_key, sum(score ORDER BY word)::float4 AS score FROM worded GROUP BY chunk_key
"""
"""BM25 from the postings: a word counts by its best alternative."""

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
    """What `read_passages` asks, of the chosen chunks."""
    chosen: Select[tuple[int]] = select(column("chunk_key")).select_from(table("chosen"))
    wanted = select_passages().where(ChunkRow.key.in_(chosen))
    dialect = make_url("postgresql+psycopg://").get_dialect()()
    return str(wanted.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


@cache
def passage_columns() -> tuple[str, ...]:
    """The names of its columns."""
    return tuple(select_passages().selected_columns.keys())
