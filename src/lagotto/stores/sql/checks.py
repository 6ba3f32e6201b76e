"""What may be wrong with the rows of a base, for every SQL store.

Plain functions over a Connection, as in `reading`; each gives the findings that matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import BindParameter, Connection, Row, and_, bindparam, func, select

from lagotto.documents import iso
from lagotto.indexes.base import Finding
from lagotto.stores.sql.read import TEXT_ROW
from lagotto.stores.sql.settings import setting
from lagotto.stores.sql.tables import (
    ChunkCacheRow,
    ChunkRow,
    ChunkSetRow,
    ChunkTextRow,
    DocumentRow,
    EmbeddingRow,
    RemovalRow,
)

SHOWN = 5
"""Documents that a finding names."""

MANY_REMOVALS = 10_000

REBUILD = "run `lagotto rebuild`"

_DOCUMENT: BindParameter[int] = bindparam("document_key")
_TEXT = select(DocumentRow.text).where(DocumentRow.key == _DOCUMENT)
_CHUNK_TEXTS = (
    select(ChunkRow.start, ChunkRow.end, ChunkTextRow.text)
    .join(ChunkTextRow, TEXT_ROW)
    .where(ChunkRow.document_key == _DOCUMENT)
)


def check_rows(connection: Connection) -> list[Finding]:
    """What a base holds, and where its parts don't fit together."""
    return [
        _summary(connection),
        *_chunks_without_vectors(connection),
        *_other_models(connection),
        *_former_contents(connection),
        *_lost_texts(connection),
        *_other_texts(connection),
        *_expired(connection),
        *_removals(connection),
    ]


def _summary(connection: Connection) -> Finding:
    documents = connection.scalar(select(func.count()).select_from(DocumentRow))
    model = setting(connection, "model_id")
    made = f"{model} (dimension {setting(connection, 'dimension')})" if model else "no model yet"
    what = f"{documents} documents, {_findable(connection)} chunks, vectors of {made}"
    return Finding(level="ok", what=what)


def _findable(connection: Connection) -> int:
    return connection.scalar(select(func.count()).where(ChunkRow.level != "parent")) or 0


def _chunks_without_vectors(connection: Connection) -> list[Finding]:
    own = and_(
        EmbeddingRow.chunk_key == ChunkRow.key,
        EmbeddingRow.model_id == (setting(connection, "model_id") or ""),
    )
    statement = (
        select(DocumentRow.collection, DocumentRow.id, func.count().label("chunks"))
        .select_from(ChunkRow)
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .outerjoin(EmbeddingRow, own)
        .where(ChunkRow.level != "parent", EmbeddingRow.chunk_key.is_(None))
        .group_by(DocumentRow.collection, DocumentRow.id)
        .order_by(DocumentRow.collection, DocumentRow.id)
    )
    rows = connection.execute(statement).all()
    if not rows:
        return []
    chunks = sum(row.chunks for row in rows)
    return [_add_again(f"{chunks} chunks have no vector: {_named(rows)}")]


def _other_models(connection: Connection) -> list[Finding]:
    counted = select(EmbeddingRow.model_id, func.count()).group_by(EmbeddingRow.model_id)
    own = setting(connection, "model_id")
    others = [f"{model} ({count})" for model, count in connection.execute(counted) if model != own]
    if not others:
        return []
    return [
        Finding(
            level="problem",
            what=f"there are vectors of other models than {own}: {', '.join(sorted(others))}",
            advice="make a new base and add the documents to it",
        )
    ]


def _former_contents(connection: Connection) -> list[Finding]:
    statement = (
        select(DocumentRow.collection, DocumentRow.id)
        .join(ChunkSetRow, ChunkSetRow.document_key == DocumentRow.key)
        .where(ChunkSetRow.content_hash != DocumentRow.content_hash)
        .order_by(DocumentRow.collection, DocumentRow.id)
    )
    rows = connection.execute(statement).all()
    return [_add_again(f"the chunks are of a former content: {_named(rows)}")] if rows else []


def _lost_texts(connection: Connection) -> list[Finding]:
    statement = (
        select(func.count())
        .select_from(ChunkRow)
        .outerjoin(ChunkTextRow, TEXT_ROW)
        .where(ChunkTextRow.chunk_key.is_(None))
    )
    count = connection.scalar(statement)
    if not count:
        return []
    what = f"{count} chunks have no stored text, which slows reading them"
    return [Finding(level="note", what=what, advice=REBUILD)]


def _other_texts(connection: Connection) -> list[Finding]:
    """The texts of chunks are stored twice; a document at a time is read to compare them."""
    statement = select(DocumentRow.collection, DocumentRow.id, DocumentRow.key)
    rows = connection.execute(statement.order_by(DocumentRow.collection, DocumentRow.id)).all()
    wrong = [row for row in rows if not _has_its_texts(connection, row.key)]
    if not wrong:
        return []
    return [_add_again(f"the texts of chunks are not those of the document: {_named(wrong)}")]


def _has_its_texts(connection: Connection, document_key: int) -> bool:
    key = {"document_key": document_key}
    text = connection.scalar(_TEXT, key) or ""
    chunks = connection.execute(_CHUNK_TEXTS, key)
    return all(text[start:end] == stored for start, end, stored in chunks)


def _expired(connection: Connection) -> list[Finding]:
    expired = ChunkCacheRow.expires_at <= iso(datetime.now(UTC))
    count = connection.scalar(select(func.count()).select_from(ChunkCacheRow).where(expired))
    if not count:
        return []
    what = f"{count} sets of cached chunks have expired"
    return [Finding(level="note", what=what, advice="the next search that keeps chunks drops them")]


def _removals(connection: Connection) -> list[Finding]:
    """They are kept for a while, for indexes that have not heard of them."""
    count = connection.scalar(select(func.count()).select_from(RemovalRow)) or 0
    if count < max(MANY_REMOVALS, _findable(connection)):
        return []
    what = f"{count} removed chunks are still remembered, more than there are chunks"
    return [Finding(level="note", what=what, advice="`lagotto copy` makes a base without them")]


def _add_again(what: str) -> Finding:
    advice = "remove these documents with `lagotto remove ID` and add them again"
    return Finding(level="problem", what=what, advice=advice)


def _named(rows: Sequence[Row[*tuple[str, str, int]] | Row[*tuple[str, str]]]) -> str:
    """The first documents by collection and id."""
    names = [f"{row[0]}/{row[1]}" for row in rows[:SHOWN]]
    return ", ".join([*names, f"and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else names)
