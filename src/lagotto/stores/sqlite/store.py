"""The embedded store: one SQLite file, and derived indexes beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
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

import numpy as np

from lagotto._internal.concurrency import checkpoint, in_thread, interruptible
from lagotto._internal.display import counted
from lagotto.documents import Chunk, Document
from lagotto.errors import StoreBusyError, StoreError
from lagotto.filters import And, Filter
from lagotto.indexes.base import START, Finding, IndexRole, LogPosition, VectorIndex
from lagotto.indexes.folder import IndexFolder, file_errors, refuse_foreign, size_of, usual_folder
from lagotto.indexes.registry import IndexChoice
from lagotto.indexes.updater import IndexUpdater, catch_up_all, retry_while_locked
from lagotto.stores import base
from lagotto.stores.base import DegradedLeg, Entry, WriteGuard
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.changelog import SqlChangeLog, main_languages_of, read_head
from lagotto.stores.sql.filters import paged_documents, read_matching_chunks
from lagotto.stores.sql.indexes import IndexPair, StoreIndexes
from lagotto.stores.sql.read import read_config, read_document, read_info, read_versions, setting
from lagotto.stores.sql.statements import ReadConnection
from lagotto.stores.sql.view import IndexTooFarBehind, SqlView, State, ViewFactory
from lagotto.stores.sqlite import database
from lagotto.stores.sqlite.database import DriverHandle, SqliteConnection, SqliteReader

if TYPE_CHECKING:
    from lagotto.stores.sql.chunk_cache import SqlChunkCache
    from lagotto.stores.sql.extras import SqlKeyedValues, SqlSourceFiles
    from lagotto.stores.sqlite.fts5 import PreparedTexts
    from lagotto.stores.sqlite.write import SqliteStaging

T = TypeVar("T")

DEFAULT_TEXT_INDEX = "tantivy"
DEFAULT_VECTOR_INDEX = "embedded"


class SqliteStore:
    """A base in a file.

    The file is the only source of truth. With `text_index="tantivy"` (the default) the full-text
    index lives in a folder beside it, with `"fts5"` inside it; the vectors' index is beside it in
    both cases. Either may be behind a network instead: `qdrant://host:6333`. A base keeps the
    indexes that it was made with.

    Methods that write import what they need for it when they are first called.
    """

    capabilities = base.Capabilities()

    def __init__(
        self,
        path: str | Path,
        *,
        text_index: str | None = None,
        vector_index: str | None = None,
        busy_timeout: float = database.BUSY_TIMEOUT,
    ) -> None:
        self.path = Path(path)
        self.location = str(path)
        self.file = self.path.absolute()  # connections are made later, maybe in another folder
        self._indexes: IndexFolder | None = None
        self._busy_timeout = busy_timeout
        self.search_indexes = StoreIndexes(
            IndexChoice.of(text_index=text_index, vector_index=vector_index),
            usual=IndexChoice(DEFAULT_TEXT_INDEX, DEFAULT_VECTOR_INDEX),
            location=self.location,
            timeout=busy_timeout,
        )
        self._database: database.SqliteDatabase | None = None
        self._new_copy_of: str | None = None
        self.updater = IndexUpdater(self.catch_up)
        self._views = SqliteViews(self)
        self._writer: ThreadPoolExecutor | None = None

    @cached_property
    def chunk_cache(self) -> SqlChunkCache:
        from lagotto.stores.sql.chunk_cache import CACHE_TIMEOUT, SqlChunkCache

        return SqlChunkCache(self.ask, lambda work, _names: self.change(work, wait=CACHE_TIMEOUT))

    @cached_property
    def source_files(self) -> SqlSourceFiles:
        from lagotto.stores.sql.extras import SqlSourceFiles

        return SqlSourceFiles(self.ask, self.change)

    @cached_property
    def keyed_values(self) -> SqlKeyedValues:
        from lagotto.stores.sql.extras import SqlKeyedValues

        return SqlKeyedValues(self.ask, self.change)

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
        change = partial(write, entries=entries, prepared=prepared, location=self.location)
        await self._write(partial(change, guard=guard))

    async def update(
        self, documents: Sequence[Document], *, guard: WriteGuard | None = None
    ) -> None:
        from lagotto.stores.sql.write import update_documents

        await self._write(partial(update_documents, documents=documents, guard=guard))

    async def delete(self, where: Filter) -> list[str]:
        from lagotto.stores.sqlite.write import delete

        def change(connection: SqliteConnection) -> list[str]:
            with database.damage_errors(self.path):
                return delete(connection, where)

        return await self._write(change)

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, base.Version]:
        return await self.ask(partial(read_versions, collection=collection, ids=ids))

    async def get(self, collection: str, document_id: str) -> Document | None:
        return await self.ask(lambda connection: read_document(connection, collection, document_id))

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        return paged_documents(self.ask, where)

    async def chunks(
        self, collection: str, document_id: str, *, where: Filter = base.EVERYTHING
    ) -> list[Chunk]:
        return await self.ask(
            lambda connection: read_matching_chunks(connection, where, collection, document_id)
        )

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[SqlView]:
        with database.sqlite_errors(self.path), ExitStack() as stack:
            with file_errors(self.path):  # not those of the search: it may use other files
                view = self._views.at_once(where, stack) or await self._views.view(where, stack)
            yield view

    async def update_indexes(self, *, least: int = 1) -> None:
        await in_thread(retry_while_locked, partial(self.catch_up, least=least))

    async def info(self) -> base.StoreInfo:
        def info(connection: SqliteConnection) -> base.StoreInfo:
            self.reload_if_rebuilt(connection)
            total = size_of(self.indexes.path)
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    total += self.file.with_name(f"{self.file.name}{ending}").stat().st_size
            states = self.search_indexes.states(SqlChangeLog(connection))
            return read_info(
                connection, location=self.location, bytes_on_disk=total, indexes=states
            )

        return await self.ask(info)

    async def config(self) -> base.BaseConfig:
        return await self.ask(read_config)

    async def mark_copy(self, source: str | None) -> None:
        from lagotto.stores.sql.write import mark_copy

        if self._database is None:
            self._new_copy_of = source
        else:
            await self._write(partial(mark_copy, source=source))

    def staging(self, config: base.BaseConfig) -> AbstractAsyncContextManager[SqliteStaging]:
        from lagotto.stores.sqlite.write import SqliteStaging

        return SqliteStaging(self, config).begun()

    async def check(self) -> list[Finding]:
        from lagotto.stores.sqlite.checks import check_base

        return await self.ask(partial(check_base, store=self))

    async def prepare_texts(
        self, entries: Sequence[Entry], text_index: str | None
    ) -> PreparedTexts:
        """What an index in the file needs of the texts of chunks, computed before they are written.

        A text of unknown language is indexed in the main one of its collection.
        """
        if text_index != "fts5":
            return {}
        from lagotto.stores.sqlite.fts5 import prepare_terms

        documents = [entry.document for entry in entries]
        unknown = {item.collection for item in documents if item.language is None}
        main = await self.ask(partial(main_languages_of, collections=unknown))
        return await in_thread(prepare_terms, entries, main)

    def _open(self) -> None:
        with database.store_errors(self.path), database.damage_errors(self.path):
            database.recognise(self.path)
            refuse_foreign(usual_folder(self.file))
            self._database = database.SqliteDatabase(self.file, busy_timeout=self._busy_timeout)
            # One thread, so that changes are written one after another: beside 20 clients that
            # search, a lock of the event loop let 18 of them pass in a second, the thread alone 75.
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="lagotto-writer")
            try:
                self._prepare()
                with self.reading() as connection:
                    base_id = setting(connection, "base_id") or ""
                    config = read_config(connection)
                self._indexes = IndexFolder.beside(self.file, base_id=base_id)
                self.search_indexes.place(base_id, self._indexes)
                self.search_indexes.adapt(config)
            except BaseException:
                self._close()
                raise

    def _prepare(self) -> None:
        """Create what is missing; waits for other writers only if something is."""
        with self.reading() as connection:
            version = database.schema_version(connection)
            if version == SCHEMA_VERSION and setting(connection, "text_index"):
                indexes = self.search_indexes.chosen(read_config(connection))
                if indexes.text != "fts5":
                    return
                from lagotto.stores.sqlite.fts5 import is_current

                if is_current(connection):
                    return
        from lagotto.stores.sqlite.write import prepare_indexes, prepare_schema

        with self.database.writing() as writer:
            prepare_schema(writer, copy_of=self._new_copy_of)
            prepare_indexes(writer, self.search_indexes.chosen(read_config(writer)))

    def reload_if_rebuilt(self, connection: ReadConnection) -> int | None:
        """Use the indexes of the present generation: another process may have rebuilt the base.

        None if the connection still sees a former one, whose indexes are being deleted.
        """
        config = read_config(connection)
        if config.generation != self.search_indexes.generation:
            with self.reading() as latest:  # a restored backup goes back, an old transaction not
                if read_config(latest).generation != config.generation:
                    return None
        self.search_indexes.adapt(config)
        return config.generation

    def catch_up(
        self, indexes: IndexPair | None = None, *, generation: int | None = None, least: int = 0
    ) -> None:
        """Bring indexes that lack `least` changes up to date; runs beside searches.

        Without them, those of the current generation.
        """

        def lock(role: IndexRole) -> AbstractContextManager[bool]:
            return self.indexes.try_lock(f".following-{role}")

        with self.reading() as connection:
            reader = SqliteReader(connection, path=self.path)
            changes = SqlChangeLog(connection, reader=reader, generation=generation)
            if indexes is None:
                if self.reload_if_rebuilt(connection) is None:
                    return
                indexes, changes.damaged = self.search_indexes.open, self._views.damaged
            catch_up_all(indexes.by_role(), changes, lock=lock, least=least)
        with database.store_errors(self.path):
            self.database.shorten_log()

    def _close(self) -> None:
        self.updater.finish()
        self._views.clear()
        self.search_indexes.close()
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None
        if self._database is not None:
            self._database.close()
            self._database = None

    async def ask(self, question: Callable[[SqliteConnection], T]) -> T:
        """An answer from one state of the base."""

        def answer() -> T:
            with self.reading() as connection:
                return question(connection)

        return await in_thread(answer)

    async def _write(self, change: Callable[[SqliteConnection], T]) -> T:
        """A change of documents that is durable when it ends; one after another."""
        done = await self.change(change)
        if self._views.are_used:
            with suppress(StoreError):  # which the next search tells of
                await in_thread(self._views.read_ahead)
        return done

    async def change(
        self, change: Callable[[SqliteConnection], T], *, wait: float | None = None
    ) -> T:
        """A change that searches do not see; `wait` is how many seconds to wait for others."""
        driver = DriverHandle()

        def write() -> T:
            with database.store_errors(self.path), self.database.writing(wait) as connection:
                driver.driver = connection.driver
                try:
                    return change(connection)
                finally:
                    driver.driver = None  # the commit is not interrupted

        return await interruptible(write, interrupt=driver.interrupt, executor=self._writer)

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """A connection that sees one state of the base."""
        with (
            database.store_errors(self.path),
            self.database.connection() as connection,
            database.damage_errors(self.path),
        ):
            yield connection

    @property
    def database(self) -> database.SqliteDatabase:
        if self._database is None:
            raise StoreError(f"{self.path} is closed; open it first")
        return self._database


ATTEMPTS = 1_000
"""How often a view is tried again because another search has taken an index further meanwhile."""


class SqliteViews(ViewFactory):
    """Makes the views of a store."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store.updater, in_threads=True)
        self._store = store
        self._ready: State | None = None
        """The last state that all indexes have caught up with, unless one is behind a network:
        that has to be asked how far it has come."""
        self._requested: LogPosition | None = None
        self.damaged: set[int] = set()
        """Chunks whose vectors were left out of the index, as they are none."""

    def clear(self) -> None:
        """Forget the last state: the store is closed."""
        self._ready = self._requested = self._newer = self._overlay = None

    @property
    def are_used(self) -> bool:
        return self._ready is not None or self._newer is not None

    def read_ahead(self) -> None:
        """Read what the first search after a write would have to read."""
        with (
            database.store_errors(self._store.path),
            ExitStack() as stack,
            suppress(IndexTooFarBehind),
        ):
            self._read(And(), stack, DriverHandle(), None)

    def at_once(self, where: Filter, stack: ExitStack) -> SqlView | None:
        """A view without changing threads, None unless all it needs is cached for this state.

        Worth it: changing threads takes as long as all the rest.
        """
        ready = self._ready
        if ready is None or (where != And() and (where.cache_key, ready.token) not in self.answers):
            return None
        with ExitStack() as mine, suppress(IndexTooFarBehind):
            connection = mine.enter_context(self._store.database.connection())
            with database.damage_errors(self._store.path):
                if read_head(connection) != (ready.position.seq, ready.token):
                    return None
                view = self._at_state(connection, where, ready, None)
            if view is not None:
                stack.push(mine.pop_all())
            return view
        return None

    async def view(self, where: Filter, stack: ExitStack) -> SqlView:
        """A view, once the indexes lack few enough changes."""

        async def attempt(gave_up: StoreError | None) -> SqlView:
            driver = DriverHandle()
            read = partial(self._read, where, stack, driver, gave_up)
            return await interruptible(read, interrupt=driver.interrupt)

        return await self.until_indexed(attempt)

    def _read(
        self, where: Filter, stack: ExitStack, driver: DriverHandle, gave_up: StoreError | None
    ) -> SqlView:
        """A read transaction, and all that the search needs of the same state.

        IndexTooFarBehind if an index has to catch up first; `gave_up` says why it can't.
        """
        path = self._store.path
        with ExitStack() as mine:
            connection = mine.enter_context(self._store.database.connection())
            driver.driver = connection.driver
            for _ in range(ATTEMPTS):
                checkpoint()
                with database.damage_errors(path):
                    _, token = read_head(connection)
                    generation = self._store.reload_if_rebuilt(connection)
                    view: SqlView | None = None
                    if generation is not None:
                        position = SqlChangeLog(connection).head
                        state = State(token, position, generation)
                        view = self._at_state(connection, where, state, gave_up)
                if view is not None:
                    stack.push(mine.pop_all())
                    return view
                self._begin_anew(connection)
        raise StoreBusyError(
            f"{path} changes faster than it can be read; try again when there are fewer writes"
        )

    def _begin_anew(self, connection: SqliteConnection) -> None:
        """Begin a transaction that sees what the indexes have seen.

        If it does not, the base is older than its indexes: a backup was restored.
        """
        indexes = self._store.search_indexes.open.by_role().values()
        positions = [(index, index.position) for index in indexes]
        connection.rollback()
        changes = SqlChangeLog(connection)
        for index, position in positions:
            if changes.token_at(position.seq) != position.token:
                index.reset_if_at(position)

    def _at_state(
        self, connection: SqliteConnection, where: Filter, state: State, gave_up: StoreError | None
    ) -> SqlView | None:
        """None if an index is ahead of what the connection sees."""
        self._ready = None
        reader = SqliteReader(connection, path=self._store.path)
        changes = SqlChangeLog(connection, head=state.position, reader=reader)
        changes.damaged = self.damaged
        indexes = self._store.search_indexes.open
        down = indexes.refresh()
        view = self.view_at(changes, where, state, indexes, down=down, gave_up=gave_up)
        if view is None:
            return None
        if indexes.vectors is not None:
            damaged = self._damaged_vectors(connection, indexes.vectors)
            view.degraded = [*view.degraded, *damaged]
        # Once for each state, and again as long as it fails.
        position = state.position
        if position != START and (position != self._requested or self.updater.problem):
            self._requested = position
            self.updater.request()
        if not view.degraded and not self._store.search_indexes.are_remote:
            self._ready = state
        return view

    def _damaged_vectors(
        self, connection: SqliteConnection, index: VectorIndex[SqlChangeLog]
    ) -> Iterator[DegradedLeg]:
        """A note on the vectors that can't be searched, as long as they are there."""
        if self.damaged:
            changes, keys = SqlChangeLog(connection), np.array(list(self.damaged), np.int64)
            changes.vectors_of(keys, model_id=index.model_id, dimension=index.dimension)
            self.damaged &= changes.damaged
        if self.damaged:
            damaged = counted(len(self.damaged), "chunk")
            why = f"the vectors of {damaged} are damaged; `lagotto doctor` names the documents"
            yield DegradedLeg("semantic", why)
