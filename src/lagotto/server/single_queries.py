"""Embedders of a server that treat single queries, as searches ask them, in a way of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagotto.documents import Vectors
from lagotto.embedders import Embedder
from lagotto.embedders.base import EmbedderInfo, Role
from lagotto.tokens import Tokenizer


class SingleQueryEmbedder:
    """An Embedder like `inner`, except for single queries; all else goes through."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    @property
    def info(self) -> EmbedderInfo:
        """The value of `inner`."""
        return self._inner.info

    @property
    def tokenizer(self) -> Tokenizer:
        """The value of `inner`."""
        return self._inner.tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return one unit vector per text, in order."""
        if role == "query" and len(texts) == 1:
            return await self._embed_query(texts[0])
        return await self._inner.embed(texts, role=role)

    async def close(self) -> None:
        """Close `inner`."""
        await self._inner.close()

    async def _embed_query(self, text: str) -> Vectors:
        return await self._inner.embed([text], role="query")
