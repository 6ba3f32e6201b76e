"""A disk cache around an embedder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Vectors
from lagotto.embedders.base import Embedder, Role, checked
from lagotto.errors import EmbeddingError
from lagotto.models.cache import DiskCache

SLICE = 256
"""Texts embedded between two writes: the most that a cancelled call loses."""


class CachedEmbedder:
    """Caches the vectors of `inner` in `folder`.

    The key is model, role and text, so one folder serves several models and processes at once. Each
    new text goes to `inner` once. A damaged entry is computed again; a damaged file is moved aside
    and replaced, with a warning in the log.
    """

    def __init__(self, inner: Embedder, folder: Path | str) -> None:
        self._inner = inner
        self.info = inner.info
        self._file = DiskCache(
            Path(folder) / "vectors.db",
            table="vectors",
            what="embedding cache",
            failure=EmbeddingError,
        )

    @property
    def tokenizer(self) -> Tokenizer:
        return self._inner.tokenizer

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        keys = [self._key(text, role=role) for text in texts]
        blobs = await asyncio.to_thread(self._file.read, set(keys))
        vectors = {
            key: np.frombuffer(blob, dtype="<f4").astype(np.float32)
            for key, blob in blobs.items()
            if len(blob) == 4 * self.info.dimension
        }
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        items = list(missing.items())
        for start in range(0, len(items), SLICE):
            some = dict(items[start : start + SLICE])
            new = await self._inner.embed(list(some.values()), role=role)
            checked(new, info=self.info, count=len(some))
            vectors |= zip(some, new, strict=True)
            blobs = {key: vectors[key].astype("<f4").tobytes() for key in some}
            await asyncio.to_thread(self._file.write, blobs)
        empty = np.empty((0, self.info.dimension), dtype=np.float32)
        return np.vstack([empty, *(vectors[key] for key in keys)])

    async def close(self) -> None:
        await self._inner.close()

    def _key(self, text: str, *, role: Role) -> bytes:
        head = f"{self.info.model_id}\0{role}\0".encode()
        return hashlib.blake2b(
            head + text.encode("utf-8", "surrogatepass"), digest_size=32
        ).digest()
