"""Ranked lists as the reference designs write them, and bases to try them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lagotto.documents import Document, Vectors
from lagotto.embedders.base import Role
from lagotto.results import Leg
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.testing.hash_embedder import HashEmbedder

NAMES = "abcdefgh"


def candidates(**lists: Sequence[str] | Mapping[str, float]) -> Candidates:
    """Candidates named by letters: for each leg its list, best first, or its scores by letter."""
    names = sorted({name for found in lists.values() for name in found})
    legs: dict[Leg, LegScores] = {}
    for leg, found in lists.items():
        scored = dict(found) if isinstance(found, Mapping) else _descending(found)
        order = sorted(scored, key=lambda name: -scored[name])
        scores = np.array([scored.get(name, 0.0) for name in names])
        ranks = np.array([order.index(name) + 1 if name in scored else 0 for name in names])
        legs[leg] = LegScores(scores, ranks.astype(np.int64))  # type: ignore[index]
    return Candidates(np.array([NAMES.index(name) for name in names], np.int64), legs)


def _descending(names: Sequence[str]) -> dict[str, float]:
    return {name: 1.0 / place for place, name in enumerate(names, 1)}


def named(
    values: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]], found: Candidates
) -> dict[str, float]:
    """Values by the letter of their candidate."""
    return {NAMES[int(key)]: float(value) for key, value in zip(found.keys, values, strict=True)}


class Angles(HashEmbedder):
    """Puts the document "s007 ..." 3.5 degrees away from every query, "s100 ..." 50 degrees."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        degrees = [0.0 if role == "query" else int(text[1:4]) / 2 for text in texts]
        rows = np.zeros((len(texts), self.info.dimension), np.float32)
        rows[:, 0], rows[:, 1] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        return rows


def spread(count: int, *, worded: int) -> list[Document]:
    """Documents s000, s001 and so on, the nearest to a query first.

    Only the last `worded` have the word zebra, and the very last is the first by this word.
    """
    return [
        Document(
            id=f"s{number:03}",
            text=f"s{number:03} {'zebra' * (number >= count - worded)}{' pad' * (count - number)}",
        )
        for number in range(count)
    ]


LONG = " ".join(
    f"Section {number} tells of {word}: how it grows, who looks for it and what it costs."
    for number, word in enumerate(["truffles", "oaks", "dogs", "lakes", "roots"] * 6)
)

DOCUMENTS = [
    Document(
        id="guide",
        title="Logging guide",
        source="guide.md",
        text="How to configure logging. Set the level of the logger to DEBUG and name a file.",
        metadata={"type": "documentation", "date": "2024-05-01"},
    ),
    Document(
        id="api",
        title="API reference",
        source="api.md",
        text="The API reference lists every call of the service, with its parameters.",
        metadata={"type": "documentation", "date": "2023-05-01"},
    ),
    Document(
        id="blog",
        title="Blog",
        source="blog.md",
        text="We wrote about configuration of logging and what it costs to log too much.",
        metadata={"type": "blog", "date": "2024-06-01"},
    ),
    Document(
        id="series",
        title="Stargate",
        source="tv.md",
        text="Stargate Atlantis was cancelled in 2008 after five seasons. It ended in 2009.",
    ),
    Document(
        id="other",
        title="Atlantis",
        source="myth.md",
        text="Atlantis is an island that Plato mentions. It sank into the sea.",
    ),
]
