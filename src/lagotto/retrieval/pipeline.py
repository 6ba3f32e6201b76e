"""One search: plan, recall, fuse, rank, rerank, parents, thresholds, diversity, trim.

Every view of a search (list, bundle, pack) is made from the same `Outcome`; the views differ in
how much they need, which is their `SearchSize`. Candidates are stored chunks, or chunks made at
query time; both go through the same stages.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lagotto._internal.concurrency import for_each, in_thread, with_checkpoints
from lagotto.documents import Chunk
from lagotto.prefs import BLENDED_JUDGED, SearchRequest
from lagotto.rerankers.base import Reranker
from lagotto.results import RetrievalStats
from lagotto.retrieval.explain import Diagnostics, scored_candidates
from lagotto.retrieval.recall import Components, Scored, StoredCandidates
from lagotto.retrieval.stages import (
    ChunkSource,
    Ranked,
    above,
    cap,
    cited_section,
    document_of,
    mmr,
    rerank,
    resolve_parents,
    verdict_score,
)
from lagotto.stores.base import View

log = logging.getLogger(__name__)

NEIGHBOURS = 2
"""How many chunks before and after each hit are read for a pack that takes what is worth most."""
MORE = 4
"""How many times more candidates to rank where too few of them remain."""


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


class Search:
    """One query on one view: the stages in order."""

    def __init__(
        self,
        components: Components,
        request: SearchRequest,
        view: View,
        diagnostics: Diagnostics,
    ) -> None:
        self._components = components
        self.request = request
        self._prefs = prefs = request.preferences
        enabled = prefs.rerank.enabled
        judges = prefs.rerank.reranker is not None if enabled == "named" else enabled
        self._reranker = components.reranker if judges else None
        judged = self._reranker is not None and not self._reranker.scale.blended
        self._size = SearchSize.of(request, judged=judged)
        self._is_late = prefs.chunking.strategy != "precomputed"
        self.diagnostics = diagnostics
        self.stored = StoredCandidates(view, prefs, components, diagnostics)

    async def run(self) -> Outcome:
        """All stages, up to the passages that the view shows, and what it shows around them."""
        stage, prefs, parents = self.diagnostics.stage, self._prefs, self._prefs.parents
        outcome = Outcome(self.request, self.diagnostics)
        if self.request.is_empty:
            return outcome
        scored = await self._scored()
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
                seen, rest = self._for_reranker(self._reranker, ranked)
                kept, verdicts = await self._reranked(self._reranker, seen, scored)
                ranked = kept + rest
                outcome = replace(
                    outcome, seen=seen, verdicts=verdicts, judged=ranked if verdicts else None
                )
        if parents.stage == "after_rerank":
            with stage("parents"):
                ranked = await resolve_parents(scored.source, ranked, parents, self.diagnostics)
        with stage("diversity"):
            ranked = await self._diverse(scored, above(ranked, prefs.min_score))
        shown = await for_each(self._cited, ranked[: self._size.passages])
        self._log(scored, shown)
        outcome = replace(outcome, scored=scored, ranked=shown)
        return await self._with_surroundings(outcome, scored)

    async def _scored(self) -> Scored:
        """The candidates; of the best documents, or chunks made of these, if a view shows some."""
        depth, vector, count = self.depth, self.request.vector, self._size.documents
        if count is None:
            return await self.stored.recall(depth=depth, passages=self._wanted, vector=vector)
        threshold = self._prefs.scoring.min_score or 0.0
        if self._reranker is None:
            threshold = max(threshold, self._prefs.min_score)
        scored = await self.stored.recall_documents(
            count, depth=depth, threshold=threshold, vector=vector
        )
        return await self._cut(scored) if self._is_late else scored

    async def _cut(self, found: Scored) -> Scored:
        """The chunks of the documents that were found, made now or taken from the cache."""
        from lagotto.retrieval.late import late_candidates

        view, plan = found.recalled.view, found.recalled.plan
        items = self._components.items or view
        with self.diagnostics.stage("chunk"):
            made = await late_candidates(
                view,
                await items.sources([item.name for item in found.documents]),
                plan=plan,
                prefs=self._prefs,
                maker=self._components.chunk_maker(),
            )
        for problem in made.problems:
            self.diagnostics.note("late chunking", problem)
        with self.diagnostics.stage("fuse"):
            weighted = plan.with_given_weights(self._prefs.scoring)
            candidates, _, fused = self.stored.fuse_boosted(made.candidates, weighted)
        counts = {**found.counts, **made.counts}
        return Scored(
            found.recalled,
            made.source,
            candidates,
            fused,
            documents=found.documents,
            counts=counts,
        )

    def _cited(self, ranked: Sequence[Ranked]) -> list[Ranked]:
        query = self._prefs.query_text
        corrected = {term for terms in self.diagnostics.corrections.values() for term in terms}
        return [
            replace(item, cited=cited_section(item, query, corrected=corrected))
            for item in with_checkpoints(ranked)
        ]

    def _log(self, scored: Scored, shown: Sequence[Ranked]) -> None:
        counts = ", ".join(f"{count} {name}" for name, count in scored.counts.items())
        log.info("%s search: %d hits of %s", self._prefs.mode, len(shown), counts)
        if log.isEnabledFor(logging.DEBUG):
            stages = self.diagnostics.milliseconds().items()
            times = ", ".join(f"{name} {spent:.1f}" for name, spent in stages)
            log.debug("%r: milliseconds by stage: %s", self._prefs.query_text, times)

    async def _explain(self, scored: Scored) -> None:
        """Note every candidate with its scores, and what else their fusion depends on."""
        passages = await self.stored.read(scored.source, scored.candidates.keys)
        self.diagnostics.candidates = await in_thread(
            scored_candidates, passages, scored.candidates, scored.fused
        )
        if not self._is_late:
            names = {passage.key: passage.chunk.id for passage in passages}
            self.diagnostics.fusion = self.stored.fusion_inputs(scored.recalled, names)

    async def _with_surroundings(self, outcome: Outcome, scored: Scored) -> Outcome:
        """What else the view shows, read while the state of the store is open.

        A pack traces what the legs found, whatever the later stages made of it: all of it if the
        search says how many candidates there are to be, else as many as later stages need. To read
        the others takes longer than the rest of a pack (4 ms and 20 ms for 200 candidates in a file
        of 20,000 chunks).
        """
        prefs, candidates = self._prefs, scored.candidates
        if self.request.verb == "context":
            with self.diagnostics.stage("neighbours"):
                chunks = await self._surroundings(scored.source, outcome.ranked)
            with self.diagnostics.stage("rank"):
                everything = prefs.candidates is not None or prefs.overfetch is not None
                wanted = None if everything else self._wanted
                count = len(candidates.keys) if wanted is None else wanted
                initial = await self.stored.ranked(
                    scored.source, candidates, scored.fused.scores, count=count
                )
            return replace(outcome, surroundings=chunks, initial=initial)
        if self.request.verb == "search" and not prefs.snippet.prefer_chunk_snippet:
            with self.diagnostics.stage("bundle"):
                names = [item.name for item in scored.documents]
                whole = await scored.recalled.view.sources(names)
            return replace(outcome, texts={item.ref: item.summary or item.text for item in whole})
        return outcome

    async def _surroundings(self, source: ChunkSource, ranked: Sequence[Ranked]) -> list[Chunk]:
        """The chunks that were found, their parents and their neighbours, for a context pack."""
        wanted = self._prefs.context
        chunks = [item.found for item in ranked]
        found = list(chunks)
        children = [chunk for chunk in chunks if chunk.parent_id]
        if wanted.include_parents and children:
            found += (await source.parents(children)).values()
        near, across = wanted.neighbor_same_page, wanted.neighbor_cross_page
        if not wanted.by_roles:
            near, across = NEIGHBOURS, 0
        if (near or across) and chunks:
            found += await source.neighbours(chunks, near=near, across=across)
        return found

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
        """The best candidates, as many as the later stages need."""
        candidates, scores = scored.candidates, scored.fused.scores
        total = len(candidates.keys)
        wanted = None if self._prefs.diversity.mmr is not None else self._wanted
        count = total if wanted is None else wanted
        while True:
            ranked = await self.stored.ranked(
                scored.source, candidates, scores, count=count, rows=scored.rows
            )
            good = above(ranked, self._prefs.scoring.min_score)
            if len(good) < count or count >= total or self._remaining(good) is not None:
                return good
            count = min(total, MORE * count)

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
            name = (chunk.parent_id or chunk.id) if merging else chunk.id
            if name not in distinct:
                distinct.add(name)
                taken[document_of(item)] += 1
                wanted -= taken[document_of(item)] <= most
            if wanted <= 0:
                return index
        return None

    async def _reranked(
        self, reranker: Reranker, seen: Sequence[Ranked], scored: Scored
    ) -> tuple[list[Ranked], list[Ranked]]:
        """The hits that are kept of what the reranker judged, best first, and all that it judged.

        If it has no verdict, all hits are kept.
        """
        prefs = self._prefs.rerank
        ranked = await rerank(
            reranker,
            self._prefs.query_text,
            seen,
            scored.candidates,
            prefs=prefs,
            diagnostics=self.diagnostics,
        )
        verdicts = [item for item in ranked if item.rerank is not None]
        least = prefs.min_score or 0.0
        kept = [item for item in ranked if verdict_score(item) >= least]
        return kept[: prefs.keep] if verdicts else kept, verdicts

    async def _diverse(self, scored: Scored, ranked: list[Ranked]) -> list[Ranked]:
        share = self._prefs.diversity.mmr
        if share is not None and ranked:
            keys = scored.candidates.keys[[item.row for item in ranked]]
            vectors = await scored.source.vectors(keys)
            scores = np.array([item.score for item in ranked])
            order = await in_thread(mmr, scores, vectors, share=share, count=len(ranked))
            ranked = [ranked[index] for index in order]
        if self._size.per_document:
            ranked = cap(ranked, key=document_of, most=self._size.per_document)
        return ranked
