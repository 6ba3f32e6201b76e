"""The tables, described once for every SQL store.

Documents are what the user gave. Everything below them is derived and goes with its document:
attributes (metadata, one row per value, for filters), chunk sets, chunks, embeddings. Chunks and
removals are numbered by one counter, `change`, so an index beside the database that has seen all
changes up to a number knows what it has missed: chunks and removals with a greater one.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, LargeBinary, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import UserDefinedType

SCHEMA_VERSION = 1


class Number(UserDefinedType[int | float]):
    """An integer of 64 bits or a float, compared exactly with either."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "NUMERIC"


class Tables(DeclarativeBase):
    """All tables of a base."""

    type_annotation_map = {  # noqa: RUF012
        str: Text(),
        dict[str, Any]: JSON(),
        list[str]: JSON(),
        bytes: LargeBinary(),
    }


class Setting(Tables):
    """A fact about the base itself: its schema version, model, chunker, counters."""

    __tablename__ = "setting"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class Counter(Tables):
    """The last number given out; `state` counts writes of any kind."""

    __tablename__ = "counter"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]


class DocumentRow(Tables):
    """A document; `structure` holds its pages, headings and blocks."""

    __tablename__ = "document"
    __table_args__ = (
        UniqueConstraint("collection", "id"),
        Index("document_by_language", "language"),
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

    __tablename__ = "attribute"
    __table_args__ = (
        Index("attribute_by_text", "field", "text_value", "document_key"),
        Index("attribute_by_number", "field", "number_value", "document_key"),
    )

    document_key: Mapped[int] = mapped_column(
        ForeignKey("document.key", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True)
    field: Mapped[str]
    kind: Mapped[str]
    in_list: Mapped[bool]
    text_value: Mapped[str | None]
    number_value: Mapped[int | float | None] = mapped_column(Number())


class ChunkSetRow(Tables):
    """The chunks that one chunker and one model made of one content of a document."""

    __tablename__ = "chunk_set"
    __table_args__ = (UniqueConstraint("document_key", "content_hash", "chunker_id", "model_id"),)

    key: Mapped[int] = mapped_column(primary_key=True)
    document_key: Mapped[int] = mapped_column(ForeignKey("document.key", ondelete="CASCADE"))
    content_hash: Mapped[str]
    chunker_id: Mapped[str]
    model_id: Mapped[str]
    created_at: Mapped[str]
    expires_at: Mapped[str | None]


class ChunkRow(Tables):
    """A span of a document; its text is read from the document."""

    __tablename__ = "chunk"
    __table_args__ = (Index("chunk_by_document", "document_key"),)

    key: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str]
    document_key: Mapped[int] = mapped_column(ForeignKey("document.key", ondelete="CASCADE"))
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


class EmbeddingRow(Tables):
    """A chunk's vector under one model, as little-endian float32."""

    __tablename__ = "embedding"

    chunk_key: Mapped[int] = mapped_column(
        ForeignKey("chunk.key", ondelete="CASCADE"), primary_key=True
    )
    model_id: Mapped[str] = mapped_column(primary_key=True)
    vector: Mapped[bytes]


class RemovalRow(Tables):
    """A chunk that is gone, for the indexes that still have it."""

    __tablename__ = "removal"

    sequence: Mapped[int] = mapped_column(primary_key=True)
    chunk_key: Mapped[int]
