"""Recall: the legs side by side, then every leg's exact score for every candidate."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector
from lagotto.errors import StoreError
from lagotto.indexes.base import ChunkKeys, Hits
from lagotto.indexes.text_query import Phrase, Term, TextQuery
from lagotto.prefs import Distance, FtsMode, FuzzyPrefs, RetrievalPrefs, ScoringPrefs
from lagotto.results import LEGS, Leg
from lagotto.retrieval.explain import Diagnostics
from lagotto.retrieval.fusion import Candidates, LegScores, Scores
from lagotto.retrieval.query.expansion import NEAR_ANSWER_WEIGHT
from lagotto.stores.base import HybridQuery, NativeSearch, Scale, View
from lagotto.terms.vocabulary import distinct, word_similarity
from lagotto.terms.words import words

MOST_PARTS = 4
"""The number of quotations and identifiers of a query that are looked up."""

RARE = 20
"""An identifier that more passages hold is a plain word; a quotation always counts."""


BOOSTED_RANK = 3
"""The rank to which a wording that is merely mentioned boosts the best passage that holds it."""


@dataclass(frozen=True, slots=True)
class ExactPart:
    """A wording; `holders` are all passages that hold it, None if there are more than a few."""

    query: TextQuery
    holders: ChunkKeys | None

    async def search(self, view: View, *, k: int) -> ChunkKeys:
        """Passages that hold it."""
        return (await view.text(self.query, k=k)).keys if self.holders is None else self.holders

    async def held_by(self, view: View, keys: ChunkKeys) -> NDArray[np.bool_]:
        """Which of `keys` hold it."""
        if self.holders is None:
            return await view.text_scores(self.query, keys) > 0
        return np.isin(keys, self.holders)


@dataclass(frozen=True, slots=True)
class ExactQuery:
    """Wordings to search for verbatim; a passage scores the share of them that it holds.

    Whether they are `mentioned` in a question that asks for something else, or are themselves
    what is asked for, decides how far they boost the passages that hold them.
    """

    parts: tuple[ExactPart, ...]
    mentioned: bool = False

    async def search(self, view: View, *, k: int) -> Hits:
        """The passages that hold a part."""
        lists = await asyncio.gather(*(part.search(view, k=k) for part in self.parts))
        keys, held = np.unique(np.concatenate(lists), return_counts=True)
        scores = (held / len(self.parts)).astype(np.float32)
        order = np.lexsort((keys, -scores))[:k]
        return Hits(keys[order], scores[order])

    async def scores(self, view: View, keys: ChunkKeys) -> NDArray[np.float64]:
        """The share of the parts that each of `keys` holds."""
        found = await asyncio.gather(*(part.held_by(view, keys) for part in self.parts))
        shares: NDArray[np.float64] = np.mean(found, axis=0)
        return shares


async def exact_query(
    view: View, quoted: Sequence[Phrase], identifiers: Sequence[Phrase], *, mentioned: bool
) -> ExactQuery | None:
    """The query for those wordings that occur at all; None if none does.

    A wording that nothing holds would only make the scores of the others smaller.
    """
    asked = [_part(phrase) for phrase in (*quoted, *identifiers)][:MOST_PARTS]
    found = await asyncio.gather(*(view.text(part, k=RARE + 1) for part in asked))
    kept = [
        ExactPart(part, hits.keys if len(hits) <= RARE else None)
        for index, (part, hits) in enumerate(zip(asked, found, strict=True))
        if len(hits) and (index < len(quoted) or len(hits) <= RARE)
    ]
    return ExactQuery(tuple(kept), mentioned) if kept else None


def _part(phrase: Phrase) -> TextQuery:
    """The phrase, scored by its words: the best alternative for each word counts."""
    columns = zip_longest(*phrase.variants)
    words = (dict.fromkeys(term for term in column if term) for column in columns)
    return TextQuery(tuple(tuple(map(Term, word)) for word in words), where=phrase)


def boost(
    candidates: Candidates, weights: Mapping[Leg, float], rest: Scores
) -> tuple[Candidates, float]:
    """The exact leg, and just the weight that boosts the best holder to `BOOSTED_RANK`.

    `rest` are the scores without that leg. Where a holder is among them already, the leg has no
    weight and nothing changes; else the best one gets what it lacks, and the others nothing.
    """
    leg = candidates.legs["exact"]
    best = rest[leg.scores > 0].max()
    wanted = np.sort(rest)[-min(BOOSTED_RANK, len(rest))]
    others = sum(weights[name] for name in candidates.legs if name != "exact")
    chosen = (leg.scores > 0) & (rest == best)
    boosted = LegScores(chosen.astype(np.float64), np.where(chosen, leg.ranks, 0))
    legs = {**candidates.legs, "exact": boosted}
    lacking = max(0.0, float(wanted - best)) * others
    return replace(candidates, legs=legs), lacking


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How candidates will be fused, and how many passages will be read; None for all.

    `floor` is where the embedder's cosines of unrelated texts start.
    """

    weights: Mapping[Leg, float]
    floor: float
    passages: int | None


