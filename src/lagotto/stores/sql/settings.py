"""The settings of a base, what it was made with, and its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, func, insert, select

from lagotto.indexes.base import IndexState
from lagotto.stores.base import BaseConfig, Entry, StoreInfo
from lagotto.stores.config import agreed_config
from lagotto.stores.sql.tables import ChunkRow, DocumentRow, Setting

_CONFIG = tuple(BaseConfig.model_fields)


def setting(connection: Connection, name: str) -> str | None:
    """A setting of the base, None if it is not set."""
    return connection.scalar(select(Setting.value).where(Setting.name == name))


def put_setting(connection: Connection, name: str, value: str) -> None:
    """Store a setting of the base."""
    connection.execute(delete(Setting).where(Setting.name == name))
    connection.execute(insert(Setting).values(name=name, value=value))


def read_config(connection: Connection) -> BaseConfig:
    """What the chunks and vectors of the base were made with."""
    rows = connection.execute(select(Setting.name, Setting.value).where(Setting.name.in_(_CONFIG)))
    return BaseConfig.model_validate({row.name: row.value for row in rows})


def put_config(connection: Connection, config: BaseConfig) -> None:
    """Store what the chunks and vectors of the base are made with."""
    connection.execute(delete(Setting).where(Setting.name.in_(_CONFIG)))
    rows = [
        {"name": name, "value": str(value)}
        for name, value in config.model_dump(exclude_none=True).items()
    ]
    connection.execute(insert(Setting), rows)


def check_config(connection: Connection, entries: Sequence[Entry], place: str) -> None:
    """Raise unless all entries were made as the base's others; the first one decides."""
    first = stored = read_config(connection)
    for entry in entries:
        stored = agreed_config(stored, entry, place=place)
    if stored != first:
        put_config(connection, stored)


def read_info(
    connection: Connection, *, location: str, bytes_on_disk: int, indexes: Iterable[IndexState]
) -> StoreInfo:
    """How much is in the base, and what it was made with."""
    counted = select(DocumentRow.collection, func.count()).group_by(DocumentRow.collection)
    collections = {row[0]: row[1] for row in connection.execute(counted)}
    languages = select(DocumentRow.language).where(DocumentRow.language.is_not(None)).distinct()
    unknown = select(func.count()).where(DocumentRow.language.is_(None))
    chunks = select(func.count()).where(ChunkRow.level != "parent")
    config = read_config(connection)
    return StoreInfo(
        location=location,
        documents=sum(collections.values()),
        chunks=connection.scalar(chunks) or 0,
        collections=dict(sorted(collections.items())),
        languages=tuple(sorted(name for name in connection.scalars(languages) if name)),
        of_unknown_language=connection.scalar(unknown) or 0,
        **config.model_dump(exclude={"generation"}),
        bytes_on_disk=bytes_on_disk,
        indexes=tuple(indexes),
    )
