"""The tables that only this store has: derived, so they can be rebuilt from the documents.

A segment is the full-text index of some chunks: a row with postings for each of their terms. Every
write adds one, and merging replaces many by few. Nothing is changed in place, so writers and
readers never wait for each other; removed chunks are listed until a merge drops their postings.
"""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, LargeBinary
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import BigInteger

from lagotto.stores.sql.tables import ChunkRow, Tables, of_generation


class PostgresTables(DeclarativeBase):
    """The tables of this store, in addition to those of every SQL store."""

    type_annotation_map = Tables.type_annotation_map


class SegmentRow(PostgresTables):
    """A part of the full-text index; `chunks` includes those removed since."""

    __tablename__ = "segment"

    number: Mapped[int] = mapped_column(primary_key=True)
    chunks: Mapped[int]
    generation: Mapped[int] = of_generation()


class PostingRow(PostgresTables):
    """The chunks of a segment that hold a term: records as in `postings`."""

    __tablename__ = "posting"
    __table_args__ = (Index("posting_by_segment", "segment"),)

    term: Mapped[str] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(primary_key=True)
    segment: Mapped[int] = mapped_column(primary_key=True)
    records: Mapped[bytes] = mapped_column(LargeBinary())


class GoneRow(PostgresTables):
    """A removed chunk whose postings still exist."""

    __tablename__ = "gone"

    chunk_key: Mapped[int] = mapped_column(primary_key=True)
    generation: Mapped[int] = of_generation()


class IndexedRow(PostgresTables):
    """How many chunks of a generation can be found, and how many terms they have."""

    __tablename__ = "indexed"

    generation: Mapped[int] = mapped_column(primary_key=True)
    chunks: Mapped[int]
    terms: Mapped[int]


class ChunkTermsRow(PostgresTables):
    """The terms of a chunk with their positions, and their number."""

    __tablename__ = "chunk_terms"

    chunk_key: Mapped[int] = mapped_column(
        ForeignKey(ChunkRow.key, ondelete="CASCADE"), primary_key=True
    )
    length: Mapped[int]
    terms: Mapped[str] = mapped_column(TSVECTOR())


class TermRow(PostgresTables):
    """A term that some chunk contains or contained.

    `shapes` are hashes of the term and of the term without one letter: terms that share a hash are
    one edit apart.
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


TEXT_INDEX = (SegmentRow, PostingRow, GoneRow, IndexedRow, ChunkTermsRow, TermRow)
"""The tables that are rebuilt when the rules for terms change."""


class NativeTables(DeclarativeBase):
    """The tables that are created when a search first needs them."""

    type_annotation_map = Tables.type_annotation_map


class ChunkWordsRow(NativeTables):
    """A chunk as a text search configuration of the server reads it; see `chunk_words.py`."""

    __tablename__ = "chunk_words"
    __table_args__ = (Index("chunk_words_by_word", "words", postgresql_using="gin"),)

    chunk_key: Mapped[int] = mapped_column(
        ForeignKey(ChunkRow.key, ondelete="CASCADE"), primary_key=True
    )
    config: Mapped[str]
    words: Mapped[str] = mapped_column(TSVECTOR())
    generation: Mapped[int] = of_generation()
