"""An embedder that counts what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lagotto.documents import Vectors
from lagotto.embedders import Role
from lagotto.testing.hash_embedder import HashEmbedder


class CountingEmbedder(HashEmbedder):
    """Remembers the size of each call, every query, and every text of a document.

    `before` is called with how many texts there were so far.
    """

    def __init__(
        self, *, model_id: str = "hash", before: Callable[[int], None] | None = None
    ) -> None:
        super().__init__(model_id=model_id)
        self.calls: list[int] = []
        self.queries: list[str] = []
        self.texts: list[str] = []
        self.closed = False
        self._before = before

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.calls.append(len(texts))
        self.queries += texts if role == "query" else []
        if role == "document":
            if self._before:
                self._before(len(self.texts))
            self.texts += texts
        return await super().embed(texts, role=role)

    async def close(self) -> None:
        self.closed = True
