"""Version 3: chunks can be looked up by their set, and PostgreSQL has their texts one by one.

Without the first, whoever deletes a document has the database look at all chunks of the base.
Version 7 fills in the texts.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, Index, Integer, MetaData, Table, text

_TEXTS = text(
    'CREATE TABLE chunk_text (text TEXT COLLATE "C" NOT NULL, chunk_key BIGINT PRIMARY KEY '
    "REFERENCES chunk (key) ON DELETE CASCADE)"
)


def upgrade(connection: Connection) -> None:
    """Add what is derived; nothing that is stored changes."""
    chunk = Table("chunk", MetaData(), Column("set_key", Integer))
    Index("chunk_by_set", chunk.c.set_key).create(connection)
    if connection.dialect.name == "postgresql":
        connection.execute(_TEXTS)
