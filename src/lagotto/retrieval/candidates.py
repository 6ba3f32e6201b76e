"""Stored chunks as candidates: the query is planned, the legs are asked, their scores fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from lagotto._internal.concurrency import in_thread
from lagotto._internal.display import counted
from lagotto.documents import Chunk, Vector
from lagotto.embedders import Embedder
from lagotto.errors import RetrievalError
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.text_query import TextQuery, as_word, single_words
from lagotto.prefs import RetrievalPrefs
from lagotto.rerankers.base import Reranker
from lagotto.results import FusionInputs, Leg
from lagotto.retrieval.documents import FoundDocument, collapse, rank_documents
from lagotto.retrieval.explain import Diagnostics, raise_unless
from lagotto.retrieval.fusion import (
    Candidates,
    Fused,
    HybridScorer,
    LegScores,
    Scores,
    damping,
    fuse,
    semantic_lead,
)
from lagotto.retrieval.late import LateChunking
from lagotto.retrieval.plan import QueryPlan, QueryPlanner
from lagotto.retrieval.query.expansion import (
    Expander,
    Expansion,
    feedback_candidates,
    feedback_terms,
)
from lagotto.retrieval.ranking import ChunkSource, Ranked, Rows, document_of, rank
from lagotto.retrieval.recall import FusionPlan, Recall, boost
from lagotto.stores.base import Capabilities, ItemRepo, Passage, View

DEEPER = 4
"""How much deeper to search where the chunks found are of too few documents."""


DAMPED: tuple[Leg, ...] = ("text", "fuzzy")
"""The legs whose scores are divided by the best of them."""


@dataclass(frozen=True, slots=True)
class Components:
    """The parts that a search works with besides a view of the store.

    `items` has the documents for late chunking, None for those of the view.
    """

    embedder: Embedder
    capabilities: Capabilities
    late: LateChunking
    reranker: Reranker | None = None
    expander: Expander | None = None
    scorer: HybridScorer = fuse
    items: ItemRepo | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """What the legs found among the stored chunks; `view` leaves out what the query excludes.

    `exact` is the exact leg as it was found, before it was boosted.
    """

    view: View
    plan: QueryPlan
    recall: Recall
    candidates: Candidates
    fused: Fused
    exact: LegScores | None = None


@dataclass(frozen=True, slots=True)
class RecalledDocuments:
    """Candidates, and the documents they are of: the best ones, best first, of `total`.

    `rows` are the candidates of these documents.
    """

    recalled: Recalled
    documents: Sequence[FoundDocument]
    rows: Rows
    total: int


class StoredCandidates:
    """Finds the candidates of one query in one view; every passage is read once."""

    def __init__(
        self, view: View, prefs: RetrievalPrefs, components: Components, diagnostics: Diagnostics
    ) -> None:
        self._view = view
        self._prefs = prefs
        self._parts = components
        self._diagnostics = diagnostics
        self._passages: dict[int, Passage] = {}
        self._unreadable: set[int] = set()

    async def recall(
        self, *, depth: int, passages: int | None, vector: Vector | None = None
    ) -> Recalled:
        """What the legs find, `depth` chunks each, fused; twice where feedback is asked for.

        `passages` is how many of the best will be read, None for all.
        """
        expansion = await self._expansion()
        found = await self._search(await self._plan(vector, expansion, passages), depth)
        if not self._prefs.expansion.feedback or found.plan.legs.text is None:
            return found
        with self._diagnostics.stage("expand"):
            expansion = await self._feedback(found, expansion)
        return await self._search(await self._plan(vector, expansion, passages), depth)

    async def recall_documents(
        self, count: int, *, depth: int, threshold: float, vector: Vector | None = None
    ) -> RecalledDocuments:
        """The best `count` documents with a score of `threshold` or more, and their candidates.

        Searches deeper until there are as many documents, or no more to be found.
        """
        found = await self.recall(depth=depth, passages=None, vector=vector)
        while True:
            with self._diagnostics.stage("group"):
                passages = await self.read(found.view, found.candidates.keys)
                groups = collapse(found.candidates, passages)
            full = [np.count_nonzero(leg.ranks) >= depth for leg in found.candidates.legs.values()]
            if len(groups.documents) >= count or not any(full):
                break
            depth *= DEEPER
            found = await self._search((found.view, found.plan, found.recall), depth)
        with self._diagnostics.stage("group"):
            fused = self.fuse(groups.candidates, found.plan)
            chunks = await self._best_chunks(found)
            documents = await in_thread(rank_documents, groups, fused, chunks)
        best = [item for item in documents[:count] if item.score >= threshold]
        return RecalledDocuments(found, best, groups.rows_of(best), len(documents))

    async def _best_chunks(self, found: Recalled) -> dict[tuple[str, str], Chunk]:
        """The best candidate of each document."""
        scores, everything = found.fused.scores, len(found.candidates.keys)
        ranked = await self._rank(found, scores, count=everything)
        return {document_of(item): item.passage.chunk for item in reversed(ranked)}

    async def _rank(self, found: Recalled, scores: Scores, *, count: int) -> list[Ranked]:
        read = partial(self.read, found.view)
        return await rank(read, found.candidates, scores, count=count)

    async def read(self, source: ChunkSource, keys: ChunkKeys) -> list[Passage]:
        """The passages of `keys`, those that were read before from memory."""
        known = self._passages.keys() | self._unreadable
        missing = [key for key in keys.tolist() if key not in known]
        if missing:
            found = await source.passages(np.array(missing, np.int64))
            self._passages |= {passage.key: passage for passage in found}
            self._unreadable |= set(missing) - self._passages.keys()
            if self._unreadable:
                what = f"{counted(len(self._unreadable), 'chunk')} can't be read"
                self._diagnostics.note("record", f"{what}; `lagotto doctor` names the documents")
        return [self._passages[key] for key in keys.tolist() if key in self._passages]

    def fuse(self, candidates: Candidates, plan: QueryPlan) -> Fused:
        """One score from those of the legs."""
        scoring, damping = self._prefs.scoring, plan.damping
        return self._parts.scorer(
            candidates, plan.weights, scoring, floor=self._floor, damping=damping
        )

    def fuse_boosted(
        self, candidates: Candidates, plan: QueryPlan
    ) -> tuple[Candidates, QueryPlan, Fused]:
        """As `fuse`, with exact wordings that a query merely mentions boosted just far enough."""
        mentioned = plan.legs.exact and plan.legs.exact.mentioned and "exact" in candidates.legs
        if mentioned and plan.weights["exact"]:
            rest = self.fuse(candidates, replace(plan, weights={**plan.weights, "exact": 0.0}))
            candidates, weight = boost(candidates, plan.damped_weights(), rest.scores)
            plan = replace(plan, weights={**plan.weights, "exact": weight})
        return candidates, plan, self.fuse(candidates, plan)

    @property
    def _floor(self) -> float:
        """The cosine of unrelated texts."""
        by_cosine = self._prefs.vector.distance == "cosine"
        return self._parts.embedder.info.cosine_floor if by_cosine else 0.0

    async def _plan(
        self, vector: Vector | None, expansion: Expansion | None, passages: int | None
    ) -> tuple[View, QueryPlan, Recall]:
        """What each leg is asked, in the view without what the query excludes."""
        with self._diagnostics.stage("plan"):
            planner = QueryPlanner(
                self._view,
                self._prefs,
                embedder=self._parts.embedder,
                capabilities=self._parts.capabilities,
                diagnostics=self._diagnostics,
            )
            plan = await planner.plan(vector=vector, expansion=expansion)
            view = self._view
            if plan.excluded is not None:
                view = await view.excluding(plan.excluded)
        fusion = FusionPlan(plan.weights, self._floor, passages)
        return view, plan, Recall(view, plan.legs, self._prefs, plan=fusion)

    async def _search(self, planned: tuple[View, QueryPlan, Recall], depth: int) -> Recalled:
        """What the legs find, fused."""
        view, plan, recall = planned
        with self._diagnostics.stage("recall"):
            candidates = await recall.candidates(depth=depth, diagnostics=self._diagnostics)
        with self._diagnostics.stage("fuse"):
            plan = replace(plan, damping=await self._damping(view, plan, candidates))
            exact = candidates.legs.get("exact")
            candidates, boosted, fused = self.fuse_boosted(candidates, plan)
        return Recalled(view, boosted, recall, candidates, fused, exact)

    def fusion_inputs(self, found: Recalled, names: Mapping[int, str]) -> FusionInputs:
        """What the fused scores depend on besides the scores; `names` are chunk ids by key."""
        plan, asked = found.plan, self._prefs.scoring.weights(found.plan.type)
        ran = [leg for leg in plan.legs.active() if leg != "exact" and asked[leg]]
        holders: dict[str, int] = {}
        kind: Literal["given", "sum", "boosted"] | None = None
        if plan.legs.exact is not None:
            kind = "sum" if self._prefs.scoring.w_exact is None else "given"
        if plan.legs.exact is not None and plan.legs.exact.mentioned and found.exact is not None:
            kind = "boosted" if asked["exact"] else kind
            keys, ranks = found.candidates.keys, found.exact.ranks
            rows = np.flatnonzero(found.exact.scores > 0).tolist()
            named = ((names.get(int(keys[row])), int(ranks[row])) for row in rows)
            holders = {name: rank for name, rank in named if name is not None}
        return FusionInputs(
            weights=asked,
            factors={leg: plan.weights[leg] / asked[leg] for leg in ran},
            damping=dict(plan.damping),
            floor=self._floor,
            depth=found.candidates.depth,
            exact=kind,
            holders=holders if kind == "boosted" else {},
        )

    async def _damping(
        self, view: View, plan: QueryPlan, candidates: Candidates
    ) -> dict[Leg, float]:
        """The factors for legs of words whose best match is weak.

        Only where their best match would count 1 whatever it is, beside absolute cosines.
        """
        scoring, semantic = self._prefs.scoring, candidates.legs.get("semantic")
        absolute = scoring.blend == "linear" and scoring.normalize == "absolute"
        by_cosine = self._prefs.vector.distance == "cosine"
        if not (scoring.adapt and absolute and by_cosine) or semantic is None:
            return {}
        clear = semantic_lead(semantic, floor=self._floor)
        queries = {"text": plan.legs.text, "fuzzy": plan.legs.fuzzy} if clear else {}
        factors: dict[Leg, float] = {}
        for leg in DAMPED:
            query, found = queries.get(leg), candidates.legs.get(leg)
            if isinstance(query, TextQuery) and query.native is None and found is not None:
                words = [word for word in query.words if word]
                idfs = await view.idf([as_word(word) for word in words])
                weights = [max(term.weight for term in word) for word in words]
                best = float(np.nan_to_num(found.scores).max(initial=0.0))
                factors[leg] = damping(best, (idfs * weights).tolist(), semantic_lead=clear)
        return factors

    async def _expansion(self) -> Expansion | None:
        if self._parts.expander is None:
            return None
        try:
            with self._diagnostics.stage("expand"):
                return await self._parts.expander.expand(self._prefs.query_text)
        except Exception as exc:  # noqa: BLE001 an expander of another package may raise anything
            raise_unless(RetrievalError, exc)
            self._diagnostics.note("expansion", f"left out ({exc})", cause=exc)
            return None

    async def _feedback(self, found: Recalled, expansion: Expansion | None) -> Expansion:
        """The words that the best passages of a first recall have in common."""
        asked = self._prefs.expansion
        best = await self._rank(found, found.fused.scores, count=asked.feedback_passages)
        texts = [item.passage.chunk.text for item in best]
        main = next(iter(found.view.languages), None)
        languages = [item.passage.document.language or main for item in best]
        terms = feedback_candidates(texts, languages)
        idf = await found.view.idf(single_words(terms))
        added = feedback_terms(
            texts,
            [item.score for item in best],
            languages,
            dict(zip(terms, idf.tolist(), strict=True)),
            asked.feedback_terms,
            known=_terms_of(found.plan.legs.text),
        )
        given = expansion or Expansion()
        return replace(given, terms=given.terms + added)


def _terms_of(query: TextQuery | None) -> set[str]:
    return {term.text for word in query.words for term in word} if query else set()
