"""The candidates in a total order, with their passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagotto.documents import Chunk, Span
from lagotto.retrieval.fusion import Candidates, Scores
from lagotto.stores.base import Passage, View


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage on its way through the stages, with its score so far.

    `place` is where it stands among the candidates. `child_id` is the chunk that was found, where
    its parent took its place. `rerank` is on the reranker's own scale.
    """

    passage: Passage
    score: float
    place: int
    best_rank: int
    child_id: str | None = None
    parent: Chunk | None = None
    section: str | None = None
    rerank: float | None = None
    answerable: bool | None = None
    evidence: Span | None = None


async def rank(view: View, candidates: Candidates, scores: Scores, *, count: int) -> list[Ranked]:
    """The best `count` in a total order: score, best rank in a leg, document, place in it.

    Keys depend on the order in which documents came in, so ties are settled by the passages.
    """
    best_ranks = candidates.best_ranks() if candidates.legs else np.empty(0, np.int64)
    order = np.lexsort((best_ranks, -scores))
    if len(order) > count:
        last = order[count - 1]
        beyond = (scores[order] < scores[last]) | (
            (scores[order] == scores[last]) & (best_ranks[order] > best_ranks[last])
        )
        order = order[~beyond]
    passages = await view.passages(candidates.keys[order])
    place_of = {int(candidates.keys[place]): int(place) for place in order}
    ranked = []
    for passage in passages:
        place = place_of[passage.key]
        ranked.append(Ranked(passage, float(scores[place]), place, int(best_ranks[place])))
    ranked.sort(key=total_order)
    return ranked[:count]


def total_order(item: Ranked) -> tuple[float, int, str, str, int, str]:
    """Score, best rank in a leg, document, place in it."""
    chunk = item.passage.chunk
    place = (chunk.collection, chunk.document_id, chunk.start, chunk.id)
    return (-item.score, item.best_rank, *place)


def good_enough(ranked: Sequence[Ranked], least: float | None) -> list[Ranked]:
    """Those whose score is `least` or more."""
    return [item for item in ranked if least is None or item.score >= least]
