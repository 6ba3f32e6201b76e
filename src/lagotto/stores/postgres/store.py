"""The store on a PostgreSQL server: many clients share one base."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, Row, text
from sqlalchemy.ext.asyncio import AsyncEngine

from lagotto._internal.concurrency import in_thread
from lagotto.documents import Chunk, Document
from lagotto.errors import StoreBusyError, StoreError, StoreUnavailableError
from lagotto.filters import Filter
from lagotto.indexes.base import REBUILD, Finding, IndexState
from lagotto.indexes.registry import IndexChoice
from lagotto.indexes.updater import retry_while_locked
from lagotto.stores.base import (
    EVERYTHING,
    BaseConfig,
    Capabilities,
    Entry,
    LanguageCounts,
    StoreInfo,
    Version,
    WriteGuard,
    with_languages_of,
)
from lagotto.stores.postgres.database import (
    BUSY_TIMEOUT,
    Name,
    ReadTransaction,
    Servers,
    acquire_locks,
    copy_rows,
    create_single,
    parse_location,
    postgres_errors,
    set_statement_timeout,
)
from lagotto.stores.postgres.native import RANK_FUNCTIONS, NativeIndexes, chunks_without_words
from lagotto.stores.postgres.rebuild import PostgresStaging, postgres_staging
from lagotto.stores.postgres.remote_indexes import PGVECTOR, POSTINGS, RemoteIndexes
from lagotto.stores.postgres.schema import enforce_dimension, prepare_schema, schema_version
from lagotto.stores.postgres.text_index import (
    Changes,
    Counts,
    PostingSegment,
    add_segment,
    altered_chunks,
    drop_terms,
    due_step,
    entry_segment,
    findable_keys,
    is_current,
    mark_removed,
    merge,
    record_commit,
    renew,
    take_segment_number,
    without,
)
from lagotto.stores.postgres.vector_index import GRAPH, GRAPH_FROM, build_graph
from lagotto.stores.postgres.view_factory import PostgresViews
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.changelog import language_counts as read_language_counts
from lagotto.stores.sql.checks import check_rows
from lagotto.stores.sql.chunk_cache import SqlChunkCache
from lagotto.stores.sql.extras import SqlKeyedValues, SqlSourceFiles
from lagotto.stores.sql.filters import matching_names, paged_documents, read_matching_chunks
from lagotto.stores.sql.generations import NEXT
from lagotto.stores.sql.indexes import IN_TABLES
from lagotto.stores.sql.read import (
    counter,
    document_keys,
    read_config,
    read_document,
    read_info,
    read_versions,
    setting,
)
from lagotto.stores.sql.statements import CURRENT, FINDABLE
from lagotto.stores.sql.view import SqlView
from lagotto.stores.sql.write import (
    Numbers,
    check_config,
    check_guard,
    mark_copy,
    note_removals,
    number_entries,
    put_setting,
    remove_documents,
    update_documents,
    write_entries,
)

# The commit that uses the numbers also flushes this one.
_SOON = text("SET LOCAL synchronous_commit = off")


@dataclass(frozen=True, slots=True)
class Reserved:
    """Numbers for entries and their segment; `first`: the base has no model yet."""

    numbers: Numbers
    segment: int
    first: bool


def reserve(connection: Connection, entries: Sequence[Entry]) -> Reserved:
    """Take the numbers that entries need, always in this order, so that writers can't deadlock."""
    connection.execute(_SOON)
    first = setting(connection, "model_id") is None
    return Reserved(number_entries(connection, entries), take_segment_number(connection), first)


def reserve_segment(connection: Connection) -> int:
    """Take the number of a segment."""
    connection.execute(_SOON)
    return take_segment_number(connection)


def names_of(documents: Collection[Document]) -> set[Name]:
    """The names to lock for documents."""
    return {(document.collection, document.id) for document in documents}


