"""The tables, described once for every SQL store."""

from __future__ import annotations

import re
from typing import Annotated, Any

import sqlalchemy
from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column
from sqlalchemy.types import UserDefinedType

_NEXT_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class _OwnType(UserDefinedType[Any]):
    """A type with a name in SQL, which a dialect may call in a way of its own."""

    name_in_sql = "TEXT"

    def get_col_spec(self, **_: Any) -> str:
        return self.name_in_sql


class Number(_OwnType):
    """An integer of 64 bits or a float, compared exactly with either."""

    cache_ok = True  # SQLAlchemy looks for it in each class
    name_in_sql = "NUMERIC"


class StoredVector(_OwnType):
    """A vector: little-endian float32 on our side, whatever the database makes of it."""

    cache_ok = True
    name_in_sql = "BLOB"


class Instant(_OwnType):
    """A time in ISO format on our side, a timestamp where the database has them."""

    cache_ok = True


class Tables(DeclarativeBase):
    """All tables of a base; `ChunkSetRow` is a row of `chunk_set`."""

    type_annotation_map = {  # noqa: RUF012
        int: sqlalchemy.BigInteger().with_variant(sqlalchemy.Integer(), "sqlite"),
        str: sqlalchemy.Text().with_variant(sqlalchemy.Text(collation="C"), "postgresql"),
        dict[str, Any]: JSON(),
        list[str]: JSON(),
        bytes: sqlalchemy.LargeBinary(),
    }

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805
        return _NEXT_WORD.sub("_", cls.__name__.removesuffix("Row")).lower()


DocumentKey = Annotated[int, mapped_column(ForeignKey("document.key", ondelete="CASCADE"))]
ChunkKey = Annotated[int, mapped_column(ForeignKey("chunk.key", ondelete="CASCADE"))]


Generation = Annotated[int, mapped_column(server_default="0")]
"""The generation that a row belongs to; see `generations.py`."""


class Setting(Tables):
    """A fact about the base itself: its schema version, model, chunker, counters."""

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class Counter(Tables):
    """The last number given out; `state` counts writes of any kind."""

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]


class DocumentRow(Tables):
    """A document; `structure` holds its pages, headings and blocks."""

    __table_args__ = (
        UniqueConstraint("collection", "id"),
        Index("document_by_language", "language"),
        Index("document_by_content", "content_hash"),
    )

    key: Mapped[int] = mapped_column(primary_key=True)
    collection: Mapped[str]
    id: Mapped[str]
    kind: Mapped[str]
    source: Mapped[str]
    source_ref: Mapped[str | None]
    title: Mapped[str | None]
    summary: Mapped[str | None]
    language: Mapped[str | None]
    meta: Mapped[dict[str, Any]] = mapped_column("metadata", JSON())
    created_at: Mapped[str | None]
    updated_at: Mapped[str | None]
    content_hash: Mapped[str]
    fingerprint: Mapped[str]
    structure: Mapped[dict[str, Any]]
    text: Mapped[str]


class AttributeRow(Tables):
    """A value in a document's metadata; a list has a row per element."""

    __table_args__ = (
        Index("attribute_by_text", "field", "text_value", "document_key"),
        Index("attribute_by_number", "field", "number_value", "document_key"),
    )

    document_key: Mapped[DocumentKey] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    field: Mapped[str]
    kind: Mapped[str]
    in_list: Mapped[bool]
    text_value: Mapped[str | None]
    number_value: Mapped[int | float | None] = mapped_column(Number())


class ChunkSetRow(Tables):
    """The chunks that one chunker and one model made of one content of a document.

    A generation has one set of each document; one without chunks has a set of no chunker.
    """

    __table_args__ = (UniqueConstraint("document_key", "generation"),)

    key: Mapped[int] = mapped_column(primary_key=True)
    document_key: Mapped[DocumentKey]
    content_hash: Mapped[str]
    chunker_id: Mapped[str]
    model_id: Mapped[str]
    created_at: Mapped[str]
    generation: Mapped[Generation]


