from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Vectors
from lagotto.embedders import EmbedderInfo, Role, create_embedder
from lagotto.embedders.base import TokenVectors, normalised
from lagotto.errors import ConfigError, EmbeddingError, RerankError
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.rerankers import Candidate, Reranker, create_reranker
from lagotto.rerankers.lexical import (
    MAXSIM_FEATURES,
    WINDOW,
    LinearWeights,
    MaxSimReranker,
    token_features,
)
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.rerankers import CANDIDATES, QUERY, RerankerContract

from .doubles import scores

AXES = np.eye(4, dtype=np.float32)


@dataclass(slots=True)
class WordVectors:
    """Each word has a fixed vector: of its first letter, one of four."""

    info: EmbedderInfo = field(
        default_factory=lambda: EmbedderInfo(model_id="letters", dimension=4, alphabets=("LATIN",))
    )
    failure: str | None = None
    asked: list[tuple[Role, list[str]]] = field(default_factory=list)

    tokenizer: Tokenizer = field(default_factory=ApproximateTokenizer)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """The mean of the token vectors."""
        read = await self.token_vectors(texts, role=role)
        return normalised(np.array([one.vectors.mean(axis=0) for one in read]))

    async def close(self) -> None:
        """Nothing to free."""

    async def token_vectors(
        self, texts: Sequence[str], *, role: Role = "document"
    ) -> list[TokenVectors]:
        """Words of any length; a text ends with a special token."""
        if self.failure:
            raise EmbeddingError(self.failure)
        self.asked.append((role, list(texts)))
        return [tokens(*text.split()) for text in texts]


def tokens(*words: str) -> TokenVectors:
    """Vectors of words, and of a special token with an empty span that would outdo them all."""
    vectors = [AXES[ord(word[0]) % 4] for word in words]
    ends = np.arange(1, len(words) + 1)
    return TokenVectors(
        starts=np.append(ends - 1, len(words)),
        ends=np.append(ends, len(words)),
        vectors=np.array([*vectors, AXES.sum(axis=0)], dtype=np.float32),
    )


class TestContract(RerankerContract):
    independent = False

    @pytest.fixture
    def reranker(self) -> Reranker:
        return create_reranker("maxsim", embedder=WordVectors())


def maxsim_of(query: TokenVectors, passage: TokenVectors) -> tuple[float, float]:
    maxsim, stretch = token_features(query, [passage])[0].tolist()
    return maxsim, stretch


def test_maxsim_is_the_share_of_tokens_that_have_their_like() -> None:
    query = tokens("a", "b", "c", "d")
    assert maxsim_of(query, tokens("a", "b", "d"))[0] == pytest.approx(3 / 4)
    assert maxsim_of(query, tokens("d", "c", "b", "a", "a"))[0] == pytest.approx(1)


def test_stretch_is_the_best_place_of_a_long_passage() -> None:
    query, filler = tokens("a", "b"), ["c"] * WINDOW
    half = WINDOW // 2
    together = maxsim_of(query, tokens(*filler, *["a"] * half, *["b"] * half, *filler))
    apart = maxsim_of(query, tokens(*["a"] * half, *filler, *filler, *["b"] * half))
    assert together == pytest.approx((1, 1))
    assert apart[0] == pytest.approx(1)
    assert apart[1] < 0.8


def test_no_tokens() -> None:
    assert maxsim_of(tokens(), tokens("a")) == (0, 0)
    assert maxsim_of(tokens("a"), tokens()) == (0, 0)
    assert token_features(tokens("a"), []).shape == (0, 2)


async def test_the_weighted_sum_of_lexical_and_token_features() -> None:
    weights = LinearWeights(
        weights={**dict.fromkeys(MAXSIM_FEATURES, 0.0), "coverage": 2.0, "maxsim": 3.0}, bias=-1.0
    )
    embedder = WordVectors()
    reranker = MaxSimReranker(embedder, weights=weights)
    some = [
        Candidate(id="1", text="apple", score=0.5),
        Candidate(id="2", text="eel", title="dog", score=0.5),
    ]
    judgement = await reranker.rerank("apple", some)
    # The vector of eel is that of apple: the words differ, the tokens are alike.
    assert scores(judgement) == pytest.approx([-1 + 2 + 3, -1 + 3])
    assert embedder.asked == [("query", ["apple"]), ("document", ["apple", "dog\n\neel"])]


async def test_an_alphabet_that_the_embedder_never_learned_leaves_the_lexical_features() -> None:
    embedder = WordVectors()
    reranker = MaxSimReranker(embedder)
    query = "Когда отменили Atlantis?"
    lexical = create_reranker("lexical")
    assert await reranker.rerank(query, CANDIDATES) == await lexical.rerank(query, CANDIDATES)
    assert not embedder.asked


async def test_a_failing_embedder() -> None:
    with pytest.raises(RerankError, match="out of memory"):
        await MaxSimReranker(WordVectors(failure="out of memory")).rerank(QUERY, CANDIDATES)


@pytest.mark.parametrize("embedder", [None, HashEmbedder()])
def test_an_embedder_without_token_vectors(embedder: object) -> None:
    with pytest.raises(ConfigError, match="maxsim needs an embedder with token vectors"):
        create_reranker("maxsim", embedder=embedder)


async def test_with_the_embedder_that_comes_with_lagotto() -> None:
    embedder = create_embedder("minilm")
    reranker = create_reranker("maxsim", embedder=embedder)
    assert "all-MiniLM-L6-v2" in reranker.id
    found = scores(await reranker.rerank(QUERY, CANDIDATES))
    assert found[0] == max(score for score in found if score is not None)
    await reranker.close()
    vectors: Vectors = await embedder.embed(["still open"], role="query")
    assert len(vectors) == 1
    await embedder.close()
