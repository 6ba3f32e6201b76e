"""Context packs from chunks that are in no base."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagotto._internal.tokens import Tokenizer
from lagotto.base.parts import DEFAULT_EMBEDDER
from lagotto.base.protocol import FilterLike
from lagotto.context import ContextPack, PackFormat, TokenCounter, as_pack, token_counter
from lagotto.documents import Chunk, Document
from lagotto.embedders import Embedder, create_embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import ConfigError
from lagotto.prefs import RetrievalPrefs, SearchRequest
from lagotto.readers.language import detect_language
from lagotto.request_context import RequestContext
from lagotto.rerankers import Reranker
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.base import Entry
from lagotto.stores.memory import MemoryStore

GAP = " "
"""What stands for the text between chunks, which is not known."""


async def context_of_chunks(
    query: str,
    all_chunks: Iterable[Chunk],
    *,
    documents: Iterable[Document] = (),
    filters: FilterLike = None,
    prefs: RetrievalPrefs | str | None = None,
    embedder: str | Embedder = DEFAULT_EMBEDDER,
    reranker: str | Reranker | None = None,
    format: PackFormat = "plain",  # noqa: A002
    counter: TokenCounter | Tokenizer | str | None = None,
    request: RequestContext | None = None,
    **settings: Any,
) -> ContextPack:
    """Return what `context` of a base with these chunks would: cited passages for a prompt.

    Parents and neighbours are looked for among `all_chunks`. `documents` have the titles and the
    metadata of the chunks' documents, if citations or filters need them; their texts are not used.
    An embedder and a reranker that are passed as objects stay open.
    """
    model = create_embedder(embedder)
    options = settings if filters is None else {**settings, "filters": filters}
    search = SearchRequest(
        "context", query, prefs, options, context=request or RequestContext(), format=format
    ).resolve(RetrievalPrefs())
    store = MemoryStore()
    retriever = HybridRetriever(store=store, embedder=model, reranker=reranker)
    try:
        await store.write(await _entries(all_chunks, documents, ChunkEmbedder(model)))
        outcome = await retriever.run(search)
    finally:
        if reranker is None or isinstance(reranker, str):
            await retriever.close()
        if isinstance(embedder, str):
            await model.close()
    return await as_pack(outcome, count=token_counter(counter or model.tokenizer))


async def _entries(
    chunks: Iterable[Chunk], documents: Iterable[Document], vectors: ChunkEmbedder
) -> list[Entry]:
    by_ref = {(document.collection, document.id): document for document in documents}
    groups: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in sorted(chunks, key=lambda one: (one.level != "parent", one.ordinal)):
        groups.setdefault((chunk.collection, chunk.document_id), []).append(chunk)
    works = [(_document(name, group, by_ref), group) for name, group in groups.items()]
    matrices = await vectors.embed(works)
    return [
        Entry(document, group, rows, vectors.model_id)
        for (document, group), rows in zip(works, matrices, strict=True)
    ]


def _document(
    name: tuple[str, str], chunks: Sequence[Chunk], by_ref: Mapping[tuple[str, str], Document]
) -> Document:
    """The document of chunks: what is known of it, and their texts where they stand in it."""
    text = [GAP] * max(chunk.end for chunk in chunks)
    for chunk in chunks:
        if len(chunk.text) == chunk.end - chunk.start:
            text[chunk.start : chunk.end] = chunk.text
    whole = "".join(text)
    wrong = next((one for one in chunks if whole[one.start : one.end] != one.text), None)
    if wrong is not None:
        raise ConfigError(
            f"the chunk {wrong.id} of {wrong.document_id} has another text than its offsets "
            f"{wrong.start}-{wrong.end} or an overlapping chunk say; cut the document again"
        )
    collection, document_id = name
    described = by_ref.get(name) or Document(id=document_id, collection=collection, text=whole)
    derived = {"text", "content_hash", "pages", "headings", "blocks"}
    fields = {"language": detect_language(whole)} | described.model_dump(
        exclude=derived, exclude_none=True
    )
    return Document(**fields, text=whole)
