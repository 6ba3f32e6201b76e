"""The verbs of a search, and the models of a base as services."""

from __future__ import annotations

import base64
from typing import Any, Literal
from uuid import uuid4

import numpy as np

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto.context import CitedPassage, ContextPack
from lagotto.context.cite import key_of
from lagotto.documents import Vectors
from lagotto.embedders import Embedder
from lagotto.prefs import SearchRequest
from lagotto.rerankers import create_reranker
from lagotto.rerankers.base import Candidate
from lagotto.results import Results, RetrievalBundle, RetrievalStats
from lagotto.retrieval.documents import Highlighter
from lagotto.retrieval.why_not import WhyNot
from lagotto.server.operations import Call, operation
from lagotto.server.problems import Problem, invalid_field
from lagotto.server.request_body import (
    ContextBody,
    EmbeddingsBody,
    RerankBody,
    RerankText,
    ResolveBody,
    SearchBody,
    WhyNotBody,
)
from lagotto.server.responses import (
    ContextAnswer,
    EmbeddingItem,
    RerankItem,
    RetrieveAnswer,
    SearchAnswer,
    Usage,
    WhyNotAnswer,
)
from lagotto.server.scoped_base import check_reranker

HIGHLIGHTED = 1_000_000
"""Characters of an answer in which words are highlighted, from its first hit on: each word of them
is analysed, about half a second for all."""


@operation("POST /v1/retrieve", RetrieveAnswer, takes=SearchBody, heavy=True, permalink=True)
async def retrieve(call: Call) -> object:
    """The best passages, as a ranked list."""
    request = await call.search_request("retrieve")
    found: Results = await call.base.answer(request)
    return {
        **_in_effect(request, found.stats),
        "hits": await call.off_loop(hits_of, found, call.arguments),
        "candidates": found.candidates,
        "stats": found.stats,
    }


@operation("POST /v1/search", SearchAnswer, takes=SearchBody, heavy=True, permalink=True)
async def search(call: Call) -> object:
    """The best documents, and passages that support them."""
    request = await call.search_request("search")
    bundle: RetrievalBundle = await call.base.answer(request)
    return {**_in_effect(request, bundle.stats), **dict(bundle)}


@operation("POST /v1/context", ContextAnswer, takes=ContextBody, heavy=True, permalink=True)
async def context(call: Call) -> object:
    """A cited context pack within a token budget."""
    request = await call.search_request("context")
    pack: ContextPack = await call.base.answer(request)
    return {**_in_effect(request, pack.trace.stats), **dict(pack)}


@operation(
    "POST /v1/why-not",
    WhyNotAnswer,
    takes=WhyNotBody,
    heavy=True,
    permalink=True,
    problems=(404,),
)
async def why_not(call: Call) -> object:
    """Why a document is, or is not, among the hits."""
    request = await call.search_request("why_not")
    found: WhyNot = await call.base.answer(request)
    results = found.results
    return {
        **_in_effect(request, results.stats),
        "document_id": found.document_id,
        "found": any(hit.document_id == found.document_id for hit in results),
        "reason": found.reason,
        "rank": found.rank,
        "breakdown": found.breakdown,
        "hits": await call.off_loop(hits_of, results, call.arguments),
        "stats": results.stats,
    }


@operation(
    "POST /v1/resolve",
    {"citation": str, "changed": bool, "passage": CitedPassage | None},
    takes=ResolveBody,
    heavy=True,
    permalink=True,
    problems=(404,),
)
async def resolve(call: Call) -> object:
    """The passage that a citation refers to; none if its span is no longer there."""
    citation = call.arguments.citation
    passage, changed = await call.base.resolve(citation)
    return {"citation": citation, "changed": changed, "passage": passage}


