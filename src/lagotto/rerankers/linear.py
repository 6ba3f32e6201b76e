"""Linear models over features, trained on questions with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Record, digest

Features = NDArray[np.float64]
"""One row per candidate, one column per feature."""


class LinearWeights(Record):
    """The weights of a linear model: weighted sum plus `bias` is the log-odds of relevance."""

    weights: dict[str, float]
    bias: float

    @property
    def id(self) -> str:
        """A short hash of the weights."""
        return digest(self.model_dump())[:12]

    def scores(self, features: Features, names: Sequence[str]) -> list[float]:
        """The log-odds of each row; `names` are the names of the columns."""
        row = np.array([self.weights[name] for name in names])
        scores: list[float] = (features @ row + self.bias).tolist()
        return scores


@cache
def learned_weights(name: str) -> LinearWeights:
    """Load weights that ship with Lagotto, trained by `benchmarks/train_reranker.py`."""
    file = resources.files("lagotto.rerankers") / f"{name}.json"
    return LinearWeights.model_validate_json(file.read_text(encoding="utf-8"))
