"""An embedder for tests without a model: similar texts get similar vectors."""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from lagotto.documents import Vectors
from lagotto.embedders.base import EmbedderInfo, Role, normalised
from lagotto.models.tokenizer import ApproximateTokenizer

_WORD = re.compile(r"\w+")
TRIGRAM_WEIGHT = 0.5
FLOOR_WEIGHT = 0.001
"""Keeps the vector of a text without words from having norm 0."""


class HashEmbedder:
    """Hashed words and their trigrams; an Embedder like any other.

    A text's vector is the same on every machine and in every version of Python.
    """

    def __init__(self, *, dimension: int = 64, model_id: str = "hash") -> None:
        self._info = EmbedderInfo(model_id=model_id, dimension=dimension)

    @property
    def info(self) -> EmbedderInfo:
        """The properties given at creation."""
        return self._info

    @property
    def tokenizer(self) -> ApproximateTokenizer:
        """An approximation."""
        return ApproximateTokenizer()

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return one unit vector per text, in order; `role` makes no difference."""
        rows = np.zeros((len(texts), self.info.dimension), dtype=np.float64)
        rows[:, 0] = FLOOR_WEIGHT
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in _features(text).items():
                code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                row[code % len(row)] += weight if code >> 31 else -weight
        return normalised(rows)

    async def close(self) -> None:
        """Do nothing: there is nothing to free."""


def _features(text: str) -> dict[str, float]:
    """Words and their trigrams, with weights."""
    features: defaultdict[str, float] = defaultdict(float)
    for word, count in Counter(_WORD.findall(text.casefold())).items():
        features[word] += count
        padded = f"^{word}$"
        for start in range(len(padded) - 2):
            features["#" + padded[start : start + 3]] += count * TRIGRAM_WEIGHT
    return features
