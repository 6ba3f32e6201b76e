"""Keyed values in a table, for every SQL store; see KeyedValues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, CursorResult, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from lagotto.stores.keyed_values import KeyedValue
from lagotto.stores.sql.source_files import Run
from lagotto.stores.sql.tables import KeyedValueRow as Row


class SqlKeyedValues:
    """Keeps them in a table."""

    def __init__(self, *, read: Run, write: Run) -> None:
        self._read = read
        self._write = write

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        def read(connection: Connection) -> KeyedValue | None:
            row = connection.execute(_VALUES.where(*_named(kind, name))).first()
            return KeyedValue(*row) if row else None

        return await self._read(read)

    async def data(self, kind: str, name: str) -> bytes | None:
        def read(connection: Connection) -> bytes | None:
            found = connection.execute(select(Row.data).where(*_named(kind, name))).scalar()
            return None if found is None else bytes(found)

        return await self._read(read)

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        def read(connection: Connection) -> list[KeyedValue]:
            wanted = _VALUES.where(Row.kind == kind, Row.name > after).order_by(Row.name)
            return [KeyedValue(*row) for row in connection.execute(wanted.limit(limit))]

        return await self._read(read)

    async def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        *,
        data: bytes | None = None,
        expected: int | None = None,
    ) -> bool:
        fields: dict[str, Any] = {"value": dict(value)}
        if data is not None:
            fields["data"] = data

        def replace(connection: Connection) -> bool:
            versions = () if expected is None else (Row.version == expected,)
            changed: CursorResult[Any] = connection.execute(
                update(Row)
                .where(*_named(kind, name), *versions)
                .values(version=Row.version + 1, **fields)
            )
            return changed.rowcount > 0

        def create(connection: Connection) -> bool:
            if connection.execute(select(Row.name).where(*_named(kind, name))).first():
                return False
            try:
                with connection.begin_nested():
                    connection.execute(
                        insert(Row).values(kind=kind, name=name, version=1, **fields)
                    )
            except IntegrityError:  # another process was faster
                return False
            return True

        if expected != 0:
            replaced = await self._write(replace)
            if replaced or expected is not None:
                return replaced
        return await self._write(create) or (expected is None and await self._write(replace))

    async def remove(self, kind: str, name: str) -> bool:
        def write(connection: Connection) -> bool:
            gone: CursorResult[Any] = connection.execute(delete(Row).where(*_named(kind, name)))
            return gone.rowcount > 0

        return await self._write(write)


_VALUES = select(Row.name, Row.version, Row.value)


def _named(kind: str, name: str) -> tuple[Any, Any]:
    return Row.kind == kind, Row.name == name
