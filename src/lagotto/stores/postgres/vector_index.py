"""Nearest vectors by pgvector: the HNSW graph, or exactly."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, LiteralString

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from lagotto.documents import Vector
from lagotto.indexes import base
from lagotto.indexes.base import ChunkKeys, FilterKeys, Hits, LogPosition, top_k
from lagotto.stores.base import BaseConfig
from lagotto.stores.postgres import database
from lagotto.stores.postgres.database import KeysParameter, ReadTransaction, VectorParameter

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
_LOCK = text(f"SELECT pg_try_advisory_lock({database.BUILDER}, {database.SCHEMA}::int)")


async def build_graph(connection: AsyncConnection, config: BaseConfig) -> None:
    """Build the graph of a generation if it is due, and no other client is building one.

    Closing the connection releases the lock, however the work ends; each statement commits.
    """
    parameters = {"generation": config.generation}
    chunks = await connection.scalar(_CHUNKS, parameters) or 0
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


async def drop_graphs(connection: AsyncConnection, *, generations: Collection[int]) -> None:
    """Delete the graphs of other generations; waits for searches that use them."""
    await connection.execute(text(f"SET lock_timeout = {int(LOCK_TIMEOUT * 1000)}"))
    for name in await connection.scalars(_GRAPHS):
        if int(name.removeprefix(GRAPH)) not in generations:
            await connection.execute(text(f"DROP INDEX CONCURRENTLY IF EXISTS {name}"))


SPARE = 1.5  # how many times more neighbours are fetched than an independent filter would need
COST = 5  # a step in the graph takes this many times as long as scoring a given chunk
MARGIN = 20  # extra neighbours, since the half precision of the graph may swap some
MOST_CANDIDATES = 1000  # that pgvector keeps in a search of its graph, see FEWEST_CANDIDATES
FEWEST_UP_TO = 100_000
"""Chunks up to which the fewest are kept. In larger graphs recall would fall: with a million the
hundred nearest are found to .963 with 250 candidates, and to .994 with 800."""

_KEEP = "SELECT set_config('hnsw.ef_search', %(count)s, true)"
_SCORES = "SELECT chunk_key, -(vector <#> %(query)s) FROM ({nearest}) AS near"

Way = Literal["exact", "graph", "among"]
"""How the nearest vectors are found: all rows, the graph, or the allowed rows."""

_NEAREST: Mapping[Way, LiteralString] = {
    "exact": """
    SELECT chunk_key, vector FROM embedding WHERE generation = {generation}
    ORDER BY vector <#> %(query)s, chunk_key LIMIT {limit}""",
    "graph": """
    SELECT chunk_key, vector FROM embedding WHERE generation = {generation}
    ORDER BY (vector::halfvec({dimension})) <#> %(query)s::halfvec({dimension}) LIMIT {limit}""",
    "among": """
    SELECT chunk_key, vector FROM embedding WHERE chunk_key = ANY(%(allowed)s)""",
}


@dataclass(frozen=True, slots=True)
class PgVectors(base.VectorSnapshot):
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
            return base.NO_HITS
        if allowed is None:
            return await self._nearest("graph" if self.indexed else "exact", query, k)
        keys = allowed.keys
        if self.by_graph(k, len(keys)):
            near = await self._nearest("graph", query, self._reach(k, len(keys)))
            hits = near[allowed.contains(near.keys)]
            if len(hits) >= k:
                return hits[:k]
        return await self._nearest("among", query, k, keys)

    def by_graph(self, k: int, allowed: int) -> bool:
        """Whether the graph finds `k` of the chunks that a filter leaves faster than a scan."""
        return self.indexed and COST * self._reach(k, allowed) < allowed

    def _reach(self, k: int, allowed: int) -> int:
        """How many unfiltered neighbours to fetch so that `k` of them pass."""
        return int(SPARE * k * self.chunks / max(allowed, 1))

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        if self.dimension is None or not len(keys):
            return np.zeros(len(keys), np.float32)
        return (await self._nearest("among", query, len(keys), keys)).scores_of(keys)

    def nearest(self, way: Way, k: int) -> LiteralString:
        """A statement for rows that have the `k` nearest among them, with `query` and `allowed`."""
        limit = k + MARGIN if way == "graph" else k
        return _NEAREST[way].format(
            generation=self.generation, dimension=self.dimension, limit=limit
        )

    async def _nearest(
        self, way: Way, query: Vector, k: int, keys: ChunkKeys = base.NO_HITS.keys
    ) -> Hits:
        statement = _SCORES.format(nearest=self.nearest(way, k))
        parameters = {"query": VectorParameter(query), "allowed": KeysParameter(keys)}
        rows = await self.reader.rows(statement, parameters)
        hit_keys = np.fromiter((key for key, _ in rows), np.int64, len(rows))
        return top_k(hit_keys, np.fromiter((score for _, score in rows), np.float32, len(rows)), k)


def candidate_count(chunks: int) -> int:
    """How many candidates a search keeps in a graph of so many chunks."""
    growth = math.sqrt(max(1.0, chunks / FEWEST_UP_TO))
    return min(round(database.FEWEST_CANDIDATES * growth), MOST_CANDIDATES)


def keep_candidates(reader: ReadTransaction, chunks: int) -> None:
    """Let searches of this transaction keep as many as a graph of so many chunks needs."""
    count = candidate_count(chunks)
    if count > database.FEWEST_CANDIDATES:
        reader.soon(_KEEP, {"count": str(count)})