def replace(
    connection: Connection,
    entries: Sequence[Entry],
    *,
    segment: PostingSegment,
    reserved: Reserved,
    location: str,
    guard: WriteGuard | None = None,
) -> None:
    """Store entries, replacing former versions of their documents."""
    former, generation = _check(connection, entries, location, guard)
    gone = _remove(connection, list(former.values()))
    numbers = reserved.numbers
    write_entries(connection, entries, numbers=numbers, generation=generation, put=copy_rows)
    keys = findable_keys(entries, numbers.chunks)
    added = add_segment(connection, reserved.segment, segment, keys, generation=generation)
    record_commit(connection, without(gone, {generation: added}))


def replace_in_order(
    connection: Connection,
    entries: Sequence[Entry],
    *,
    segment: PostingSegment | None,
    location: str,
    guard: WriteGuard | None = None,
) -> None:
    """Store entries as `replace` does, in a base whose indexes follow the change log.

    The caller is the only writer until the commit, so that changes are committed in the order of
    their numbers. `segment` is None if words are indexed elsewhere.
    """
    former, generation = _check(connection, entries, location, guard)
    gone = _remove(connection, list(former.values()), in_order=True)
    numbers = number_entries(connection, entries)
    write_entries(connection, entries, numbers=numbers, generation=generation, put=copy_rows)
    keys = findable_keys(entries, numbers.chunks)
    added = Counts(len(keys))
    if segment is not None:
        number = take_segment_number(connection)
        added = add_segment(connection, number, segment, keys, generation=generation)
    record_commit(connection, without(gone, {generation: added}))


def _check(
    connection: Connection, entries: Sequence[Entry], location: str, guard: WriteGuard | None
) -> tuple[dict[Name, int], int]:
    """Raise unless entries may be stored; what they replace, by its keys, and the generation."""
    config, is_new = check_config(connection, entries, location)
    if is_new:
        enforce_dimension(connection, config)
    documents = [entry.document for entry in entries]
    check_guard(connection, guard, documents)
    return document_keys(connection, documents), config.generation


def change_metadata(
    connection: Connection, documents: Sequence[Document], *, guard: WriteGuard | None = None
) -> None:
    """Replace the metadata of documents."""
    check_guard(connection, guard, documents)
    update_documents(connection, documents)
    record_commit(connection)


def names_to_remove(connection: Connection, where: Filter) -> set[Name]:
    """Names of the documents that match."""
    found = matching_names(connection, where)
    return {(document.collection, document.id) for document in found}


def remove(
    connection: Connection, where: Filter, names: Collection[Name], *, in_order: bool = False
) -> list[str]:
    """Remove the named documents that still match; return their ids.

    `in_order` notes the removals in the change log: the caller is the only writer.
    """
    found = [
        document
        for document in matching_names(connection, where)
        if (document.collection, document.id) in names
    ]
    if found:
        gone = _remove(connection, [document.key for document in found], in_order=in_order)
        record_commit(connection, without(gone, {}))
    return [document.id for document in found]


def _remove(connection: Connection, keys: Sequence[int], *, in_order: bool = False) -> Changes:
    """Remove documents, with what every generation has of them; how much that was.

    The log of the next generation needs no order: its head moves only while nobody else writes.
    """
    gone = mark_removed(connection, keys)
    if keys and (in_order or setting(connection, NEXT)):
        note_removals(connection, keys)
    remove_documents(connection, keys)
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
    last = counter(connection, "change")
    if choice.text in IN_TABLES:
        yield IndexState(role="text", kind="postings", applied_seq=last, changes=last)
    if choice.vectors in IN_TABLES:
        yield IndexState(role="vectors", kind="pgvector", applied_seq=last, changes=last)


def findings(connection: Connection, choice: IndexChoice) -> list[Finding]:
    """All findings about the base; `choice` names its indexes."""
    facts = connection.execute(_FACTS).one()
    found = [
        *check_rows(connection),
        Finding(level="ok", what=f"the server has {facts.extensions}"),
    ]
    if choice.vectors in IN_TABLES:
        found += _of_vectors(facts)
    if choice.text in IN_TABLES:
        current = is_current(connection)
        found += _of_text(facts, current=current)
        found += _of_postings(altered_chunks(connection) if current else 0)
        found += _of_native_text(chunks_without_words(connection))
    return found