class ChunkRow(Tables):
    """A span of a document."""

    __table_args__ = (
        Index("chunk_by_document", "document_key"),
        Index("chunk_by_set", "set_key"),
    )

    key: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str]
    document_key: Mapped[DocumentKey]
    set_key: Mapped[int] = mapped_column(ForeignKey("chunk_set.key", ondelete="CASCADE"))
    level: Mapped[str]
    parent_id: Mapped[str | None]
    ordinal: Mapped[int]
    start: Mapped[int]
    end: Mapped[int]
    token_count: Mapped[int]
    page_first: Mapped[int | None]
    page_last: Mapped[int | None]
    heading_path: Mapped[list[str]]
    element: Mapped[str]
    row_first: Mapped[int | None]
    row_last: Mapped[int | None]
    item_first: Mapped[int | None]
    item_last: Mapped[int | None]
    line_first: Mapped[int | None]
    line_last: Mapped[int | None]
    sections: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    context: Mapped[str | None]
    generation: Mapped[Generation]


class ChunkTextRow(Tables):
    """A chunk's text, which is also a part of the document's.

    To cut a part out of a text, a database reads all of it: the time for all chunks of a document
    would grow with the square of its length. In a file, short documents do without; see SHORT_TEXT.
    """

    chunk_key: Mapped[ChunkKey] = mapped_column(primary_key=True)
    text: Mapped[str]


class EmbeddingRow(Tables):
    """A chunk's vector under one model, as float32."""

    chunk_key: Mapped[ChunkKey] = mapped_column(primary_key=True)
    model_id: Mapped[str] = mapped_column(primary_key=True)
    vector: Mapped[bytes] = mapped_column(StoredVector())
    created_at: Mapped[str] = mapped_column(Instant())
    generation: Mapped[Generation]


class ChunkCacheRow(Tables):
    """Chunks that were made at query time, all those of one chunker and one model; see chunk_cache.

    `chunks` and `vectors` are opaque here, and `checksum` covers the whole row.
    """

    __table_args__ = (Index("chunk_cache_by_expiry", "expires_at"),)

    document_key: Mapped[DocumentKey] = mapped_column(primary_key=True)
    content_hash: Mapped[str] = mapped_column(primary_key=True)
    chunker_id: Mapped[str] = mapped_column(primary_key=True)
    model_id: Mapped[str] = mapped_column(primary_key=True)
    chunks: Mapped[bytes]
    vectors: Mapped[bytes]
    checksum: Mapped[str]
    created_at: Mapped[str]
    expires_at: Mapped[str | None]


class SourceFileRow(Tables):
    """A file that `sync` has read, as it was then; a row may be deleted at any time."""

    collection: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    path: Mapped[str]
    size: Mapped[int]
    mtime_ns: Mapped[int | None]
    options: Mapped[str]
    documents: Mapped[str]


class KeyedValueRow(Tables):
    """A value besides documents: a key or a task of a server; see KeyedValues."""

    kind: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int]
    value: Mapped[dict[str, Any]]
    data: Mapped[bytes | None]


class RemovalRow(Tables):
    """A chunk that is gone, for the indexes that still have it."""

    sequence: Mapped[int] = mapped_column(primary_key=True)
    chunk_key: Mapped[int]
    generation: Mapped[Generation]


class MetadataUpdateRow(Tables):
    """A document that got other metadata, for the indexes that know the fields of its chunks."""

    sequence: Mapped[int] = mapped_column(primary_key=True)
    document_key: Mapped[int]


class HistoryRow(Tables):
    """A commit to a generation: its state, the last change that it includes, and a random token."""

    __table_args__ = (
        Index("history_by_state", "generation", "state"),
        Index("history_by_change", "generation", "change"),
    )

    state: Mapped[int] = mapped_column(primary_key=True)
    change: Mapped[int]
    token: Mapped[int]
    generation: Mapped[Generation]
