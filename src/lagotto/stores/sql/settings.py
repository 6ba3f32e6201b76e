"""What a base says about itself: its settings, its model, how much is in it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select

from lagotto.errors import ModelMismatchError
from lagotto.indexes.vectors.snapshot import check_vectors
from lagotto.stores.base import Entry, StoreInfo
from lagotto.stores.sql.tables import ChunkRow, ChunkSetRow, DocumentRow, Setting


def setting(connection: Connection, name: str) -> str | None:
    """A fact about the base."""
    return connection.scalar(select(Setting.value).where(Setting.name == name))


def put_setting(connection: Connection, name: str, value: str) -> None:
    """State a fact about the base."""
    connection.execute(delete(Setting).where(Setting.name == name))
    connection.execute(insert(Setting).values(name=name, value=value))


def check_model(connection: Connection, entries: Sequence[Entry], place: str) -> None:
    """Raise unless all entries have vectors of the base's model; the first one decides on it."""
    stored = setting(connection, "model_id"), setting(connection, "dimension")
    for entry in entries:
        dimension = entry.vectors.shape[1]
        if stored == (None, None):
            stored = entry.model_id, str(dimension)
            put_setting(connection, "model_id", entry.model_id)
            put_setting(connection, "dimension", str(dimension))
        elif stored != (entry.model_id, str(dimension)):
            raise ModelMismatchError(
                f"{place} holds vectors of {stored[0]} with {stored[1]} numbers, not of "
                f"{entry.model_id} with {dimension}; use the embedder it was made with, or make "
                "another base"
            )
        check_vectors(entry.vectors, dimension=dimension)


def read_info(connection: Connection, *, location: str, bytes_on_disk: int) -> StoreInfo:
    """How much is in the base, and what it was made with."""
    counted = select(DocumentRow.collection, func.count()).group_by(DocumentRow.collection)
    collections = {row[0]: row[1] for row in connection.execute(counted)}
    languages = select(DocumentRow.language).where(DocumentRow.language.is_not(None)).distinct()
    chunks = select(func.count()).where(ChunkRow.level != "parent")
    return StoreInfo(
        location=location,
        documents=sum(collections.values()),
        chunks=connection.scalar(chunks) or 0,
        collections=dict(sorted(collections.items())),
        languages=tuple(sorted(name for name in connection.scalars(languages) if name)),
        model_id=setting(connection, "model_id"),
        dimension=int(setting(connection, "dimension") or 0) or None,
        chunker_id=connection.scalar(select(ChunkSetRow.chunker_id).limit(1)),
        bytes_on_disk=bytes_on_disk,
    )
