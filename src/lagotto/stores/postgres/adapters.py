"""PostgreSQL's types: vectors and keys in psycopg's binary format, column types in SQLAlchemy.

The shared SQL knows nothing of PostgreSQL. Importing this module registers how its dialect stores
vectors and compares with lists of values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import BaseConnection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler

from lagotto.indexes.base import ChunkKeys
from lagotto.stores.sql.filters import Place
from lagotto.stores.sql.tables import BIND, Number, StoredVector
from lagotto.stores.sql.value_lists import IsAmong, ListKind, PageIsAmong, ValueList

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


def _array(values: Sequence[str | float]) -> list[str | float] | list[Decimal]:
    """Values as an array; numbers are exact, as above."""
    if any(isinstance(value, float) for value in values):
        return [Decimal(value) for value in values]
    return list(values)


_ARRAYS: dict[ListKind, str] = {"text": "text[]", "number": "numeric[]", "key": "bigint[]"}

BIND[Number, DIALECT] = _exact
BIND[ValueList, DIALECT] = _array
BIND[StoredVector, DIALECT] = VectorParameter.of_bytes


@compiles(StoredVector, DIALECT)
def _vector(_type: StoredVector, _compiler: DDLCompiler, **_how: Any) -> str:
    """pgvector's type."""
    return "vector"


@compiles(Place, DIALECT)
def _strpos(element: Place, compiler: SQLCompiler, **how: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **how)})"


@compiles(ValueList, DIALECT)
def _array_type(kind: ValueList, _compiler: DDLCompiler, **_how: Any) -> str:
    return _ARRAYS[kind.kind]


@compiles(IsAmong, DIALECT)
def _in_array(element: IsAmong, compiler: SQLCompiler, **how: Any) -> str:
    column, values = (compiler.process(part, **how) for part in element.clauses)
    kind = list(element.clauses)[1].type.compile(compiler.dialect)
    return f"{column} = ANY(CAST({values} AS {kind}))"


@compiles(PageIsAmong, DIALECT)
def _between_array(element: PageIsAmong, compiler: SQLCompiler, **how: Any) -> str:
    first, last, values = (compiler.process(part, **how) for part in element.clauses)
    pages = f"unnest(CAST({values} AS numeric[])) AS wanted (page)"
    return f"EXISTS (SELECT 1 FROM {pages} WHERE page BETWEEN {first} AND {last})"
