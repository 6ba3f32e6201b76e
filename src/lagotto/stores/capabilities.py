"""Parts that the views of only some stores have: `View.native`, `trigram` and `single_query`.

A part that a store lacks is None in its views; nothing else says what it can do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import NativeQuery, TextQuery


class NativeRanking(Protocol):
    """Full-text search by the store's own server: its `rank_functions` other than bm25."""

    async def prepare(self, query: NativeQuery) -> None:
        """Build or load what a native query needs.

        A QueryError if the server can't parse it, a StoreError if it has no index for it and none
        can be built; the query can then be asked in another way.
        """
        ...

    async def search(self, query: NativeQuery, *, k: int) -> Hits:
        """The best `k` of the chunks that match."""
        ...

    async def scores(self, query: NativeQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """The score of each of `keys`, 0 for those that don't match."""
        ...


Scale = Literal["rrf", "absolute", "theoretical"]


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """The semantic and the text leg at once, and how their scores will become one.

    Each brings `depth` chunks, none below its least score; with `fill` either tells of what the
    other found as well. The best `passages` by the fused score will be read. `weights` and `least`
    are those of the semantic leg and of the text leg. Unless it is asked for `anyway`, a store
    answers only where that takes less time than one leg after the other.
    """

    vector: Vector
    text: TextQuery
    depth: int
    fill: bool
    least: tuple[float | None, float | None]
    scale: Scale
    weights: tuple[float, float]
    rrf_k: int
    floor: float
    passages: int
    anyway: bool = False


@dataclass(frozen=True, slots=True)
class HybridFound:
    """What both legs found, and what they say of each of `keys`, which ascend; NaN for nothing.

    `fused` are the scores by which the passages were chosen.
    """

    semantic: Hits
    text: Hits
    keys: ChunkKeys
    semantic_scores: NDArray[np.float32]
    text_scores: NDArray[np.float32]
    fused: NDArray[np.float64]


class SingleQueryHybrid(Protocol):
    """Both legs in one statement, which also reads the best passages."""

    async def hybrid(self, asked: HybridQuery) -> HybridFound | None:
        """What both legs find, None if they are to be asked one by one.

        The same as `semantic`, `text` and their scores say; the view's `passages` then has the
        best ones without asking again.
        """
        ...


class TrigramTextSearch(Protocol):
    """Words compared with the whole texts of chunks.

    The score is the word similarity of trigrams, from 0 to 1: that of the words to the stretch of
    the text that is most like them.
    """

    async def comparable(self) -> bool:
        """Whether there is so little text that comparing all of it is quick."""
        ...

    async def search(self, words: str, *, threshold: float, k: int) -> Hits:
        """The chunks whose texts are most like `words`, with a score of `threshold` or more."""
        ...

    async def scores(self, words: str, keys: ChunkKeys) -> NDArray[np.float32]:
        """The score of each of `keys`."""
        ...


@dataclass(frozen=True, slots=True)
class NativeParts:
    """The parts that a view has beyond what every store can do."""

    native: NativeRanking | None = None
    trigram: TrigramTextSearch | None = None
    single_query: SingleQueryHybrid | None = None
