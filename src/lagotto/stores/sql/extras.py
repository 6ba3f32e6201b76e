"""What a store keeps besides documents: keyed values, and the state of source files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lagotto.documents import DocumentRef, Metadata
from lagotto.stores.base import SYNONYMS, KeyedValue, NewValue, SourceDocument, SourceFile
from lagotto.stores.sql import statements
from lagotto.stores.sql.read import ALL, keyed_value, setting
from lagotto.stores.sql.statements import ReadConnection, Statement, Transaction, WriteConnection
from lagotto.stores.sql.write import insert_rows, note_change, put_setting

SETTING = "given_metadata:"
"""The setting, of each collection, with the metadata that was given for paths."""

_DELETE_FILES = Statement(
    "DELETE FROM source_file WHERE collection = :collection AND source IN (:sources text)"
)
_NEW = (
    "INSERT INTO keyed_value (kind, name, version, value, data) "
    "VALUES (:kind, :name, 1, :value, :data) ON CONFLICT (kind, name) DO"
)
_ADD = Statement(f"{_NEW} NOTHING RETURNING version")
_PUT = Statement(
    f"{_NEW} UPDATE SET version = keyed_value.version + 1, value = excluded.value, "
    "data = coalesce(excluded.data, keyed_value.data) RETURNING version"
)
_CHANGE = Statement(
    "UPDATE keyed_value SET version = version + 1, value = :value, data = coalesce(:data, data) "
    "WHERE kind = :kind AND name = :name AND version = :expected RETURNING version"
)
_REMOVE = Statement("DELETE FROM keyed_value WHERE kind = :kind AND name = :name RETURNING version")


@dataclass(frozen=True, slots=True)
class SqlSourceFiles:
    """Keeps them in a table."""

    read: Transaction
    write: Transaction

    async def documents(self, collection: str) -> list[SourceDocument]:
        rows = partial(statements.SOURCE_DOCUMENTS.rows, collection=collection)
        return [SourceDocument(*row) for row in await self.read(rows)]

    async def with_contents(self, hashes: Sequence[str]) -> list[DocumentRef]:
        rows = partial(statements.WITH_CONTENTS.rows, hashes=list(hashes))
        return [DocumentRef(*row) for row in await self.read(rows)]

    async def load(self, collection: str) -> dict[str, SourceFile]:
        rows = partial(statements.SOURCE_FILES.rows, collection=collection)
        return {source: SourceFile(*state) for source, *state in await self.read(rows)}

    async def save(
        self, collection: str, files: Mapping[str, SourceFile], *, gone: Collection[str] = ()
    ) -> None:
        def write(connection: WriteConnection) -> None:
            _DELETE_FILES.run(connection, collection=collection, sources=[*files, *gone])
            rows = [
                {"collection": collection, "source": source, **file._asdict()}
                for source, file in files.items()
            ]
            insert_rows(connection, "source_file", rows)

        if files or gone:
            await self.write(write)

    async def path_metadata(self, collection: str) -> dict[str, Metadata]:
        return await self.read(partial(_path_metadata, collection=collection))

    async def set_path_metadata(self, collection: str, metadata: Mapping[str, Metadata]) -> None:
        def write(connection: WriteConnection) -> None:
            every = {**_path_metadata(connection, collection=collection), **metadata}
            put_setting(connection, f"{SETTING}{collection}", json.dumps(every))

        await self.write(write)


def _path_metadata(connection: ReadConnection, *, collection: str) -> dict[str, Metadata]:
    stored: dict[str, Metadata] = json.loads(setting(connection, f"{SETTING}{collection}") or "{}")
    return stored


@dataclass(frozen=True, slots=True)
class SqlKeyedValues:
    """Keeps them in a table."""

    read: Transaction
    write: Transaction

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        rows = await self.read(partial(statements.KEYED_VALUE.rows, kind=kind, name=name))
        return keyed_value(rows[0]) if rows else None

    async def data(self, kind: str, name: str) -> bytes | None:
        read = partial(statements.KEYED_DATA.scalar, kind=kind, name=name)
        data: bytes | None = await self.read(read)
        return data

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        most = ALL if limit is None else limit
        rows = partial(statements.KEYED_VALUES.rows, kind=kind, after=after, most=most)
        return [keyed_value(row) for row in await self.read(rows)]

    async def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        *,
        data: bytes | None = None,
        expected: int | None = None,
    ) -> bool:
        row = {"name": name, "value": dict(value), "data": data, "expected": expected}
        statement = _PUT if expected is None else _CHANGE if expected else _ADD
        return await self._write_one(statement, kind, **row)

    async def create(self, values: Sequence[NewValue]) -> None:
        rows = [{**each._asdict(), "value": dict(each.value), "version": 1} for each in values]
        await self.write(partial(insert_rows, table="keyed_value", rows=rows))

    async def remove(self, kind: str, name: str) -> bool:
        return await self._write_one(_REMOVE, kind, name=name)

    async def _write_one(self, statement: Statement, kind: str, **values: Any) -> bool:
        def write(connection: WriteConnection) -> bool:
            done = bool(statement.rows(connection, kind=kind, **values))
            if done and kind == SYNONYMS:  # what views have cached no longer holds
                note_change(connection)
            return done

        return await self.write(write)
