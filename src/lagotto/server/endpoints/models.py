"""The models of a base as services: rerank and embeddings, in the shapes that clients know."""

from __future__ import annotations

import base64
from uuid import uuid4

import numpy as np

from lagotto.documents import Vectors
from lagotto.embedders import Embedder
from lagotto.rerankers import create_reranker
from lagotto.rerankers.base import Candidate
from lagotto.server.answers import EmbeddingsAnswer, RerankAnswer
from lagotto.server.bodies import EmbeddingsBody, RerankBody, RerankText
from lagotto.server.operations import Call, Operation
from lagotto.server.problems import FieldProblem, Problem
from lagotto.server.scoped_base import check_reranker

DEFAULT_RERANKER = "lexical"


async def rerank(call: Call) -> object:
    """Answer with the relevance of each text, best first.

    Rerankers get the cosine of query and text as the score that a search would give them.
    """
    body: RerankBody = call.body
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


async def embeddings(call: Call) -> object:
    """Answer with the vector of each text."""
    body: EmbeddingsBody = call.body
    texts = [body.input] if isinstance(body.input, str) else body.input
    _check_count(call, texts, field="input")
    embedder = await call.state.embedder()
    model = embedder.info.model_id
    if body.model not in (None, model):
        raise Problem("NotFound", f"the model of this base is {model!r}; leave the model out")
    dimension = embedder.info.dimension
    if body.dimensions not in (None, dimension):
        detail = f"the vectors of this model have {dimension} dimensions; leave it out"
        field = FieldProblem(pointer="/dimensions", detail=detail)
        raise Problem("InvalidRequest", f"/dimensions: {detail}", fields=[field])
    vectors = await embedder.embed(texts, role=body.input_type)
    tokens = sum(embedder.tokenizer.count(texts))
    data = [
        {"object": "embedding", "index": index, "embedding": _written(row, body)}
        for index, row in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": model, "data": data, "usage": usage}


async def _candidates(embedder: Embedder, query: str, texts: list[str]) -> list[Candidate]:
    if not texts:
        return []
    asked = await embedder.embed([query], role="query")
    cosines = (await embedder.embed(texts, role="document")) @ asked[0]
    scores = np.clip(cosines, 0.0, 1.0).tolist()
    return [
        Candidate(id=str(index), text=text, score=score)
        for index, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]


def _written(row: Vectors, body: EmbeddingsBody) -> list[float] | str:
    if body.encoding_format == "float":
        return [float(number) for number in row]
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _check_count(call: Call, texts: list[str], *, field: str) -> None:
    most = call.state.settings.max_texts
    if len(texts) > most:
        detail = f"{len(texts)} texts are more than {most}, the most here"
        found = FieldProblem(pointer=f"/{field}", detail=detail)
        raise Problem("InvalidRequest", detail, fields=[found])


OPERATIONS = (
    Operation(
        "POST", "/v1/rerank", "rerank", "The relevance of texts for a query.",
        rerank, RerankAnswer, body=RerankBody, heavy=True,
    ),
    Operation(
        "POST", "/v1/embeddings", "embeddings", "The vectors of texts.",
        embeddings, EmbeddingsAnswer, body=EmbeddingsBody, heavy=True, problems=(404,),
    ),
)  # fmt: skip
