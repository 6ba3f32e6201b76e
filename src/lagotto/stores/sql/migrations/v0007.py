"""Version 7: every store has the texts of chunks one by one; PostgreSQL has had them since 3.

A document at a time, so that memory is bounded by the longest one, and the time by their length.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)

AT_ONCE = 5_000
FIRST_KEY = -(2**63)

_LACKING = "NOT EXISTS (SELECT 1 FROM chunk_text WHERE chunk_text.chunk_key = chunk.key)"
_NEXT = text(
    "SELECT key, text FROM document WHERE key > :after AND EXISTS "
    f"(SELECT 1 FROM chunk WHERE document_key = document.key AND {_LACKING}) ORDER BY key LIMIT 1"
)
_SPANS = text(
    f'SELECT key, start, "end" FROM chunk WHERE document_key = :document AND {_LACKING} '
    "ORDER BY key"
)
_PUT = text("INSERT INTO chunk_text (chunk_key, text) VALUES (:chunk_key, :text)")


def upgrade(connection: Connection) -> None:
    """Add the table where there is none, and the texts that it lacks."""
    if connection.dialect.name == "sqlite":
        _create(connection)
    for document, content in _documents(connection):
        spans = connection.execute(_SPANS, {"document": document}).all()
        for first in range(0, len(spans), AT_ONCE):
            some = spans[first : first + AT_ONCE]
            rows = [{"chunk_key": key, "text": content[start:end]} for key, start, end in some]
            connection.execute(_PUT, rows)


def _documents(connection: Connection) -> Iterator[tuple[int, str]]:
    after = FIRST_KEY
    while row := connection.execute(_NEXT, {"after": after}).one_or_none():
        after = row.key
        yield row.key, row.text


def _create(connection: Connection) -> None:
    metadata = MetaData()
    Table("chunk", metadata, Column("key", Integer, primary_key=True))
    texts = Table(
        "chunk_text",
        metadata,
        Column("chunk_key", Integer, ForeignKey("chunk.key", ondelete="CASCADE"), primary_key=True),
        Column("text", Text, nullable=False),
    )
    texts.create(connection)
