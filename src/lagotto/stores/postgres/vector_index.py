"""Nearest vectors by pgvector: the HNSW graph, or exactly."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import LiteralString

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from lagotto.documents import Vector
from lagotto.indexes.base import (
    NO_HITS,
    ChunkKeys,
    FilterKeys,
    Hits,
    LogPosition,
    VectorSnapshot,
    top_k,
)
from lagotto.stores.base import BaseConfig
from lagotto.stores.postgres.database import (
    BUILDER,
    FEWEST_KEPT,
    KeysParameter,
    ReadTransaction,
    VectorParameter,
)

GRAPH_FROM = 10_000
"""With fewer vectors, every search reads all of them: with 5,000 that takes less time, with 10,000
four times as much (docs/postgres.md)."""

NEIGHBOURS, BREADTH = 16, 128  # pgvector's m and ef_construction
BYTES_PER_NUMBER = 3
BYTES_PER_VECTOR = 1024
"""Memory for building; with less than needed, it becomes several times slower."""

MOST_MEMORY = 4 * 2**30

LOCK_TIMEOUT = 20.0
"""Seconds to wait for older transactions, whose snapshots the index must respect."""

GRAPH = "embedding_graph_"
"""What the names of graphs begin with; the number of the generation follows."""

_CHUNKS = text("SELECT chunks FROM indexed WHERE generation = :generation")
_VALID = text(
    "SELECT indisvalid FROM pg_index WHERE indexrelid = "
    f"to_regclass(quote_ident(current_schema()) || '.{GRAPH}' || cast(:generation AS text))"
)
_GRAPHS = text(
    "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() "
    f"AND indexname ~ '^{GRAPH}[0-9]+$'"
)
_LOCK = text(f"SELECT pg_try_advisory_lock({BUILDER}, current_schema()::regnamespace::oid::int)")


async def build_graph(engine: AsyncEngine, config: BaseConfig) -> None:
    """Build the graph of a generation if it is due, and no other client is building one.

    `engine` has no pool: closing the connection releases the lock, however the work ends.
    """
    asked = {"generation": config.generation}
    async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        chunks = await connection.scalar(_CHUNKS, asked) or 0
        valid = await connection.scalar(_VALID, {"generation": str(config.generation)})
        if chunks < GRAPH_FROM or valid or not await connection.scalar(_LOCK):
            return
        await connection.execute(text(f"SET lock_timeout = {int(LOCK_TIMEOUT * 1000)}"))
        if valid is False:  # left over by a builder that was killed
            await connection.execute(text(f"DROP INDEX CONCURRENTLY {GRAPH}{config.generation}"))
        dimension, generation = config.dimension or 0, config.generation
        memory = chunks * (BYTES_PER_NUMBER * dimension + BYTES_PER_VECTOR)
        for statement in (
            f"SET maintenance_work_mem = {min(max(memory, 2**26), MOST_MEMORY) // 1024}",
            f"CREATE INDEX CONCURRENTLY {GRAPH}{generation} ON embedding "
            f"USING hnsw ((vector::halfvec({dimension})) halfvec_ip_ops) "
            f"WITH (m = {NEIGHBOURS}, ef_construction = {BREADTH}) WHERE generation = {generation}",
            "ANALYZE chunk, embedding, document, attribute, posting, chunk_terms",
        ):
            await connection.execute(text(statement))


async def drop_graphs(engine: AsyncEngine, *, kept: Collection[int]) -> None:
    """Delete the graphs of other generations; waits for searches that use them."""
    async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        await connection.execute(text(f"SET lock_timeout = {int(LOCK_TIMEOUT * 1000)}"))
        for name in await connection.scalars(_GRAPHS):
            if int(name.removeprefix(GRAPH)) not in kept:
                await connection.execute(text(f"DROP INDEX CONCURRENTLY IF EXISTS {name}"))


SPARE = 1.5  # how many times more neighbours are fetched than an independent filter would need
COST = 5  # a step in the graph takes this many times as long as scoring a given chunk
MARGIN = 20  # extra neighbours, since the half precision of the graph may swap some
MOST_KEPT = 1000  # candidates that pgvector keeps in a search of its graph at most, see FEWEST_KEPT
FEWEST_UP_TO = 100_000
"""Chunks up to which the fewest are kept. In larger graphs recall would fall: with a million the
hundred nearest are found to .963 with 250 candidates, and to .994 with 800."""

_KEEP = "SELECT set_config('hnsw.ef_search', %(kept)s, true)"
_EXACT = """
SELECT chunk_key, -(vector <#> %(query)s) FROM embedding WHERE generation = %(generation)s
ORDER BY vector <#> %(query)s, chunk_key LIMIT %(limit)s
"""
_AMONG = "SELECT chunk_key, -(vector <#> %(query)s) FROM embedding WHERE chunk_key = ANY(%(keys)s)"
_NEAR = """
SELECT chunk_key, -(vector <#> %(query)s) FROM (
    SELECT chunk_key, vector FROM embedding WHERE generation = {generation}
    ORDER BY (vector::halfvec({dimension})) <#> %(query)s::halfvec({dimension}) LIMIT {limit}
) AS near
"""


@dataclass(frozen=True, slots=True)
class PgVectors(VectorSnapshot):
    """A VectorSnapshot over pgvector's columns, which are the record's own vectors.

    `dimension` is None in an empty base; `indexed` says whether there is a graph.
    """

    reader: ReadTransaction
    generation: int
    dimension: int | None
    chunks: int
    indexed: bool
    position: LogPosition

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        if self.dimension is None or k < 1:
            return NO_HITS
        if allowed is None:
            return await self._near(query, k) if self.indexed else await self._exact(query, k)
        keys = allowed.keys
        if self.by_graph(k, len(keys)):
            near = await self._near(query, self._reach(k, len(keys)))
            hits = near[allowed.contains(near.keys)]
            if len(hits) >= k:
                return hits[:k]
        return top_k(*await self._among(query, keys), k)

    def by_graph(self, k: int, allowed: int) -> bool:
        """Whether the graph finds `k` of the chunks that a filter leaves faster than a scan."""
        return self.indexed and COST * self._reach(k, allowed) < allowed

    def _reach(self, k: int, allowed: int) -> int:
        """How many unfiltered neighbours to fetch so that `k` of them pass."""
        return int(SPARE * k * self.chunks / max(allowed, 1))

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        if self.dimension is None or not len(keys):
            return np.zeros(len(keys), np.float32)
        found, scores = await self._among(query, keys)
        known = dict(zip(found.tolist(), scores.tolist(), strict=True))
        return np.array([known.get(key, 0.0) for key in keys.tolist()], np.float32)

    async def _exact(self, query: Vector, k: int) -> Hits:
        return top_k(*await self._rows(_EXACT, query, limit=k, generation=self.generation), k)

    async def _near(self, query: Vector, k: int) -> Hits:
        statement = _NEAR.format(
            dimension=self.dimension, generation=self.generation, limit=k + MARGIN
        )
        return top_k(*await self._rows(statement, query), k)

    async def _among(self, query: Vector, keys: ChunkKeys) -> tuple[ChunkKeys, NDArray[np.float32]]:
        return await self._rows(_AMONG, query, keys=KeysParameter(keys))

    async def _rows(
        self, statement: LiteralString, query: Vector, **asked: object
    ) -> tuple[ChunkKeys, NDArray[np.float32]]:
        rows = await self.reader.rows(statement, {"query": VectorParameter(query), **asked})
        keys = np.fromiter((key for key, _ in rows), np.int64, len(rows))
        return keys, np.fromiter((score for _, score in rows), np.float32, len(rows))


def candidates_kept(chunks: int) -> int:
    """How many candidates a search keeps in a graph of so many chunks."""
    growth = math.sqrt(max(1.0, chunks / FEWEST_UP_TO))
    return min(round(FEWEST_KEPT * growth), MOST_KEPT)


def keep_candidates(reader: ReadTransaction, chunks: int) -> None:
    """Let searches of this transaction keep as many as a graph of so many chunks needs."""
    kept = candidates_kept(chunks)
    if kept > FEWEST_KEPT:
        reader.soon(_KEEP, {"kept": str(kept)})
