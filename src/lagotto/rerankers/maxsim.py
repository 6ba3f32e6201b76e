"""A local reranker that compares the token vectors of query and passage (late interaction).

The single vector of a passage blurs what its sentences say. Comparing tokens costs one run of the
base's embedder per candidate and needs no model of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto.documents import Vectors, in_context
from lagotto.embedders.base import TokenEmbedder, TokenVectors
from lagotto.errors import ConfigError, EmbeddingError, RerankError
from lagotto.rerankers.base import (
    LOGIT,
    Candidate,
    Judgement,
    LocalReranker,
    Verdict,
    WithEmbedder,
    refuse_parameters,
)
from lagotto.rerankers.lexical import (
    LEXICAL_FEATURES,
    Features,
    LexicalReranker,
    LinearWeights,
    learned_weights,
    lexical_features,
)
from lagotto.terms.languages import alphabet_share

WINDOW = 32
"""Consecutive tokens that are compared as one: about a sentence."""

TOKEN_FEATURES = ("maxsim", "stretch")
MAXSIM_FEATURES = (*LEXICAL_FEATURES, *TOKEN_FEATURES)
"""Columns of the feature matrix; the trained weights use these names."""

Matrix = NDArray[np.floating[Any]]


class MaxSimReranker(LocalReranker):
    """Scores passages by lexical features, as `lexical` does, and by their token vectors.

    `embedder` must be a TokenEmbedder, as the ONNX embedders are; the weights were trained with
    MiniLM. Its owner closes it, the reranker does not. A query in an alphabet that the embedder was
    not trained on is scored by lexical features alone.
    """

    scale = LOGIT
    reads_only_text = False

    def __init__(self, embedder: object, *, weights: LinearWeights | None = None) -> None:
        if not isinstance(embedder, TokenEmbedder):
            raise ConfigError(
                f"maxsim needs an embedder with token vectors, but {type(embedder).__name__} has "
                "none; use minilm or an onnx: embedder, or the reranker lexical"
            )
        self._embedder = embedder
        self._weights = weights or learned_weights("maxsim")
        self._lexical = LexicalReranker()

    @property
    def id(self) -> str:
        model = self._embedder.info.model_id
        return f"maxsim:{model}#{self._weights.id}/{self._lexical.id}"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        if not candidates:
            return Judgement([])
        if alphabet_share(query, self._embedder.info.alphabets) < 0.5:
            return await self._lexical.rerank(query, candidates)
        texts = [in_context(one.title, one.text) for one in candidates]
        try:
            (of_query,) = await self._embedder.token_vectors([query], role="query")
            passages = await self._embedder.token_vectors(texts, role="document")
        except EmbeddingError as exc:
            raise RerankError(f"maxsim can't compute token vectors: {exc}") from exc
        features = await in_thread(maxsim_features, query, candidates, of_query, passages)
        return Judgement(list(map(Verdict, self._weights.scores(features, MAXSIM_FEATURES))))


def maxsim_features(
    query: str,
    candidates: Sequence[Candidate],
    of_query: TokenVectors,
    passages: Sequence[TokenVectors],
) -> Features:
    """One row per candidate, with the columns of `MAXSIM_FEATURES`."""
    return np.hstack([lexical_features(query, candidates), token_features(of_query, passages)])


def token_features(query: TokenVectors, passages: Sequence[TokenVectors]) -> Features:
    """One row per passage, with the columns of `TOKEN_FEATURES`; zeros if there are no tokens.

    `maxsim` is the mean over the query's tokens of the cosine with the most similar token of the
    passage; `stretch` is the cosine of the query's mean with its best window of the passage.
    """
    wanted = _words(query)
    rows = [
        (_maxsim(wanted, given), _best_window(wanted, given))
        for given in map(_words, with_checkpoints(passages))
    ]
    return np.array(rows, dtype=np.float64).reshape(len(passages), len(TOKEN_FEATURES))


def _words(tokens: TokenVectors) -> Vectors:
    """The vectors of tokens with a span in the text, so without special tokens."""
    return tokens.vectors[tokens.ends > tokens.starts]


def _maxsim(wanted: Vectors, given: Vectors) -> float:
    if not len(wanted) or not len(given):
        return 0.0
    return float((_unit(wanted) @ _unit(given).T).max(axis=1).mean())


def _best_window(wanted: Vectors, given: Vectors) -> float:
    if not len(wanted) or not len(given):
        return 0.0
    length = min(WINDOW, len(given))
    sums = np.cumsum(np.vstack([np.zeros_like(given[:1]), given]), axis=0)
    windows = sums[length:] - sums[:-length]
    return float((_unit(windows) @ _unit(wanted.mean(axis=0, keepdims=True)).T).max())


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Matrix = vectors / np.maximum(lengths, 1e-12)
    return unit


def _create(parameters: str, embedder: object) -> MaxSimReranker:
    """`maxsim`."""
    refuse_parameters("maxsim", parameters)
    return MaxSimReranker(embedder)


from_name = WithEmbedder(_create)
