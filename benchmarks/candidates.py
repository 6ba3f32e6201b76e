"""The candidates that rerankers see for the queries of a data set, collected once."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import beir
from beir import Judgements, ndcg, read_jsonl, read_judgements, read_questions
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.prefs import BLENDED_JUDGED
from lagotto.readers import Columns
from lagotto.rerankers import UNIT, Candidate, Judgement, Reranker, ScoreScale
from lagotto.rerankers.base import blend_share, mapped

DEPTH = 50
SAMPLE = 1000
"""Of a set with more queries this many are for testing, the same ones as in quality.py."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries by id, and which documents are right for them."""

    texts: dict[str, str]
    judged: Judgements


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, its candidates best first, the document of each, and which are right."""

    query: str
    candidates: Sequence[Candidate]
    documents: Sequence[str]
    judged: dict[str, int]

    def ndcg(self, scores: Sequence[float]) -> float:
        """nDCG@10 of the documents, each at the rank of its best candidate."""
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        ranking = list(dict.fromkeys(self.documents[index] for index in order))
        return ndcg(ranking, self.judged, depth=10)

    def relevant(self) -> NDArray[np.float64]:
        """1 for a candidate of a right document, 0 for others."""
        gains = [self.judged.get(name, 0) > 0 for name in self.documents]
        return np.array(gains, dtype=np.float64)


def training_queries(dataset: Path, *, most: int, banned: set[str]) -> Queries:
    """Queries that no test uses: the set's own training part, or what its sample leaves over."""
    if (dataset / "qrels_train.tsv").is_file():
        judged = read_judgements(dataset / "qrels_train.tsv")
        rows = read_jsonl(dataset / "queries_train.jsonl")
    else:
        judged = read_judgements(dataset / "qrels.tsv")
        rows = read_jsonl(dataset / "queries.jsonl")
        banned = banned | read_questions(dataset, SAMPLE)[0].keys()
    texts = {row["_id"]: row["text"] for row in rows if row["_id"] in judged.keys() - banned}
    chosen = random.Random(1).sample(sorted(texts), min(most, len(texts)))
    return Queries({name: texts[name] for name in chosen}, judged)


@dataclass(slots=True)
class Recorder:
    """A reranker that notes what it was given and changes nothing."""

    seen: list[Candidate] = field(default_factory=list)

    @property
    def id(self) -> str:
        """There is one."""
        return "recorder"

    @property
    def scale(self) -> ScoreScale:
        """It never scores."""
        return UNIT

    @property
    def reads_only_text(self) -> bool:
        """It reads nothing."""
        return True

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """No verdicts."""
        self.seen = list(candidates)
        return Judgement(None)

    async def close(self) -> None:
        """Nothing to free."""


async def collect(dataset: Path, queries: Queries, *, cache: Path | None) -> list[Asked]:
    """Ask a base of the set's documents all `queries`."""
    embedder = beir.embedder("minilm", cache)
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        base = AsyncKnowledgeBase(Path(folder) / "kb.db", embedder=embedder, reranker=recorder)
        async with base:
            await base.add(dataset / "corpus.jsonl", columns=Columns(id="_id"))
            return [
                await _ask(base, recorder, text, queries.judged[name])
                for name, text in queries.texts.items()
            ]


async def _ask(
    base: AsyncKnowledgeBase, recorder: Recorder, text: str, judged: dict[str, int]
) -> Asked:
    recorder.seen = []
    hits = await base.retrieve(text, top_k=DEPTH, rerank={"candidates": DEPTH})
    document_of = {hit.chunk_id: hit.document_id for hit in hits}
    candidates = recorder.seen
    return Asked(text, candidates, [document_of[one.id] for one in candidates], judged)


async def scores(reranker: Reranker, asked: Asked) -> list[float]:
    """What a reranker makes of the candidates, in [0, 1]; what it takes out comes last."""
    fused = [one.score for one in asked.candidates]
    if reranker.scale.blended:
        return await _blended(reranker, asked, fused)
    judgement = await reranker.rerank(asked.query, asked.candidates)
    if judgement.verdicts is None:
        return fused
    return [
        -1.0 if verdict is None else reranker.scale.unit(verdict.score)
        for verdict in judgement.verdicts
    ]


async def _blended(reranker: Reranker, asked: Asked, fused: list[float]) -> list[float]:
    """As a search does it: the best are judged, and the others follow."""
    seen = asked.candidates[:BLENDED_JUDGED]
    judgement = await reranker.rerank(asked.query, seen)
    if judgement.verdicts is None:
        return fused
    own = [verdict.score for verdict in judgement.verdicts if verdict is not None]
    share = blend_share(asked.query)
    pairs = zip(fused, mapped(own, fused[: len(seen)]), strict=False)
    return [(1 - share) * one + share * other for one, other in pairs] + fused[len(seen) :]
