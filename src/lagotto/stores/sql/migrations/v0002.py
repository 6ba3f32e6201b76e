"""Version 2: a cache for chunks that are made at query time."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
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

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")


def upgrade(connection: Connection) -> None:
    """Add the table; nothing that is stored changes."""
    metadata = MetaData()
    Table("document", metadata, Column("key", _NUMBER, primary_key=True))
    cache = Table(
        "chunk_cache",
        metadata,
        Column(
            "document_key",
            _NUMBER,
            ForeignKey("document.key", ondelete="CASCADE"),
            primary_key=True,
        ),
        Column("content_hash", _TEXT, primary_key=True),
        Column("chunker_id", _TEXT, primary_key=True),
        Column("model_id", _TEXT, primary_key=True),
        Column("chunks", LargeBinary, nullable=False),
        Column("vectors", LargeBinary, nullable=False),
        Column("checksum", _TEXT, nullable=False),
        Column("created_at", _TEXT, nullable=False),
        Column("expires_at", _TEXT),
        Index("chunk_cache_by_expiry", "expires_at"),
    )
    # not only if it is missing: another base on the search path may have one
    metadata.create_all(connection, tables=[cache], checkfirst=False)
