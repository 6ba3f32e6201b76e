"""Words compared with the texts of chunks, by pg_trgm's word similarity.

Texts have no trigram index: every text that the filter allows is compared, so this is for small
bases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import storable
from lagotto.indexes.base import ChunkKeys, FilterKeys
from lagotto.indexes.hits import Hits
from lagotto.stores.postgres.adapters import KeysParameter
from lagotto.stores.postgres.transaction import ReadTransaction

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
# Like `words <% text`, which would compute the score twice.
_ALIKE: LiteralString = """
WITH compared AS MATERIALIZED ({})
SELECT key, score FROM compared WHERE score >= %(threshold)s
ORDER BY score DESC, key LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class TrigramTextComparison:
    """The chunks of one search, of which `allowed` are those that the filter lets through."""

    reader: ReadTransaction
    chunks: int
    allowed: FilterKeys | None

    async def comparable(self) -> bool:
        """Whether all texts can be compared within about half a second."""
        count = self.chunks if self.allowed is None else len(self.allowed.keys)
        if count > MOST_CHUNKS:
            return False
        ((work,),) = await self.reader.rows(_WORK + self._which(), self._keys())
        return bool(work <= MOST_CHARACTERS)

    async def search(self, words: str, *, threshold: float, k: int) -> Hits:
        """The `k` chunks whose texts are most like the words."""
        asked = {"words": storable(words), "threshold": threshold, "limit": max(k, 0)}
        statement = _ALIKE.format(_COMPARED + self._which())
        rows = await self.reader.rows(statement, asked | self._keys())
        scores = np.array([score for _, score in rows], np.float32)
        return Hits(np.array([key for key, _ in rows], np.int64), scores)

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
