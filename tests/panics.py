"""A real panic of a library in Rust, which is no Exception, for what must outlive one."""

from __future__ import annotations

from collections.abc import Sequence

from sentencex import get_sentence_boundaries

from lagotto.chunkers import CHUNKERS
from lagotto.documents import Chunk, Document, Vectors
from lagotto.embedders import Role
from lagotto.models.tokenizer import ApproximateTokenizer
from tests.counting import CountingEmbedder

PANICS = "plan A\xa0. Because it is."
"""A text that makes sentencex panic."""


class PanickingChunker:
    """Panics at a document with `PANICS`, as a chunker of another package may."""

    id = "panicking"

    def chunk(self, document: Document) -> list[Chunk]:
        get_sentence_boundaries("en", document.text)
        cutter = CHUNKERS.create("recursive:16/0", tokenizer=ApproximateTokenizer())
        return cutter.chunk(document)


class PanickingEmbedder(CountingEmbedder):
    """Panics at a batch of texts with `PANICS` among them."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        for text in texts:
            get_sentence_boundaries("en", text)
        return await super().embed(texts, role=role)
