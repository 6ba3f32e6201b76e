"""Vectors that need not be computed again: those of the same text under the same model.

Stored chunks have them: those of an earlier content of a document, or of another chunker. So has an
interrupted run: the vectors of a large document are kept in the base while it is being embedded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np

from lagotto.documents import Chunk, Document, DocumentRef, Vector, Vectors, digest
from lagotto.embedders.chunk_embedder import ChunkEmbedder, Works
from lagotto.filters import And
from lagotto.stores.base import Store

UNFINISHED = "unfinished-vectors"
"""The kind of the values that hold them."""

LARGE = 64
"""Chunks; a document of more may take so long that its vectors are kept before it is complete."""

KEPT_SECONDS = 7 * 24 * 3600.0
"""Afterwards, the vectors of a document that was never completed are removed."""


class VectorReuse:
    """Finds the vectors that a base already has for the chunks of new documents."""

    def __init__(self, store: Store, vectors: ChunkEmbedder) -> None:
        self._store = store
        self._vectors = vectors

    async def known(self, works: Works, *, stored: Sequence[DocumentRef]) -> dict[str, Vector]:
        """Vectors by what they depend on, of documents that are `stored` and of unfinished ones."""
        known: dict[str, Vector] = {}
        for document, chunks in works:
            if len(chunks) > LARGE:
                known |= await self._unfinished(document, findable(chunks))
        return known | await self._of(stored) if stored else known

    async def keep(
        self, document: Document, chunks: Sequence[Chunk], vectors: Vectors, *, first: int
    ) -> None:
        """Keep the vectors of the chunks from `first` on, until the document is complete."""
        await self._store.keyed_values.put(
            UNFINISHED,
            f"{self._name(document, chunks)}/{first}",
            {"at": time.time()},
            data=vectors.astype("<f4").tobytes(),
        )

    async def remove_kept(self, works: Works) -> None:
        """Remove what was kept of documents that are stored now, and what is too old."""
        names = {self._name(document, chunks) for document, chunks in works if len(chunks) > LARGE}
        if not names:
            return
        values = self._store.keyed_values
        for value in await values.items(UNFINISHED):
            age = time.time() - float(value.value.get("at", 0.0))
            if value.name.partition("/")[0] in names or age > KEPT_SECONDS:
                await values.remove(UNFINISHED, value.name)

    async def _unfinished(self, document: Document, chunks: Sequence[Chunk]) -> dict[str, Vector]:
        name = self._name(document, chunks)
        found = np.empty((0, self._vectors.embedder.info.dimension), np.float32)
        while data := await self._store.keyed_values.data(UNFINISHED, f"{name}/{len(found)}"):
            rows = np.frombuffer(data, "<f4").reshape(-1, found.shape[1])
            found = np.concatenate([found, rows])
        return self._by_text(zip([document] * len(found), chunks, found, strict=False))

    async def _of(self, names: Sequence[DocumentRef]) -> dict[str, Vector]:
        """The vectors of stored documents that this model has made."""
        async with self._store.view(And()) as view:
            stored = (await view.stored(names)).values()
            made = [one.keys for one in stored if one.model_id == self._vectors.model_id]
            keys = np.concatenate([np.empty(0, np.int64), *made])
            vectors = dict(zip(keys.tolist(), await view.vectors(keys), strict=True))
            passages = await view.passages(keys)
        return self._by_text((one.document, one.chunk, vectors[one.key]) for one in passages)

    def _by_text(self, found: Iterable[tuple[Document, Chunk, Vector]]) -> dict[str, Vector]:
        dimension = self._vectors.embedder.info.dimension
        texts = ((self._vectors.text_of(document, chunk), row) for document, chunk, row in found)
        return {
            text: row
            for text, row in texts
            if text is not None and len(row) == dimension and row.any()  # a damaged one is zero
        }

    def _name(self, document: Document, chunks: Sequence[Chunk]) -> str:
        made_by = (chunks[0].chunker_id, self._vectors.model_id)
        return digest(*document.ref, document.content_hash, *made_by)


def findable(chunks: Sequence[Chunk]) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.level != "parent"]
