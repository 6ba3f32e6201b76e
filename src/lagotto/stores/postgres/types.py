"""PostgreSQL's types: vectors and keys in psycopg's binary format, and rows by binary COPY."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import AsyncConnection as Driver
from psycopg import BaseConnection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.sql import SQL, Composed, Identifier
from psycopg.types.numeric import DecimalBinaryDumper
from sqlalchemy import JSON, BigInteger, Boolean, Connection, LargeBinary, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import await_only

from lagotto.indexes.base import ChunkKeys
from lagotto.stores.sql.tables import BIND, Instant, Number, StoredVector, Tables
from lagotto.stores.sql.write import insert_rows

INT8, INT8_ARRAY = 20, 1016
_ITEM = np.dtype([("size", ">i4"), ("number", ">i8")])
DIALECT = "postgresql"


@dataclass(frozen=True, slots=True)
class VectorParameter:
    """A vector to send to the server."""

    numbers: NDArray[np.float32]

    @classmethod
    def of_bytes(cls, stored: bytes) -> VectorParameter:
        """The vector that a row stores as little-endian float32."""
        return cls(np.frombuffer(stored, "<f4"))


@dataclass(frozen=True, slots=True)
class KeysParameter:
    """Keys to send to the server, a bigint[] there."""

    keys: ChunkKeys


def vector_bytes(numbers: NDArray[np.float32]) -> bytes:
    """A vector in pgvector's binary format."""
    return struct.pack(">hh", len(numbers), 0) + numbers.astype(">f4").tobytes()


def array_bytes(numbers: ChunkKeys) -> bytes:
    """Numbers in the binary format of a bigint[]."""
    if not len(numbers):
        return struct.pack(">iii", 0, 0, INT8)
    items = np.empty(len(numbers), _ITEM)
    items["size"], items["number"] = 8, numbers
    return struct.pack(">iiiii", 1, 0, INT8, len(items), 1) + items.tobytes()


def keys_of(joined: Buffer | None) -> ChunkKeys:
    """The keys in the result of `string_agg(int8send(key), '')`."""
    return np.frombuffer(joined or b"", ">i8").astype(np.int64)


def register(connection: BaseConnection[object], *, vector_oid: int) -> None:
    """Register the parameters above with a connection, and a loader for vectors."""
    dumper = type("VectorDumperWithOid", (_VectorDumper,), {"oid": vector_oid})
    connection.adapters.register_dumper(VectorParameter, dumper)
    connection.adapters.register_dumper(KeysParameter, _KeysDumper)
    connection.adapters.register_loader(vector_oid, _TextVectorLoader)
    connection.adapters.register_loader(vector_oid, _BinaryVectorLoader)


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: VectorParameter) -> Buffer:
        return vector_bytes(obj.numbers)


class _KeysDumper(Dumper):
    format = Format.BINARY
    oid = INT8_ARRAY

    def dump(self, obj: KeysParameter) -> Buffer:
        return array_bytes(obj.keys)


class _TextVectorLoader(Loader):
    format = Format.TEXT

    def load(self, data: Buffer) -> bytes:
        return np.array(bytes(data)[1:-1].split(b","), "<f4").tobytes()


class _BinaryVectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return np.frombuffer(data, ">f4", offset=4).astype("<f4").tobytes()


def _exact(number: float | None) -> Decimal | None:
    """A Decimal, since PostgreSQL rounds a numeric to compare it with a float."""
    return None if number is None else Decimal(number)


BIND[Number, DIALECT] = _exact
BIND[StoredVector, DIALECT] = VectorParameter.of_bytes


@compiles(StoredVector, DIALECT)
def _vector(_type: StoredVector, _compiler: DDLCompiler, **_how: Any) -> str:
    """pgvector's type."""
    return "vector"


@compiles(Instant, DIALECT)
def _timestamp(_type: Instant, _compiler: DDLCompiler, **_how: Any) -> str:
    return "TIMESTAMPTZ"


HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
END = struct.pack(">h", -1)
NULL = struct.pack(">i", -1)

Encoder = Callable[[Any], bytes]

integer: Encoder = struct.Struct(">q").pack
_size = struct.Struct(">i").pack
_count = struct.Struct(">h").pack

EPOCH, MICROSECOND = datetime(2000, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
"""PostgreSQL counts the microseconds since then."""

_ENCODERS: Mapping[type[TypeEngine[Any]], Encoder] = {
    BigInteger: integer,
    Boolean: struct.Struct(">?").pack,
    String: str.encode,
    JSON: lambda value: json.dumps(value).encode(),
    LargeBinary: bytes,
    Number: lambda value: bytes(DecimalBinaryDumper(Decimal).dump(Decimal(value)) or b""),
    Instant: lambda iso: integer((datetime.fromisoformat(iso) - EPOCH) // MICROSECOND),
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
