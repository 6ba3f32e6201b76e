"""The candidates that rerankers see for the queries of a data set, collected once."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import beir
from beir import Judgements, ndcg, read_jsonl, read_judgements, read_questions
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.embedders import EmbedderInfo, Role, TokenEmbedder
from lagotto.embedders.base import TokenVectors
from lagotto.prefs import BLENDED_JUDGED
from lagotto.readers import Columns
from lagotto.rerankers import UNIT, Candidate, Judgement, Reranker, ScoreScale
from lagotto.rerankers.base import blend_share, mapped

DEPTH = 50
LONG_QUERY = 70
"""Words of a document in a long query."""
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

    def without(self, document: str | None) -> Asked:
        """The same without the candidates of a document."""
        kept = [index for index, name in enumerate(self.documents) if name != document]
        return replace(
            self,
            candidates=[self.candidates[index] for index in kept],
            documents=[self.documents[index] for index in kept],
        )

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


def related_queries(dataset: Path, most: int) -> tuple[Queries, dict[str, str]]:
    """Long queries: a question with the beginning of a relevant document.

    The other relevant documents are right; that one, by the query's id, is to be left out.
    """
    judged = read_judgements(dataset / "qrels.tsv")
    questions = {row["_id"]: row["text"] for row in read_jsonl(dataset / "queries.jsonl")}
    documents = {row["_id"]: row for row in read_jsonl(dataset / "corpus.jsonl")}
    right = {name: sorted(one for one in gains if gains[one] > 0) for name, gains in judged.items()}
    several = sorted(name for name, found in right.items() if len(found) > 1)
    chosen = random.Random(3).sample(several, min(most, len(several)))
    texts = {name: _continued(questions[name], documents[right[name][0]]) for name in chosen}
    others = {name: dict.fromkeys(right[name][1:], 1) for name in chosen}
    return Queries(texts, others), {name: right[name][0] for name in chosen}


def _continued(question: str, document: dict[str, str]) -> str:
    words = f"{document.get('title') or ''} {document['text']}".split()
    return f"{question} {' '.join(words[:LONG_QUERY])}"


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


async def collect(
    dataset: Path,
    queries: Queries,
    *,
    cache: Path | None,
    left_out: Mapping[str, str] | None = None,
) -> list[Asked]:
    """Ask a base of the set's documents all `queries`; `left_out` is a document of a query."""
    embedder = beir.embedder("minilm", cache)
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        base = AsyncKnowledgeBase(Path(folder) / "kb.db", embedder=embedder, reranker=recorder)
        async with base:
            await base.add(dataset / "corpus.jsonl", columns=Columns(id="_id"))
            return [
                (await _ask(base, recorder, text, queries.judged[name])).without(
                    (left_out or {}).get(name)
                )
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


@dataclass(slots=True)
class CachedTokenEmbedder:
    """A token embedder that runs each passage once."""

    inner: TokenEmbedder
    known: dict[str, TokenVectors] = field(default_factory=dict)

    @property
    def info(self) -> EmbedderInfo:
        """As `inner` has it."""
        return self.inner.info

    async def token_vectors(
        self, texts: Sequence[str], *, role: Role = "document"
    ) -> list[TokenVectors]:
        """Those of passages are kept."""
        if role == "query":
            return await self.inner.token_vectors(texts, role=role)
        new = list(dict.fromkeys(text for text in texts if text not in self.known))
        self.known.update(zip(new, await self.inner.token_vectors(new), strict=True))
        return [self.known[text] for text in texts]


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
