"""The store on a PostgreSQL server: many clients share one base."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeVar, get_args

from sqlalchemy import Connection, text

from lagotto._internal.concurrency import in_thread
from lagotto.documents import Chunk, Document
from lagotto.errors import StoreBusyError, StoreError, StoreUnavailableError
from lagotto.filters import Filter
from lagotto.indexes.base import REBUILD, Finding, IndexState, note, ok, problem
from lagotto.indexes.registry import IndexChoice
from lagotto.indexes.text_query import NativeFunction
from lagotto.indexes.updater import delete_remote, retry_while_locked
from lagotto.stores import base
from lagotto.stores.postgres import database, schema, text_index
from lagotto.stores.postgres.native import NativeIndexes, chunks_without_words
from lagotto.stores.postgres.text_index import Gain
from lagotto.stores.postgres.vector_index import GRAPH, GRAPH_FROM, build_graph, drop_graphs
from lagotto.stores.postgres.view_factory import PGVECTOR, POSTINGS, PostgresViews, RemoteIndexes
from lagotto.stores.sql import SCHEMA_VERSION, read, write
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.changelog import language_counts as read_language_counts
from lagotto.stores.sql.checks import check_rows
from lagotto.stores.sql.chunk_cache import CACHE_TIMEOUT, SqlChunkCache
from lagotto.stores.sql.extras import SqlKeyedValues, SqlSourceFiles
from lagotto.stores.sql.filters import matching_keys, paged_documents, read_matching_chunks
from lagotto.stores.sql.generations import NEXT, SqlStaging, generation_configs
from lagotto.stores.sql.indexes import IN_TABLES
from lagotto.stores.sql.statements import CURRENT, FINDABLE, WriteConnection
from lagotto.stores.sql.view import SqlView

log = logging.getLogger(__name__)

T = TypeVar("T")

QUIET = 5.0  # seconds without a write after which the graph of vectors is built

# The commit that uses the numbers also flushes this one.
_SOON = text("SET LOCAL synchronous_commit = off")
_SIZE = text(
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)


def reserve(connection: Connection, entries: Sequence[base.Entry]) -> write.Numbers | None:
    """Take the numbers that entries need, always in this order, so that writers can't deadlock.

    None if the base has no model yet, which only one writer may decide.
    """
    if read.setting(connection, "model_id") is None:
        return None
    numbers = write.number_entries(connection, entries)
    return numbers._replace(segment=reserve_segment(connection))


def reserve_segment(connection: Connection) -> int:
    """Take the number of a segment."""
    connection.execute(_SOON)
    return write.take_numbers(connection, "segment", 1)


def replace(
    connection: Connection,
    entries: Sequence[base.Entry],
    *,
    segment: text_index.PostingSegment | None,
    reserved: write.Numbers | None,
    location: str,
    guard: base.WriteGuard | None,
) -> None:
    """Store entries, replacing former versions of their documents.

    Where nothing is reserved, indexes follow the change log: the caller is the only writer until
    the commit, so that changes are committed in the order of their numbers. `segment` is None if
    words are indexed elsewhere.
    """
    config, is_new = write.check_config(connection, entries, location)
    if is_new:
        schema.enforce_dimension(connection, config)
    documents = [entry.document for entry in entries]
    write.check_guard(connection, guard, documents)
    former = read.document_keys(connection, documents)
    gone = _remove(connection, list(former.values()), in_order=reserved is None)
    numbers, generation = reserved or write.number_entries(connection, entries), config.generation
    write.write_entries(
        connection, entries, numbers=numbers, generation=generation, put=database.copy_rows
    )
    keys = numbers.findable(entries)
    added = text_index.add_segment(connection, segment, keys, generation, numbers.segment)
    text_index.record_commit(connection, added, *gone)


def remove(
    connection: Connection, where: Filter, names: Collection[read.Name], *, in_order: bool
) -> list[str]:
    """Remove the named documents that still match; return their ids.

    `in_order` notes the removals in the change log: the caller is the only writer.
    """
    matching = matching_keys(connection, where).items()
    documents = {name: key for name, key in matching if name in names}
    if documents:
        gone = _remove(connection, list(documents.values()), in_order=in_order)
        text_index.record_commit(connection, *gone)
    return [name for _, name in documents]


def _remove(connection: Connection, keys: Sequence[int], *, in_order: bool) -> list[Gain]:
    """Remove documents, with what every generation has of them; what they lose.

    The log of the next generation needs no order: its head moves only while nobody else writes.
    """
    gone = text_index.mark_removed(connection, keys)
    if keys and (in_order or read.setting(connection, NEXT)):
        write.note_removals(connection, keys)
    write.remove_documents(connection, keys)
    return gone


_FACTS = text(f"""
SELECT
    (SELECT string_agg(extname || ' ' || extversion, ', ' ORDER BY extname) FROM pg_extension
     WHERE extname IN ('vector', 'pg_trgm')) AS extensions,
    (SELECT count(*) FROM chunk WHERE {FINDABLE}) AS chunks,
    (SELECT count(*) FROM chunk LEFT JOIN chunk_terms ON chunk_key = key
     WHERE {FINDABLE} AND chunk_key IS NULL) AS without_terms,
    (SELECT chunks FROM indexed WHERE generation = {CURRENT}) AS counted,
    (SELECT coalesce(sum(chunks), 0) FROM segment WHERE generation = {CURRENT})
    - (SELECT count(*) FROM gone WHERE generation = {CURRENT}) AS in_segments,
    (SELECT indisvalid FROM pg_index
     WHERE indexrelid = to_regclass('{GRAPH}' || {CURRENT})) AS graph,
    (SELECT datctype FROM pg_database WHERE datname = current_database()) AS ctype