def _of_vectors(facts: Row[tuple[object, ...]]) -> Iterator[Finding]:
    if facts.chunks >= GRAPH_FROM and not facts.graph:
        yield Finding(
            level="note",
            what="the vectors have no index, so every search reads all of them",
            advice="add a document; the index is built when the base is closed",
        )


def _of_text(facts: Row[tuple[object, ...]], *, current: bool) -> Iterator[Finding]:
    if facts.without_terms or {facts.counted, facts.in_segments} != {facts.chunks}:
        yield Finding(
            level="problem",
            what=f"the full-text index counts {facts.counted} chunks, has postings of "
            f"{facts.in_segments}, and lacks {facts.without_terms}",
            advice=REBUILD,
        )
    if not current:
        yield Finding(
            level="note",
            what="the full-text index was built with other rules for terms",
            advice="open the base as a user who may write, which rebuilds the index",
        )
    if facts.ctype in ("C", "POSIX"):
        yield Finding(
            level="note",
            what=f"the database has LC_CTYPE {facts.ctype}, with which pg_trgm knows only ASCII "
            "letters: misspelt words in other scripts are not corrected",
            advice="create a database with LC_CTYPE 'C.UTF-8', and run `lagotto copy`",
        )


def _of_postings(altered: int) -> Iterator[Finding]:
    if altered:
        yield Finding(
            level="problem",
            what=f"{altered} chunks have other postings in the full-text index than terms",
            advice=REBUILD,
        )


def _of_native_text(without_words: int) -> Iterator[Finding]:
    if without_words:
        yield Finding(
            level="problem",
            what=f"{without_words} chunks are missing from the index for ts_rank and ts_rank_cd",
            advice=REBUILD,
        )


log = logging.getLogger(__name__)

T = TypeVar("T")

CACHE_TIMEOUT = 0.05
"""Seconds that a search waits for other writers before it gives up caching its chunks."""

QUIET = 5.0
"""Seconds without a write after which the graph of vectors is built."""

