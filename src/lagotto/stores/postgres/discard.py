"""Take back the creation of a base on a server."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, text

from lagotto.stores.postgres.address import parse_location
from lagotto.stores.postgres.database import create_single
from lagotto.stores.postgres.errors import postgres_errors
from lagotto.stores.postgres.locks import BUSY_TIMEOUT, acquire_locks
from lagotto.stores.postgres.schema import schema_version
from lagotto.stores.postgres.tables import PostgresTables
from lagotto.stores.sql.tables import Counter, DocumentRow, KeyedValueRow, Tables

_OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


async def is_missing(location: str) -> bool:
    """Whether there is no base yet at an address; its database may not exist either."""
    address = parse_location(location)
    engine = create_single(address)
    try:
        with postgres_errors(address.place):
            async with engine.connect() as connection:
                return await connection.run_sync(schema_version, address.place) == 0
    finally:
        await engine.dispose()


async def discard_if_empty(location: str) -> bool:
    """Drop the tables of a base that never had a document, unless it may be in use.

    It may be if anybody else is connected to the database. The extensions stay: other bases of the
    database may use them.
    """
    address = parse_location(location)
    engine = create_single(address)
    try:
        with postgres_errors(address.place):
            async with engine.begin() as connection:
                return await connection.run_sync(_discard, address.place)
    finally:
        await engine.dispose()


def _discard(connection: Connection, place: str) -> bool:
    acquire_locks(connection, None, timeout=BUSY_TIMEOUT)
    if connection.scalar(_OTHERS) or schema_version(connection, place) == 0:
        return False
    if not _never_had_a_document(connection):
        return False
    for metadata in (PostgresTables.metadata, Tables.metadata):
        metadata.drop_all(connection, checkfirst=False)
    return True


def _never_had_a_document(connection: Connection) -> bool:
    used = connection.scalar(select(func.max(Counter.value)))
    rows = [
        connection.scalar(select(func.count()).select_from(table))
        for table in (DocumentRow, KeyedValueRow)
    ]
    return not used and not any(rows)
