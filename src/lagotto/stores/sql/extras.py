"""What a store keeps besides documents: keyed values, and the state of source files."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, CursorResult, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from lagotto.documents import Metadata
from lagotto.stores.base import KeyedValue, NewValue, SourceDocument, SourceFile
from lagotto.stores.sql import statements
from lagotto.stores.sql.read import AT_ONCE, setting
from lagotto.stores.sql.statements import ReadConnection
from lagotto.stores.sql.tables import DocumentRow, SourceFileRow
from lagotto.stores.sql.tables import KeyedValueRow as Row
from lagotto.stores.sql.write import put_setting

T = TypeVar("T")

GIVEN = "given_metadata:"
"""The setting, of each collection, with the metadata that was given for paths."""


class Run(Protocol):
    """Runs a function in a transaction."""

    def __call__(self, function: Callable[[Connection], T], /) -> Awaitable[T]: ...


class Peek(Protocol):
    """Runs a function that reads a row or two, where it is: a change of threads takes longer."""

    def __call__(self, function: Callable[[ReadConnection], T], /) -> Awaitable[T]: ...


ALL = 2**62


class SqlSourceFiles:
    """Keeps them in a table."""

    def __init__(self, *, read: Run, write: Run) -> None:
        self._read = read
        self._write = write

    async def documents(self, collection: str) -> list[SourceDocument]:
        def read(connection: Connection) -> list[SourceDocument]:
            rows = connection.execute(_DOCUMENTS, {"of_collection": collection})
            return [SourceDocument(*row) for row in rows]

        return await self._read(read)

    async def load(self, collection: str) -> dict[str, SourceFile]:
        def read(connection: Connection) -> dict[str, SourceFile]:
            rows = connection.execute(_FILES, {"of_collection": collection})
            return {row[0]: SourceFile(*row[1:]) for row in rows}

        return await self._read(read)

    async def save(
        self, collection: str, files: Mapping[str, SourceFile], *, gone: Collection[str] = ()
    ) -> None:
        def write(connection: Connection) -> None:
            outdated = sorted({*files, *gone})
            for start in range(0, len(outdated), AT_ONCE):
                some = SourceFileRow.source.in_(outdated[start : start + AT_ONCE])
                in_collection = SourceFileRow.collection == collection
                connection.execute(delete(SourceFileRow).where(in_collection, some))
            if rows := [_row(collection, source, file) for source, file in files.items()]:
                connection.execute(insert(SourceFileRow), rows)

        if files or gone:
            await self._write(write)

    async def path_metadata(self, collection: str) -> dict[str, Metadata]:
        return await self._read(partial(_given, collection=collection))

    async def set_path_metadata(self, collection: str, metadata: Mapping[str, Metadata]) -> None:
        def write(connection: Connection) -> None:
            every = {**_given(connection, collection=collection), **metadata}
            put_setting(connection, f"{GIVEN}{collection}", json.dumps(every))

        await self._write(write)


def _given(connection: Connection, *, collection: str) -> dict[str, Metadata]:
    stored: dict[str, Metadata] = json.loads(setting(connection, f"{GIVEN}{collection}") or "{}")
    return stored


def _row(collection: str, source: str, file: SourceFile) -> dict[str, Any]:
    return {"collection": collection, "source": source, **file._asdict()}


_DOCUMENTS = select(
    DocumentRow.id, DocumentRow.source, DocumentRow.content_hash, DocumentRow.fingerprint
).where(DocumentRow.collection == bindparam("of_collection"))
_FILES = select(
    SourceFileRow.source,
    SourceFileRow.path,
    SourceFileRow.size,
    SourceFileRow.mtime_ns,
    SourceFileRow.options,
    SourceFileRow.documents,
).where(SourceFileRow.collection == bindparam("of_collection"))


class SqlKeyedValues:
    """Keeps them in a table."""

    def __init__(self, *, peek: Peek, read: Run, write: Run) -> None:
        self._peek = peek
        self._read = read
        self._write = write

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        found = await self._peek(partial(statements.KEYED_VALUE.rows, kind=kind, name=name))
        return _value(found[0]) if found else None

    async def data(self, kind: str, name: str) -> bytes | None:
        def read(connection: Connection) -> bytes | None:
            found = connection.execute(select(Row.data).where(*_named(kind, name))).scalar()
            return None if found is None else bytes(found)

        return await self._read(read)

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        most = ALL if limit is None else limit
        run: Peek = self._peek if most == 1 else self._read
        rows = partial(statements.KEYED_VALUES.rows, kind=kind, after=after, most=most)
        return [_value(row) for row in await run(rows)]

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

        def write(connection: Connection) -> bool:
            """All in one transaction: each costs a wait for other writers, and for the disk."""
            if expected is None:
                return replace(connection) or create(connection) or replace(connection)
            return replace(connection) if expected else create(connection)

        return await self._write(write)

    async def create(self, values: Sequence[NewValue]) -> None:
        rows = [{**each._asdict(), "value": dict(each.value), "version": 1} for each in values]
        await self._write(lambda connection: connection.execute(insert(Row), rows))

    async def remove(self, kind: str, name: str) -> bool:
        def write(connection: Connection) -> bool:
            gone: CursorResult[Any] = connection.execute(delete(Row).where(*_named(kind, name)))
            return gone.rowcount > 0

        return await self._write(write)


def _value(row: Sequence[Any]) -> KeyedValue:
    name, version, value = row
    return KeyedValue(name, version, json.loads(value) if isinstance(value, str) else value)


def _named(kind: str, name: str) -> tuple[Any, Any]:
    return Row.kind == kind, Row.name == name
