"""The embedded store: one SQLite file, and indexes beside it that can be thrown away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import Literal, TypeVar

from sqlalchemy import Connection, Engine

from lagotto.concurrency import in_thread
from lagotto.documents import CONTEXT_RULES, Chunk, Document, digest
from lagotto.errors import ConfigError, StoreBusyError, StoreError
from lagotto.filters import And, Filter
from lagotto.indexes.base import Finding, LogPosition
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.indexes.folder import (
    IndexFolder,
    refuse_foreign,
    size_of,
    usual_folder,
)
from lagotto.stores.base import BaseConfig, Capabilities, Entry, StoreInfo, Version
from lagotto.stores.sql.changelog import Head, read_head, token_at
from lagotto.stores.sql.checks import check_rows
from lagotto.stores.sql.chunk_cache import SqlChunkCache
from lagotto.stores.sql.read import (
    counter,
    main_languages,
    matching_documents,
    matching_names,
    read_chunks,
    read_document,
    read_versions,
    resolve_filter,
)
from lagotto.stores.sql.settings import (
    check_config,
    put_setting,
    read_config,
    read_info,
    setting,
)
from lagotto.stores.sql.tables import SCHEMA_VERSION
from lagotto.stores.sql.write import (
    Numbers,
    document_keys,
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
    create_engine,
    prepare_schema,
    recognise,
    schema_version,
    sqlite_errors,
    understood,
)
from lagotto.stores.sqlite.fts5_index import Fts5Index, create_fts5, rebuild_fts5
from lagotto.stores.sqlite.rebuild import SqliteStaging, check_rebuild, sqlite_staging
from lagotto.stores.sqlite.text_index import TextIndexLeg
from lagotto.stores.sqlite.vector_index import VectorIndexLeg
from lagotto.stores.sqlite.view import SqliteView, Vocabularies
from lagotto.terms import analyzer_id

log = logging.getLogger(__name__)

TextIndex = Literal["tantivy", "fts5"]
T = TypeVar("T")

FILTERS_REMEMBERED = 64
CACHE_PATIENCE = 0.05
"""Seconds that a search waits for other writers before it does without keeping its chunks."""
MOST_LOOKS = 1_000
"""How often a search starts anew because others have taken an index further in the meantime."""


class SqliteStore:
    """A base in a file.

    The file is the only source of truth. With `text_index="tantivy"` (the default) the full-text
    index lives in a folder beside it, with `"fts5"` inside it; the vectors' index is beside it in
    both cases. A base keeps the text index that it was made with.
    """

    capabilities = Capabilities()

    def __init__(
        self,
        path: str | Path,
        *,
        text_index: TextIndex | None = None,
        busy_timeout: float = BUSY_TIMEOUT,
        numbering: Callable[[Connection, Sequence[Entry]], Numbers] = number_entries,
    ) -> None:
        self.path = Path(path)
        self.location = str(path)
        self.file = self.path.absolute()  # connections are made later, maybe in another folder
        self.busy_timeout = busy_timeout
        self._numbering = numbering
        self._generation = 0
        self._indexes: IndexFolder | None = None
        self._wanted_text_index = text_index
        self._engine: Engine | None = None
        self._impatient: Engine | None = None
        self._text: TextIndexLeg = Fts5Index()
        self._vectors: VectorIndexLeg | None = None
        self._vocabularies = Vocabularies()
        self._filters: dict[tuple[str, int | None], FilterKeys] = {}
        self._ready: tuple[Head, LogPosition] | None = None
        """The state of the base that all indexes have caught up with."""
        self._known_languages: tuple[int, list[str | None]] | None = None
        self._writing = asyncio.Lock()
        self.chunk_cache = SqlChunkCache(read=self._read, write=self._write_cache)

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
        def write(connection: Connection) -> None:
            self._follow(connection)
            check_config(connection, entries, str(self.path))
            former = document_keys(connection, [entry.document for entry in entries])
            before = counter(connection, "change")
            self._remove(connection, list(former.values()))
            write_entries(connection, entries, numbers=self._numbering(connection, entries))
            self._text.index(connection, since=before)
            note_change(connection)

        await self._write(write)

    async def update(self, documents: Sequence[Document]) -> None:
        def update(connection: Connection) -> None:
            update_documents(connection, documents)
            note_change(connection)

        await self._write(update)

    async def delete(self, where: Filter) -> list[str]:
        def delete(connection: Connection) -> list[str]:
            self._follow(connection)
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

    async def documents(self, where: Filter) -> AsyncIterator[Document]:
        for document in await self._read(
            lambda connection: [item for _, item in matching_documents(connection, where)]
        ):
            yield document

    async def chunks(self, collection: str, document_id: str) -> list[Chunk]:
        return await self._read(lambda connection: read_chunks(connection, collection, document_id))

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[SqliteView]:
        with sqlite_errors(self.path), ExitStack() as stack:
            view = self._look_again(where, stack)
            yield view if view is not None else await in_thread(self._look, where, stack)

    async def info(self) -> StoreInfo:
        return await self._read(
            lambda connection: read_info(
                connection, location=str(self.path), bytes_on_disk=self._bytes_on_disk()
            )
        )

    async def config(self) -> BaseConfig:
        return await self._read(read_config)

    def staging(self, config: BaseConfig) -> AbstractAsyncContextManager[SqliteStaging]:
        return sqlite_staging(self, config)

    async def check(self) -> list[Finding]:
        return await self._read(self._check)

    def _remove(self, connection: Connection, keys: Sequence[int]) -> None:
        self._text.forget(connection, keys)
        note_removals(connection, keys)
        remove_documents(connection, keys)

    def _open(self) -> None:
        recognise(self.path)
        refuse_foreign(usual_folder(self.file))
        self._engine = create_engine(self.file, busy_timeout=self.busy_timeout)
        self._impatient = create_engine(self.file, busy_timeout=CACHE_PATIENCE)
        try:
            kind = self._prepared()
            self._find_indexes()
        except BaseException:
            self._close()
            raise
        self._text = self._create_text_index(kind)

    def _create_text_index(self, kind: str | None) -> TextIndexLeg:
        if kind == "fts5":
            return Fts5Index()
        from lagotto.stores.sqlite.tantivy_index import TantivyIndex

        return TantivyIndex(self._text_folder(), indexes=self.indexes, timeout=self.busy_timeout)

    def _follow(self, connection: Connection) -> None:
        """Use the indexes of the present generation; another process may have rebuilt the base."""
        config = read_config(connection)
        if config.generation != self._generation:
            self._generation = config.generation
            self._text = self._create_text_index(config.text_index)
            self._vectors = None
            self._vocabularies = Vocabularies()

    def _prepared(self) -> TextIndex:
        """The kind of text index; waits for other writers only if there is something to make."""
        with self._transaction() as connection:
            if schema_version(connection) == SCHEMA_VERSION:
                return self._text_index(connection)
        with self._transaction(writing=True) as connection:
            former = schema_version(connection)
            prepare_schema(connection)
            kind = self._text_index(connection)
            if former and kind == "fts5":
                rebuild_fts5(connection)  # what is indexed changes with the schema
            return kind

    def _find_indexes(self) -> None:
        with self._transaction() as connection:
            base_id = setting(connection, "base_id") or ""
            self._generation = read_config(connection).generation
        self._indexes = IndexFolder.beside(self.file, base_id=base_id)

    def _text_folder(self) -> Path:
        """Other rules for terms need another index."""
        return self._index_folder("text", f"{analyzer_id()}/context-{CONTEXT_RULES}")

    def _index_folder(self, kind: str, made_with: str) -> Path:
        rebuilt = (self._generation,) if self._generation else ()
        name = digest(self.indexes.base_id, made_with, *rebuilt)[:8]
        return self.indexes.path / f"{kind}-{name}"

    def _close(self) -> None:
        self._ready = None
        if self._vectors is not None:
            self._vectors.close()
            self._vectors = None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if self._impatient is not None:
            self._impatient.dispose()
            self._impatient = None

    def _look_again(self, where: Filter, stack: ExitStack) -> SqliteView | None:
        """A view at once, None unless all it needs is known since the last change.

        Worth it: changing threads takes as long as all the rest.
        """
        ready = self._ready
        if ready is None:
            return None
        if where != And() and (where.cache_key, ready[0].token) not in self._filters:
            return None
        with ExitStack() as mine:
            connection = mine.enter_context(self._opened().connect())
            with understood(self.path):
                if read_head(connection) != ready[0]:
                    return None
                view = self._one_state(connection, where, *ready)
            if view is not None:
                stack.push(mine.pop_all())
        return view

    def _look(self, where: Filter, stack: ExitStack) -> SqliteView:
        """A read transaction, and what the search needs to know, all of one state."""
        connection = stack.enter_context(self._opened().connect())
        for _ in range(MOST_LOOKS):
            with understood(self.path):
                head = read_head(connection)
                self._follow(connection)
                view = self._one_state(connection, where, head, head.position(connection))
            if view is not None:
                return view
            self._begin_anew(connection)
        raise StoreBusyError(f"{self.path} is written to all the time; search when that has ended")

    def _begin_anew(self, connection: Connection) -> None:
        """Begin a transaction that sees what the indexes have seen.

        If it does not, the base is older than its indexes: a backup was restored.
        """
        indexes = [index for index in (self._text, self._vectors) if index is not None]
        positions = [index.position for index in indexes]
        connection.rollback()
        for index, position in zip(indexes, positions, strict=True):
            if token_at(connection, position.number) != position.token:
                index.discard(position)

    def _one_state(
        self, connection: Connection, where: Filter, head: Head, until: LogPosition
    ) -> SqliteView | None:
        """None if an index is ahead of what the connection sees."""
        self._ready = None
        if not self._text.catch_up(connection, until=until):
            return None
        leg = self._vector_leg(connection)
        vectors = leg.snapshot(connection, until=until) if leg else None
        if leg and vectors is None:
            return None
        view = SqliteView(
            connection,
            path=self.path,
            vectors=vectors,
            text=self._text,
            vocabularies=self._vocabularies,
            changes=until,
            allowed=self._allowed(connection, where, head.token),
            languages=self._languages(connection, head.token),
        )
        view.generation = self._generation
        self._ready = head, until
        return view

    def _check(self, connection: Connection) -> list[Finding]:
        found = check_file(connection, self.path)
        if found[0].level == "problem":
            return found
        until = read_head(connection).position(connection)
        found += check_rows(connection)
        found += check_contents(connection, self.path)
        used = {self._text_folder().name}
        if until.number:
            found.append(self._text.check(connection, until=until))
        if leg := self._vector_leg(connection):
            found.append(leg.check(connection, until=until))
            used.add(leg.folder.name)
        found += check_rebuild(self.indexes)
        return found + check_leftovers(self.indexes, file=self.file, used=used)

    def _bytes_on_disk(self) -> int:
        total = size_of(self.indexes.path)
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                total += self.file.with_name(f"{self.file.name}{ending}").stat().st_size
        return total

    def _allowed(self, connection: Connection, where: Filter, token: int) -> FilterKeys | None:
        """The chunks that a filter lets through, None for all; remembered until a write."""
        if where == And():
            return None
        name = (where.cache_key, token)
        if name not in self._filters:
            while len(self._filters) >= FILTERS_REMEMBERED:
                self._filters.pop(next(iter(self._filters)), None)
            self._filters[name] = resolve_filter(connection, where)
        return self._filters[name]

    def _languages(self, connection: Connection, token: int) -> list[str | None]:
        if self._known_languages is None or self._known_languages[0] != token:
            self._known_languages = (token, main_languages(connection))
        return self._known_languages[1]

    def _vector_leg(self, connection: Connection) -> VectorIndexLeg | None:
        """None as long as there is not a single vector."""
        if self._vectors is None:
            model_id = setting(connection, "model_id")
            dimension = setting(connection, "dimension")
            if model_id is None or dimension is None:
                return None
            folder = self._index_folder("vectors", model_id)
            self._vectors = VectorIndexLeg(
                folder, indexes=self.indexes, model_id=model_id, dimension=int(dimension)
            )
        return self._vectors

    def _text_index(self, connection: Connection) -> TextIndex:
        stored = setting(connection, "text_index")
        kind = stored or self._wanted_text_index or "tantivy"
        if self._wanted_text_index not in (None, kind):
            raise ConfigError(
                f"{self.path} was made with text_index={kind!r}, not "
                f"{self._wanted_text_index!r}; leave it out, or change the base with "
                f"`lagotto rebuild --text-index {self._wanted_text_index}`"
            )
        if stored is None:
            put_setting(connection, "text_index", kind)
            if kind == "fts5":
                create_fts5(connection)
        return "fts5" if kind == "fts5" else "tantivy"

    async def _read(self, question: Callable[[Connection], T]) -> T:
        """An answer from one state of the base."""

        def read() -> T:
            with self._transaction() as connection, understood(self.path):
                return question(connection)

        return await in_thread(read)

    async def _write(self, change: Callable[[Connection], T]) -> T:
        """A change that is durable when it ends; one after another."""

        def write() -> T:
            with self._transaction(writing=True) as connection:
                return change(connection)

        async with self._writing:
            return await in_thread(write)

    async def _write_cache(
        self, change: Callable[[Connection], T], _names: Collection[tuple[str, str]] | None
    ) -> T:
        """A change that can as well be left out: other processes that write are not waited for."""

        def write() -> T:
            with self._transaction(writing=True, patient=False) as connection:
                return change(connection)

        async with self._writing:
            return await in_thread(write)

    @contextmanager
    def _transaction(self, *, writing: bool = False, patient: bool = True) -> Iterator[Connection]:
        with sqlite_errors(self.path):
            engine = self._opened(patient=patient).execution_options(writing=writing)
            with engine.begin() as connection:
                yield connection

    def _opened(self, *, patient: bool = True) -> Engine:
        engine = self._engine if patient else self._impatient
        if engine is None:
            raise StoreError(f"{self.path} is closed; open it first")
        return engine