async def single_query_candidates(
    view: View,
    vector: Vector,
    text: TextQuery,
    *,
    depth: int,
    plan: FusionPlan,
    prefs: RetrievalPrefs,
) -> Candidates | None:
    """The candidates of both legs, None if the legs are asked one by one."""
    asked = _asked(vector, text, depth, plan, prefs)
    if asked is None or view.native is None:
        return None
    found = await view.native.hybrid(asked)
    if found is None:
        return None
    legs: dict[Leg, LegScores] = {
        "semantic": listed(found.semantic, found.keys, rest=found.semantic_scores),
        "text": listed(found.text, found.keys, rest=found.text_scores),
    }
    return Candidates(found.keys, legs, depth)


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


def _asked(
    vector: Vector, text: TextQuery, depth: int, plan: FusionPlan, prefs: RetrievalPrefs
) -> HybridQuery | None:
    scale = _scale(prefs.scoring)
    weights = plan.weights["semantic"], plan.weights["text"]
    if scale is None or min(weights) <= 0 or prefs.vector.distance != "cosine":
        return None
    if prefs.strategy == "legs":
        return None
    return HybridQuery(
        vector=vector,
        text=text,
        depth=depth,
        fill=prefs.scoring.fill,
        least=(prefs.vector.min_score, prefs.fts.min_rank),
        scale=scale,
        weights=weights,
        rrf_k=prefs.scoring.rrf_k,
        floor=plan.floor,
        passages=2 * depth if plan.passages is None else plan.passages,
        anyway=prefs.strategy == "statement",
    )


def _scale(scoring: ScoringPrefs) -> Scale | None:
    """The scale of the scores, if it can be computed for each score by itself."""
    if scoring.blend == "rrf":
        return "rrf"
    if scoring.normalize == "absolute" or scoring.normalize == "theoretical":
        return scoring.normalize
    return None


@dataclass(frozen=True, slots=True)
class TrigramTextQuery:
    """Words, compared together, and the least similarity of a text that is found.

    `near` are words that stand near answers: a text with one of them is a better one.
    """

    words: str
    threshold: float
    near: tuple[str, ...] = ()

    async def search(self, view: View, *, k: int) -> Hits:
        """The most similar chunks."""
        return await _comparing(view).search_texts(
            self.words, threshold=self.threshold, k=k, near=self.near, bonus=NEAR_ANSWER_WEIGHT
        )

    async def scores(self, view: View, keys: ChunkKeys) -> NDArray[np.float64]:
        """The similarity of each of `keys`."""
        scores = await _comparing(view).text_scores(
            self.words, keys, near=self.near, bonus=NEAR_ANSWER_WEIGHT
        )
        return scores.astype(np.float64)

    def score_of(self, text: str) -> float:
        """The score of a text that no store has."""
        alike = word_similarity(self.words, text)
        has_one = not set(words(text)).isdisjoint(self.near)
        return alike + NEAR_ANSWER_WEIGHT * (1 - alike) * has_one


async def trigram_text_query(
    view: View,
    words: Sequence[str],
    prefs: FuzzyPrefs,
    syntax: FtsMode,
    notes: Diagnostics,
    *,
    near: tuple[str, ...] = (),
) -> TrigramTextQuery | None:
    """The query for these words; None, and a note, where texts can't be compared."""
    if syntax != "any":
        problem = f"whole texts can't be compared under the conditions of fts.mode {syntax}"
    elif view.native is None:
        problem = "this store can't compare words with whole texts"
    elif not await view.native.comparable():
        problem = "there is too much text to compare all of it"
    else:
        return TrigramTextQuery(" ".join(words), prefs.threshold, near)
    notes.note("fuzzy", f"{problem}; words are compared with index terms")
    return None


def _comparing(view: View) -> NativeSearch:
    if view.native is None:
        raise StoreError("this store can't compare whole texts; ask for fuzzy.over = 'terms'")
    return view.native


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LegQueries:
    """The query of each leg; a leg that is None does not run.

    `length` is that of the caller's own vector; `semantic` has the length 1. `fuzzy` is the
    full-text query with misspelt words replaced by what they may mean, or the words for whole
    texts; `misspelt` is how much of it was replaced, from 0 to 1.
    """

    semantic: Vector | None = None
    text: TextQuery | None = None
    fuzzy: TextQuery | TrigramTextQuery | None = None
    exact: ExactQuery | None = None
    length: float = 1.0
    misspelt: float = 0.0

    def active(self) -> list[Leg]:
        """The legs that run."""
        return [leg for leg in LEGS if getattr(self, leg) is not None]


