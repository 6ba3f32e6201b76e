"""The candidates in a total order, with their passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lagotto.retrieval.fusion import Candidates, Scores
from lagotto.stores.base import Passage, View


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage with its score; `place` is where it stands among the candidates."""

    passage: Passage
    score: float
    place: int
    best_rank: int


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
    ranked.sort(key=_total_order)
    return ranked[:count]


def _total_order(item: Ranked) -> tuple[float, int, str, str, int, str]:
    chunk = item.passage.chunk
    place = (chunk.collection, chunk.document_id, chunk.start, chunk.id)
    return (-item.score, item.best_rank, *place)
