"""The fuzzy leg over whole texts: chunks in which a stretch is like the words of the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.errors import StoreError
from lagotto.prefs import FuzzyPrefs
from lagotto.retrieval.degradation import Degradation
from lagotto.stores.abilities import ComparesTexts
from lagotto.stores.base import Capabilities, ChunkKeys, View
from lagotto.stores.hits import Hits


@dataclass(frozen=True, slots=True)
class AlikeQuery:
    """Words, together, and how alike a text must be to be found."""

    words: str
    threshold: float

    async def search(self, view: View, *, k: int) -> Hits:
        """The chunks that are most alike."""
        return await _comparing(view).alike(self.words, threshold=self.threshold, k=k)

    async def scores(self, view: View, keys: ChunkKeys) -> NDArray[np.float64]:
        """How alike each of `keys` is."""
        scores = await _comparing(view).alike_scores(self.words, keys)
        return scores.astype(np.float64)


async def alike_query(
    view: View, words: Sequence[str], prefs: FuzzyPrefs, can: Capabilities, notes: Degradation
) -> AlikeQuery | None:
    """The query for these words; None, and a note, where texts can't be compared."""
    if not can.chunk_similarity:
        problem = "this store can't compare words with whole texts"
    elif not await _comparing(view).comparable():
        problem = "there is too much text to compare all of it"
    else:
        return AlikeQuery(" ".join(words), prefs.threshold)
    notes.note("fuzzy", f"{problem}; words are compared with index terms")
    return None


def _comparing(view: View) -> ComparesTexts:
    if not isinstance(view, ComparesTexts):
        raise StoreError(
            f"a {type(view).__name__} can't compare whole texts; ask for fuzzy.over = 'terms'"
        )
    return view
