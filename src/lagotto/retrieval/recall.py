"""Recall: the legs side by side, every leg's exact score for every candidate, and one of all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import in_thread
from lagotto._internal.display import counted
from lagotto.documents import Vector
from lagotto.embedders import Embedder
from lagotto.errors import RetrievalError, StoreError
from lagotto.indexes.base import ChunkKeys, Hits
from lagotto.indexes.text_query import TextQuery, as_word, single_words
from lagotto.prefs import Distance, RetrievalPrefs
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
from lagotto.retrieval.plan import ExactQuery, LegQueries, QueryPlan, QueryPlanner, TrigramTextQuery
from lagotto.retrieval.query.expansion import (
    Expander,
    Expansion,
    feedback_candidates,
    feedback_terms,
)
from lagotto.retrieval.stages import ChunkSource, Ranked, Rows, best_rows, document_of, rank
from lagotto.stores.base import Capabilities, HybridQuery, ItemRepo, Passage, Scale, View
from lagotto.terms.vocabulary import distinct

if TYPE_CHECKING:
    from lagotto.retrieval.late import ChunkMaker

BOOSTED_RANK = 3
"""The rank to which a wording that is merely mentioned boosts the best passage that holds it."""

AHEAD = 1e-6
"""How far the score of a passage that is boosted to the first rank is above that of the others."""


def boost(
    candidates: Candidates, weights: Mapping[Leg, float], rest: Scores, exact: ExactQuery
) -> tuple[Candidates, float]:
    """The exact leg, and just the weight that boosts the best holder to its rank.

    That is the first if it holds an identifier that hardly any other passage holds, else
    `BOOSTED_RANK`. `rest` are the scores without that leg. Where a holder has that rank already,
    the leg has no weight and nothing changes; else the best one gets what it lacks, and the others
    nothing.
    """
    leg = candidates.legs["exact"]
    holders, wanted_rank = holders_of(candidates, exact)
    best = rest[holders].max()
    others = sum(weights[name] for name in candidates.legs if name != "exact")
    if wanted_rank == 1:
        wanted = rest[~holders].max(initial=0.0) + AHEAD
    else:
        wanted = np.sort(rest)[-min(wanted_rank, len(rest))]
    chosen = holders & (rest == best)
    boosted = LegScores(chosen.astype(np.float64), np.where(chosen, leg.ranks, 0))
    legs = {**candidates.legs, "exact": boosted}
    lacking = max(0.0, float(wanted - best)) * others
    return replace(candidates, legs=legs), lacking


def holders_of(candidates: Candidates, exact: ExactQuery) -> tuple[NDArray[np.bool_], int]:
    """Which candidates a mentioned wording boosts the best of, and to which rank."""
    held = candidates.legs["exact"].scores > 0
    if exact.decisive is not None:
        decisive = held & np.isin(candidates.keys, exact.decisive)
        if decisive.any():
            return decisive, 1
    return held, BOOSTED_RANK


def listed(found: Hits, keys: ChunkKeys, *, rest: NDArray[np.float32] | None = None) -> LegScores:
    """A leg's scores and ranks for all of `keys`: its own list, and `rest` for the others.

    A score that is not known is NaN.
    """
    scores = np.full(len(keys), np.nan) if rest is None else rest.astype(np.float64)
    ranks = np.zeros(len(keys), np.int64)
    rows = np.searchsorted(keys, found.keys)
    scores[rows] = found.scores
    # Equal scores have equal ranks: their order in the list is that in which they came in.
    ranks[rows] = 1 + np.searchsorted(-found.scores, -found.scores)
    return LegScores(scores, ranks)


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How candidates will be fused, and how many passages will be read; None for all.

    `floor` is where the embedder's cosines of unrelated texts start.
    """

    weights: Mapping[Leg, float]
    floor: float
    passages: int | None


