"""The next generation of a base in a file: a base of its own in the folder of the indexes.

It has the documents of the base under the same keys, and numbers its chunks from the last change of
the base on. The switch copies its chunks and vectors into the file of the base, in one transaction;
its indexes are moved, not built again. If the process is killed before the commit, the base is
unchanged and the next rebuild resumes; after the commit, the next rebuild drops what is left over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, update

from lagotto._internal.concurrency import in_thread
from lagotto.documents import Document
from lagotto.errors import StoreBusyError
from lagotto.filters import And
from lagotto.indexes.base import Finding
from lagotto.indexes.folder import IndexFolder, file_errors, size_of
from lagotto.indexes.updater import delete_remote
from lagotto.stores.base import BaseConfig, Entry, Pending, unfinished_rebuild
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.changelog import AnyIndex
from lagotto.stores.sql.read import counter, document_keys, read_config, read_sources, setting
from lagotto.stores.sql.tables import (
    ChunkRow,
    ChunkSetRow,
    ChunkTextRow,
    Counter,
    EmbeddingRow,
    HistoryRow,
    RemovalRow,
    Tables,
)
from lagotto.stores.sql.write import (
    Numbers,
    note_change,
    number_entries,
    put_config,
    put_setting,
    take_numbers,
)
from lagotto.stores.sqlite.database import schema_version, sqlite_errors
from lagotto.stores.sqlite.write import (
    copy_fts5,
    create_engine,
    create_fts5,
    driver_errors,
    driver_of,
    drop_fts5,
    prepare_schema,
    transaction,
)

if TYPE_CHECKING:
    from lagotto.stores.sqlite.store import SqliteStore

FOLDER, NEXT, FILE = "rebuild", "next", "base.db"
LOCK = ".rebuild.lock"

MEGABYTE = 1_000_000

_DERIVED: Sequence[type[Tables]] = (ChunkSetRow, ChunkRow, ChunkTextRow, EmbeddingRow)

_LACKING = """
SELECT here.collection, here.id FROM {here}.document AS here
LEFT JOIN {there}.document AS there ON there.key = here.key
    AND there.content_hash = here.content_hash AND there.language IS here.language
