"""The HNSW graph: built once there are many vectors, maintained by PostgreSQL from then on.

Building it at once takes far less time than adding vectors one by one, so a base that is being
filled has no graph until the writing stops.
"""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

GRAPH_FROM = 10_000
"""With fewer vectors, every search reads all of them: with 5,000 that takes less time, with 10,000
four times as much (`benchmarks/graph.py`)."""

NEIGHBOURS, BREADTH = 16, 128
"""pgvector's m and ef_construction."""

BYTES_PER_NUMBER = 3
BYTES_PER_VECTOR = 1024
"""Memory for building; with less than needed, it becomes several times slower."""

MOST_MEMORY = 4 * 2**30

LOCK_TIMEOUT = 20.0
"""Seconds to wait for older transactions, whose snapshots the index must respect."""

BUILDER = 0x4C414748
"""`LAGH`: the class of the advisory lock that a builder holds."""

_CHUNKS = text("SELECT value FROM counter WHERE name = 'indexed_chunks'")
_DIMENSION = text("SELECT value::int FROM setting WHERE name = 'dimension'")
_VALID = text(
    "SELECT indisvalid FROM pg_index "
    "WHERE indexrelid = to_regclass(quote_ident(current_schema()) || '.embedding_graph')"
)
_LOCK = text(f"SELECT pg_try_advisory_lock({BUILDER}, current_schema()::regnamespace::oid::int)")


async def build_graph(engine: AsyncEngine) -> None:
    """Build the graph if it is due, and no other client is building it.

    `engine` has no pool: closing the connection releases the lock, however the work ends.
    """
    async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        chunks = await connection.scalar(_CHUNKS) or 0
        valid = await connection.scalar(_VALID)
        if chunks < GRAPH_FROM or valid or not await connection.scalar(_LOCK):
            return
        await connection.execute(text(f"SET lock_timeout = {int(LOCK_TIMEOUT * 1000)}"))
        if valid is False:  # left over by a builder that was killed
            await connection.execute(text("DROP INDEX CONCURRENTLY embedding_graph"))
        dimension = await connection.scalar(_DIMENSION) or 0
        for statement in _statements(chunks, dimension):
            await connection.execute(text(statement))


def _statements(chunks: int, dimension: int) -> list[str]:
    memory = chunks * (BYTES_PER_NUMBER * dimension + BYTES_PER_VECTOR)
    kilobytes = min(max(memory, 2**26), MOST_MEMORY) // 1024
    return [
        f"SET maintenance_work_mem = {kilobytes}",
        "CREATE INDEX CONCURRENTLY embedding_graph ON embedding "
        f"USING hnsw ((vector::halfvec({dimension})) halfvec_ip_ops) "
        f"WITH (m = {NEIGHBOURS}, ef_construction = {BREADTH})",
        "ANALYZE chunk, embedding, document, attribute, posting, chunk_terms",
    ]
