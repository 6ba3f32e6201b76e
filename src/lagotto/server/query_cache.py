"""The vectors of recent queries: a page that asks again with other weights embeds nothing."""

from __future__ import annotations

from collections import OrderedDict

from lagotto.documents import Vectors
from lagotto.embedders import Embedder
from lagotto.server.single_queries import SingleQueryEmbedder

ENTRIES = 1_000


class QueryCache(SingleQueryEmbedder):
    """An Embedder like `inner` that keeps the vectors of the `entries` queries used last.

    Single queries only; all else goes through. `hits` and `misses` count them.
    """

    def __init__(self, inner: Embedder, *, entries: int = ENTRIES) -> None:
        super().__init__(inner)
        self._entries = entries
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self.hits = 0
        self.misses = 0

    async def _embed_query(self, text: str) -> Vectors:
        known = self._vectors.get(text)
        if known is not None:
            self.hits += 1
            self._vectors.move_to_end(text)
            return known.copy()
        self.misses += 1
        made = await super()._embed_query(text)
        self._vectors[text] = made.copy()
        while len(self._vectors) > self._entries:
            self._vectors.popitem(last=False)
        return made

    async def close(self) -> None:
        """Close `inner`, and forget all vectors."""
        self._vectors.clear()
        await super().close()
