"""Both legs of a search in one statement, where that is possible and takes less time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import storable
from lagotto.indexes.base import FilterKeys
from lagotto.indexes.hits import Hits, top_k
from lagotto.indexes.text_query import TextQuery
from lagotto.stores.base import Passage
from lagotto.stores.capabilities import HybridFound, HybridQuery
from lagotto.stores.postgres.adapters import KeysParameter, VectorParameter
from lagotto.stores.postgres.native.search import NativeSearch
from lagotto.stores.postgres.native.single_query_sql import (
    BY_TERMS,
    Way,
    passage_columns,
    statement,
)
from lagotto.stores.postgres.text_index.search import Statistics
from lagotto.stores.postgres.transaction import Reader
from lagotto.stores.postgres.vector_index.search import PgVectors
from lagotto.stores.sql.read import passages_of

_CANDIDATE = np.dtype(
    [
        ("key", ">i8"),
        ("semantic", ">f4"),
        ("text", ">f4"),
        ("semantic_place", ">i8"),
        ("text_place", ">i8"),
        ("fused", ">f8"),
    ]
)

Asked = tuple[LiteralString, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SingleQuery:
    """One search as one statement; `allowed` are the chunks that its filter lets through."""

    reader: Reader
    vectors: PgVectors
    native: NativeSearch
    statistics: Statistics
    allowed: FilterKeys | None
    prefetched: dict[int, Passage]

    async def hybrid(self, asked: HybridQuery) -> HybridFound | None:
        """What both legs found, None to ask them one by one; the best passages are prefetched."""
        way = self._way(asked.depth)
        text = await self._text(asked.text, anyway=asked.anyway)
        if way is None or text is None:
            return None
        matches, of_text = text
        whole = statement(
            way=way,
            matches=matches,
            scale=asked.scale,
            fill=asked.fill,
            depth=asked.depth,
            dimension=self.vectors.dimension or 0,
            passages=asked.passages,
        )
        rows = await self.reader.rows(whole, {**self._parameters(asked), **of_text})
        self.prefetched.update(_passages(rows))
        return _found(rows[0][0])

    def _way(self, depth: int) -> Way | None:
        """How the nearest vectors are found; None if that may need a second statement."""
        if self.vectors.dimension is None:
            return None
        if self.allowed is None:
            return "graph" if self.vectors.indexed else "exact"
        by_graph = self.vectors.by_graph(depth, len(self.allowed.keys))
        return None if by_graph else "among"

    async def _text(self, query: TextQuery, *, anyway: bool) -> Asked | None:
        """A statement for all matches, None if there is none, or if it would take longer."""
        native = query.native
        if native is None:
            return self._by_terms(query) if anyway and query.where is None else None
        if self.native.configs is None or self.native.is_answered(native):
            return None
        return await self.native.asked(native)

    def _by_terms(self, query: TextQuery) -> Asked:
        given = [(term, number) for number, word in enumerate(query.words) for term in word]
        asked = [storable(term.text) for term, _ in given]
        known = self.statistics
        return BY_TERMS, {
            "terms": sorted(set(asked)),
            "asked": asked,
            "words": [number for _, number in given],
            "weights": [term.weight for term, _ in given],
            "chunks": float(known.chunks),
            "mean": (known.terms / known.chunks if known.chunks else 1.0) or 1.0,
        }

    def _parameters(self, asked: HybridQuery) -> dict[str, Any]:
        least = [-np.inf if score is None else score for score in asked.least]
        allowed = None if self.allowed is None else KeysParameter(self.allowed.keys)
        return {
            "query": VectorParameter(asked.vector),
            "allowed": allowed,
            "least_semantic": float(least[0]),
            "least_text": float(least[1]),
            "semantic_weight": asked.weights[0],
            "text_weight": asked.weights[1],
            "rrf_k": asked.rrf_k,
            "floor": asked.floor,
        }


def _found(joined: bytes | None) -> HybridFound:
    candidates = np.frombuffer(joined or b"", _CANDIDATE)
    return HybridFound(
        semantic=_leg(candidates, "semantic"),
        text=_leg(candidates, "text"),
        keys=candidates["key"].astype(np.int64),
        semantic_scores=candidates["semantic"].astype(np.float32),
        text_scores=candidates["text"].astype(np.float32),
        fused=candidates["fused"].astype(np.float64),
    )


def _leg(candidates: NDArray[np.void], name: str) -> Hits:
    """A leg's own list: by score and then by key."""
    own = candidates[candidates[f"{name}_place"] > 0]
    keys, scores = own["key"].astype(np.int64), own[name].astype(np.float32)
    return top_k(keys, scores, len(keys))


def _passages(rows: Sequence[tuple[Any, ...]]) -> dict[int, Passage]:
    names = passage_columns()
    read = (dict(zip(names, row[1:], strict=True)) for row in rows)
    return passages_of(fields for fields in read if fields["key"] is not None)