class Recall:
    """One query's legs on one view; with a plan they may become a single query."""

    def __init__(
        self,
        view: View,
        queries: LegQueries,
        prefs: RetrievalPrefs,
        diagnostics: Diagnostics | None = None,
        *,
        plan: FusionPlan | None = None,
    ) -> None:
        self.view = view
        self._queries = queries
        self._prefs = prefs
        self._diagnostics = diagnostics or Diagnostics()
        self._plan = plan

    async def candidates(self, *, depth: int) -> Candidates:
        """The best `depth` chunks of each leg, with the score of every leg for each of them.

        A leg that fails is noted and left out, unless it was the only one.
        """
        with self._diagnostics.stage("recall"):
            if (both := await self._single_query(depth)) is not None:
                return both
            legs = self._queries.active()
            outcomes: list[Hits | StoreError] = []
            if self.view.immediate:  # one by one costs less than side by side
                for leg in legs:
                    outcomes.append(await self._search(leg, depth))
            else:
                outcomes = await asyncio.gather(*(self._search(leg, depth) for leg in legs))
            lists = self._usable(dict(zip(legs, outcomes, strict=True)))
            found = [hits.keys for hits in lists.values()]
            keys = distinct(np.concatenate([np.empty(0, np.int64), *found]))
            scores = {leg: listed(hits, keys) for leg, hits in lists.items()}
            if self._prefs.scoring.fill and self.view.immediate:
                for leg in scores:
                    await self._fill(leg, scores[leg], keys)
            elif self._prefs.scoring.fill:
                await asyncio.gather(*(self._fill(leg, scores[leg], keys) for leg in scores))
            return Candidates(keys, scores, depth)

    async def _single_query(self, depth: int) -> Candidates | None:
        """Both legs in one query, if there are no others and the store can do so."""
        query = self._hybrid_query(depth)
        if query is None or self.view.native is None:
            return None
        found = await self.view.native.hybrid(query)
        if found is None:
            return None
        legs: dict[Leg, LegScores] = {
            "semantic": listed(found.semantic, found.keys, rest=found.semantic_scores),
            "text": listed(found.text, found.keys, rest=found.text_scores),
        }
        return Candidates(found.keys, legs, depth)

    def _hybrid_query(self, depth: int) -> HybridQuery | None:
        """The query of both legs, None if they have to be asked one by one.

        That is so unless the scale of a score can be computed for each by itself.
        """
        query, plan, prefs, scoring = self._queries, self._plan, self._prefs, self._prefs.scoring
        scale: Scale
        if scoring.blend == "rrf":
            scale = "rrf"
        elif scoring.normalize == "absolute" or scoring.normalize == "theoretical":
            scale = scoring.normalize
        else:
            return None
        if plan is None or query.fuzzy is not None or query.exact is not None:
            return None
        weights = plan.weights["semantic"], plan.weights["text"]
        if query.semantic is None or query.text is None or min(weights) <= 0:
            return None
        if prefs.vector.distance != "cosine" or prefs.strategy == "legs":
            return None
        return HybridQuery(
            vector=query.semantic,
            text=query.text,
            depth=depth,
            fill=scoring.fill,
            least=(prefs.vector.min_score, prefs.fts.min_rank),
            scale=scale,
            weights=weights,
            rrf_k=scoring.rrf_k,
            floor=plan.floor,
            passages=2 * depth if plan.passages is None else plan.passages,
            anyway=prefs.strategy == "statement",
        )

    def _usable(self, outcomes: Mapping[Leg, Hits | StoreError]) -> dict[Leg, Hits]:
        """What the legs found that did not fail, without hits below their thresholds."""
        least = {"semantic": self._prefs.vector.min_score, "text": self._prefs.fts.min_rank}
        failed = [said for said in outcomes.values() if isinstance(said, StoreError)]
        if failed and len(failed) == len(outcomes):
            raise failed[0]
        usable: dict[Leg, Hits] = {}
        for leg, said in outcomes.items():
            if isinstance(said, StoreError):
                note = f"the leg failed and is left out ({said})"
                self._diagnostics.note(leg, note, cause=said)
            else:
                threshold = least.get(leg)
                usable[leg] = said if threshold is None else said[said.scores >= threshold]
        return usable

    async def _search(self, leg: Leg, depth: int) -> Hits | StoreError:
        """What a leg finds, or why it failed."""
        query, view = self._queries, self.view
        try:
            if leg == "semantic" and query.semantic is not None:
                found = await view.semantic(query.semantic, k=depth)
                scores = by_distance(found.scores, query.length, self._prefs.vector.distance)
                return Hits(found.keys, scores.astype(np.float32))
            if leg == "exact" and query.exact is not None:
                return await query.exact.search(view, k=depth)
            words = query.text if leg == "text" else query.fuzzy
            if isinstance(words, TrigramTextQuery):
                return await words.search(view, k=depth)
            return await view.text(words or TextQuery(()), k=depth)
        except StoreError as error:
            return error

    async def _fill(self, leg: Leg, known: LegScores, keys: ChunkKeys) -> None:
        """Score those of `keys` that are not in the leg's own list."""
        missing = np.flatnonzero(known.ranks == 0)
        if len(missing):
            known.scores[missing] = await self.scores(leg, keys[missing])

    async def scores(self, leg: Leg, keys: ChunkKeys) -> NDArray[np.float64]:
        """The exact score of each of `keys` in a leg."""
        query = self._queries
        if leg == "semantic" and query.semantic is not None:
            cosines = await self.view.semantic_scores(query.semantic, keys)
            return by_distance(cosines, query.length, self._prefs.vector.distance)
        if leg == "exact" and query.exact is not None:
            return await query.exact.scores(self.view, keys)
        words = query.text if leg == "text" else query.fuzzy
        if isinstance(words, TrigramTextQuery):
            return await words.scores(self.view, keys)
        scores = await self.view.text_scores(words or TextQuery(()), keys)
        return scores.astype(np.float64)


