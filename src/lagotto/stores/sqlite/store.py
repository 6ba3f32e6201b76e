"""The embedded store: one SQLite file, and derived indexes beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lagotto._internal.concurrency import in_thread, interruptible
from lagotto.documents import Chunk, Document, in_context
from lagotto.errors import StoreError
from lagotto.filters import Filter
from lagotto.indexes.base import Finding, IndexRole
from lagotto.indexes.folder import IndexFolder, file_errors, refuse_foreign, size_of, usual_folder
from lagotto.indexes.registry import IndexChoice
from lagotto.indexes.updater import IndexUpdater, catch_up_all, retry_while_locked
from lagotto.stores.base import (
    EVERYTHING,
    BaseConfig,
    Capabilities,
    Entry,
    StoreInfo,
    Version,
    WriteGuard,
)
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.changelog import SqlChangeLog, main_languages_of
from lagotto.stores.sql.filters import paged_documents, read_matching_chunks
from lagotto.stores.sql.indexes import StoreIndexes
from lagotto.stores.sql.read import read_config, read_document, read_info, read_versions, setting
from lagotto.stores.sql.statements import ReadConnection
from lagotto.stores.sql.view import SqlView
from lagotto.stores.sqlite.database import (
    BUSY_TIMEOUT,
    DriverHandle,
    SqliteConnection,
    SqliteDatabase,
    SqliteReader,
    damage_errors,
    recognise,
    schema_version,
    sqlite_errors,
    store_errors,
)
from lagotto.stores.sqlite.view_factory import SqliteViews

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from lagotto.stores.sql.chunk_cache import SqlChunkCache
    from lagotto.stores.sql.extras import SqlKeyedValues, SqlSourceFiles
    from lagotto.stores.sqlite.fts5 import PreparedTexts
    from lagotto.stores.sqlite.rebuild import SqliteStaging

T = TypeVar("T")

DEFAULT_TEXT_INDEX = "tantivy"
DEFAULT_VECTOR_INDEX = "embedded"


class SqliteStore:
    """A base in a file.

    The file is the only source of truth. With `text_index="tantivy"` (the default) the full-text
    index lives in a folder beside it, with `"fts5"` inside it; the vectors' index is beside it in
    both cases. Either may be behind a network instead: `qdrant://host:6333`. A base keeps the
    indexes that it was made with.

    What is read needs no SQLAlchemy; methods that write import it when they are first called.
    """

    capabilities = Capabilities()

    def __init__(
        self,
        path: str | Path,
        *,
        text_index: str | None = None,
        vector_index: str | None = None,
        busy_timeout: float = BUSY_TIMEOUT,
    ) -> None:
        self.path = Path(path)
        self.location = str(path)
        self.file = self.path.absolute()  # connections are made later, maybe in another folder
        self._generation = 0
        self._indexes: IndexFolder | None = None
        self._busy_timeout = busy_timeout
        self.search_indexes = StoreIndexes(
            IndexChoice.of(text_index=text_index, vector_index=vector_index),
            usual=IndexChoice(DEFAULT_TEXT_INDEX, DEFAULT_VECTOR_INDEX),
            location=self.location,
            timeout=busy_timeout,
        )
        self._database: SqliteDatabase | None = None
        self._new_copy_of: str | None = None
        self._updater = IndexUpdater(self._catch_up)
        self._views = SqliteViews(self, self._updater)
        self._writer: ThreadPoolExecutor | None = None

    @cached_property
    def chunk_cache(self) -> SqlChunkCache:
        from lagotto.stores.sql.chunk_cache import SqlChunkCache

        return SqlChunkCache(read=self.ask, write=self._write_cache)

    @cached_property
    def source_files(self) -> SqlSourceFiles:
        from lagotto.stores.sql.extras import SqlSourceFiles

        return SqlSourceFiles(read=self.ask, write=self.change)

    @cached_property
    def keyed_values(self) -> SqlKeyedValues:
        from lagotto.stores.sql.extras import SqlKeyedValues

        return SqlKeyedValues(peek=self._peek, read=self.ask, write=self.change)

    @property
    def indexes(self) -> IndexFolder:
        """The folder of the indexes; known as soon as the base is open."""
        if self._indexes is None:
            raise StoreError(f"{self.path} is closed; open it first")
        return self._indexes

    async def open(self) -> None:
        await in_thread(self._open)

    async def close(self) -> None:
        await in_thread(self._close)

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        from lagotto.stores.sqlite.write import write

        prepared = await self.prepare_texts(entries, self.search_indexes.choice.text)
        made = partial(write, entries=entries, prepared=prepared, location=str(self.path))
        await self._write(partial(made, guard=guard))

    async def update(
        self, documents: Sequence[Document], *, guard: WriteGuard | None = None
    ) -> None:
        from lagotto.stores.sqlite.write import update

        await self._write(lambda connection: update(connection, documents, guard=guard))

    async def delete(self, where: Filter) -> list[str]:
        from lagotto.stores.sqlite.write import delete

        def change(connection: Connection) -> list[str]:
            with damage_errors(self.path):
                return delete(connection, where)

        return await self._write(change)

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        return await self.ask(lambda connection: read_versions(connection, collection, ids))

    async def get(self, collection: str, document_id: str) -> Document | None:
        return await self.ask(lambda connection: read_document(connection, collection, document_id))

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        return paged_documents(self.ask, where)

    async def chunks(
        self, collection: str, document_id: str, *, where: Filter = EVERYTHING
    ) -> list[Chunk]:
        return await self.ask(
            lambda connection: read_matching_chunks(connection, where, collection, document_id)
        )

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[SqlView]:
        with sqlite_errors(self.path), ExitStack() as stack:
            with file_errors(self.path):  # not those of the search: it may use other files
                view = self._views.cached(where, stack) or await self._views.view(where, stack)
            yield view

    async def update_indexes(self, *, least: int = 1) -> None:
        await in_thread(retry_while_locked, partial(self._catch_up, least=least))

    async def info(self) -> StoreInfo:
        def read(connection: SqliteConnection) -> StoreInfo:
            self.reload_if_rebuilt(connection)
            return read_info(
                connection,
                location=str(self.path),
                bytes_on_disk=self._bytes_on_disk(),
                indexes=self.search_indexes.states(SqlChangeLog(connection)),
            )

        return await self.ask(read)

    async def config(self) -> BaseConfig:
        return await self.ask(read_config)

    async def mark_copy(self, source: str | None) -> None:
        from lagotto.stores.sql.write import mark_copy

        if self._database is None:
            self._new_copy_of = source
        else:
            await self._write(partial(mark_copy, source=source))

    def staging(self, config: BaseConfig) -> AbstractAsyncContextManager[SqliteStaging]:
        from lagotto.stores.sqlite.rebuild import sqlite_staging

        return sqlite_staging(self, config)

    async def check(self) -> list[Finding]:
        from lagotto.stores.sqlite.checks import check_base

        return await self.ask(partial(check_base, store=self))

    async def prepare_texts(
        self, entries: Sequence[Entry], text_index: str | None
    ) -> PreparedTexts:
        """What an index in the file needs of the texts of chunks, computed before they are written.

        A text of unknown language is indexed in the main one of its collection.
        """
        from lagotto.stores.sqlite.fts5 import prepare_terms

        def prepare() -> PreparedTexts:
            documents = [entry.document for entry in entries]
            with self.reading() as connection:
                unknown = {item.collection for item in documents if item.language is None}
                main = main_languages_of(connection, unknown)
            return prepare_terms(
                (
                    in_context(entry.document.title, chunk.text, headings=chunk.heading_path),
                    entry.document.language or main[entry.document.collection],
                )
                for entry in entries
                for chunk in entry.chunks
                if chunk.level != "parent"
            )

        return await in_thread(prepare) if text_index == "fts5" else {}

    def _open(self) -> None:
        with store_errors(self.path), damage_errors(self.path):
            recognise(self.path)
            refuse_foreign(usual_folder(self.file))
            self._database = SqliteDatabase(self.file, busy_timeout=self._busy_timeout)
            # One thread, so that changes are written one after another: beside 20 clients that
            # search, a lock of the event loop let 18 of them pass in a second, the thread alone 75.
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="lagotto-writer")
            try:
                self._prepare()
                self._open_indexes()
            except BaseException:
                self._close()
                raise

    def _prepare(self) -> None:
        """Create what is missing; waits for other writers only if something is."""
        with self.reading() as connection:
            if schema_version(connection) == SCHEMA_VERSION and setting(connection, "text_index"):
                indexes = self.search_indexes.chosen(read_config(connection))
                if indexes.text != "fts5" or _has_current_terms(connection):
                    return
        from lagotto.stores.sqlite.write import prepare_indexes, prepare_schema

        with self._writing() as connection:
            prepare_schema(connection, copy_of=self._new_copy_of)
            prepare_indexes(connection, self.search_indexes.chosen(read_config(connection)))

    def _open_indexes(self) -> None:
        with self.reading() as connection:
            base_id = setting(connection, "base_id") or ""
            config = read_config(connection)
        self._indexes = IndexFolder.beside(self.file, base_id=base_id)
        self._generation = config.generation
        self.search_indexes.place(base_id, self._indexes)
        self.search_indexes.adapt(config)

    def reload_if_rebuilt(self, connection: ReadConnection) -> int | None:
        """Use the indexes of the present generation: another process may have rebuilt the base.

        None if the connection still sees a former one, whose indexes are being deleted.
        """
        config = read_config(connection)
        if config.generation != self._generation:
            with self.reading() as latest:  # a restored backup goes back, an old transaction not
                if read_config(latest).generation != config.generation:
                    return None
            self._generation = config.generation
        self.search_indexes.adapt(config)
        return config.generation

    def finish_updates(self) -> None:
        """Wait for what brings indexes up to date in the background; blocks."""
        self._updater.finish()

    def _catch_up(self, *, least: int = 0) -> None:
        """Bring the indexes that lack `least` changes up to date; runs beside searches."""
        with self.reading() as connection:
            if self.reload_if_rebuilt(connection) is None:
                return
            changes = self.change_log(connection)
            changes.damaged = self._views.damaged
            indexes = self.search_indexes.open.by_role()
            catch_up_all(indexes, changes, lock=self.updater_lock, least=least)

    def change_log(
        self, connection: SqliteConnection, generation: int | None = None
    ) -> SqlChangeLog:
        """The change log of a generation, for indexes that catch up."""
        reader = SqliteReader(connection, path=self.path)
        return SqlChangeLog(connection, reader=reader, generation=generation)

    def updater_lock(self, role: IndexRole) -> AbstractContextManager[bool]:
        """The lock by which updaters of an index behind a network exclude each other."""
        return self.indexes.try_lock(f".following-{role}")

    def _close(self) -> None:
        self._updater.finish()
        self._views.clear()
        self.search_indexes.close()
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None
        if self._database is not None:
            self._database.close()
            self._database = None

    def _bytes_on_disk(self) -> int:
        total = size_of(self.indexes.path)
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                total += self.file.with_name(f"{self.file.name}{ending}").stat().st_size
        return total

    async def ask(self, question: Callable[[SqliteConnection], T]) -> T:
        """An answer from one state of the base."""

        def read() -> T:
            with self.reading() as connection:
                return question(connection)

        return await in_thread(read)

    async def _peek(self, question: Callable[[SqliteConnection], T]) -> T:
        """The same without changing threads, for questions that a row answers."""
        with self.reading() as connection:
            return question(connection)

    async def _write(self, change: Callable[[Connection], T]) -> T:
        """A change of documents that is durable when it ends; one after another."""
        done = await self.change(change)
        if self._views.are_used:
            with suppress(StoreError):  # which the next search tells of
                await in_thread(self._views.read_ahead)
        return done

    async def change(self, change: Callable[[Connection], T]) -> T:
        """A change that searches do not see."""
        from lagotto.stores.sqlite.write import driver_of

        driver = DriverHandle()

        def write() -> T:
            with self._writing() as connection:
                driver.driver = driver_of(connection)
                try:
                    return change(connection)
                finally:
                    driver.driver = None  # the commit is not interrupted

        return await interruptible(write, interrupt=driver.interrupt, executor=self._writer)

    async def _write_cache(
        self, change: Callable[[Connection], T], _names: Collection[tuple[str, str]] | None
    ) -> T:
        """A change that may be skipped: it does not wait for other processes that write."""

        def write() -> T:
            with self._writing(caching=True) as connection:
                return change(connection)

        return await interruptible(write, interrupt=lambda: None, executor=self._writer)

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """A connection that sees one state of the base."""
        with (
            store_errors(self.path),
            self.database.connection() as connection,
            damage_errors(self.path),
        ):
            yield connection

    @contextmanager
    def _writing(self, *, caching: bool = False) -> Iterator[Connection]:
        with store_errors(self.path), self.database.writing(caching=caching) as connection:
            yield connection

    @property
    def database(self) -> SqliteDatabase:
        """Connections to the file."""
        if self._database is None:
            raise StoreError(f"{self.path} is closed; open it first")
        return self._database


def _has_current_terms(connection: ReadConnection) -> bool:
    from lagotto.stores.sqlite.fts5 import is_current

    return is_current(connection)
