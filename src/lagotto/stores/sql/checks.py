"""What may be wrong with the rows of a base, for every SQL store.

Plain functions over a Connection, as in `read`; each gives the findings that matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import BindParameter, Connection, Row, and_, bindparam, func, select

from lagotto.documents import Document, iso
from lagotto.indexes.base import REBUILD, Finding
from lagotto.stores.base import fingerprint
from lagotto.stores.sql.changelog import ranges
from lagotto.stores.sql.generations import check_generations
from lagotto.stores.sql.read import AT_ONCE, are_units, counter, document_of, setting
from lagotto.stores.sql.tables import (
    ChunkCacheRow,
    ChunkRow,
    ChunkSetRow,
    ChunkTextRow,
    DocumentRow,
    EmbeddingRow,
    RemovalRow,
)
from lagotto.stores.sql.write import CURRENT

SHOWN = 5
"""Documents that a finding names."""

MANY_REMOVALS = 10_000

_TEXT_ROW = ChunkTextRow.chunk_key == ChunkRow.key
_DOCUMENT: BindParameter[int] = bindparam("document_key")
_DOCUMENTS = select(DocumentRow.__table__).where(DocumentRow.key == _DOCUMENT)
_CHUNK_TEXTS = (
    select(ChunkRow.start, ChunkRow.end, ChunkTextRow.text)
    .join(ChunkTextRow, _TEXT_ROW)
    .where(ChunkRow.document_key == _DOCUMENT)
)
_VECTORS = select(EmbeddingRow.chunk_key, EmbeddingRow.vector).where(
    EmbeddingRow.chunk_key > bindparam("start"),
    EmbeddingRow.chunk_key <= bindparam("stop"),
    EmbeddingRow.model_id == bindparam("model"),
    EmbeddingRow.generation == CURRENT,
)
_OWNERS = (
    select(DocumentRow.collection, DocumentRow.id)
    .distinct()
    .join(ChunkRow, ChunkRow.document_key == DocumentRow.key)
    .where(ChunkRow.key.in_(bindparam("keys", expanding=True)))
)
_OWN_HASH = re.compile("[0-9a-f]{32}")


def check_rows(connection: Connection, *, short: int = 0) -> list[Finding]:
    """What a base holds, and which of its rows are inconsistent.

    The chunks of documents with at most `short` characters have no texts of their own.
    """
    return [
        _summary(connection),
        *_unfinished_copy(connection),
        *_chunks_without_vectors(connection),
        *_other_models(connection),
        *_former_contents(connection),
        *_lost_texts(connection, short),
        *_changed_documents(connection),
        *_damaged_vectors(connection),
        *_expired(connection),
        *_removals(connection),
        *check_generations(connection),
    ]


def _summary(connection: Connection) -> Finding:
    documents = connection.scalar(select(func.count()).select_from(DocumentRow))
    model = setting(connection, "model_id")
    made = f"{model} (dimension {setting(connection, 'dimension')})" if model else "no model yet"
    what = f"{documents} documents, {_findable(connection)} chunks, vectors of {made}"
    return Finding(level="ok", what=what)


def _unfinished_copy(connection: Connection) -> list[Finding]:
    source = setting(connection, "unfinished_copy_of")
    if source is None:
        return []
    return [
        Finding(
            level="problem",
            what=f"it is an unfinished copy of {source}, and lacks some of its documents",
            advice="unless the copy is running, run `lagotto copy` again to complete it",
        )
    ]


def _findable(connection: Connection) -> int:
    findable = (ChunkRow.level != "parent", ChunkRow.generation == CURRENT)
    return connection.scalar(select(func.count()).where(*findable)) or 0


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
        .where(
            ChunkRow.level != "parent",
            ChunkRow.generation == CURRENT,
            EmbeddingRow.chunk_key.is_(None),
        )
        .group_by(DocumentRow.collection, DocumentRow.id)
        .order_by(DocumentRow.collection, DocumentRow.id)
    )
    rows = connection.execute(statement).all()
    if not rows:
        return []
    chunks = sum(row.chunks for row in rows)
    return [_add_again(f"{chunks} chunks have no vector: {_named(rows)}")]


def _other_models(connection: Connection) -> list[Finding]:
    counted = (
        select(EmbeddingRow.model_id, func.count())
        .where(EmbeddingRow.generation == CURRENT)
        .group_by(EmbeddingRow.model_id)
    )
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


def _lost_texts(connection: Connection, short: int) -> list[Finding]:
    statement = (
        select(func.count())
        .select_from(ChunkRow)
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .outerjoin(ChunkTextRow, _TEXT_ROW)
        .where(
            ChunkTextRow.chunk_key.is_(None),
            ChunkRow.generation == CURRENT,
            func.length(DocumentRow.text) > short,
        )
    )
    count = connection.scalar(statement)
    if not count:
        return []
    what = f"{count} chunks have no stored text, which slows reading them"
    return [Finding(level="note", what=what, advice=REBUILD)]


def _damaged_vectors(connection: Connection) -> list[Finding]:
    """A vector that is not of length 1 could outrank all others."""
    size = 4 * int(setting(connection, "dimension") or 0)
    model = setting(connection, "model_id") or ""
    damaged: list[int] = []
    for start, stop in ranges(connection, since=0, until=counter(connection, "change")):
        values = {"start": start, "stop": stop, "model": model}
        rows = connection.execute(_VECTORS, values).all()
        damaged += _not_units([(key, stored) for key, stored in rows], size=size)
    if not damaged:
        return []
    named: list[Row[tuple[str, str]]] = []
    for start in range(0, len(damaged), AT_ONCE):
        named += connection.execute(_OWNERS, {"keys": damaged[start : start + AT_ONCE]})
    owners = sorted(set(map(tuple, named)))
    return [_add_again(f"{len(damaged)} vectors are damaged: {_named(owners)}")]


def _not_units(rows: Sequence[tuple[int, bytes]], *, size: int) -> list[int]:
    """The keys of the vectors that have another dimension than the model, or another length."""
    whole = [(key, stored) for key, stored in rows if len(stored) == size]
    vectors = np.frombuffer(b"".join(stored for _, stored in whole), "<f4")
    units = are_units(vectors.reshape(len(whole), -1)) if whole else ()
    sound = {key for (key, _), is_unit in zip(whole, units, strict=True) if is_unit}
    return [key for key, _ in rows if key not in sound]


def _changed_documents(connection: Connection) -> list[Finding]:
    """Documents that are not what their hashes say, and chunks that are not of their document.

    A document at a time is read to compare them.
    """
    statement = select(DocumentRow.collection, DocumentRow.id, DocumentRow.key)
    rows = connection.execute(statement.order_by(DocumentRow.collection, DocumentRow.id)).all()
    changed, other = [], []
    for row in rows:
        document = _whole_document(connection, row.key)
        if document is None:
            changed.append(row)
        elif not _has_its_texts(connection, row.key, document.text):
            other.append(row)
    found = []
    if changed:
        found.append(_add_again(f"documents are not what their hashes say: {_named(changed)}"))
    if other:
        what = f"the texts of chunks are not those of the document: {_named(other)}"
        found.append(_add_again(what))
    return found


def _whole_document(connection: Connection, document_key: int) -> Document | None:
    """A document, None if it is damaged.

    `content_hash` may also be the caller's own, such as an ETag; it is compared if it has the form
    of ours.
    """
    row = connection.execute(_DOCUMENTS, {"document_key": document_key}).one()
    try:
        document = document_of(row._mapping)
        plain = document.model_dump(exclude={"content_hash"})
        content_hash = Document.model_validate(plain).content_hash
    except ValueError:
        return None
    ours = _OWN_HASH.fullmatch(document.content_hash) is not None
    if (ours and document.content_hash != content_hash) or fingerprint(document) != row.fingerprint:
        return None
    return document


def _has_its_texts(connection: Connection, document_key: int, text: str) -> bool:
    chunks = connection.execute(_CHUNK_TEXTS, {"document_key": document_key})
    return all(text[start:end] == stored for start, end, stored in chunks)


def _expired(connection: Connection) -> list[Finding]:
    expired = ChunkCacheRow.expires_at <= iso(datetime.now(UTC))
    count = connection.scalar(select(func.count()).select_from(ChunkCacheRow).where(expired))
    if not count:
        return []
    what = f"{count} sets of cached chunks have expired"
    return [
        Finding(level="note", what=what, advice="the next search that caches chunks drops them")
    ]


def _removals(connection: Connection) -> list[Finding]:
    """Removals stay in the change log for a while, for indexes that have not applied them."""
    count = connection.scalar(select(func.count()).select_from(RemovalRow)) or 0
    if count < max(MANY_REMOVALS, _findable(connection)):
        return []
    what = f"{count} removed chunks are still in the change log, more than there are chunks"
    return [Finding(level="note", what=what, advice="`lagotto copy` makes a base without them")]


def _add_again(what: str) -> Finding:
    advice = "remove these documents with `lagotto remove ID` and add them again"
    return Finding(level="problem", what=what, advice=advice)


def _named(rows: Sequence[Sequence[Any]]) -> str:
    """The first documents by collection and id."""
    names = [f"{row[0]}/{row[1]}" for row in rows[:SHOWN]]
    return ", ".join([*names, f"and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else names)
