"""Documents, chunks and hits to make packs from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from lagotto.chunkers import CHUNKERS
from lagotto.context import ContextPack, build_pack, token_counter
from lagotto.documents import Chunk, Document, Page
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.results import RetrievalResult

TOKENIZER = ApproximateTokenizer()
COUNT = token_counter(TOKENIZER)


def cut(document: Document, chunker: str = "recursive:16/4") -> list[Chunk]:
    return CHUNKERS.create(chunker, tokenizer=TOKENIZER).chunk(document)


def to_find(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The chunks that a search could find."""
    return [chunk for chunk in chunks if chunk.level != "parent"]


def hit(chunk: Chunk, rank: int = 1, **fields: Any) -> RetrievalResult:
    given = {
        "rank": rank,
        "score": 1 / rank,
        "content": chunk.text,
        "chunk_id": chunk.id,
        "document_title": None,
        "document_source": "",
    }
    names = ("collection", "document_id", "start", "end", "pages", "heading_path")
    copied = {name: getattr(chunk, name) for name in (*names, "row_range", "item_range")}
    return RetrievalResult.model_validate({**given, **copied, **fields})


def hits(chunks: Iterable[Chunk]) -> list[RetrievalResult]:
    return [hit(chunk, rank) for rank, chunk in enumerate(chunks, 1)]


def paged(*pages: str) -> Document:
    """A document of these pages."""
    regions, text = [], ""
    for number, page in enumerate(pages, 1):
        regions.append(Page(start=len(text), end=len(text) + len(page), number=number))
        text += page
    return Document(text=text, title="Paged", pages=tuple(regions))


class Shelf:
    """Documents and their chunks, as a store gives them; remembers what it was asked for."""

    def __init__(self, *documents: Document, chunker: str = "recursive:16/4") -> None:
        self.documents = {(item.collection, item.id): item for item in documents}
        self.chunks = {name: cut(item, chunker) for name, item in self.documents.items()}

    async def get(self, collection: str, document_id: str) -> Document | None:
        return self.documents.get((collection, document_id))

    def all_to_find(self) -> list[Chunk]:
        return to_find(chunk for chunks in self.chunks.values() for chunk in chunks)

    def pack(self, results: Sequence[RetrievalResult], **options: Any) -> ContextPack:
        known = [chunk for chunks in self.chunks.values() for chunk in chunks]
        settings = {"query": "a question", "chunks": known, "count": COUNT, **options}
        return asyncio.run(build_pack(results=results, **settings))
