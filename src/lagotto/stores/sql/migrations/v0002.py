"""Version 2: a cache for chunks that are made at query time."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)


def upgrade(connection: Connection) -> None:
    """Add the table; nothing that is stored changes."""
    metadata = MetaData()
    Table("document", metadata, Column("key", Integer, primary_key=True))
    cache = Table(
        "chunk_cache",
        metadata,
        Column(
            "document_key",
            Integer,
            ForeignKey("document.key", ondelete="CASCADE"),
            primary_key=True,
        ),
        Column("content_hash", Text, primary_key=True),
        Column("chunker_id", Text, primary_key=True),
        Column("model_id", Text, primary_key=True),
        Column("chunks", LargeBinary, nullable=False),
        Column("vectors", LargeBinary, nullable=False),
        Column("checksum", Text, nullable=False),
        Column("created_at", Text, nullable=False),
        Column("expires_at", Text),
        Index("chunk_cache_by_expiry", "expires_at"),
    )
    metadata.create_all(connection, tables=[cache])