def by_distance(
    cosines: NDArray[np.floating], length: float, distance: Distance
) -> NDArray[np.float64]:
    """Scores on another scale than cosine, the greater the nearer: inner product, or 1 / (1 + l2).

    `length` is that of the query's vector; stored vectors have the length 1, so the order is the
    same on every scale.
    """
    scores = cosines.astype(np.float64)
    if distance == "cosine":
        return scores
    if distance == "ip":
        return scores * length
    squared = np.maximum(length**2 + 1 - 2 * length * scores, 0)
    return 1 / (1 + np.sqrt(squared))


DEEPER = 4
"""How much deeper to search where the chunks found are of too few documents."""


DAMPED: tuple[Leg, ...] = ("text", "fuzzy")
"""The legs whose scores are divided by the best of them."""


@dataclass(frozen=True, slots=True)
class Components:
    """The parts that a search works with besides a view of the store.

    `chunk_maker` is for late chunking, and `items` has its documents, None for those of the view.
    """

    embedder: Embedder
    capabilities: Capabilities
    chunk_maker: Callable[[], ChunkMaker]
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
class Scored:
    """The candidates to be ranked, with their fused scores, and where their chunks are read.

    `rows` are those that may be shown, None for all. `documents` are the best ones, best first,
    if the view asks for documents.
    """

    recalled: Recalled
    source: ChunkSource
    candidates: Candidates
    fused: Fused
    rows: Rows | None = None
    documents: Sequence[FoundDocument] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


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
    ) -> Scored:
        """What the legs find, `depth` chunks each, fused; twice where feedback is asked for.

        `passages` is how many of the best will be read, None for all.
        """
        expansion, feedback = await self._expansion(), self._prefs.expansion.feedback
        while True:
            plan, legs = await self._plan(vector, expansion, passages)
            found = await self._fused(plan, legs, depth)
            if not feedback or found.recalled.plan.legs.text is None:
                return found
            with self._diagnostics.stage("expand"):
                expansion, feedback = await self._feedback(found, expansion), False

    async def recall_documents(
        self, count: int, *, depth: int, threshold: float, vector: Vector | None = None
    ) -> Scored:
        """The best `count` documents with a score of `threshold` or more, and their candidates.

        Searches deeper until there are as many documents, or no more to be found.
        """
        found = await self.recall(depth=depth, passages=None, vector=vector)
        while True:
            keys, legs = found.candidates.keys, found.candidates.legs.values()
            with self._diagnostics.stage("group"):
                groups = collapse(found.candidates, await self.read(found.source, keys))
            full = any(np.count_nonzero(leg.ranks) >= depth for leg in legs)
            if len(groups.documents) >= count or not full:
                break
            depth *= DEEPER
            found = await self._fused(found.recalled.plan, found.recalled.recall, depth)
        with self._diagnostics.stage("group"):
            fused = self.fuse(groups.candidates, found.recalled.plan)
            ranked = await self.ranked(
                found.source, found.candidates, found.fused.scores, count=len(keys)
            )
            best_chunks = {document_of(item): item.passage.chunk for item in reversed(ranked)}
            documents = await in_thread(rank_documents, groups, fused, best_chunks)
        best = [item for item in documents[:count] if item.score >= threshold]
        counts = {**found.counts, "candidate_documents": len(documents)}
        return replace(found, rows=groups.rows_of(best), documents=best, counts=counts)

    async def ranked(
        self,
        source: ChunkSource,
        candidates: Candidates,
        scores: Scores,
        *,
        count: int,
        rows: Rows | None = None,
    ) -> list[Ranked]:
        """The best `count` of the candidates, of `rows` only if given, in a total order."""
        best = best_rows(candidates, scores, count=count, rows=rows)
        passages = await self.read(source, candidates.keys[best])
        return rank(passages, best, candidates, scores, count=count)

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
        return self._parts.scorer(
            candidates, plan.weights, self._prefs.scoring, floor=self._floor, damping=plan.damping
        )

    def fuse_boosted(
        self, candidates: Candidates, plan: QueryPlan
    ) -> tuple[Candidates, QueryPlan, Fused]:
        """As `fuse`, with exact wordings that a query merely mentions boosted just far enough."""
        exact = plan.legs.exact if "exact" in candidates.legs else None
        if exact is not None and exact.mentioned and plan.weights["exact"]:
            rest = self.fuse(candidates, replace(plan, weights={**plan.weights, "exact": 0.0}))
            weights = plan.damped_weights()
            candidates, weight = boost(candidates, weights, rest.scores, exact)
            plan = replace(plan, weights={**plan.weights, "exact": weight})
        return candidates, plan, self.fuse(candidates, plan)

    @property
    def _floor(self) -> float:
        """The cosine of unrelated texts."""
        by_cosine = self._prefs.vector.distance == "cosine"
        return self._parts.embedder.info.cosine_floor if by_cosine else 0.0

    async def _plan(
        self, vector: Vector | None, expansion: Expansion | None, passages: int | None
    ) -> tuple[QueryPlan, Recall]:
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
        return plan, Recall(view, plan.legs, self._prefs, self._diagnostics, plan=fusion)

    async def _fused(self, plan: QueryPlan, recall: Recall, depth: int) -> Scored:
        """What the legs find, with one score each."""
        candidates = await recall.candidates(depth=depth)
        with self._diagnostics.stage("fuse"):
            plan = replace(plan, damping=await self._damping(recall.view, plan, candidates))
            exact = candidates.legs.get("exact")
            candidates, plan, fused = self.fuse_boosted(candidates, plan)
        found = Recalled(recall.view, plan, recall, candidates, fused, exact)
        counts = {"candidate_chunks": len(candidates.keys)}
        return Scored(found, recall.view, candidates, fused, counts=counts)

    def fusion_inputs(self, found: Recalled, names: Mapping[int, str]) -> FusionInputs:
        """What the fused scores depend on besides the scores; `names` are chunk ids by key."""
        plan, asked = found.plan, self._prefs.scoring.weights(found.plan.type)
        ran = [leg for leg in plan.legs.active() if leg != "exact" and asked[leg]]
        holders: dict[str, int] = {}
        boosted_rank: int | None = None
        kind: Literal["given", "sum", "boosted"] | None = None
        if plan.legs.exact is not None:
            kind = "sum" if self._prefs.scoring.w_exact is None else "given"
        if plan.legs.exact is not None and plan.legs.exact.mentioned and found.exact is not None:
            kind = "boosted" if asked["exact"] else kind
            keys, ranks = found.candidates.keys, found.exact.ranks
            unboosted = replace(found.candidates, legs={"exact": found.exact})
            held, boosted_rank = holders_of(unboosted, plan.legs.exact)
            rows = np.flatnonzero(held).tolist()
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
            boosted_rank=boosted_rank if kind == "boosted" else None,
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
        # A model that knows the language may be near the answer without a clear lead; the cosines
        # of one that does not say nothing unless one of them stands out.
        clear = 1.0 if plan.reads else semantic_lead(semantic, floor=self._floor)
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

    async def _feedback(self, found: Scored, expansion: Expansion | None) -> Expansion:
        """The words that the best passages of a first recall have in common."""
        asked, view = self._prefs.expansion, found.recalled.view
        text = found.recalled.plan.legs.text
        best = await self.ranked(
            view, found.candidates, found.fused.scores, count=asked.feedback_passages
        )
        texts = [item.passage.chunk.text for item in best]
        main = next(iter(view.languages), None)
        languages = [item.passage.document.language or main for item in best]
        terms = feedback_candidates(texts, languages)
        idf = await view.idf(single_words(terms))
        added = feedback_terms(
            texts,
            [item.score for item in best],
            languages,
            dict(zip(terms, idf.tolist(), strict=True)),
            asked.feedback_terms,
            known={term.text for word in text.words for term in word} if text else set(),
        )
        given = expansion or Expansion()
        return replace(given, terms=given.terms + added)
