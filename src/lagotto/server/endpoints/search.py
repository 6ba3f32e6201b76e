"""The verbs of a search, and the models of a base as services."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal, Self
from uuid import uuid4

import numpy as np
from pydantic import ConfigDict, Field, create_model, model_validator

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto.context import CitedPassage, ContextPack
from lagotto.context.cite import key_of
from lagotto.documents import Record, Span
from lagotto.prefs import MOST_QUERIES, Verb, several_queries
from lagotto.rerankers import create_reranker
from lagotto.rerankers.base import Candidate
from lagotto.results import RetrievalBundle, RetrievalResult, RetrievalStats, ScoreBreakdown
from lagotto.retrieval.documents import Highlighter
from lagotto.server.operations import Call, operation
from lagotto.server.problems import Answer, Problem, invalid_field
from lagotto.server.request_body import SearchBody
from lagotto.server.scoped_base import check_reranker, stats_of

HIGHLIGHTED = 1_000_000
"""Characters of an answer in which words are highlighted, from its first hit on: each word of them
is analysed, about half a second for all."""

DEFAULT_RERANKER = "lexical"

Hit = create_model(
    "Hit",
    __base__=Answer,
    __doc__="A hit, with its citation as one line, its key, and matching words if requested.",
    citation=(str, ...),
    key=(str, ...),
    highlights=(list[Span], Field(default_factory=list)),
    **{name: (field.annotation, field) for name, field in RetrievalResult.model_fields.items()},
)  # type: ignore[call-overload]


class SearchResponse(Answer):
    """What every search answers with: the settings in effect, and what could not be used."""

    query: str
    settings: dict[str, Any]
    degraded: list[str] = Field(default_factory=list)


async def _answer(call: Call, verb: Verb | Literal["why_not"]) -> tuple[Any, dict[str, Any]]:
    """The answer to the search of a request, and the fields of a SearchResponse."""
    request = await call.search_request(verb)
    answer = await call.base.answer(request)
    settings = request.preferences.model_dump(mode="json", exclude={"query_text"})
    degraded = stats_of(answer).degraded
    return answer, {"query": request.query, "settings": settings, "degraded": degraded}


class RetrieveAnswer(SearchResponse):
    """A ranked list; `candidates` are the input of a reranker, none without one."""

    hits: list[Hit]
    candidates: list[RetrievalResult] = Field(default_factory=list)
    stats: RetrievalStats


@operation("POST /v1/retrieve", RetrieveAnswer, heavy=True, permalink=True)
async def retrieve(call: Call, body: SearchBody) -> object:
    """The best passages, as a ranked list."""
    results, common = await _answer(call, "retrieve")
    return {
        **common,
        "hits": await call.off_loop(hits_of, results, body),
        "candidates": results.candidates,
        "stats": results.stats,
    }


class SearchAnswer(RetrievalBundle, SearchResponse):
    """A bundle of documents and evidence."""


@operation("POST /v1/search", SearchAnswer, heavy=True, permalink=True)
async def search(call: Call, body: SearchBody) -> object:
    """The best documents, and passages that support them."""
    bundle, common = await _answer(call, "search")
    return {**common, **dict(bundle)}


class ContextBody(SearchBody):
    """A search for a context pack; several `queries`, in place of `query`, share its budget."""

    query: str = ""
    queries: tuple[str, ...] = Field(default=(), max_length=MOST_QUERIES)
    max_tokens: int | None = Field(default=None, ge=1)
    format: Literal["plain", "markdown", "xml"] = "plain"

    @property
    def largest_count(self) -> int:
        """As for one query, of all of them together."""
        return super().largest_count * max(1, len(self.queries))

    @model_validator(mode="after")
    def _query_or_queries(self) -> Self:
        query = self.query if "query" in self.model_fields_set else None
        several_queries(query, self.queries, self.query_vector)
        return self


class ContextAnswer(ContextPack, SearchResponse):
    """A cited context pack."""


@operation("POST /v1/context", ContextAnswer, heavy=True, permalink=True)
async def context(call: Call, body: ContextBody) -> object:
    """A cited context pack within a token budget."""
    pack, common = await _answer(call, "context")
    return {**common, **dict(pack)}


class WhyNotBody(SearchBody):
    """A search, and the id of a document: why is it there, or why not?"""

    document_id: str = Field(min_length=1, alias="document")


class WhyNotAnswer(SearchResponse):
    """Why a document is, or is not, among the hits."""

    document_id: str
    found: bool
    reason: str
    rank: int | None = None
    breakdown: ScoreBreakdown | None = None
    hits: list[Hit]
    stats: RetrievalStats


@operation("POST /v1/why-not", WhyNotAnswer, heavy=True, permalink=True, problems=(404,))
async def why_not(call: Call, body: WhyNotBody) -> object:
    """Why a document is, or is not, among the hits."""
    explanation, common = await _answer(call, "why_not")
    results = explanation.results
    return {
        **common,
        "document_id": explanation.document_id,
        "found": any(hit.document_id == explanation.document_id for hit in results),
        "reason": explanation.reason,
        "rank": explanation.rank,
        "breakdown": explanation.breakdown,
        "hits": await call.off_loop(hits_of, results, body),
        "stats": results.stats,
    }


def hits_of(results: Sequence[RetrievalResult], body: SearchBody) -> list[dict[str, Any]]:
    """Hits, each with its citation and, if requested, the words in it that match."""
    highlighter, room = Highlighter(body.query), HIGHLIGHTED if body.highlight else 0
    hits = []
    for hit in with_checkpoints(results):
        text = hit.content[:room]
        room -= len(text)
        spans = highlighter.spans(text, language=hit.language) if text else ()
        more = {"citation": hit.citation, "key": key_of(hit), "highlights": spans}
        hits.append({**vars(hit), **more})
    return hits


class ResolveBody(Record):
    """The key of a citation."""

    citation: str


@operation(
    "POST /v1/resolve",
    {"citation": str, "changed": bool, "passage": CitedPassage | None},
    heavy=True,
    permalink=True,
    problems=(404,),
)
async def resolve(call: Call, body: ResolveBody) -> object:
    """The passage that a citation refers to; none if its span is no longer there."""
    passage, changed = await call.base.resolve(body.citation)
    return {"citation": body.citation, "changed": changed, "passage": passage}


class RerankText(Record):
    """A text to rerank, as an object."""

    text: str


class RerankBody(Record):
    """Texts to rerank, as services of this kind take them."""

    model_config = ConfigDict(extra="ignore")

    query: str
    documents: list[str | RerankText]
    model: str | None = None
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False


class RerankItem(Answer):
    """The score of a text, by its index in the request."""

    index: int
    relevance_score: float
    document: dict[str, str] | None = None


@operation("POST /v1/rerank", {"id": str, "model": str, "results": list[RerankItem]}, heavy=True)
async def rerank(call: Call, body: RerankBody) -> object:
    """The relevance of texts for a query, best first.

    Rerankers get the cosine of query and text as the score that a search would give them.
    """
    name = body.model or DEFAULT_RERANKER
    check_reranker(name, call.state.settings)
    texts = [item.text if isinstance(item, RerankText) else item for item in body.documents]
    _check_count(call, texts, field="documents")
    embedder = await call.state.embedder()
    vectors = await embedder.embed([body.query], role="query")
    cosines = (await embedder.embed(texts, role="document")) @ vectors[0]
    pairs = zip(texts, np.clip(cosines, 0.0, 1.0).tolist(), strict=True)
    candidates = [Candidate(str(at), text, score) for at, (text, score) in enumerate(pairs)]
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
    results: list[dict[str, object]] = []
    for score, index in best:
        extra = {"document": {"text": texts[index]}} if body.return_documents else {}
        results.append({"index": index, "relevance_score": score, **extra})
    return {"id": uuid4().hex, "model": name, "results": results}


class EmbeddingsBody(Record):
    """Texts to embed, as services of this kind take them."""

    model_config = ConfigDict(extra="ignore")

    input: str | list[str]
    model: str | None = None
    input_type: Literal["query", "document"] = "document"
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] = "float"


class EmbeddingItem(Answer):
    """A vector: a list of numbers, or float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(Answer):
    """Tokens of the request."""

    prompt_tokens: int
    total_tokens: int


@operation(
    "POST /v1/embeddings",
    {"object": Literal["list"], "model": str, "data": list[EmbeddingItem], "usage": Usage},
    heavy=True,
    problems=(404,),
)
async def embeddings(call: Call, body: EmbeddingsBody) -> object:
    """The vectors of texts."""
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
    rows = vectors.tolist()
    if body.encoding_format == "base64":
        rows = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
    tokens = sum(await in_thread(embedder.tokenizer.count, texts))
    data = [
        {"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": model, "data": data, "usage": usage}


def _check_count(call: Call, texts: list[str], *, field: str) -> None:
    most = call.state.settings.max_texts
    if len(texts) > most:
        raise invalid_field(field, f"{len(texts)} texts are more than {most}, the most here")
