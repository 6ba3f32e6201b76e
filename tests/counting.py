"""An embedder that counts what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lagotto.documents import Vectors
from lagotto.embedders import Role
from lagotto.testing.hash_embedder import HashEmbedder


class CountingEmbedder(HashEmbedder):
    """Remembers every text of a document; `before` is called with how many there were so far."""

    def __init__(
        self, *, model_id: str = "hash", before: Callable[[int], None] | None = None
    ) -> None:
        super().__init__(model_id=model_id)
        self.texts: list[str] = []
        self.closed = False
        self._before = before

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if role == "document":
            if self._before:
                self._before(len(self.texts))
            self.texts += texts
        return await super().embed(texts, role=role)

    async def close(self) -> None:
        self.closed = True
