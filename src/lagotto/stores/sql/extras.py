"""What a store keeps besides documents: keyed values, and the state of source files."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, delete, insert, update
from sqlalchemy.dialects import postgresql, sqlite

from lagotto.documents import DocumentRef, Metadata
from lagotto.stores.base import SYNONYMS, KeyedValue, NewValue, SourceDocument, SourceFile
from lagotto.stores.sql import statements
from lagotto.stores.sql.read import ALL, in_batches, keyed_value, setting
from lagotto.stores.sql.statements import Read, ReadConnection
from lagotto.stores.sql.tables import KeyedValueRow as Row
from lagotto.stores.sql.tables import SourceFileRow
from lagotto.stores.sql.write import note_change, put_setting

T = TypeVar("T")

GIVEN = "given_metadata:"
"""The setting, of each collection, with the metadata that was given for paths."""

_INSERT: Mapping[str, Callable[..., Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


class Run(Protocol):
    """Runs a function in a transaction that changes the base."""

    def __call__(self, function: Callable[[Connection], T], /) -> Awaitable[T]: ...


class SqlSourceFiles:
    """Keeps them in a table."""

    def __init__(self, *, read: Read, write: Run) -> None:
        self._read = read
        self._write = write

    async def documents(self, collection: str) -> list[SourceDocument]:
        rows = partial(statements.SOURCE_DOCUMENTS.rows, collection=collection)
        return [SourceDocument(*row) for row in await self._read(rows)]

    async def with_contents(self, hashes: Sequence[str]) -> list[DocumentRef]:
        rows = partial(statements.WITH_CONTENTS.rows, hashes=list(hashes))
        return [DocumentRef(*row) for row in await self._read(rows)]

    async def load(self, collection: str) -> dict[str, SourceFile]:
        rows = partial(statements.SOURCE_FILES.rows, collection=collection)
        return {source: SourceFile(*state) for source, *state in await self._read(rows)}

    async def save(
        self, collection: str, files: Mapping[str, SourceFile], *, gone: Collection[str] = ()
    ) -> None:
        def write(connection: Connection) -> None:
            for some in in_batches(sorted({*files, *gone})):
                named = (SourceFileRow.collection == collection, SourceFileRow.source.in_(some))
                connection.execute(delete(SourceFileRow).where(*named))
            rows = [
                {"collection": collection, "source": source, **file._asdict()}
                for source, file in files.items()
            ]
            if rows:
                connection.execute(insert(SourceFileRow), rows)

        if files or gone:
            await self._write(write)

    async def path_metadata(self, collection: str) -> dict[str, Metadata]:
        return await self._read(partial(_path_metadata, collection=collection))

    async def set_path_metadata(self, collection: str, metadata: Mapping[str, Metadata]) -> None:
        def write(connection: Connection) -> None:
            every = {**_path_metadata(connection, collection=collection), **metadata}
            put_setting(connection, f"{GIVEN}{collection}", json.dumps(every))

        await self._write(write)


def _path_metadata(connection: ReadConnection, *, collection: str) -> dict[str, Metadata]:
    stored: dict[str, Metadata] = json.loads(setting(connection, f"{GIVEN}{collection}") or "{}")
    return stored


class SqlKeyedValues:
    """Keeps them in a table.

    `peek` reads a row or two where it is: a change of threads takes longer.
    """

    def __init__(self, *, peek: Read, read: Read, write: Run) -> None:
        self._peek = peek
        self._read = read
        self._write = write

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        found = await self._peek(partial(statements.KEYED_VALUE.rows, kind=kind, name=name))
        return keyed_value(found[0]) if found else None

    async def data(self, kind: str, name: str) -> bytes | None:
        read = partial(statements.KEYED_DATA.scalar, kind=kind, name=name)
        found: bytes | None = await self._read(read)
        return found

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        run = self._peek if limit == 1 else self._read
        most = ALL if limit is None else limit
        rows = partial(statements.KEYED_VALUES.rows, kind=kind, after=after, most=most)
        return [keyed_value(row) for row in await run(rows)]

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
        changed = {"version": Row.version + 1, **fields}

        def write(connection: Connection) -> bool:
            done = store(connection)
            if kind == SYNONYMS:  # what views have cached no longer holds
                note_change(connection)
            return done

        def store(connection: Connection) -> bool:
            new = _INSERT[connection.dialect.name](Row).values(
                kind=kind, name=name, version=1, **fields
            )
            if expected is None:
                statement = new.on_conflict_do_update(index_elements=["kind", "name"], set_=changed)
            elif expected == 0:
                statement = new.on_conflict_do_nothing()
            else:
                named = (*_named(kind, name), Row.version == expected)
                statement = update(Row).where(*named).values(**changed)
            return connection.execute(statement.returning(Row.version)).first() is not None

        return await self._write(write)

    async def create(self, values: Sequence[NewValue]) -> None:
        rows = [{**each._asdict(), "value": dict(each.value), "version": 1} for each in values]
        await self._write(lambda connection: connection.execute(insert(Row), rows))

    async def remove(self, kind: str, name: str) -> bool:
        def write(connection: Connection) -> bool:
            gone = delete(Row).where(*_named(kind, name)).returning(Row.version)
            done = connection.execute(gone).first() is not None
            if kind == SYNONYMS and done:
                note_change(connection)
            return done

        return await self._write(write)


def _named(kind: str, name: str) -> tuple[Any, Any]:
    return Row.kind == kind, Row.name == name
