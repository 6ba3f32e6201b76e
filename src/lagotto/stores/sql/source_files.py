"""The state of source files, for every SQL store; see SourceFiles."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, bindparam, delete, insert, select

from lagotto.documents import Metadata
from lagotto.stores.source_files import SourceDocument, SourceFile
from lagotto.stores.sql.names import AT_ONCE
from lagotto.stores.sql.settings import setting
from lagotto.stores.sql.tables import DocumentRow, SourceFileRow
from lagotto.stores.sql.write_settings import put_setting

T = TypeVar("T")

GIVEN = "given_metadata:"
"""The setting, of each collection, with the metadata that was given for paths."""


class Run(Protocol):
    """Runs a function in a transaction."""

    def __call__(self, function: Callable[[Connection], T], /) -> Awaitable[T]: ...


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

    async def given(self, collection: str) -> dict[str, Metadata]:
        return await self._read(partial(_given, collection=collection))

    async def give(self, collection: str, given: Mapping[str, Metadata]) -> None:
        def write(connection: Connection) -> None:
            every = {**_given(connection, collection=collection), **given}
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
