"""The store on a PostgreSQL server: many clients share one base."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from lagotto.concurrency import in_thread
from lagotto.documents import Chunk, Document
from lagotto.errors import StoreError
from lagotto.filters import Filter
from lagotto.stores.base import Capabilities, Entry, Finding, StoreInfo, Version
from lagotto.stores.chunk_cache import SqlChunkCache
from lagotto.stores.facts import check_model, read_info
from lagotto.stores.postgres.checking import findings
from lagotto.stores.postgres.copying import copy_rows
from lagotto.stores.postgres.database import Servers, create_single, parse_location, shown
from lagotto.stores.postgres.indexing import add_segment, findable_keys, forget
from lagotto.stores.postgres.looking import Look
from lagotto.stores.postgres.merging import merge
from lagotto.stores.postgres.postings import entry_texts, make_segment
from lagotto.stores.postgres.problems import translated
from lagotto.stores.postgres.reader import Reader
from lagotto.stores.postgres.renewing import is_current, renew
from lagotto.stores.postgres.schema import (
    BUSY_TIMEOUT,
    become_writer,
    prepare_schema,
    schema_version,
)
from lagotto.stores.postgres.vector_index import build_graph
from lagotto.stores.postgres.view import PostgresView
from lagotto.stores.reading import (
    counter,
    matching_documents,
    read_chunks,
    read_document,
    read_versions,
)
from lagotto.stores.tables import SCHEMA_VERSION
from lagotto.stores.writing import document_keys, remove_documents, update_documents, write_entries

log = logging.getLogger(__name__)

T = TypeVar("T")

CACHE_PATIENCE = 0.05
"""Seconds that a search waits for other writers before it does without keeping its chunks."""

QUIET = 5.0
"""Seconds without a write after which a base counts as filled."""

_SIZE = text(
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)


class PostgresStore:
    """A base in a database, in the first schema of its search path.

    One transaction at a time writes, and any number read, from any number of processes.
    """

    capabilities = Capabilities()

    def __init__(self, location: str, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self._url = parse_location(location)
        self.place = shown(self._url)
        self._busy_timeout = busy_timeout
        self._servers: Servers | None = None
        self._look = Look()
        self._writing = asyncio.Lock()
        self._settling: asyncio.Task[None] | None = None
        self.chunk_cache = SqlChunkCache(read=self._read, write=self._write_cache)

    async def open(self) -> None:
        self._servers = Servers.at(self._url)
        try:
            if not await self._read(self._is_ready):
                await self._write(self._prepare)
                await self._servers.dispose()  # older connections don't know vectors yet
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
            await self._settle()
        if self._servers is not None:
            await self._servers.dispose()
            self._servers = None

    async def write(self, entries: Sequence[Entry]) -> None:
        segment = await in_thread(make_segment, entry_texts(entries))

        def write(connection: Connection) -> None:
            check_model(connection, entries, self.place)
            former = document_keys(connection, [entry.document for entry in entries])
            forget(connection, list(former.values()))
            before = counter(connection, "change")
            write_entries(connection, entries, put=copy_rows)
            add_segment(connection, segment, findable_keys(connection, since=before))

        await self._write(write)
        await self._write(merge)
        self._settle_soon()

    async def update(self, documents: Sequence[Document]) -> None:
        await self._write(lambda connection: update_documents(connection, documents))

    async def delete(self, where: Filter) -> list[str]:
        def delete(connection: Connection) -> list[str]:
            found = list(matching_documents(connection, where))
            keys = [key for key, _ in found]
            forget(connection, keys)
            remove_documents(connection, keys)
            return [document.id for _, document in found]

        gone = await self._write(delete)
        await self._write(merge)
        return gone

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        return await self._read(
            lambda connection: read_versions(connection, collection, ids), latest=True
        )

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
    async def view(self, where: Filter) -> AsyncIterator[PostgresView]:
        with translated(self.place):
            async with _one_state(self._opened().searching).connect() as connection:
                yield await self._look.view(await Reader.of(connection), where)

    async def info(self) -> StoreInfo:
        return await self._read(
            lambda connection: read_info(
                connection,
                location=self.place,
                bytes_on_disk=int(connection.scalar(_SIZE) or 0),
            )
        )

    async def check(self) -> list[Finding]:
        return await self._read(findings)

    def _is_ready(self, connection: Connection) -> bool:
        version = schema_version(connection, self.place)
        return version == SCHEMA_VERSION and is_current(connection)

    def _prepare(self, connection: Connection) -> None:
        prepare_schema(connection, self.place)
        renew(connection)

    def _settle_soon(self) -> None:
        """Build what is missing for quick searches once nothing has been written for a while."""
        if self._settling is not None:
            self._settling.cancel()
        self._settling = asyncio.create_task(self._settle_later())

    async def _settle_later(self) -> None:
        await asyncio.sleep(QUIET)
        await self._settle()

    async def _settle(self) -> None:
        try:
            with translated(self.place):
                await build_graph(create_single(self._url))
        except StoreError as exc:
            log.warning("there is no index of vectors, so searches take longer: %s", exc)

    async def _read(self, question: Callable[[Connection], T], *, latest: bool = False) -> T:
        """An answer from one state of the base; the latest one, if a standby may be behind."""
        servers = self._opened()
        engine = servers.writing if latest else servers.searching
        with translated(self.place):
            async with _one_state(engine).connect() as connection:
                return await connection.run_sync(question)

    async def _write(self, change: Callable[[Connection], T]) -> T:
        """A change that is durable when it ends; one after another."""
        return await self._change(change, patience=self._busy_timeout)

    async def _write_cache(self, change: Callable[[Connection], T]) -> T:
        """A change that can as well be left out: other processes that write are not waited for."""
        return await self._change(change, patience=CACHE_PATIENCE)

    async def _change(self, change: Callable[[Connection], T], *, patience: float) -> T:
        def write(connection: Connection) -> T:
            become_writer(connection, timeout=patience)
            return change(connection)

        async with self._writing:
            with translated(self.place):
                async with self._opened().writing.begin() as connection:
                    return await connection.run_sync(write)

    def _opened(self) -> Servers:
        if self._servers is None:
            raise StoreError(f"{self.place} is closed; open it first")
        return self._servers


def _one_state(engine: AsyncEngine) -> AsyncEngine:
    """Transactions that see one state of the base, and change nothing."""
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
