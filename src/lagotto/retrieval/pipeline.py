"""One search: plan, recall, fuse, rank, rerank, parents, thresholds, diversity, trim.

Every view of a search (list, bundle, pack) is made from the same `Outcome`; the views differ in
how much they need, which is their `SearchSize`. Candidates are stored chunks, or chunks made at
query time; both go through the same stages.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from lagotto._internal.concurrency import for_each, in_thread, with_checkpoints
from lagotto._internal.display import counted
from lagotto.documents import Chunk
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import RetrievalError
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.text_query import TextQuery, as_word, single_words
from lagotto.prefs import BLENDED_JUDGED, SearchRequest
from lagotto.rerankers.base import Reranker
from lagotto.results import FusionInputs, Leg, RetrievalStats
from lagotto.retrieval import fusion, stages
from lagotto.retrieval.boosts import boosted
from lagotto.retrieval.documents import FoundDocument, collapse, rank_documents
from lagotto.retrieval.explain import Diagnostics, scored_candidates
from lagotto.retrieval.fusion import Candidates, Fused, HybridScorer, LegScores
from lagotto.retrieval.query.expansion import (
    Expander,
    Expansion,
    feedback_candidates,
    feedback_terms,
)
from lagotto.retrieval.recall import QueryPlan, QueryPlanner, Recall, boost, holders_of
from lagotto.retrieval.stages import ChunkSource, Ranked, Rows, above, document_of, resolve_parents
from lagotto.stores.base import ChunkCacheRepo, ItemRepo, Passage, SearchableStore, View

log = logging.getLogger(__name__)

NEIGHBOURS = 2
"""How many chunks before and after each hit are read for a pack that takes what is worth most."""
DEEPER = 4
"""How many times more candidates to rank where too few remain, and how much deeper to search where
those found are of too few documents."""


@dataclass(frozen=True, slots=True)
class SearchSize:
    """How many passages a view shows, of how many documents, and at most how many of each.

    Without `documents`, passages are ranked whichever documents they are of.
    """

    passages: int
    documents: int | None = None
    per_document: int | None = None

    @classmethod
    def of(cls, request: SearchRequest, *, judged: bool = False) -> SearchSize:
        """The size of a bundle for `search`, else of a ranked list or the hits for a pack.

        A pack considers no more hits than a reranker, if one has `judged`, sees by default.
        """
        prefs = request.preferences
        if request.verb == "search":
            caps = (prefs.per_item_chunk_cap, prefs.diversity.per_document)
            return cls(prefs.top_k_chunks, prefs.top_k_items, min(filter(None, caps)))
        late = prefs.chunking.strategy != "precomputed"
        documents = prefs.top_k_items if late else None
        passages = prefs.pack_hits() if request.verb == "context" else prefs.top_k
        if judged:
            passages = min(passages, prefs.judged(prefs.top_k) or passages)
        return cls(passages, documents, prefs.diversity.per_document)


@dataclass(frozen=True, slots=True)
class Components:
    """The parts that a search works with besides a view of the store.

    For late chunking, `chunker` is that of the base, `items` has the documents and `chunk_cache`
    keeps their chunks, None for the view and the cache of the store.
    """

    store: SearchableStore
    embedder: Embedder
    chunker: str
    chunk_vectors: ChunkEmbedder
    reranker: Reranker | None = None
    expander: Expander | None = None
    scorer: HybridScorer = fusion.fuse
    items: ItemRepo | None = None
    chunk_cache: ChunkCacheRepo | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """The candidates to be ranked, with their fused scores, and `source`, where they are read.

    `recall_candidates` are the stored chunks that the legs of `recall` found, which the candidates
    are, or whose documents' chunks they are; its view leaves out what the query excludes. `exact`
    is the exact leg before it was boosted. `rows` are those that may be shown, None for all.
    `documents` are the best ones, best first, if the view asks for documents.
    """

    plan: QueryPlan
    recall: Recall
    recall_candidates: Candidates
    source: ChunkSource
    candidates: Candidates
    fused: Fused
    exact: LegScores | None = None
    rows: Rows | None = None
    documents: Sequence[FoundDocument] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether a leg brought as many chunks as it was to, so that there may be more."""
        depth, legs = self.candidates.depth, self.candidates.legs.values()
        return depth is not None and any(np.count_nonzero(leg.ranks) >= depth for leg in legs)