""")


def index_states(connection: Connection, choice: IndexChoice) -> Iterator[IndexState]:
    """The state of the indexes in tables: they are written with the chunks, so they never lag."""
    last = read.counter(connection, "change")
    if choice.text in IN_TABLES:
        yield IndexState(role="text", kind="postings", applied_seq=last, changes=last)
    if choice.vectors in IN_TABLES:
        yield IndexState(role="vectors", kind="pgvector", applied_seq=last, changes=last)


def findings(connection: Connection, choice: IndexChoice) -> Iterator[Finding]:
    """All findings about the base; `choice` names its indexes."""
    facts = connection.execute(_FACTS).one()
    yield from check_rows(connection)
    yield ok(f"the server has {facts.extensions}")
    if choice.vectors in IN_TABLES and facts.chunks >= GRAPH_FROM and not facts.graph:
        what = "the vectors have no index, so every search reads all of them"
        yield note(what, "add a document; the index is built when the base is closed")
    if choice.text not in IN_TABLES:
        return
    if facts.without_terms or {facts.counted, facts.in_segments} != {facts.chunks}:
        yield problem(
            f"the full-text index counts {facts.counted} chunks, has postings of "
            f"{facts.in_segments}, and lacks {facts.without_terms}",
            REBUILD,
        )
    if not text_index.is_current(connection):
        what = "the full-text index was built with other rules for terms"
        yield note(what, "open the base as a user who may write, which rebuilds the index")
    if facts.ctype in ("C", "POSIX"):
        yield note(
            f"the database has LC_CTYPE {facts.ctype}, with which pg_trgm knows only ASCII "
            "letters: misspelt words in other scripts are not corrected",
            "create a database with LC_CTYPE 'C.UTF-8', and run `lagotto copy`",
        )
    if text_index.is_current(connection) and (altered := text_index.altered_chunks(connection)):
        what = f"{altered} chunks have other postings in the full-text index than terms"
        yield problem(what, REBUILD)
    if lost := chunks_without_words(connection):
        yield problem(
            f"{lost} chunks are missing from the index for ts_rank and ts_rank_cd", REBUILD
        )


class PostgresStore:
    """A base in a database, in the first schema of its search path.

    Any number of clients, in any number of processes, read and write at once; writers of the same
    document wait for each other.
    """

    def __init__(
        self,
        location: str,
        *,
        text_index: str | None = None,
        vector_index: str | None = None,
        busy_timeout: float = database.BUSY_TIMEOUT,
    ) -> None:
        self._wanted = IndexChoice.of(text_index=text_index, vector_index=vector_index)
        self.address = database.parse_location(location)
        self.location = self.address.location
        self.busy_timeout = busy_timeout
        self._servers: database.Servers | None = None
        self._new_copy_of: str | None = None
        self._native = NativeIndexes(self.change, lambda: self._opened().reader(latest=True))
        self.remote = RemoteIndexes(self.address, self._wanted, timeout=busy_timeout)
        self._views = PostgresViews(self._native, self.remote)
        self._settling: asyncio.Task[None] | None = None
        cached = partial(self.change, wait=CACHE_TIMEOUT)  # gives up soon if others hold the locks
        self.chunk_cache = SqlChunkCache(read=self._read, write=cached)
        self.source_files = SqlSourceFiles(read=self.ask, write=self.change)
        beside = partial(self.change, names=())  # while others write documents
        self.keyed_values = SqlKeyedValues(read=self.ask, write=beside)

    @property
    def capabilities(self) -> base.Capabilities:
        """PostgreSQL's own rank functions need its own indexes."""
        if self.remote.are_used:
            return base.Capabilities()
        return base.Capabilities(rank_functions=("bm25", *get_args(NativeFunction)))

    async def open(self) -> None:
        self._servers = database.Servers.at(self.address)
        try:
            if not await self._read(self._is_ready):
                await self.change(self._prepare)
                await self._servers.dispose()  # older connections lack the vector type
            await self.config()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await in_thread(self.remote.close)
        await self._native.close()
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
            await self.settle()
        if self._servers is not None:
            await self._servers.dispose()
            self._servers = None

    async def write(
        self, entries: Sequence[base.Entry], *, guard: base.WriteGuard | None = None
    ) -> None:
        documents = [entry.document for entry in entries]
        segment = reserved = None
        if self.remote.open.text is None:
            counts = await self.language_counts(documents)
            segment = await in_thread(text_index.entry_segment, entries, counts)
        if not self.remote.are_used:
            reserved = await self.change(partial(reserve, entries=entries), ())
        names = {document.ref for document in documents} if reserved else None
        written = partial(replace, entries=entries, segment=segment, reserved=reserved)
        await self.change(partial(written, location=self.location, guard=guard), names)
        await self.merge_segments()
        if self.remote.choice.vectors in IN_TABLES:
            self._settle_soon()

    async def language_counts(self, documents: Sequence[Document]) -> base.LanguageCounts:
        """The languages of the base with new documents, if one of these is of unknown language."""
        if all(document.language for document in documents):
            return {}
        return base.count_languages(documents, await self.ask(read_language_counts))

    async def update(
        self, documents: Sequence[Document], *, guard: base.WriteGuard | None = None
    ) -> None:
        change = partial(write.update_documents, documents=documents, guard=guard)
        names = {document.ref for document in documents}
        await self.change(change, None if self.remote.are_used else names)

    async def delete(self, where: Filter) -> list[str]:
        names = await self.ask(partial(matching_keys, where=where))
        if not names:
            return []
        in_order = self.remote.are_used
        removed = partial(remove, where=where, names=names, in_order=in_order)
        gone = await self.change(removed, None if in_order else names)
        await self.merge_segments()
        return gone

    async def update_indexes(self, *, least: int = 1) -> None:
        """Let indexes that are behind a network catch up; others are written with the documents."""
        if self.remote.are_used:
            await in_thread(retry_while_locked, partial(self.remote.catch_up, least=least))

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, base.Version]:
        return await self.ask(partial(read.read_versions, collection=collection, ids=ids))

    async def get(self, collection: str, document_id: str) -> Document | None:
        return await self._read(
            lambda connection: read.read_document(connection, collection, document_id)
        )

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        return paged_documents(self._read, where)

    async def chunks(
        self, collection: str, document_id: str, *, where: Filter = base.EVERYTHING
    ) -> list[Chunk]:
        return await self._read(
            lambda connection: read_matching_chunks(connection, where, collection, document_id)
        )

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[SqlView]:
        async with self._opened().reader() as reader:
            yield await self._views.view(reader, where)

    async def info(self) -> base.StoreInfo:
        down = await in_thread(self.remote.unreachable)
        info = await self._read(
            lambda connection: read.read_info(
                connection,
                location=self.location,
                bytes_on_disk=int(connection.scalar(_SIZE) or 0),
                indexes=[
                    *index_states(connection, self.remote.choice),
                    *self.remote.states(SqlChangeLog(connection)),
                ],
            )
        )
        return info.model_copy(update={"degraded": (*info.degraded, *down)})

    async def config(self) -> base.BaseConfig:
        def config_and_id(connection: Connection) -> tuple[base.BaseConfig, str]:
            return read.read_config(connection), read.setting(connection, "base_id") or ""

        try:
            config, base_id = await self.ask(config_and_id)
        except StoreUnavailableError:
            if not self.address.has_several_hosts:
                raise
            config, base_id = await self._read(config_and_id)  # a standby still serves
        self.remote.place(base_id)
        self.remote.adapt(config)
        return config

    async def mark_copy(self, source: str | None) -> None:
        if self._servers is None:
            self._new_copy_of = source
        else:
            await self.change(partial(write.mark_copy, source=source))

    def staging(self, config: base.BaseConfig) -> AbstractAsyncContextManager[PostgresStaging]:
        return PostgresStaging(self, config).begun()

    async def check(self) -> list[Finding]:
        own = await self._read(lambda connection: list(findings(connection, self.remote.choice)))
        return [*own, *await in_thread(self.remote.check_all)]

    def _is_ready(self, connection: Connection) -> bool:
        version = schema.schema_version(connection, self.location)
        return version == SCHEMA_VERSION and text_index.is_current(connection)

    def _prepare(self, connection: Connection) -> None:
        is_new = schema.schema_version(connection, self.location) == 0
        schema.prepare_schema(connection, self.location)
        if is_new:
            write.put_setting(connection, "text_index", self._wanted.text or POSTINGS)
            write.put_setting(connection, "vector_index", self._wanted.vectors or PGVECTOR)
            if self._new_copy_of is not None:
                write.mark_copy(connection, self._new_copy_of)
        text_index.renew(connection)

    def _settle_soon(self) -> None:
        """Build the graph of vectors once nothing has been written for a while."""
        if self._settling is not None:
            self._settling.cancel()

        async def settle_later() -> None:
            await asyncio.sleep(QUIET)
            await self.settle()

        self._settling = asyncio.create_task(settle_later())

    async def settle(self, config: base.BaseConfig | None = None) -> None:
        """Build the graph of vectors of a generation, by default the current one, if it is due."""
        try:
            async with database.single_connection(self.address, "AUTOCOMMIT") as connection:
                await build_graph(connection, config or await self.config())
        except StoreBusyError:
            log.warning("the graph of vectors is built later: a transaction has been open for long")
        except StoreError as exc:
            log.warning("the graph of vectors could not be built: %s", exc)

    async def ask(self, question: Callable[[Connection], T]) -> T:
        """Run a function that reads the latest state of the base."""
        return await self._read(question, latest=True)

    async def _read(self, question: Callable[[Connection], T], *, latest: bool = False) -> T:
        """Read from one state of the base; `latest` asks the primary, since a standby may lag."""
        servers = self._opened()
        engine = servers.writing if latest else servers.asking
        with database.postgres_errors(self.location):
            async with database.ReadTransaction.on(engine) as reader:
                return await reader.ask(question)

    async def change(
        self,
        change: Callable[[Connection], T],
        names: Collection[read.Name] | None = None,
        *,
        wait: float | None = None,
    ) -> T:
        """Change the named documents, or anything for None, while nobody else writes these.

        Durable when this returns. `wait` is how many seconds to wait for other writers.
        """
        timeout = self.busy_timeout if wait is None else wait

        def locked(connection: Connection) -> T:
            database.acquire_locks(connection, names, timeout=timeout)
            return change(connection)

        # every statement sees the latest commits
        engine = self._opened().writing.execution_options(isolation_level="READ COMMITTED")
        with database.postgres_errors(self.location):
            async with engine.begin() as connection:
                return await connection.run_sync(locked)

    async def merge_segments(self, generation: int | None = None) -> None:
        """Merge segments of the full-text index as far as due, unless another client does."""
        due = partial(text_index.due_step, generation=generation)
        try:
            while await self.ask(due):
                number = await self.change(reserve_segment, ())
                merge = partial(text_index.merge, number=number, generation=generation)
                done = await self.change(merge, ())
                if done is None:
                    return
                if done == "clear":
                    await self.change(text_index.drop_terms)
        except StoreBusyError as exc:
            log.info("segments are merged after a later write: %s", exc)

    def _opened(self) -> database.Servers:
        if self._servers is None:
            raise StoreError(f"{self.location} is closed; open it first")
        return self._servers


