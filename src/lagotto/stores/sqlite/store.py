"""The embedded store: one SQLite file, and indexes beside it that can be thrown away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from lagotto.documents import Chunk, Document, digest
from lagotto.errors import ConfigError, ModelMismatchError, StoreError
from lagotto.filters import And, Filter
from lagotto.stores.base import (
    Capabilities,
    ChunkKeys,
    Entry,
    StoreInfo,
    Version,
)
from lagotto.stores.reading import (
    counter,
    main_languages,
    matching_chunks,
    matching_documents,
    read_chunks,
    read_document,
    read_versions,
)
from lagotto.stores.sqlite.database import (
    BUSY_TIMEOUT,
    create_engine,
    prepare_schema,
    recognise,
    translated,
)
from lagotto.stores.sqlite.fts5_leg import Fts5Leg, create_fts5
from lagotto.stores.sqlite.text_leg import TextLeg
from lagotto.stores.sqlite.vector_leg import VectorLeg
from lagotto.stores.sqlite.view import SqliteView, Vocabularies
from lagotto.stores.tables import ChunkRow, ChunkSetRow, DocumentRow, Setting
from lagotto.stores.writing import document_keys, remove_documents, update_documents, write_entries
from lagotto.terms import analyzer_id

TextIndex = Literal["tantivy", "fts5"]

FILTERS_REMEMBERED = 64


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
    ) -> None:
        self.path = Path(path)
        self._wanted_text_index = text_index
        self._busy_timeout = busy_timeout
        self._engine: AsyncEngine | None = None
        self._text: TextLeg = Fts5Leg()
        self._vectors: VectorLeg | None = None
        self._vocabularies = Vocabularies()
        self._filters: dict[tuple[str, int], ChunkKeys] = {}
        self._known_languages: tuple[int, list[str | None]] | None = None
        self._writing = asyncio.Lock()

    @property
    def indexes(self) -> Path:
        """The folder of the indexes."""
        return self.path.with_name(f"{self.path.name}.index")

    async def open(self) -> None:
        recognise(self.path)
        self._engine = create_engine(self.path, busy_timeout=self._busy_timeout)
        async with self._write() as connection:
            await connection.run_sync(prepare_schema)
            kind = await self._text_index(connection)
        if kind == "tantivy":
            from lagotto.stores.sqlite.tantivy_leg import TantivyLeg

            # Other rules for terms need another index.
            self._text = TantivyLeg(self.indexes / f"text-{digest(analyzer_id())[:8]}")

    async def close(self) -> None:
        if self._vectors is not None:
            await self._vectors.close()
            self._vectors = None
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    async def write(self, entries: Sequence[Entry]) -> None:
        async with self._write() as connection:
            for entry in entries:
                await self._check_model(connection, entry)
            gone = await document_keys(connection, [entry.document for entry in entries])
            await self._text.forget(connection, list(gone.values()))
            before = await counter(connection, "change")
            await write_entries(connection, entries)
            await self._text.index(connection, since=before)

    async def update(self, documents: Sequence[Document]) -> None:
        async with self._write() as connection:
            await update_documents(connection, documents)

    async def delete(self, where: Filter) -> list[str]:
        async with self._write() as connection:
            found = [pair async for pair in matching_documents(connection, where)]
            keys = [key for key, _ in found]
            await self._text.forget(connection, keys)
            await remove_documents(connection, keys)
        return [document.id for _, document in found]

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        async with self._read() as connection:
            return await read_versions(connection, collection, ids)

    async def get(self, collection: str, document_id: str) -> Document | None:
        async with self._read() as connection:
            return await read_document(connection, collection, document_id)

    async def documents(self, where: Filter) -> AsyncIterator[Document]:
        async with self._read() as connection:
            async for _, document in matching_documents(connection, where):
                yield document

    async def chunks(self, collection: str, document_id: str) -> list[Chunk]:
        async with self._read() as connection:
            return await read_chunks(connection, collection, document_id)

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[SqliteView]:
        async with self._read() as connection:
            until = await counter(connection, "change")
            state = await counter(connection, "state")
            await self._text.catch_up(connection, until=until)
            leg = await self._vector_leg(connection)
            self._vocabularies.state = until
            yield SqliteView(
                connection,
                vectors=await leg.snapshot(connection, until=until) if leg else None,
                text=self._text,
                vocabulary=self._vocabularies,
                allowed=await self._allowed(connection, where, state),
                languages=await self._languages(connection, state),
            )

    async def info(self) -> StoreInfo:
        async with self._read() as connection:
            counted = select(DocumentRow.collection, func.count()).group_by(DocumentRow.collection)
            collections = {row[0]: row[1] for row in await connection.execute(counted)}
            languages = select(DocumentRow.language).where(DocumentRow.language.is_not(None))
            chunks = select(func.count()).where(ChunkRow.level != "parent")
            chunkers = select(ChunkSetRow.chunker_id).limit(1)
            return StoreInfo(
                location=str(self.path),
                documents=sum(collections.values()),
                chunks=await connection.scalar(chunks) or 0,
                collections=dict(sorted(collections.items())),
                languages=tuple(sorted(set((await connection.scalars(languages)).all()))),
                model_id=await _setting(connection, "model_id"),
                chunker_id=await connection.scalar(chunkers),
                bytes_on_disk=await asyncio.to_thread(self._bytes_on_disk),
            )

    def _bytes_on_disk(self) -> int:
        files = [self.path, *self.path.parent.glob(f"{self.path.name}-*")]
        files += [path for path in self.indexes.rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files if path.exists())

    async def _allowed(
        self, connection: AsyncConnection, where: Filter, state: int
    ) -> ChunkKeys | None:
        """The chunks that a filter lets through, None for all; remembered until a write."""
        if where == And():
            return None
        name = (repr(where), state)
        if name not in self._filters:
            while len(self._filters) >= FILTERS_REMEMBERED:
                self._filters.pop(next(iter(self._filters)))
            self._filters[name] = await matching_chunks(connection, where)
        return self._filters[name]

    async def _languages(self, connection: AsyncConnection, state: int) -> list[str | None]:
        if self._known_languages is None or self._known_languages[0] != state:
            self._known_languages = (state, await main_languages(connection))
        return self._known_languages[1]

    async def _vector_leg(self, connection: AsyncConnection) -> VectorLeg | None:
        """None as long as there is not a single vector."""
        if self._vectors is None:
            model_id = await _setting(connection, "model_id")
            dimension = await _setting(connection, "dimension")
            if model_id is None or dimension is None:
                return None
            folder = self.indexes / f"vectors-{digest(model_id)[:8]}"
            self._vectors = VectorLeg(folder, model_id=model_id, dimension=int(dimension))
        return self._vectors

    async def _check_model(self, connection: AsyncConnection, entry: Entry) -> None:
        stored = await _setting(connection, "model_id")
        if stored is None:
            settings = {"model_id": entry.model_id, "dimension": str(entry.vectors.shape[1])}
            rows = [{"name": name, "value": value} for name, value in settings.items()]
            await connection.execute(insert(Setting), rows)
        elif stored != entry.model_id:
            raise ModelMismatchError(
                f"{self.path} holds vectors of {stored}, not of {entry.model_id}; use the "
                f"embedder it was made with, or make another base"
            )

    async def _text_index(self, connection: AsyncConnection) -> TextIndex:
        stored = await _setting(connection, "text_index")
        kind = stored or self._wanted_text_index or "tantivy"
        if self._wanted_text_index not in (None, kind):
            raise ConfigError(
                f"{self.path} was made with text_index={kind!r}, not "
                f"{self._wanted_text_index!r}; leave it out, or make another base"
            )
        if stored is None:
            await connection.execute(insert(Setting).values(name="text_index", value=kind))
            if kind == "fts5":
                await connection.run_sync(create_fts5)
        return "fts5" if kind == "fts5" else "tantivy"

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[AsyncConnection]:
        """A connection whose reads all see one state."""
        with translated(self.path):
            async with self._opened().begin() as connection:
                yield connection

    @asynccontextmanager
    async def _write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is the only one to write, and is durable when it ends."""
        with translated(self.path):
            engine = self._opened().execution_options(writing=True)
            async with self._writing, engine.begin() as connection:
                yield connection

    def _opened(self) -> AsyncEngine:
        if self._engine is None:
            raise StoreError(f"{self.path} is closed; open it first")
        return self._engine


async def _setting(connection: AsyncConnection, name: str) -> str | None:
    return await connection.scalar(select(Setting.value).where(Setting.name == name))