def hits_of(found: Results, body: SearchBody) -> list[dict[str, Any]]:
    """Hits, each with its citation and, if requested, the words in it that match."""
    highlighter, room = Highlighter(body.query), HIGHLIGHTED if body.highlight else 0
    hits = []
    for hit in with_checkpoints(found):
        text = hit.content[:room]
        room -= len(text)
        hits.append(
            {
                **vars(hit),
                "citation": hit.citation,
                "key": key_of(hit),
                "highlights": highlighter.spans(text, language=hit.language) if text else (),
            }
        )
    return hits


def _in_effect(request: SearchRequest, stats: RetrievalStats) -> dict[str, Any]:
    """What every search answers with: all settings, and what could not be used."""
    settings = request.preferences.model_dump(mode="json", exclude={"query_text"})
    return {"query": request.query, "settings": settings, "degraded": stats.degraded}


DEFAULT_RERANKER = "lexical"


@operation(
    "POST /v1/rerank",
    {"id": str, "model": str, "results": list[RerankItem]},
    takes=RerankBody,
    heavy=True,
)
async def rerank(call: Call) -> object:
    """The relevance of texts for a query, best first.

    Rerankers get the cosine of query and text as the score that a search would give them.
    """
    body: RerankBody = call.arguments
    name = body.model or DEFAULT_RERANKER
    check_reranker(name, call.state.settings)
    texts = [item.text if isinstance(item, RerankText) else item for item in body.documents]
    _check_count(call, texts, field="documents")
    embedder = await call.state.embedder()
    candidates = await _candidates(embedder, body.query, texts)
    reranker = create_reranker(name, embedder=embedder)
    try:
        judged = await reranker.rerank(body.query, candidates)
    finally:
        await reranker.close()
    verdicts = judged.verdicts or [None] * len(texts)
    scored = [
        (reranker.scale.unit(verdict.score) if verdict else candidate.score, index)
        for index, (verdict, candidate) in enumerate(zip(verdicts, candidates, strict=True))
    ]
    best = sorted(scored, key=lambda item: (-item[0], item[1]))[: body.top_n]
    results = [
        {
            "index": index,
            "relevance_score": score,
            **({"document": {"text": texts[index]}} if body.return_documents else {}),
        }
        for score, index in best
    ]
    return {"id": uuid4().hex, "model": name, "results": results}


@operation(
    "POST /v1/embeddings",
    {"object": Literal["list"], "model": str, "data": list[EmbeddingItem], "usage": Usage},
    takes=EmbeddingsBody,
    heavy=True,
    problems=(404,),
)
async def embeddings(call: Call) -> object:
    """The vectors of texts."""
    body: EmbeddingsBody = call.arguments
    texts = [body.input] if isinstance(body.input, str) else body.input
    _check_count(call, texts, field="input")
    embedder = await call.state.embedder()
    model = embedder.info.model_id
    if body.model not in (None, model):
        raise Problem("NotFound", f"the model of this base is {model!r}; leave the model out")
    dimension = embedder.info.dimension
    if body.dimensions not in (None, dimension):
        detail = f"the vectors of this model have {dimension} dimensions; leave it out"
        raise invalid_field("dimensions", detail)
    vectors = await embedder.embed(texts, role=body.input_type)
    tokens = sum(await in_thread(embedder.tokenizer.count, texts))
    data = [
        {"object": "embedding", "index": index, "embedding": _written(row, body)}
        for index, row in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": model, "data": data, "usage": usage}


async def _candidates(embedder: Embedder, query: str, texts: list[str]) -> list[Candidate]:
    if not texts:
        return []
    vectors = await embedder.embed([query], role="query")
    cosines = (await embedder.embed(texts, role="document")) @ vectors[0]
    scores = np.clip(cosines, 0.0, 1.0).tolist()
    return [
        Candidate(id=str(index), text=text, score=score)
        for index, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]


def _written(row: Vectors, body: EmbeddingsBody) -> list[float] | str:
    if body.encoding_format == "float":
        numbers: list[float] = row.tolist()
        return numbers
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _check_count(call: Call, texts: list[str], *, field: str) -> None:
    most = call.state.settings.max_texts
    if len(texts) > most:
        raise invalid_field(field, f"{len(texts)} texts are more than {most}, the most here")