WHERE there.key IS NULL ORDER BY here.collection, here.id
"""


@asynccontextmanager
async def sqlite_staging(base: SqliteStore, config: BaseConfig) -> AsyncIterator[SqliteStaging]:
    """The next generation of a base; dropped once it has replaced the present one."""
    folder = base.indexes.path / FOLDER
    staging = SqliteStaging(base, config, folder / NEXT / FILE)
    with _only_one(base):
        await in_thread(staging.prepare, folder)
        await staging.store.open()
        try:
            yield staging
        finally:
            await staging.store.close()
            if staging.switched:
                await in_thread(staging.tidy_up, folder)


def check_rebuild(indexes: IndexFolder) -> list[Finding]:
    """Whether a rebuild was left unfinished."""
    left = indexes.path / FOLDER / NEXT
    return [unfinished_rebuild(f"{size_of(left) / MEGABYTE:.1f} MB")] if left.exists() else []


class SqliteStaging:
    """A Staging for SqliteStore."""

    def __init__(self, base: SqliteStore, config: BaseConfig, path: Path) -> None:
        from lagotto.stores.sqlite.store import SqliteStore

        self._base = base
        self._config = config
        self._path = path
        self.switched = False
        self._moved: set[str] = set()
        self._former: Sequence[AnyIndex] = ()
        self.store = SqliteStore(path, numbering=self._number)

    def prepare(self, folder: Path) -> None:
        """Resume a rebuild with the same settings, or start a new one."""
        with self._base._transaction() as connection:
            last = counter(connection, "change")
        if self._path.exists() and not self._can_resume():
            self._base.indexes.delete(folder)
        if not self._path.exists():
            with file_errors(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._create(last_key=last)

    def tidy_up(self, folder: Path) -> None:
        """Drop what is left of the former generation: its indexes, and the file of the next one.

        Searches that are still running have the files of an index open. What still updates a former
        index would make it again, so it is waited for.
        """
        indexes = self._base.indexes
        self._base.finish_updates()
        for index in indexes.indexes():
            if index.name not in self._moved:
                indexes.delete(index)
        indexes.delete(folder)
        delete_remote(self._former)

    async def pending(self) -> Pending:
        return await in_thread(self._pending)

    async def documents(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return await self._base._read(lambda connection: read_sources(connection, names))

    async def build_indexes(self) -> None:
        async with self.store.view(And()):
            pass
        await self.store.close()  # which saves the vectors
        await self.store.open()

    async def switch(self) -> bool:
        await self.store.close()
        try:
            self.switched = await in_thread(self._switch)
        finally:
            await self.store.open()
        return self.switched

    def _can_resume(self) -> bool:
        """Whether the unfinished generation has the same settings and schema version."""
        engine = create_engine(self._path)
        try:
            with sqlite_errors(self._path), transaction(engine) as connection:
                if schema_version(connection) != SCHEMA_VERSION:
                    return False
                stored, base_id = read_config(connection), setting(connection, "base_id")
        finally:
            engine.dispose()
        return (stored, base_id) == (self._config, self._base.indexes.base_id)

    def _create(self, *, last_key: int) -> None:
        """Make an empty base with the same id, in one transaction."""
        engine = create_engine(self._path)
        try:
            with sqlite_errors(self._path), transaction(engine, writing=True) as connection:
                prepare_schema(connection)
                put_setting(connection, "base_id", self._base.indexes.base_id)
                put_config(connection, self._config)
                _put_counter(connection, "change", last_key)
                if self._config.text_index == "fts5":
                    create_fts5(connection)
                note_change(connection)
        finally:
            engine.dispose()

    def _number(self, connection: Connection, entries: Sequence[Entry]) -> Numbers:
        """Give documents the keys that they have in the base; removed ones get other keys."""
        with self._base._transaction() as base:
            keys = document_keys(base, [entry.document for entry in entries])
        numbers = number_entries(connection, entries)
        names = [(entry.document.collection, entry.document.id) for entry in entries]
        pairs = zip(names, numbers.documents, strict=True)
        return numbers._replace(documents=[keys.get(name, -number) for name, number in pairs])

    def _pending(self) -> Pending:
        with self._both(writing=False) as connection:
            return _pending(connection)

    def _switch(self) -> bool:
        with self._both(writing=True) as connection:
            if any(_pending(connection)):
                return False
            self._former = self._base.open_indexes()
            self._move_indexes()
            _replace(connection)
            return True

    def _move_indexes(self) -> None:
        """Into the folder of the base, where they have the same names: these hold the generation.

        Before the commit: nobody looks for them until then.
        """
        theirs = IndexFolder.beside(self._path, base_id=self._base.indexes.base_id)
        with self._base.indexes.lock(timeout=self._base.busy_timeout):
            for index in theirs.indexes():
                target = self._base.indexes.path / index.name
                if target.exists():
                    self._base.indexes.delete(target)
                with file_errors(target):
                    index.rename(target)
                self._moved.add(index.name)

    @contextmanager
    def _both(self, *, writing: bool) -> Iterator[Connection]:
        """A transaction that sees the base as `main` and the next generation as `next`."""
        engine = create_engine(self._base.file, busy_timeout=self._base.busy_timeout)
        try:
            with (
                sqlite_errors(self._base.path),
                driver_errors(),
                engine.execution_options(writing=writing).connect() as connection,
            ):
                driver_of(connection).execute(
                    "ATTACH DATABASE ? AS next", (str(self._path),)
                ).close()
                with connection.begin():
                    yield connection
        finally:
            engine.dispose()


@contextmanager
def _only_one(base: SqliteStore) -> Iterator[None]:
    """Hold the lock for building the next generation."""
    with ExitStack() as stack:
        try:
            stack.enter_context(base.indexes.lock(timeout=0, name=LOCK))
        except StoreBusyError as exc:
            raise StoreBusyError(
                f"another process is rebuilding {base.location}; wait until it has finished"
            ) from exc
        yield


def _pending(connection: Connection) -> Pending:
    missing, surplus = (
        connection.exec_driver_sql(_LACKING.format(here=here, there=there)).all()
        for here, there in (("main", "next"), ("next", "main"))
    )
    return Pending([(row[0], row[1]) for row in missing], [(row[0], row[1]) for row in surplus])


def _replace(connection: Connection) -> None:
    """Put the chunks and vectors of the next generation in place of those of the base."""
    for table in reversed(_DERIVED):
        connection.execute(delete(table))
    connection.execute(delete(RemovalRow))  # for indexes of the former generation
    for table in _DERIVED:
        columns = ", ".join(f'"{column.name}"' for column in table.__table__.columns)
        name = table.__tablename__
        connection.exec_driver_sql(
            f"INSERT INTO main.{name} ({columns}) SELECT {columns} FROM next.{name}"
        )
    config = _config_of_next(connection)
    drop_fts5(connection)
    if config.text_index == "fts5":
        create_fts5(connection)
        copy_fts5(connection, source="next")
    put_config(connection, config)
    _continue_history(connection)


def _config_of_next(connection: Connection) -> BaseConfig:
    names = ", ".join(f"'{name}'" for name in BaseConfig.model_fields)
    rows = connection.exec_driver_sql(
        f"SELECT name, value FROM next.setting WHERE name IN ({names})"
    )
    return BaseConfig.model_validate({row[0]: row[1] for row in rows})


def _continue_history(connection: Connection) -> None:
    """The indexes of the next generation hold its last change; it becomes one of the base.

    Earlier commits go: only indexes of the former generation have seen them, and both generations
    may have used the same numbers.
    """
    change, token = connection.exec_driver_sql(
        "SELECT change, token FROM next.history WHERE change = (SELECT max(change) FROM "
        "next.history) ORDER BY state LIMIT 1"
    ).one()
    sets = connection.exec_driver_sql(
        "SELECT value FROM next.counter WHERE name = 'chunk_set'"
    ).scalar_one()
    connection.execute(delete(HistoryRow))
    _put_counter(connection, "change", max(change, counter(connection, "change")))
    _put_counter(connection, "chunk_set", max(sets, counter(connection, "chunk_set")))
    state = take_numbers(connection, "state", 1)
    connection.execute(insert(HistoryRow).values(state=state, change=change, token=token))
    note_change(connection)


def _put_counter(connection: Connection, name: str, value: int) -> None:
    connection.execute(update(Counter).where(Counter.name == name).values(value=value))
