"""Full text beside the database, by tantivy: caught up from the database, made again if damaged."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from lagotto.errors import IndexDamagedError
from lagotto.stores.base import ChunkKeys, TextQuery
from lagotto.stores.hits import Hits
from lagotto.stores.reading import counter
from lagotto.stores.sqlite.changes import ChunkText, added_texts, ranges, removed
from lagotto.stores.sqlite.tantivy_text import TantivyText
from lagotto.terms import analyze

log = logging.getLogger(__name__)

MOST_DEAD = 0.2
"""Removed chunks still count in the statistics of BM25 until their segment is merged; with more of
them than this the index is made again."""

T = TypeVar("T")


class TantivyLeg:
    """Keeps a TantivyText in a folder in step with the database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: TantivyText | None = None
        self._changing = asyncio.Lock()

    async def search(
        self,
        connection: AsyncConnection,
        query: TextQuery,
        *,
        k: int,
        allowed: ChunkKeys | None,
    ) -> Hits:
        return await self._ask(connection, lambda index: index.search(query, k, allowed=allowed))

    async def scores(
        self, connection: AsyncConnection, query: TextQuery, keys: ChunkKeys
    ) -> NDArray[np.float32]:
        return await self._ask(connection, lambda index: index.scores(query, keys))

    async def unknown(self, connection: AsyncConnection, terms: Sequence[str]) -> set[str]:
        return await self._ask(
            connection,
            lambda index: {term for term in terms if not index.document_frequency(term)},
        )

    async def vocabulary(self, connection: AsyncConnection) -> Sequence[str]:
        return await self._ask(connection, lambda index: index.vocabulary())

    async def index(self, connection: AsyncConnection, *, since: int) -> None:
        """Nothing to do: the next search catches up."""

    async def forget(self, connection: AsyncConnection, document_keys: Sequence[int]) -> None:
        """Nothing to do: the next search catches up."""

    async def catch_up(self, connection: AsyncConnection, *, until: int) -> None:
        index = self._index
        if index is not None and index.stamp >= until:
            return
        async with self._changing:
            try:
                await self._catch_up(connection, until)
            except IndexDamagedError as exc:
                await self._emptied(exc)
                await self._catch_up(connection, until)

    async def _ask(self, connection: AsyncConnection, question: Callable[[TantivyText], T]) -> T:
        try:
            return await asyncio.to_thread(question, await self._opened())
        except IndexDamagedError as exc:
            async with self._changing:
                await self._emptied(exc)
                await self._catch_up(connection, await counter(connection, "change"))
        return await asyncio.to_thread(question, await self._opened())

    async def _opened(self) -> TantivyText:
        if self._index is None:
            self._index = await asyncio.to_thread(_open, self._folder)
        return self._index

    async def _catch_up(self, connection: AsyncConnection, until: int) -> None:
        index = await self._opened()
        await asyncio.to_thread(index.reload_if_changed)
        if index.dead_share > MOST_DEAD:
            index = await self._emptied(f"{index.dead_share:.0%} of its chunks are removed ones")
        async for start, stop in ranges(connection, since=index.stamp, until=until):
            texts = await added_texts(connection, start, stop)
            gone = (await removed(connection, start, stop)).tolist()
            await asyncio.to_thread(_apply, index, texts, gone, start, stop)

    async def _emptied(self, reason: object) -> TantivyText:
        """A new index in place of the one there is."""
        log.warning("the text index is made again from the database: %s", reason)
        self._index = None
        await asyncio.to_thread(_wipe, self._folder)
        return await self._opened()


def _open(folder: Path) -> TantivyText:
    index = TantivyText.open(folder)
    index.verify()
    return index


def _wipe(folder: Path) -> None:
    """Out of the way first: other processes may have files in it open."""
    aside = folder.with_name(f"{folder.name}.{uuid4().hex[:8]}.old")
    with suppress(FileNotFoundError):
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _apply(
    index: TantivyText, texts: list[ChunkText], gone: list[int], since: int, stamp: int
) -> None:
    terms = ((chunk.key, analyze(chunk.text, chunk.language)) for chunk in texts)
    index.apply(added=terms, removed=gone, since=since, stamp=stamp)
