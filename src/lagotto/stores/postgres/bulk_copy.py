"""Rows into tables by binary COPY, the fastest way that PostgreSQL offers."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from psycopg import AsyncConnection as Driver
from psycopg.sql import SQL, Composed, Identifier
from psycopg.types.numeric import DecimalBinaryDumper
from sqlalchemy import JSON, BigInteger, Boolean, Connection, LargeBinary, String
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import await_only

from lagotto.stores.postgres.adapters import vector_bytes
from lagotto.stores.sql.tables import Number, StoredVector, Tables
from lagotto.stores.sql.write import insert_rows

HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
END = struct.pack(">h", -1)
NULL = struct.pack(">i", -1)

Encoder = Callable[[Any], bytes]

integer: Encoder = struct.Struct(">q").pack
_size = struct.Struct(">i").pack
_count = struct.Struct(">h").pack

_ENCODERS: Mapping[type[TypeEngine[Any]], Encoder] = {
    BigInteger: integer,
    Boolean: struct.Struct(">?").pack,
    String: str.encode,
    JSON: lambda value: json.dumps(value).encode(),
    LargeBinary: bytes,
    Number: lambda value: bytes(DecimalBinaryDumper(Decimal).dump(Decimal(value)) or b""),
    StoredVector: lambda stored: vector_bytes(np.frombuffer(stored, "<f4")),
}


def copy_rows(connection: Connection, table: type[Tables], rows: Sequence[dict[str, Any]]) -> None:
    """Copy rows, each with a value for every column, into a table that all SQL stores share."""
    columns = table.__table__.columns
    kinds = [type(column.type.dialect_impl(connection.dialect)) for column in columns]
    encoders = [_encoder(kind) for kind in kinds]
    if not rows or None in encoders:
        insert_rows(connection, table, rows)
        return
    pairs = list(zip([column.name for column in columns], encoders, strict=True))
    encoded = ([_encoded(encode, row[name]) for name, encode in pairs] for row in rows)
    copy_encoded(connection, table.__tablename__, [name for name, _ in pairs], encoded)


def copy_encoded(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[bytes | None]],
) -> None:
    """Copy rows whose values are already in PostgreSQL's binary format into a table."""
    names = SQL(", ").join(map(Identifier, columns))
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(Identifier(table), names)
    driver: Any = connection.connection.driver_connection
    await_only(_copy(driver, statement, b"".join([HEADER, *map(_row, rows), END])))


async def _copy(driver: Driver[Any], statement: Composed, data: bytes) -> None:
    async with driver.cursor() as cursor, cursor.copy(statement) as copy:
        await copy.write(data)


def _row(values: Sequence[bytes | None]) -> bytes:
    parts = [_count(len(values))]
    for value in values:
        parts += (NULL,) if value is None else (_size(len(value)), value)
    return b"".join(parts)


def _encoder(kind: type[TypeEngine[Any]]) -> Encoder | None:
    return next((encode for base, encode in _ENCODERS.items() if issubclass(kind, base)), None)


def _encoded(encode: Encoder | None, value: object) -> bytes | None:
    return None if value is None or encode is None else encode(value)
