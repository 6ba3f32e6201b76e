"""A local reranker without a model of its own: wording, and the embedder's token vectors.

A passage's one vector blurs what its single sentences say. Here the vectors of its tokens, before
they become one, are compared with those of the query. That costs one run of the model for each
candidate.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from lagotto.concurrency import in_thread
from lagotto.documents import in_context
from lagotto.errors import ConfigError, EmbeddingError, RerankError
from lagotto.rerankers.base import LOGIT, Candidate, Judgement, Scale, Verdict
from lagotto.rerankers.lexical import LexicalReranker
from lagotto.rerankers.lexical_features import NAMES as WORDING_NAMES
from lagotto.rerankers.lexical_features import lexical_features
from lagotto.rerankers.linear import Features, LinearWeights, learned_weights
from lagotto.rerankers.registry import WithEmbedder
from lagotto.rerankers.token_features import NAMES as TOKEN_NAMES
from lagotto.rerankers.token_features import TokenEmbedder, Tokens, token_features

NAMES = (*WORDING_NAMES, *TOKEN_NAMES)
SEEN = 1000
"""Characters of a query that tell its alphabet."""


class MaxSimReranker:
    """Scores passages by their wording, as `lexical` does, and by the vectors of their tokens.

    `embedder` must give token vectors, as ONNX ones do; the weights were learned with MiniLM. It
    belongs to whoever made it and is not closed here. A query whose alphabet the embedder never
    learned is judged by wording alone.
    """

    reads_only_text = False

    def __init__(self, embedder: object, *, weights: LinearWeights | None = None) -> None:
        if not isinstance(embedder, TokenEmbedder):
            raise ConfigError(
                f"maxsim needs an embedder that gives the vectors of tokens, and "
                f"{type(embedder).__name__} does not; use minilm or an onnx one, or the reranker "
                "lexical"
            )
        self._embedder = embedder
        self._weights = weights or learned_weights("maxsim")
        self._wording = LexicalReranker()

    @property
    def id(self) -> str:
        """The model, the weights as a hash, and what stands in for them."""
        model = self._embedder.info.model_id
        return f"maxsim:{model}#{self._weights.id}/{self._wording.id}"

    @property
    def scale(self) -> Scale:
        """Log-odds of being relevant, as in the questions learned from."""
        return LOGIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The weighted sum for each candidate."""
        if not candidates:
            return Judgement([])
        if not _readable(query, self._embedder.info.alphabets):
            return await self._wording.rerank(query, candidates)
        texts = [in_context(one.title, one.text) for one in candidates]
        try:
            (asked,) = await self._embedder.token_vectors([query], role="query")
            passages = await self._embedder.token_vectors(texts, role="document")
        except EmbeddingError as exc:
            raise RerankError(f"the vectors of tokens can't be had: {exc}") from exc
        features = await in_thread(maxsim_features, query, candidates, asked, passages)
        return Judgement(list(map(Verdict, self._weights.scores(features, NAMES))))

    async def close(self) -> None:
        """Nothing of its own to free."""


def maxsim_features(
    query: str, candidates: Sequence[Candidate], asked: Tokens, passages: Sequence[Tokens]
) -> Features:
    """One row per candidate, in the order of `NAMES`."""
    return np.hstack([lexical_features(query, candidates), token_features(asked, passages)])


def _readable(query: str, alphabets: tuple[str, ...]) -> bool:
    """Whether most letters of the query are of `alphabets`."""
    names = [unicodedata.name(letter, "") for letter in query[:SEEN] if letter.isalpha()]
    known = sum(name.startswith(alphabets) for name in names)
    return not alphabets or 2 * known >= len(names)


def _made(parameters: str, embedder: object) -> MaxSimReranker:
    """`maxsim`."""
    if parameters:
        raise ConfigError(f"maxsim takes no parameters, but got {parameters!r}")
    return MaxSimReranker(embedder)


from_name = WithEmbedder(_made)
