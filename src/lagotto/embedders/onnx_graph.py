"""What an ONNX embedding model says: vectors of texts, or of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lagotto.documents import Vectors
from lagotto.errors import EmbeddingError, WeightsError
from lagotto.models.onnx import OnnxSession

if TYPE_CHECKING:
    from tokenizers import Encoding


class OnnxGraph:
    """An embedding model in memory; it may be run from several threads at once.

    It gives (texts, tokens, dimension), or (texts, dimension) if it pools by itself.
    """

    def __init__(self, path: Path) -> None:
        self._session = OnnxSession(path, unusable=WeightsError, failed=EmbeddingError)

    def pooled(self, texts: Sequence[Encoding], *, pooling: Literal["mean", "cls"]) -> Vectors:
        """One vector per text, not yet scaled."""
        hidden, mask = self._session.run(texts)
        if hidden.ndim == 2:
            return hidden
        if pooling == "cls":
            return hidden[:, 0]
        weights = mask[:, :, np.newaxis].astype(np.float32)
        mean: Vectors = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return mean

    def token_vectors(self, texts: Sequence[Encoding]) -> list[Vectors]:
        """Each text's token vectors, padding left out."""
        hidden, _ = self._session.run(texts)
        if hidden.ndim != 3:
            raise EmbeddingError(
                f"this model gives one vector per text (shape {hidden.shape}), not one per token; "
                "export it without its pooling layer"
            )
        return [row[: len(text)] for row, text in zip(hidden, texts, strict=True)]
