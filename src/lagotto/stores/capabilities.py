"""What the views of some stores can do besides; whoever asks looks first whether they can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import NativeQuery, TextQuery


@runtime_checkable
class NativeRanking(Protocol):
    """A view whose server has a full-text search of its own, as `Capabilities` tell."""

    async def prepare(self, query: NativeQuery) -> None:
        """Have all that `text` and `text_scores` need for a native query.

        A QueryError if the server can't read it, a StoreError if it has no index for it and none
        can be made; both leave the question open, to be asked in another way.
        """
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


@runtime_checkable
class SingleQueryHybrid(Protocol):
    """A view that asks both legs in one go, and reads the best passages with it."""

    async def hybrid(self, asked: HybridQuery) -> HybridFound | None:
        """What both legs find, None if they are to be asked one by one.

        The same as `semantic`, `text` and their scores say; `passages` then has the best at hand.
        """
        ...


@runtime_checkable
class TrigramTextSearch(Protocol):
    """A view that compares words with the texts of chunks, as `Capabilities` tell.

    How alike they are is the word similarity of trigrams, from 0 to 1: that of the words to the
    stretch of the text that is most like them.
    """

    async def comparable(self) -> bool:
        """Whether there is so little text that comparing all of it is quick."""
        ...

    async def trigram_search(self, words: str, *, threshold: float, k: int) -> Hits:
        """The chunks whose texts are most like `words`, if they are by `threshold` or more."""
        ...

    async def trigram_scores(self, words: str, keys: ChunkKeys) -> NDArray[np.float32]:
        """How alike the text of each of `keys` is."""
        ...
