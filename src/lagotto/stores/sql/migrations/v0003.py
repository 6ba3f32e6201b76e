"""Version 3: chunks can be looked up by their set, and PostgreSQL has their texts one by one.

Without the first, whoever deletes a document has the database look at all chunks of the base.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, Index, Integer, MetaData, Table, text

_TEXTS = (
    'CREATE TABLE chunk_text (text TEXT COLLATE "C" NOT NULL, chunk_key BIGINT PRIMARY KEY '
    "REFERENCES chunk (key) ON DELETE CASCADE)",
    "INSERT INTO chunk_text (chunk_key, text) SELECT chunk.key, "
    'substr(document.text, (start + 1)::int, ("end" - start)::int) '
    "FROM chunk JOIN document ON document.key = document_key",
)


def upgrade(connection: Connection) -> None:
    """Add what is derived; nothing that is stored changes."""
    chunk = Table("chunk", MetaData(), Column("set_key", Integer))
    Index("chunk_by_set", chunk.c.set_key).create(connection)
    if connection.dialect.name == "postgresql":
        for statement in _TEXTS:
            connection.execute(text(statement))
