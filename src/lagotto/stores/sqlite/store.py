"""The embedded store: one SQLite file, and derived indexes beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine

from lagotto.concurrency import in_thread, interruptible
from lagotto.documents import Chunk, Document, in_context
from lagotto.errors import StoreError
from lagotto.filters import Filter
from lagotto.indexes.base import (
    ContextText,
    Finding,
    IndexRole,
    IndexState,
    LogPosition,
    TextIndex,
    VectorIndex,
)
from lagotto.indexes.folder import (
    IndexFolder,
    refuse_foreign,
    size_of,
    usual_folder,
)
from lagotto.indexes.registry import (
    TEXT_INDEXES,
    VECTOR_INDEXES,
    IndexChoice,
    IndexSite,
    chosen,
    index_kind,
)
from lagotto.stores.base import BaseConfig, Capabilities, Entry, StoreInfo, Version
from lagotto.stores.index_follower import (
    IndexFollower,
    follow_all,
    until_followed,
    update_all,
)
from lagotto.stores.sql.changelog import AnyIndex, SqlChangeLog
from lagotto.stores.sql.checks import check_rows
from lagotto.stores.sql.chunk_cache import SqlChunkCache
from lagotto.stores.sql.keyed_values import SqlKeyedValues
from lagotto.stores.sql.languages import main_languages_of
from lagotto.stores.sql.names import document_keys
from lagotto.stores.sql.read import (
    counter,
    matching_names,
    paged_documents,
    read_chunks,
    read_document,
    read_versions,
)
from lagotto.stores.sql.settings import (
    check_config,
    put_setting,
    read_config,
    read_info,
    setting,
)
from lagotto.stores.sql.source_files import SqlSourceFiles
from lagotto.stores.sql.tables import SCHEMA_VERSION
from lagotto.stores.sql.view import SqlView
from lagotto.stores.sql.write import (
    Numbers,
    note_change,
    note_removals,
    number_entries,
    remove_documents,
    update_documents,
    write_entries,
)
from lagotto.stores.sqlite.checks import check_contents, check_file, check_leftovers
from lagotto.stores.sqlite.database import (
    BUSY_TIMEOUT,
    DriverHandle,
    SqliteReader,
    create_engine,
    damage_errors,
    prepare_schema,
    recognise,
    schema_version,
    sqlite_errors,
)
from lagotto.stores.sqlite.fts5_index import create_fts5, is_current, rebuild_fts5
from lagotto.stores.sqlite.rebuild import SqliteStaging, check_rebuild, sqlite_staging
from lagotto.stores.sqlite.view_factory import SqliteViews

log = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_TEXT_INDEX = "tantivy"
DEFAULT_VECTOR_INDEX = "exact"
CACHE_TIMEOUT = 0.05
"""Seconds that a search waits for other writers before it does without caching its chunks."""


class SqliteStore:
    """A base in a file.

    The file is the only source of truth. With `text_index="tantivy"` (the default) the full-text
    index lives in a folder beside it, with `"fts5"` inside it; the vectors' index is beside it in
    both cases. Either may be behind a network instead: `qdrant://host:6333`. A base keeps the
    indexes that it was made with.
    """

    capabilities = Capabilities()

    def __init__(
        self,
        path: str | Path,
        *,
        text_index: str | None = None,
        vector_index: str | None = None,
        busy_timeout: float = BUSY_TIMEOUT,
        numbering: Callable[[Connection, Sequence[Entry]], Numbers] = number_entries,
    ) -> None:
        self.path = Path(path)
        self.location = str(path)
        self.file = self.path.absolute()  # connections are made later, maybe in another folder
        self._numbering = numbering
        self._generation = 0
        self._indexes: IndexFolder | None = None
        self._wanted = IndexChoice.of(text_index=text_index, vector_index=vector_index)
        self._chosen = IndexChoice()
        self.busy_timeout = busy_timeout
        self._engine: Engine | None = None
        self._cache_engine: Engine | None = None
        self._text: TextIndex[SqlChangeLog] | None = None
        self._vectors: VectorIndex[SqlChangeLog] | None = None
        self._follower = IndexFollower(self._follow_changes)
        self._views = SqliteViews(
            self.path,
            text=self._text_index,
            vectors=self._vector_index,
            follow_rebuild=self._follow_rebuild,
            follower=self._follower,
        )
        self._writing = asyncio.Lock()
        self.chunk_cache = SqlChunkCache(read=self._read, write=self._write_cache)
        self.source_files = SqlSourceFiles(read=self._read, write=self._write)
        self.keyed_values = SqlKeyedValues(read=self._read, write=self._write)

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

    async def write(self, entries: Sequence[Entry]) -> None:
        prepared = await in_thread(self._text_index().prepare, self._texts(entries))

        def write(connection: Connection) -> None:
            self._follow_rebuild(connection)
            check_config(connection, entries, str(self.path))
            former = document_keys(connection, [entry.document for entry in entries])
            before = counter(connection, "change")
            self._remove(connection, list(former.values()))
            write_entries(connection, entries, numbers=self._numbering(connection, entries))
            last = LogPosition(counter(connection, "change"), 0)
            self._text_index().add_chunks(
                SqlChangeLog(connection, head=last), since=before, prepared=prepared
            )
            note_change(connection)

        await self._write(write)

    async def update(self, documents: Sequence[Document]) -> None:
        def update(connection: Connection) -> None:
            update_documents(connection, documents)
            note_change(connection)

        await self._write(update)

    async def delete(self, where: Filter) -> list[str]:
        def delete(connection: Connection) -> list[str]:
            self._follow_rebuild(connection)
            found = matching_names(connection, where)
            self._remove(connection, [document.key for document in found])
            if found:
                note_change(connection)
            return [document.id for document in found]

        return await self._write(delete)

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        return await self._read(lambda connection: read_versions(connection, collection, ids))

    async def get(self, collection: str, document_id: str) -> Document | None:
        return await self._read(
            lambda connection: read_document(connection, collection, document_id)
        )

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        return paged_documents(self._read, where)

    async def chunks(self, collection: str, document_id: str) -> list[Chunk]:
        return await self._read(lambda connection: read_chunks(connection, collection, document_id))

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[SqlView]:
        with sqlite_errors(self.path), ExitStack() as stack:
            engine = self._opened()
            cached = self._views.cached(engine, where, stack)
            yield cached or await self._views.view(engine, where, stack)

    async def update_indexes(self, *, least: int = 1) -> None:
        def update() -> None:
            with self._transaction() as connection:
                self._update_indexes(connection, least=least)

        await in_thread(until_followed, update)

    async def info(self) -> StoreInfo:
        def read(connection: Connection) -> StoreInfo:
            return read_info(
                connection,
                location=str(self.path),
                bytes_on_disk=self._bytes_on_disk(),
                indexes=self._index_states(connection),
            )

        return await self._read(read)

    async def config(self) -> BaseConfig:
        return await self._read(read_config)

    def staging(self, config: BaseConfig) -> AbstractAsyncContextManager[SqliteStaging]:
        return sqlite_staging(self, config)

    async def check(self) -> list[Finding]:
        return await self._read(self._check)

    def _texts(self, entries: Sequence[Entry]) -> Iterator[ContextText]:
        """The texts of the chunks that can be found, as the text index is going to see them.

        A text of unknown language is indexed in the main one of its collection, which nobody reads
        for an index that prepares nothing.
        """
        unknown = {each.document.collection for each in entries if each.document.language is None}
        with self._transaction() as connection:
            main = main_languages_of(connection, unknown)
        for entry in entries:
            document = entry.document
            language = document.language or main[document.collection]
            for chunk in entry.chunks:
                if chunk.level != "parent":
                    text = in_context(document.title, chunk.text, headings=chunk.heading_path)
                    yield text, language

    def _remove(self, connection: Connection, keys: Sequence[int]) -> None:
        self._text_index().remove_documents(SqlChangeLog(connection), keys)
        note_removals(connection, keys)
        remove_documents(connection, keys)

    def _open(self) -> None:
        recognise(self.path)
        refuse_foreign(usual_folder(self.file))
        self._engine = create_engine(self.file, busy_timeout=self.busy_timeout)
        self._cache_engine = create_engine(self.file, busy_timeout=CACHE_TIMEOUT)
        try:
            self._chosen = self._prepared()
            self._find_indexes()
            self._text = self._open_text()
        except BaseException:
            self._close()
            raise

    def _prepared(self) -> IndexChoice:
        """The indexes; waits for other writers only if there is something to create."""
        with self._transaction() as connection:
            if schema_version(connection) == SCHEMA_VERSION and setting(connection, "text_index"):
                indexes = self._choice(connection)
                if indexes.text != "fts5" or is_current(connection):
                    return indexes
        with self._transaction(writing=True) as connection:
            prepare_schema(connection)
            indexes = self._choice(connection)
            self._store_choice(connection, indexes)
            if indexes.text == "fts5" and not is_current(connection):
                rebuild_fts5(connection)
            return indexes

    def _find_indexes(self) -> None:
        with self._transaction() as connection:
            base_id = setting(connection, "base_id") or ""
            self._generation = read_config(connection).generation
        self._indexes = IndexFolder.beside(self.file, base_id=base_id)

    def _site(self, address: str) -> IndexSite:
        indexes = self.indexes
        return IndexSite(indexes.base_id, self.busy_timeout, self._generation, indexes, address)

    def _open_text(self) -> TextIndex[SqlChangeLog]:
        choice = self._chosen.text or DEFAULT_TEXT_INDEX
        return TEXT_INDEXES.get(index_kind(choice))(self._site(choice))

    def _follow_rebuild(self, connection: Connection) -> int:
        """Use the indexes of the present generation: another process may have rebuilt the base."""
        config = read_config(connection)
        if config.generation != self._generation:
            self._generation = config.generation
            self._chosen = IndexChoice(config.text_index, config.vector_index)
            self._text = self._open_text()
            self._vectors = None
        return self._generation

    def _text_index(self) -> TextIndex[SqlChangeLog]:
        if self._text is None:
            raise StoreError(f"{self.path} is closed; open it first")
        return self._text

    def open_indexes(self) -> list[AnyIndex]:
        """The indexes that are open."""
        return [index for index in (self._text, self._vectors) if index is not None]

    def _follow_changes(self) -> None:
        """Bring the indexes up to date; runs beside searches."""
        with self._transaction() as connection, damage_errors(self.path):
            self._follow_rebuild(connection)
            reader = SqliteReader(connection, path=self.path)
            changes = SqlChangeLog(connection, reader=reader)
            follow_all(
                {"text": self._text_index(), "vectors": self._vector_index(connection)},
                changes,
                lock=self._follower_lock,
            )

    def _update_indexes(self, connection: Connection, *, least: int) -> None:
        """Let indexes that lack `least` changes or more follow to the state of the connection."""
        with damage_errors(self.path):
            self._follow_rebuild(connection)
            update_all(
                {"text": self._text_index(), "vectors": self._vector_index(connection)},
                SqlChangeLog(connection),
                lock=self._follower_lock,
                least=least,
            )

    def _follower_lock(self, role: IndexRole) -> AbstractContextManager[bool]:
        return self.indexes.try_lock(f".following-{role}")

    def _close(self) -> None:
        self._follower.finish()
        self._views.clear()
        for index in (self._text, self._vectors):
            if index is not None:
                index.close()
        self._vectors = None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if self._cache_engine is not None:
            self._cache_engine.dispose()
            self._cache_engine = None

    def _check(self, connection: Connection) -> list[Finding]:
        found = check_file(connection, self.path)
        if found[0].level == "problem":
            return found
        self._follow_rebuild(connection)
        changes = SqlChangeLog(connection)
        found += check_rows(connection)
        found += check_contents(connection, self.path)
        text, vectors = self._text_index(), self._vector_index(connection)
        if changes.head.number:
            found.append(text.check(changes))
        if vectors is not None:
            found.append(vectors.check(changes))
        found += check_rebuild(self.indexes)
        used = {index.folder for index in (text, vectors) if index is not None}
        return found + check_leftovers(self.indexes, file=self.file, used=used)

    def _index_states(self, connection: Connection) -> Iterator[IndexState]:
        """The position of each index in the change log."""
        self._follow_rebuild(connection)
        changes = SqlChangeLog(connection)
        roles: dict[IndexRole, TextIndex[SqlChangeLog] | VectorIndex[SqlChangeLog] | None] = {
            "text": self._text_index(),
            "vectors": self._vector_index(connection),
        }
        for role, index in roles.items():
            if index is not None:
                yield IndexState(
                    role=role,
                    kind=index.kind,
                    indexed_up_to=index.indexed_up_to(changes),
                    changes=changes.head.number,
                )

    def _bytes_on_disk(self) -> int:
        total = size_of(self.indexes.path)
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                total += self.file.with_name(f"{self.file.name}{ending}").stat().st_size
        return total

    def _vector_index(self, connection: Connection) -> VectorIndex[SqlChangeLog] | None:
        """The vector index; None as long as there are no vectors."""
        if self._vectors is None:
            model_id = setting(connection, "model_id")
            dimension = setting(connection, "dimension")
            if model_id is None or dimension is None:
                return None
            choice = self._chosen.vectors or DEFAULT_VECTOR_INDEX
            make = VECTOR_INDEXES.get(index_kind(choice))
            self._vectors = make(self._site(choice), model_id=model_id, dimension=int(dimension))
        return self._vectors

    def _choice(self, connection: Connection) -> IndexChoice:
        """The indexes of the base, at the addresses that the user gave, if any."""
        stored, place = read_config(connection), str(self.path)
        text = chosen(
            stored.text_index,
            self._wanted.text,
            usual=DEFAULT_TEXT_INDEX,
            role="text",
            place=place,
        )
        made = stored.text_index is not None  # bases of earlier versions have no vector_index
        vectors = chosen(
            stored.vector_index or (DEFAULT_VECTOR_INDEX if made else None),
            self._wanted.vectors,
            usual=DEFAULT_VECTOR_INDEX,
            role="vector",
            place=place,
        )
        return IndexChoice(text, vectors)

    def _store_choice(self, connection: Connection, indexes: IndexChoice) -> None:
        """Store the indexes of a new base."""
        if setting(connection, "text_index") is not None:
            return
        put_setting(connection, "text_index", indexes.text or DEFAULT_TEXT_INDEX)
        put_setting(connection, "vector_index", indexes.vectors or DEFAULT_VECTOR_INDEX)
        if indexes.text == "fts5":
            create_fts5(connection)

    async def _read(self, question: Callable[[Connection], T]) -> T:
        """An answer from one state of the base."""

        def read() -> T:
            with self._transaction() as connection, damage_errors(self.path):
                return question(connection)

        return await in_thread(read)

    async def _write(self, change: Callable[[Connection], T]) -> T:
        """A change that is durable when it ends; one after another."""

        driver = DriverHandle()

        def write() -> T:
            with self._transaction(writing=True) as connection:
                driver.hold(connection)
                try:
                    return change(connection)
                finally:
                    driver.release()  # the commit is not interrupted

        async with self._writing:
            done = await interruptible(write, interrupt=driver.interrupt)
        if self._views.are_used:
            with suppress(StoreError):  # which the next search tells of
                await in_thread(self._views.read_ahead, self._opened())
        return done

    async def _write_cache(
        self, change: Callable[[Connection], T], _names: Collection[tuple[str, str]] | None
    ) -> T:
        """A change that may be skipped: it does not wait for other processes that write."""

        def write() -> T:
            with self._transaction(writing=True, caching=True) as connection:
                return change(connection)

        async with self._writing:
            return await in_thread(write)

    @contextmanager
    def _transaction(self, *, writing: bool = False, caching: bool = False) -> Iterator[Connection]:
        with sqlite_errors(self.path):
            engine = self._opened(caching=caching).execution_options(writing=writing)
            with engine.begin() as connection:
                yield connection

    def _opened(self, *, caching: bool = False) -> Engine:
        engine = self._cache_engine if caching else self._engine
        if engine is None:
            raise StoreError(f"{self.path} is closed; open it first")
        return engine
