"""The exact leg: passages that hold a quotation or an identifier of the query word for word."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import Phrase, Term, TextQuery
from lagotto.results import Leg
from lagotto.retrieval.fusion import Candidates, LegScores, Scores
from lagotto.stores.base import View

MOST_PARTS = 4
"""The number of quotations and identifiers of a query that are looked up."""

RARE = 20
"""An identifier that more passages hold is a plain word; a quotation always counts."""


LIFTED_RANK = 3
"""The rank to which a wording that is merely mentioned lifts the best passage that holds it."""


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
    what is asked for, decides how far they lift the passages that hold them.
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


def lift(
    candidates: Candidates, weights: Mapping[Leg, float], rest: Scores
) -> tuple[Candidates, float]:
    """The exact leg, and just the weight that lifts the best holder to `LIFTED_RANK`.

    `rest` are the scores without that leg. Where a holder is among them already, the leg has no
    weight and nothing changes; else the best one gets what it lacks, and the others nothing.
    """
    leg = candidates.legs["exact"]
    best = rest[leg.scores > 0].max()
    wanted = np.sort(rest)[-min(LIFTED_RANK, len(rest))]
    others = sum(weights[name] for name in candidates.legs if name != "exact")
    chosen = (leg.scores > 0) & (rest == best)
    lifted = LegScores(chosen.astype(np.float64), np.where(chosen, leg.ranks, 0))
    legs = {**candidates.legs, "exact": lifted}
    lacking = max(0.0, float(wanted - best)) * others
    return replace(candidates, legs=legs), lacking
