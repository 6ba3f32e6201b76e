"""The fuzzy leg over whole texts: chunks with a stretch that resembles the query's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.errors import StoreError
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.hits import Hits
from lagotto.prefs import FtsMode, FuzzyPrefs
from lagotto.retrieval.diagnostics import Diagnostics
from lagotto.stores.base import View
from lagotto.stores.capabilities import TrigramTextSearch


@dataclass(frozen=True, slots=True)
class TrigramTextQuery:
    """Words, compared together, and the least similarity of a text that is found."""

    words: str
    threshold: float

    async def search(self, view: View, *, k: int) -> Hits:
        """The most similar chunks."""
        return await _comparing(view).search(self.words, threshold=self.threshold, k=k)

    async def scores(self, view: View, keys: ChunkKeys) -> NDArray[np.float64]:
        """The similarity of each of `keys`."""
        scores = await _comparing(view).scores(self.words, keys)
        return scores.astype(np.float64)


async def trigram_text_query(
    view: View, words: Sequence[str], prefs: FuzzyPrefs, syntax: FtsMode, notes: Diagnostics
) -> TrigramTextQuery | None:
    """The query for these words; None, and a note, where texts can't be compared."""
    if syntax != "any":
        problem = f"whole texts can't be compared under the conditions of fts.mode {syntax}"
    elif view.trigram is None:
        problem = "this store can't compare words with whole texts"
    elif not await view.trigram.comparable():
        problem = "there is too much text to compare all of it"
    else:
        return TrigramTextQuery(" ".join(words), prefs.threshold)
    notes.note("fuzzy", f"{problem}; words are compared with index terms")
    return None


def _comparing(view: View) -> TrigramTextSearch:
    if view.trigram is None:
        raise StoreError("this store can't compare whole texts; ask for fuzzy.over = 'terms'")
    return view.trigram