TABLE_LOCK_TIMEOUT = 0.8
"""Seconds that a change of a table waits for running searches, while new ones wait for it. Less
than the second after which the server looks for deadlocks, and would end a search."""

_ONE_REBUILDER = text(f"SELECT pg_try_advisory_lock({database.REBUILDER}, {database.SCHEMA}::int)")
_ONE_FORMER = text("SELECT number FROM segment WHERE generation <> ALL(:generations) LIMIT 1")
_DROP_POSTINGS = text("DELETE FROM posting WHERE segment = :number")
_DROP_SEGMENT = text("DELETE FROM segment WHERE number = :number")


class PostgresStaging(SqlStaging):
    """A Staging for PostgresStore: with postings and a graph in tables, or indexes elsewhere."""

    put = staticmethod(database.copy_rows)

    def __init__(self, store: PostgresStore, config: base.BaseConfig) -> None:
        super().__init__(store, config, ask=store.ask, change=store.change)
        self._base = store
        self.indexes = store.remote.open_for(config)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[bool]:
        # holds the lock until it closes
        async with database.single_connection(self._base.address, "AUTOCOMMIT") as connection:
            yield bool(await connection.scalar(_ONE_REBUILDER))

    async def prepare(self) -> None:
        await super().prepare()
        await self._if_free(partial(schema.enforce_dimension, config=self.config))

    def begin(self, connection: WriteConnection) -> None:
        super().begin(connection)
        row = {"generation": self.config.generation, "chunks": 0, "terms": 0}
        write.insert_rows(connection, "indexed", [row])

    async def write(
        self, entries: Sequence[base.Entry], *, guard: base.WriteGuard | None = None
    ) -> None:
        generation = self.config.generation
        counts = await self._base.language_counts([entry.document for entry in entries])
        whole: text_index.PostingSegment | None = None
        if self.indexes.text is None:
            whole = await in_thread(text_index.entry_segment, entries, counts)

        def change(connection: Connection) -> None:
            current, numbers = self.write_chunks(connection, entries)
            segment = whole
            if whole is not None and len(current) < len(entries):  # others have changed meanwhile
                segment = text_index.entry_segment(current, counts)
            keys = numbers.findable(current)
            added = text_index.add_segment(connection, segment, keys, generation)
            text_index.record_commit(connection, added, generation=generation)

        await self._base.change(change)
        await self._base.merge_segments(generation)

    async def update_indexes(self, *, least: int = 1) -> None:
        if self.indexes.by_role():
            generation = self.config.generation
            work = partial(self._base.remote.catch_up, self.indexes, generation=generation)
            await in_thread(retry_while_locked, work)

    async def build_indexes(self) -> None:
        # what was removed meanwhile belongs to the next commit
        await self._base.change(
            partial(text_index.record_commit, generation=self.config.generation)
        )
        await self.update_indexes()
        if self.indexes.vectors is None:
            await self._base.settle(self.config)

    async def switch(self) -> bool:
        former = list(self._base.remote.open.by_role().values())
        if not await super().switch():
            return False
        await self._base.config()  # which opens the indexes
        await in_thread(delete_remote, former)
        return True

    async def drop_former(self) -> None:
        await super().drop_former()
        while await self._base.change(_drop_segment):
            pass
        generations = await self.ask(generation_configs)
        await self._if_free(partial(schema.forget_dimensions, generations=generations))
        try:
            async with database.single_connection(self._base.address, "AUTOCOMMIT") as connection:
                await drop_graphs(connection, generations=generations)
        except StoreError as exc:
            log.warning("a former graph of vectors could not be deleted: %s", exc)

    async def _if_free(self, change: partial[None]) -> None:
        """Change a table that searches read, unless they keep it too busy."""
        try:
            await self._base.change(change, wait=TABLE_LOCK_TIMEOUT)
        except StoreBusyError as exc:
            log.info("a constraint of the vectors is left as it is: %s", exc)


def _drop_segment(connection: Connection) -> bool:
    """Delete the postings of a segment of a former generation; False if that was the last."""
    generations = [*generation_configs(connection)]
    number = connection.scalar(_ONE_FORMER, {"generations": generations})
    if number is not None:
        connection.execute(_DROP_POSTINGS, {"number": number})
        connection.execute(_DROP_SEGMENT, {"number": number})
        return True
    for table in ("gone", "indexed"):
        dropped = text(f"DELETE FROM {table} WHERE generation <> ALL(:generations)")
        connection.execute(dropped, {"generations": generations})
    return False