_SIZE = text(
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
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
        busy_timeout: float = BUSY_TIMEOUT,
    ) -> None:
        self._wanted = IndexChoice.of(text_index=text_index, vector_index=vector_index)
        self.address = parse_location(location)
        self.location = self.address.location
        self.busy_timeout = busy_timeout
        self._servers: Servers | None = None
        self._new_copy_of: str | None = None
        self._native = NativeIndexes(change=self._write_alone, fresh=self._fresh)
        self.remote = RemoteIndexes(self.address, self._wanted, timeout=busy_timeout)
        self._views = PostgresViews(self._native, self.remote)
        self._settling: asyncio.Task[None] | None = None
        self.chunk_cache = SqlChunkCache(read=self._read, write=self._write_cache)
        self.source_files = SqlSourceFiles(read=self._read_latest, write=self._write_alone)
        self.keyed_values = SqlKeyedValues(
            peek=self._read_latest, read=self._read_latest, write=self._write_beside
        )

    @property
    def capabilities(self) -> Capabilities:
        """PostgreSQL's own rank functions need its own indexes."""
        if self.remote.are_used:
            return Capabilities()
        return Capabilities(rank_functions=("bm25", *RANK_FUNCTIONS))

    async def open(self) -> None:
        self._servers = Servers.at(self.address)
        try:
            if not await self._read(self._is_ready):
                await self._write(self._prepare, None)
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

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        if self.remote.are_used:
            await self._write_in_order(entries, guard)
            return
        counts = await self.language_counts([entry.document for entry in entries])
        segment = await in_thread(entry_segment, entries, counts)
        reserved = await self._write(partial(reserve, entries=entries), ())
        await self._write(
            partial(
                replace,
                entries=entries,
                segment=segment,
                reserved=reserved,
                location=self.location,
                guard=guard,
            ),
            None if reserved.first else names_of([entry.document for entry in entries]),
        )
        await self.merge_segments()
        self._settle_soon()

    async def _write_in_order(self, entries: Sequence[Entry], guard: WriteGuard | None) -> None:
        """Write entries of a base whose indexes follow its change log."""
        segment = None
        if self.remote.open.text is None:
            counts = await self.language_counts([entry.document for entry in entries])
            segment = await in_thread(entry_segment, entries, counts)
        written = partial(
            replace_in_order, entries=entries, segment=segment, location=self.location, guard=guard
        )
        await self._write_alone(written)
        await self.merge_segments()
        if self.remote.choice.vectors in IN_TABLES:
            self._settle_soon()

    async def language_counts(self, documents: Sequence[Document]) -> LanguageCounts:
        """The languages of the base with new documents, if one of these is of unknown language."""
        if all(document.language for document in documents):
            return {}
        stored = await self._read(read_language_counts, latest=True)
        return with_languages_of(documents, stored)

    async def update(
        self, documents: Sequence[Document], *, guard: WriteGuard | None = None
    ) -> None:
        names = None if self.remote.are_used else names_of(documents)
        await self._write(partial(change_metadata, documents=documents, guard=guard), names)

    async def delete(self, where: Filter) -> list[str]:
        names = await self._read(partial(names_to_remove, where=where), latest=True)
        if not names:
            return []
        in_order = self.remote.are_used
        removed = partial(remove, where=where, names=names, in_order=in_order)
        gone = await self._write(removed, None if in_order else names)
        await self.merge_segments()
        return gone

    async def update_indexes(self, *, least: int = 1) -> None:
        """Let indexes that are behind a network catch up; others are written with the documents."""
        if self.remote.are_used:
            await in_thread(retry_while_locked, partial(self.remote.catch_up, least=least))

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        return await self._read(
            lambda connection: read_versions(connection, collection, ids), latest=True
        )

    async def get(self, collection: str, document_id: str) -> Document | None:
        return await self._read(
            lambda connection: read_document(connection, collection, document_id)
        )

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        return paged_documents(self._read, where)

    async def chunks(
        self, collection: str, document_id: str, *, where: Filter = EVERYTHING
    ) -> list[Chunk]:
        return await self._read(
            lambda connection: read_matching_chunks(connection, where, collection, document_id)
        )

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[SqlView]:
        with postgres_errors(self.location):
            engine = _one_state(self._opened().searching)
            async with engine.begin() as connection, ReadTransaction.on(connection) as reader:
                yield await self._views.view(reader, where)

    @asynccontextmanager
    async def _fresh(self) -> AsyncIterator[ReadTransaction]:
        """A reader of the latest state."""
        with postgres_errors(self.location):
            engine = _one_state(self._opened().writing)
            async with engine.begin() as connection, ReadTransaction.on(connection) as reader:
                yield reader

    async def info(self) -> StoreInfo:
        down = await in_thread(self.remote.unreachable)
        found = await self._read(
            lambda connection: read_info(
                connection,
                location=self.location,
                bytes_on_disk=int(connection.scalar(_SIZE) or 0),
                indexes=[
                    *index_states(connection, self.remote.choice),
                    *self.remote.states(SqlChangeLog(connection)),
                ],
            )
        )
        return found.model_copy(update={"degraded": (*found.degraded, *down)})

    async def config(self) -> BaseConfig:
        try:
            config, base_id = await self._read(_config_and_id, latest=True)
        except StoreUnavailableError:
            if not self.address.has_several_hosts:
                raise
            config, base_id = await self._read(_config_and_id)  # a standby still serves
        self.remote.place(base_id)
        self.remote.adapt(config)
        return config

    async def mark_copy(self, source: str | None) -> None:
        if self._servers is None:
            self._new_copy_of = source
        else:
            await self._write_alone(partial(mark_copy, source=source))

    def staging(self, config: BaseConfig) -> AbstractAsyncContextManager[PostgresStaging]:
        return postgres_staging(self, config)

    async def ask(self, question: Callable[[Connection], T]) -> T:
        """Run a function that reads the latest state of the base."""
        return await self._read(question, latest=True)

    async def change(self, change: Callable[[Connection], T], *, wait: float | None = None) -> T:
        """Run a function that changes the base, while nobody else writes; `wait` is in seconds."""
        return await self._change(change, None, wait=self.busy_timeout if wait is None else wait)

    async def check(self) -> list[Finding]:
        found = await self._read(partial(findings, choice=self.remote.choice))
        return [*found, *await in_thread(self.remote.check_all)]

    def _is_ready(self, connection: Connection) -> bool:
        version = schema_version(connection, self.location)
        return version == SCHEMA_VERSION and is_current(connection)

    def _prepare(self, connection: Connection) -> None:
        if schema_version(connection, self.location) == 0:
            prepare_schema(connection, self.location)
            put_setting(connection, "text_index", self._wanted.text or POSTINGS)
            put_setting(connection, "vector_index", self._wanted.vectors or PGVECTOR)
            if self._new_copy_of is not None:
                mark_copy(connection, self._new_copy_of)
        else:
            prepare_schema(connection, self.location)
        renew(connection)

    def _settle_soon(self) -> None:
        """Build the graph of vectors once nothing has been written for a while."""
        if self._settling is not None:
            self._settling.cancel()
        self._settling = asyncio.create_task(self._settle_later())

    async def _settle_later(self) -> None:
        await asyncio.sleep(QUIET)
        await self.settle()

    async def settle(self, config: BaseConfig | None = None) -> None:
        """Build the graph of vectors of a generation, by default the current one, if it is due."""
        try:
            with postgres_errors(self.location):
                await build_graph(create_single(self.address), config or await self.config())
        except StoreBusyError:
            log.warning("the graph of vectors is built later: a transaction has been open for long")
        except StoreError as exc:
            log.warning("the graph of vectors could not be built: %s", exc)

    async def _read(self, question: Callable[[Connection], T], *, latest: bool = False) -> T:
        """Read from one state of the base; `latest` asks the primary, since a standby may lag."""
        servers = self._opened()
        engine = servers.writing if latest else servers.asking
        with postgres_errors(self.location):
            async with _one_state(engine).begin() as connection:
                await connection.run_sync(set_statement_timeout)
                return await connection.run_sync(question)

    async def _write(self, change: Callable[[Connection], T], names: Collection[Name] | None) -> T:
        """Change the named documents, or anything for None; durable when this returns."""
        return await self._change(change, names, wait=self.busy_timeout)

    async def _read_latest(self, question: Callable[[Connection], T]) -> T:
        """Read from the primary server."""
        return await self._read(question, latest=True)

    async def _write_alone(self, change: Callable[[Connection], T]) -> T:
        """Change the base while nobody else writes."""
        return await self._write(change, None)

    async def _write_beside(self, change: Callable[[Connection], T]) -> T:
        """Change what belongs to no document, while others write documents."""
        return await self._write(change, ())

    async def _write_cache(
        self, change: Callable[[Connection], T], names: Collection[Name] | None
    ) -> T:
        """Change the cache; gives up soon if other writers hold the locks."""
        return await self._change(change, names, wait=CACHE_TIMEOUT)

    async def _change(
        self, change: Callable[[Connection], T], names: Collection[Name] | None, *, wait: float
    ) -> T:
        def write(connection: Connection) -> T:
            acquire_locks(connection, names, timeout=wait)
            return change(connection)

        with postgres_errors(self.location):
            async with _many_states(self._opened().writing).begin() as connection:
                return await connection.run_sync(write)

    async def merge_segments(self, generation: int | None = None) -> None:
        """Merge segments of the full-text index as far as due, unless another client does."""
        due = partial(due_step, generation=generation)
        try:
            while await self._read(due, latest=True):
                number = await self._write(reserve_segment, ())
                done = await self._write(partial(merge, number=number, generation=generation), ())
                if done is None:
                    return
                if done == "clear":
                    await self._write(drop_terms, None)
        except StoreBusyError as exc:
            log.info("segments are merged after a later write: %s", exc)

    def _opened(self) -> Servers:
        if self._servers is None:
            raise StoreError(f"{self.location} is closed; open it first")
        return self._servers


def _config_and_id(connection: Connection) -> tuple[BaseConfig, str]:
    return read_config(connection), setting(connection, "base_id") or ""


def _many_states(engine: AsyncEngine) -> AsyncEngine:
    """Transactions in which every statement sees the latest commits."""
    return engine.execution_options(isolation_level="READ COMMITTED")


def _one_state(engine: AsyncEngine) -> AsyncEngine:
    """Read-only transactions that see one state of the base.

    They end with a commit: after a rollback the driver discards its prepared statements.
    """
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
