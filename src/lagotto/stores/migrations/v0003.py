"""Version 3: chunks can be looked up by their set.

Without it, whoever deletes a document has the database look at all chunks of the base.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, Index, Integer, MetaData, Table


def upgrade(connection: Connection) -> None:
    """Add the index; nothing that is stored changes."""
    chunk = Table("chunk", MetaData(), Column("set_key", Integer))
    Index("chunk_by_set", chunk.c.set_key).create(connection)