@dataclass(slots=True)
class Outcome:
    """What a search found: `ranked` are the passages to show, best first.

    `scored` is None for a query without text. `seen` is what the reranker was given, in the order
    of the fused scores, `verdicts` what it said of them, in its own order, and `judged` what is
    kept of that, None without a verdict. For a pack, `surroundings` are the chunks found with
    their parents and neighbours, and `initial` what the legs found; for a bundle that shows
    documents by their own texts, `texts` are these.
    """

    request: SearchRequest
    diagnostics: Diagnostics
    scored: Scored | None = None
    ranked: Sequence[Ranked] = ()
    seen: Sequence[Ranked] = ()
    verdicts: Sequence[Ranked] = ()
    judged: Sequence[Ranked] | None = None
    surroundings: Sequence[Chunk] = ()
    initial: Sequence[Ranked] = ()
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def stats(self, **shown: int) -> RetrievalStats:
        """What the search says of itself; `shown` counts what a view of it has."""
        counts = {**self.scored.counts} if self.scored else {}
        if self.seen:
            counts["reranked"] = len(self.seen)
        return self.diagnostics.stats(self.request.preferences, counts | shown)


@dataclass(eq=False)
class Search:
    """One query on one view: the stages in order."""

    components: Components
    request: SearchRequest
    view: View
    diagnostics: Diagnostics

    def __post_init__(self) -> None:
        self._prefs = prefs = self.request.preferences
        enabled = prefs.rerank.enabled
        judges = prefs.rerank.reranker is not None if enabled == "named" else enabled
        self._reranker = self.components.reranker if judges else None
        judged = self._reranker is not None and not self._reranker.scale.blended
        self._size = SearchSize.of(self.request, judged=judged)
        self._is_late = prefs.chunking.strategy != "precomputed"
        self._shows_copies_once = prefs.diversity.copies == "once"
        self._passages: dict[int, Passage] = {}  # every one is read once
        self._unreadable: set[int] = set()

    async def run(self) -> Outcome:
        """All stages, up to the passages that the view shows, and what it shows around them."""
        stage, prefs, parents = self.diagnostics.stage, self._prefs, self._prefs.parents
        outcome = Outcome(self.request, self.diagnostics)
        if self.request.is_empty:
            return outcome
        if self._size.documents is None:
            scored = await self._past_copies(await self._recall(passages=self._wanted))
        else:
            scored = await self._recall_documents(self._size.documents)
            scored = await self._cut(scored) if self._is_late else scored
        if prefs.explain == "candidates":
            with stage("explain"):
                await self._explain(scored)
        with stage("rank"):
            ranked = await self._ranked(scored)
        if parents.stage == "before_rerank":
            with stage("parents"):
                ranked = await resolve_parents(scored.source, ranked, parents, self.diagnostics)
        if self._reranker is not None:
            with stage("rerank"):
                ranked = await self._reranked(self._reranker, ranked, scored, outcome)
        if parents.stage == "after_rerank":
            with stage("parents"):
                ranked = await resolve_parents(scored.source, ranked, parents, self.diagnostics)
        with stage("diversity"):
            ranked = await self._diverse(scored, above(ranked, prefs.min_score))
        outcome.scored = scored
        outcome.ranked = await for_each(self._cited, ranked[: self._size.passages])
        self._log(scored, outcome.ranked)
        await self._add_surroundings(outcome, scored)
        return outcome

    async def _recall(self, *, passages: int | None) -> Scored:
        """What the legs find, fused; twice where feedback is asked for.

        `passages` is how many of the best will be read, None for all.
        """
        expansion, feedback = await self._expansion(), self._prefs.expansion.feedback
        while True:
            plan, legs = await self._plan(expansion, passages)
            scored = await self._fused(plan, legs, self.depth)
            if not feedback or scored.plan.legs.text is None:
                return scored
            with self.diagnostics.stage("expand"):
                expansion, feedback = await self._feedback(scored, expansion), False

    async def _past_copies(self, scored: Scored) -> Scored:
        """The candidates, searched for deeper while copies take the room of other texts.

        Whatever the number of hits that is asked for: a shorter list is the beginning of a longer.
        """
        is_set = self._prefs.candidates is not None or self._prefs.overfetch is not None
        if is_set or not self._shows_copies_once:
            return scored
        return await self._deepened(scored, lambda one: stages.copy_key(one.chunk), self.depth)

    async def _deepened(
        self, scored: Scored, key: Callable[[Passage], Hashable], count: int
    ) -> Scored:
        """The candidates, searched for deeper until their passages have so many different keys."""
        depth = self.depth
        while scored.is_full:
            passages = await self._read(scored.source, scored.candidates.keys)
            if len(set(map(key, passages))) >= count:
                break
            depth *= DEEPER
            scored = await self._fused(scored.plan, scored.recall, depth)
        return scored

    async def _recall_documents(self, count: int) -> Scored:
        """The best `count` documents, as far as they reach the thresholds, and their candidates.

        Searches deeper until there are as many documents, or no more to be found.
        """
        threshold = self._prefs.scoring.min_score or 0.0
        if self._reranker is None:
            threshold = max(threshold, self._prefs.min_score)
        scored = await self._recall(passages=None)
        scored = await self._deepened(scored, lambda one: one.document.ref, count)
        keys = scored.candidates.keys
        with self.diagnostics.stage("group"):
            passages = await self._read(scored.source, keys)
            items, owners, candidates = collapse(scored.candidates, passages)
            fused = self.fuse(candidates, scored.plan)
            ranked = await self._best(scored, len(keys))
            best_chunks = {document_of(item): item.passage.chunk for item in reversed(ranked)}
            if self._prefs.boost:
                rows = [(row, item, best_chunks.get(item.ref)) for row, item in enumerate(items)]
                fused = await in_thread(boosted, fused, self._prefs.boost, rows)
            documents = await in_thread(rank_documents, items, candidates, fused, best_chunks)
        best = [item for item in documents[:count] if item.score >= threshold]
        names = {item.name for item in best}
        owned = np.isin(owners, [index for index, item in enumerate(items) if item.ref in names])
        counts = {**scored.counts, "candidate_documents": len(items)}
        return replace(scored, rows=np.flatnonzero(owned), documents=best, counts=counts)

    async def _cut(self, scored: Scored) -> Scored:
        """The chunks of the documents that were found, made now or taken from the cache."""
        from lagotto.retrieval.late import ChunkMaker, late_candidates

        parts, view = self.components, scored.recall.view
        with self.diagnostics.stage("chunk"):
            cache = parts.chunk_cache or parts.store.chunk_cache
            maker = ChunkMaker(self._prefs, parts.chunker, parts.chunk_vectors, cache)
            names = [item.name for item in scored.documents]
            documents = await (parts.items or view).sources(names)
            source, candidates = await late_candidates(view, documents, scored.plan, maker)
        for problem in maker.problems:
            self.diagnostics.note("late chunking", problem)
        with self.diagnostics.stage("fuse"):
            weighted = scored.plan.with_given_weights(self._prefs.scoring)
            candidates, _, fused = self._fuse_boosted(candidates, weighted)
            fused = await self.boosted(fused, candidates.keys, source)
        counts = {**scored.counts, **+maker.counts}  # without those that are 0
        return replace(
            scored, source=source, candidates=candidates, fused=fused, rows=None, counts=counts
        )

    def _cited(self, ranked: Sequence[Ranked]) -> list[Ranked]:
        query = self._prefs.query_text
        corrected = {term for terms in self.diagnostics.corrections.values() for term in terms}
        return [
            replace(item, cited=stages.cited_section(item, query, corrected=corrected))
            if item.leaf.sections or item.child
            else item  # its own location is the one
            for item in with_checkpoints(ranked)
        ]

    def _log(self, scored: Scored, shown: Sequence[Ranked]) -> None:
        counts = ", ".join(f"{count} {name}" for name, count in scored.counts.items())
        log.info("%s search: %d hits of %s", self._prefs.mode, len(shown), counts)
        if log.isEnabledFor(logging.DEBUG):
            spent = self.diagnostics.milliseconds().items()
            times = ", ".join(f"{name} {time:.1f}" for name, time in spent)
            log.debug("%r: milliseconds by stage: %s", self._prefs.query_text, times)

    async def _explain(self, scored: Scored) -> None:
        """Note every candidate with its scores, and what else their fusion depends on."""
        passages = await self._read(scored.source, scored.candidates.keys)
        self.diagnostics.candidates = await in_thread(
            scored_candidates, passages, scored.candidates, scored.fused
        )
        if not self._is_late:
            names = {passage.key: passage.chunk.id for passage in passages}
            self.diagnostics.fusion = self._fusion_inputs(scored, names)

    async def _add_surroundings(self, outcome: Outcome, scored: Scored) -> None:
        """What else the view shows, read while the state of the store is open.

        A pack traces what the legs found, whatever the later stages made of it: all of it if the
        search says how many candidates there are to be, else as many as later stages need: reading
        the others takes longer than the rest of a pack (4 to 20 ms for 200 of 20,000 chunks).
        """
        prefs, candidates = self._prefs, scored.candidates
        if self.request.verb == "context":
            with self.diagnostics.stage("neighbours"):
                outcome.surroundings = await self._surroundings(scored.source, outcome.ranked)
            with self.diagnostics.stage("rank"):
                everything = prefs.candidates is not None or prefs.overfetch is not None
                wanted = None if everything else self._wanted
                count = len(candidates.keys) if wanted is None else wanted
                outcome.initial = await self._best(replace(scored, rows=None), count)
        elif self.request.verb == "search" and not prefs.snippet.prefer_chunk_snippet:
            with self.diagnostics.stage("bundle"):
                names = [item.name for item in scored.documents]
                whole = await scored.recall.view.sources(names)
            outcome.texts = {item.ref: item.summary or item.text for item in whole}

    async def _surroundings(self, source: ChunkSource, ranked: Sequence[Ranked]) -> list[Chunk]:
        """The chunks that were found, their parents and their neighbours, for a context pack."""
        wanted = self._prefs.context
        chunks = [item.leaf for item in ranked]
        surroundings = list(chunks)
        children = [chunk for chunk in chunks if chunk.parent_id]
        if wanted.include_parents and children:
            surroundings += (await source.parents(children)).values()
        near, across = wanted.neighbor_same_page, wanted.neighbor_cross_page
        if not wanted.by_roles:
            near, across = NEIGHBOURS, 0
        if (near or across) and chunks:
            surroundings += await source.neighbours(chunks, near=near, across=across)
        return surroundings

    @property
    def depth(self) -> int:
        """How many candidates each leg brings; a reranker that is switched off changes nothing."""
        judges = self._reranker is not None or self._prefs.rerank.enabled is False
        judged = self._prefs.judged(self._size.passages) if judges else None
        if self._size.documents is None:
            return self._prefs.depth(self._size.passages, reranked=judged)
        return self._prefs.depth(self._size.documents, reranked=None if self._is_late else judged)

    @property
    def _wanted(self) -> int | None:
        """How many passages the stages after fusion need, None for all."""
        passages = self._size.passages
        if self._reranker is None:
            return passages
        return self._prefs.judged(passages, blended=self._reranker.scale.blended)

    async def _ranked(self, scored: Scored) -> list[Ranked]:
        total = len(scored.candidates.keys)
        wanted = None if self._prefs.diversity.mmr is not None else self._wanted
        count = total if wanted is None else wanted
        while True:
            ranked = await self._best(scored, count)
            good = above(ranked, self._prefs.scoring.min_score)
            if len(good) < count or count >= total or self._remaining(good) is not None:
                return good
            count = min(total, DEEPER * count)

    def _for_reranker(
        self, reranker: Reranker, ranked: Sequence[Ranked]
    ) -> tuple[list[Ranked], list[Ranked]]:
        """The hits that the reranker sees, and those that follow the ones that it has judged.

        Without a given number, it sees more if too few would be left of them afterwards. None
        follow where a number or a threshold says which come out. Blended scores are not below the
        fused ones of hits that were worse before, so these can follow.
        """
        wanted, prefs = self._wanted, self._prefs.rerank
        if wanted is not None and prefs.candidates is None:
            wanted = max(wanted, self._remaining(ranked) or len(ranked))
        enough = list(ranked[:wanted])
        if not reranker.scale.blended or prefs.candidates is not None:
            return enough, []
        keeps = prefs.min_score is None and prefs.keep is None
        return enough[:BLENDED_JUDGED], enough[BLENDED_JUDGED:] if keeps else []

    def _remaining(self, ranked: Sequence[Ranked]) -> int | None:
        """How many of the first hits it takes to fill the view; None if there are too few.

        Children become their parents, and of a document only so many remain.
        """
        merging = self._prefs.parents.mode == "replace"
        before = merging and self._prefs.parents.stage == "before_rerank"
        wanted = self._wanted if before else self._size.passages
        if wanted is None:
            return None
        most = self._size.per_document or len(ranked)
        distinct: set[str] = set()
        taken: Counter[tuple[str, str]] = Counter()
        for index, item in enumerate(ranked, 1):
            chunk = item.passage.chunk
            names = {(chunk.parent_id or chunk.id) if merging else chunk.id}
            if self._shows_copies_once:
                names.add(stages.copy_key(chunk))
            if distinct.isdisjoint(names):
                distinct |= names
                taken[document_of(item)] += 1
                wanted -= taken[document_of(item)] <= most
            if wanted <= 0:
                return index
        return None

    async def _reranked(
        self, reranker: Reranker, ranked: Sequence[Ranked], scored: Scored, outcome: Outcome
    ) -> list[Ranked]:
        """The hits that are kept of what the reranker judged, best first, and those that follow.

        If it has no verdict, all hits are kept.
        """
        (seen, rest), prefs = self._for_reranker(reranker, ranked), self._prefs.rerank
        hits = await stages.rerank(reranker, seen, scored.candidates, self._prefs, self.diagnostics)
        outcome.seen, outcome.verdicts = seen, [item for item in hits if item.rerank is not None]
        least = prefs.min_score or 0.0
        best = [item for item in hits if stages.verdict_score(item) >= least]
        if not outcome.verdicts:
            return best + rest
        outcome.judged = kept = best[: prefs.keep] + rest
        return kept

    async def _diverse(self, scored: Scored, ranked: list[Ranked]) -> list[Ranked]:
        if self._shows_copies_once:
            ranked = stages.without_copies(ranked)
        share = self._prefs.diversity.mmr
        if share is not None and ranked:
            keys = scored.candidates.keys[[item.row for item in ranked]]
            vectors = await scored.source.vectors(keys)
            scores = np.array([item.score for item in ranked])
            order = await in_thread(stages.mmr, scores, vectors, share=share, count=len(ranked))
            ranked = [ranked[index] for index in order]
        if self._size.per_document:
            ranked = stages.cap(ranked, key=document_of, most=self._size.per_document)
        return ranked

    async def _best(self, scored: Scored, count: int) -> list[Ranked]:
        candidates, scores = scored.candidates, scored.fused.scores
        rows = stages.best_rows(candidates, scores, count=count, rows=scored.rows)
        passages = await self._read(scored.source, candidates.keys[rows])
        return stages.rank(passages, rows, candidates, scores, count=count)

    async def _read(self, source: ChunkSource, keys: ChunkKeys) -> list[Passage]:
        """The passages of `keys`, those that were read before from memory."""
        known = self._passages.keys() | self._unreadable
        missing = [key for key in keys.tolist() if key not in known]
        if missing:
            passages = await source.passages(np.array(missing, np.int64))
            self._passages |= {passage.key: passage for passage in passages}
            self._unreadable |= set(missing) - self._passages.keys()
            if self._unreadable:
                what = f"{counted(len(self._unreadable), 'chunk')} can't be read"
                self.diagnostics.note("record", f"{what}; `lagotto doctor` names the documents")
        return [self._passages[key] for key in keys.tolist() if key in self._passages]

    def fuse(self, candidates: Candidates, plan: QueryPlan) -> Fused:
        """One score from those of the legs."""
        return self.components.scorer(
            candidates, plan.weights, self._prefs.scoring, floor=self._floor, damping=plan.damping
        )

    def _fuse_boosted(
        self, candidates: Candidates, plan: QueryPlan
    ) -> tuple[Candidates, QueryPlan, Fused]:
        """As `fuse`, with exact wordings that a query merely mentions boosted just far enough."""
        exact = plan.legs.exact if "exact" in candidates.legs else None
        if exact is not None and exact.mentioned and plan.weights["exact"]:
            rest = self.fuse(candidates, replace(plan, weights={**plan.weights, "exact": 0.0}))
            damped = {
                leg: value * plan.damping.get(leg, 1.0) for leg, value in plan.weights.items()
            }
            candidates, weight = boost(candidates, damped, rest.scores, exact)
            plan = replace(plan, weights={**plan.weights, "exact": weight})
        return candidates, plan, self.fuse(candidates, plan)

    async def boosted(self, fused: Fused, keys: ChunkKeys, source: ChunkSource) -> Fused:
        """Fused scores of candidates times the factors of the user's boosts, if there are any."""
        if not self._prefs.boost or not len(keys):
            return fused
        row_of = {key: row for row, key in enumerate(keys.tolist())}
        passages = await self._read(source, keys)
        rows = [(row_of[item.key], item.document, item.chunk) for item in passages]
        return await in_thread(boosted, fused, self._prefs.boost, rows)

    @property
    def _floor(self) -> float:
        by_cosine = self._prefs.vector.distance == "cosine"
        return self.components.embedder.info.cosine_floor if by_cosine else 0.0

    async def _plan(
        self, expansion: Expansion | None, passages: int | None
    ) -> tuple[QueryPlan, Recall]:
        with self.diagnostics.stage("plan"):
            parts, notes = self.components, self.diagnostics
            can = parts.store.capabilities
            planner = QueryPlanner(self.view, self.request, parts.embedder, can, notes, expansion)
            plan = await planner.plan()
            view = self.view
            if plan.excluded is not None:
                view = await view.excluding(plan.excluded)
        if self._prefs.boost or self._shows_copies_once:  # every candidate is read
            passages = None
        fusion = plan.weights, self._floor, passages
        return plan, Recall(view, plan.legs, self._prefs, self.diagnostics, *fusion)

    async def _fused(self, plan: QueryPlan, recall: Recall, depth: int) -> Scored:
        view, unfused = recall.view, await recall.candidates(depth=depth)
        with self.diagnostics.stage("fuse"):
            plan = replace(plan, damping=await self._damping(view, plan, unfused))
            exact = unfused.legs.get("exact")
            candidates, plan, fused = self._fuse_boosted(unfused, plan)
            fused = await self.boosted(fused, candidates.keys, view)
        counts = {"candidate_chunks": len(candidates.keys)}
        return Scored(plan, recall, candidates, view, candidates, fused, exact=exact, counts=counts)

    def _fusion_inputs(self, scored: Scored, names: Mapping[int, str]) -> FusionInputs:
        """What the fused scores depend on besides the scores; `names` are chunk ids by key."""
        plan, exact = scored.plan, scored.plan.legs.exact
        weights = self._prefs.scoring.weights(plan.type)
        ran = [leg for leg in plan.legs.active() if leg != "exact" and weights[leg]]
        holders: dict[str, int] = {}
        boosted_rank: int | None = None
        kind: Literal["given", "sum", "boosted"] | None = None
        if exact is not None:
            kind = "sum" if self._prefs.scoring.w_exact is None else "given"
        if exact is not None and exact.mentioned and scored.exact is not None and weights["exact"]:
            kind = "boosted"
            unboosted = replace(scored.candidates, legs={"exact": scored.exact})
            mask, boosted_rank = holders_of(unboosted, exact)
            for row in np.flatnonzero(mask).tolist():
                name = names.get(int(scored.candidates.keys[row]))
                if name is not None:
                    holders[name] = int(scored.exact.ranks[row])
        return FusionInputs(
            weights=weights,
            factors={leg: plan.weights[leg] / weights[leg] for leg in ran},
            damping=dict(plan.damping),
            floor=self._floor,
            depth=scored.candidates.depth,
            exact=kind,
            holders=holders,
            boosted_rank=boosted_rank,
        )

    async def _damping(
        self, view: View, plan: QueryPlan, candidates: Candidates
    ) -> dict[Leg, float]:
        """The factors for legs of words whose best match is weak.

        Only where their best match would count 1 whatever it is, beside absolute cosines.
        """
        prefs, semantic = self._prefs, candidates.legs.get("semantic")
        if not (prefs.scoring.adapt and prefs.has_absolute_scores()) or semantic is None:
            return {}
        # A model that knows the language may be near the answer without a clear lead; the cosines
        # of one that does not say nothing unless one of them stands out.
        clear = 1.0 if plan.reads else fusion.semantic_lead(semantic, floor=self._floor)
        factors: dict[Leg, float] = {}
        for leg, query in plan.legs.active().items() if clear else ():
            leg_scores = candidates.legs.get(leg)
            if isinstance(query, TextQuery) and query.native is None and leg_scores is not None:
                words = [word for word in query.words if word]
                idfs = await view.idf([as_word(word) for word in words])
                weights = [max(term.weight for term in word) for word in words]
                best = float(np.nan_to_num(leg_scores.scores).max(initial=0.0))
                factors[leg] = fusion.damping(best, (idfs * weights).tolist(), semantic_lead=clear)
        return factors

    async def _expansion(self) -> Expansion | None:
        expander, notes = self.components.expander, self.diagnostics
        if expander is not None:
            with notes.stage("expand"), notes.does_without("expansion", "left out", RetrievalError):
                return await expander.expand(self._prefs.query_text)
        return None

    async def _feedback(self, scored: Scored, expansion: Expansion | None) -> Expansion:
        """The words that the best passages of a first recall have in common."""
        settings, view = self._prefs.expansion, scored.recall.view
        text = scored.plan.legs.text
        best = await self._best(scored, settings.feedback_passages)
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
            settings.feedback_terms,
            known={term.text for word in text.words for term in word} if text else set(),
        )
        current = expansion or Expansion()
        return replace(current, terms=current.terms + added)
