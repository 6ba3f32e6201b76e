"""What only this store keeps. All of it is derived and can be made again from the documents.

A segment is the full-text index of some chunks: for each of their terms a row with its postings.
Every write adds one; merging makes few of many. Nothing is changed in place, so writers and readers
never wait for each other, and chunks that are gone are listed until a merge drops their postings.
"""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, LargeBinary
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import BigInteger

from lagotto.stores.sql.tables import ChunkRow, Tables


class PostgresTables(DeclarativeBase):
    """The tables of this store beside those of every SQL store."""

    type_annotation_map = Tables.type_annotation_map


class SegmentRow(PostgresTables):
    """A part of the full-text index; its chunks are counted with those that are gone by now."""

    __tablename__ = "segment"

    number: Mapped[int] = mapped_column(primary_key=True)
    chunks: Mapped[int]


class PostingRow(PostgresTables):
    """The chunks of a segment that hold a term: records as in `postings`."""

    __tablename__ = "posting"
    __table_args__ = (Index("posting_by_segment", "segment"),)

    term: Mapped[str] = mapped_column(primary_key=True)
    segment: Mapped[int] = mapped_column(primary_key=True)
    records: Mapped[bytes] = mapped_column(LargeBinary())


class GoneRow(PostgresTables):
    """A chunk that is gone, and whose postings are still there."""

    __tablename__ = "gone"

    chunk_key: Mapped[int] = mapped_column(primary_key=True)


class ChunkTermsRow(PostgresTables):
    """The terms of a chunk in their places, and how many there are."""

    __tablename__ = "chunk_terms"

    chunk_key: Mapped[int] = mapped_column(
        ForeignKey(ChunkRow.key, ondelete="CASCADE"), primary_key=True
    )
    length: Mapped[int]
    terms: Mapped[str] = mapped_column(TSVECTOR())


class TermRow(PostgresTables):
    """A term that some chunk holds or held.

    `shapes` are hashes of it and of it without one letter: terms that share one are an edit apart.
    """

    __tablename__ = "term"
    __table_args__ = (
        Index(
            "term_by_trigram",
            "text",
            postgresql_using="gin",
            postgresql_ops={"text": "gin_trgm_ops"},
        ),
        Index("term_by_shape", "shapes", postgresql_using="gin"),
    )

    text: Mapped[str] = mapped_column(primary_key=True)
    shapes: Mapped[list[int]] = mapped_column(ARRAY(BigInteger()))


TEXT_INDEX = (SegmentRow, PostingRow, GoneRow, ChunkTermsRow, TermRow)
"""What is made again when the rules for terms change."""


class NativeTables(DeclarativeBase):
    """What is made only when a base is first asked for it."""

    type_annotation_map = Tables.type_annotation_map


class ChunkWordsRow(NativeTables):
    """A chunk's words as a text search configuration of the server reads them; see native_index."""

    __tablename__ = "chunk_words"
    __table_args__ = (Index("chunk_words_by_word", "words", postgresql_using="gin"),)

    chunk_key: Mapped[int] = mapped_column(
        ForeignKey(ChunkRow.key, ondelete="CASCADE"), primary_key=True
    )
    config: Mapped[str]
    words: Mapped[str] = mapped_column(TSVECTOR())
