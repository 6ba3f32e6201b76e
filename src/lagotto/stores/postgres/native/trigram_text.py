"""Words compared with the texts of chunks, by pg_trgm's word similarity.

A GIN index of the trigrams of texts is created when a search first asks for this. Even so, common
trigrams leave most texts to be compared, so this is for small bases.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import LiteralString

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from lagotto.documents import storable
from lagotto.errors import StoreError
from lagotto.indexes.base import ChunkKeys, FilterKeys
from lagotto.indexes.hits import Hits
from lagotto.stores.postgres.adapters import KeysParameter
from lagotto.stores.postgres.transaction import ReadTransaction

log = logging.getLogger(__name__)

MOST_CHARACTERS = 2_500_000
"""Characters that one core compares in about half a second: 3,000 chunks of 800, for example."""

MOST_CHUNKS = 20_000
"""With more chunks, their characters are not counted."""

_ANY: LiteralString = "level <> 'parent'"
_THESE: LiteralString = "chunk.key = ANY(%(keys)s)"
_WORK: LiteralString = 'SELECT coalesce(sum("end" - start), 0)::bigint FROM chunk WHERE '
_COMPARED: LiteralString = """
SELECT chunk.key, word_similarity(%(words)s, chunk_text.text) AS score
FROM chunk JOIN chunk_text ON chunk_text.chunk_key = chunk.key WHERE """
_ALIKE: LiteralString = "%(words)s::text <%% chunk_text.text AND "
_BEST: LiteralString = " ORDER BY score DESC, chunk.key LIMIT %(limit)s"
_THRESHOLD: LiteralString = (
    "SELECT set_config('pg_trgm.word_similarity_threshold', %(threshold)s, true)"
)
_INDEX = "chunk_text_trigrams"
_EXISTS: LiteralString = (
    f"SELECT to_regclass(quote_ident(current_schema()) || '.{_INDEX}') IS NOT NULL"
)


class TrigramIndex:
    """The index of the trigrams of texts, which makes `words <% text` faster.

    `change` runs a change of the base while nobody else writes.
    """

    def __init__(
        self, change: Callable[[Callable[[Connection], None]], Coroutine[None, None, None]]
    ) -> None:
        self._change = change
        self._tried = False

    async def make(self, reader: ReadTransaction) -> None:
        """Create the index unless it exists; without it, texts are compared one by one."""
        ((exists,),) = await reader.rows(_EXISTS)
        if exists or self._tried:
            return
        self._tried = True
        try:
            await self._change(_create_index)
        except StoreError as exc:
            log.info("texts are compared without an index of their trigrams (%s)", exc)


def _create_index(connection: Connection) -> None:
    statement = f"CREATE INDEX IF NOT EXISTS {_INDEX} ON chunk_text USING gin (text gin_trgm_ops)"
    connection.execute(text(statement))


@dataclass(frozen=True, slots=True)
class TrigramTextComparison:
    """The chunks of one search, of which `allowed` are those that the filter lets through."""

    reader: ReadTransaction
    index: TrigramIndex
    chunks: int
    allowed: FilterKeys | None

    async def comparable(self) -> bool:
        """Whether all texts can be compared within about half a second."""
        count = self.chunks if self.allowed is None else len(self.allowed.keys)
        if count > MOST_CHUNKS:
            return False
        ((work,),) = await self.reader.rows(_WORK + self._which(), self._keys())
        if work > MOST_CHARACTERS:
            return False
        await self.index.make(self.reader)
        return True

    async def search(self, words: str, *, threshold: float, k: int) -> Hits:
        """The `k` chunks whose texts are most like the words."""
        asked = {"words": storable(words), "limit": max(k, 0)}
        await self.reader.rows(_THRESHOLD, {"threshold": str(threshold)})
        statement = self.statement_for(threshold, filtered=self.allowed is not None)
        rows = await self.reader.rows(statement, asked | self._keys())
        scores = np.array([score for _, score in rows], np.float32)
        return Hits(np.array([key for key, _ in rows], np.int64), scores)

    @staticmethod
    def statement_for(threshold: float, *, filtered: bool) -> LiteralString:
        """The statement of `search`; the index does not know of texts that share no trigram."""
        return (
            _COMPARED + (_ALIKE if threshold > 0 else "") + (_THESE if filtered else _ANY) + _BEST
        )

    async def scores(self, words: str, keys: ChunkKeys) -> NDArray[np.float32]:
        """How alike the text of each of `keys` is, 0 for one that is gone."""
        asked = {"words": storable(words), "keys": KeysParameter(keys)}
        known: dict[int, float] = dict(await self.reader.rows(_COMPARED + _THESE, asked))
        return np.array([known.get(key, 0.0) for key in keys.tolist()], np.float32)

    def _which(self) -> LiteralString:
        return _ANY if self.allowed is None else _THESE

    def _keys(self) -> dict[str, KeysParameter]:
        if self.allowed is None:
            return {}
        return {"keys": KeysParameter(self.allowed.keys)}