class Recall:
    """One query's legs on one view; with a plan they may become a single query."""

    def __init__(
        self,
        view: View,
        queries: LegQueries,
        prefs: RetrievalPrefs,
        *,
        plan: FusionPlan | None = None,
    ) -> None:
        self._view = view
        self._queries = queries
        self._prefs = prefs
        self._plan = plan

    async def candidates(self, *, depth: int, diagnostics: Diagnostics) -> Candidates:
        """The best `depth` chunks of each leg, with the score of every leg for each of them.

        A leg that fails is noted and left out, unless it was the only one.
        """
        if (both := await self._single_query(depth)) is not None:
            return both
        legs = self._queries.active()
        outcomes = await self._each([self._search(leg, depth) for leg in legs])
        lists = self._usable(dict(zip(legs, outcomes, strict=True)), diagnostics)
        found = [hits.keys for hits in lists.values()]
        keys = distinct(np.concatenate([np.empty(0, np.int64), *found]))
        scores = await self._each([self._filled(leg, hits, keys) for leg, hits in lists.items()])
        return Candidates(keys, dict(zip(lists, scores, strict=True)), depth)

    async def _single_query(self, depth: int) -> Candidates | None:
        """Both legs in one query, if there are no others and the store can do so."""
        vector, text = self._queries.semantic, self._queries.text
        alone = self._queries.fuzzy is None and self._queries.exact is None
        if self._plan is None or not alone or vector is None or text is None:
            return None
        return await single_query_candidates(
            self._view, vector, text, depth=depth, plan=self._plan, prefs=self._prefs
        )

    def _usable(
        self, outcomes: Mapping[Leg, Hits | StoreError], diagnostics: Diagnostics
    ) -> dict[Leg, Hits]:
        failed = {leg: said for leg, said in outcomes.items() if isinstance(said, StoreError)}
        for leg, error in failed.items():
            if len(failed) == len(outcomes):
                raise error
            diagnostics.note(leg, f"the leg failed and is left out ({error})", cause=error)
        return {
            leg: self._good_enough(leg, hits)
            for leg, hits in outcomes.items()
            if isinstance(hits, Hits)
        }

    async def _each(self, jobs: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of the jobs, which run one by one if none of them has to wait."""
        if not self._view.immediate:
            return await asyncio.gather(*jobs)
        results: list[T] = []
        for job in jobs:
            results.append(await job)
        return results

    def _good_enough(self, leg: Leg, hits: Hits) -> Hits:
        least = {"semantic": self._prefs.vector.min_score, "text": self._prefs.fts.min_rank}.get(
            leg
        )
        if least is None:
            return hits
        kept = hits.scores >= least
        return hits[kept]

    async def _search(self, leg: Leg, depth: int) -> Hits | StoreError:
        """What a leg finds, or why it failed."""
        query, view = self._queries, self._view
        try:
            if leg == "semantic" and query.semantic is not None:
                found = await view.semantic(query.semantic, k=depth)
                return Hits(found.keys, self._by_distance(found.scores).astype(np.float32))
            if leg == "exact" and query.exact is not None:
                return await query.exact.search(view, k=depth)
            words = query.text if leg == "text" else query.fuzzy
            if isinstance(words, TrigramTextQuery):
                return await words.search(view, k=depth)
            return await view.text(words or TextQuery(()), k=depth)
        except StoreError as error:
            return error

    async def _filled(self, leg: Leg, found: Hits, keys: ChunkKeys) -> LegScores:
        """Scores for all of `keys`: those of the leg's own list, and the missing ones."""
        known = listed(found, keys)
        missing = np.flatnonzero(known.ranks == 0)
        if len(missing) and self._prefs.scoring.fill:
            known.scores[missing] = await self.scores(leg, keys[missing])
        return known

    async def scores(self, leg: Leg, keys: ChunkKeys) -> NDArray[np.float64]:
        """The exact score of each of `keys` in a leg."""
        query = self._queries
        if leg == "semantic" and query.semantic is not None:
            return self._by_distance(await self._view.semantic_scores(query.semantic, keys))
        if leg == "exact" and query.exact is not None:
            return await query.exact.scores(self._view, keys)
        words = query.text if leg == "text" else query.fuzzy
        if isinstance(words, TrigramTextQuery):
            return await words.scores(self._view, keys)
        scores = await self._view.text_scores(words or TextQuery(()), keys)
        return scores.astype(np.float64)

    def _by_distance(self, cosines: NDArray[np.float32]) -> NDArray[np.float64]:
        return by_distance(
            cosines.astype(np.float64), self._queries.length, self._prefs.vector.distance
        )


def by_distance(
    cosines: NDArray[np.float64], length: float, distance: Distance
) -> NDArray[np.float64]:
    """Scores on another scale than cosine, the greater the nearer: inner product, or 1 / (1 + l2).

    `length` is that of the query's vector; stored vectors have the length 1, so the order is the
    same on every scale.
    """
    if distance == "cosine":
        return cosines
    if distance == "ip":
        return cosines * length
    squared = np.maximum(length**2 + 1 - 2 * length * cosines, 0)
    return 1 / (1 + np.sqrt(squared))
