from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Vectors
from lagotto.embedders import EmbedderInfo, Role, create_embedder
from lagotto.embedders.base import TokenVectors, normalised
from lagotto.errors import ConfigError, EmbeddingError, RerankError
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.rerankers import LOGIT, Candidate, Reranker, create_reranker
from lagotto.rerankers.lexical import (
    LEXICAL_FEATURES,
    MAXSIM_FEATURES,
    WINDOW,
    LinearWeights,
    Matches,
    _best_window,
    idf_weights,
    learned_weights,
    lexical_features,
    match,
    maxsim_scores,
    overlap_shares,
    token_features,
)
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.rerankers import CANDIDATES, QUERY, RerankerContract
from tests.rerankers.doubles import scores


def passage(
    text: str, *, title: str | None = None, score: float = 0.5, language: str = "en"
) -> Candidate:
    return Candidate(id=text, text=text, title=title, score=score, language=language)


def features(query: str, candidate: Candidate, *others: Candidate) -> dict[str, float]:
    rows = lexical_features(query, [candidate, *others])
    return dict(zip(LEXICAL_FEATURES, rows[0].tolist(), strict=True))


def test_features_of_a_passage() -> None:
    padding = "alpha beta gamma delta epsilon " * 3
    found = features("a red fox of 1987", passage(f"Red foxes. {padding} 1987", title="A fox"))
    assert found["fused"] == 0.5
    assert found["coverage"] == pytest.approx(1)
    assert found["close"] == pytest.approx(2 / 3)  # 1987 stands too far away
    assert found["near"] == pytest.approx(1)
    assert found["frequency"] == pytest.approx(1 / 2.2)  # each of them once
    assert found["pairs"] == pytest.approx(1 / 4)  # red fox, of: a red, red fox, fox of, of 1987
    assert found["digits"] == 1


def test_rare_words_count_for_more() -> None:
    with_common, with_rare = passage("red dog"), passage("blue fox")
    others = [passage("red cat"), passage("red bird")]
    common = features("red fox", with_common, with_rare, *others)
    rare = features("red fox", with_rare, with_common, *others)
    assert common["coverage"] < 0.5 < rare["coverage"]
    assert common["coverage"] + rare["coverage"] == pytest.approx(1)


def test_digits_count_where_there_are_any() -> None:
    assert features("season 5", passage("season 4"))["digits"] == 0
    assert features("season", passage("season 4"))["digits"] == 0
    assert features("season 5", passage("", title="5"))["digits"] == 1


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), unique_by=lambda pair: pair[0]),
    st.integers(1, 12),
)
def test_the_best_window_is_the_best_of_all(offsets: list[tuple[int, int]], length: int) -> None:
    offsets.sort()
    shares = [0.4, 0.3, 0.2, 0.1]
    windows = [
        {number for offset, number in offsets if start <= offset < start + length}
        for start in range(-length, 31)
    ]
    best = max(sum(shares[number] for number in sorted(words)) for words in windows)
    assert _best_window(offsets, shares, length) == pytest.approx(best)


@given(st.text(max_size=60), st.lists(st.text(max_size=80), min_size=1, max_size=4))
def test_features_are_shares(query: str, texts: list[str]) -> None:
    rows = lexical_features(query, [passage(text) for text in texts])
    assert rows.shape == (len(texts), len(LEXICAL_FEATURES))
    assert ((rows >= 0) & (rows <= 1 + 1e-9)).all()


def test_the_weighted_sum_is_the_score() -> None:
    weights = LinearWeights(
        weights={**dict.fromkeys(LEXICAL_FEATURES, 0.0), "coverage": 4.0}, bias=-1.0
    )
    rows = lexical_features("red fox", [passage("the red fox"), passage("a dog")])
    assert weights.log_odds(rows) == pytest.approx([3, -1])
    reranker = create_reranker("lexical")
    assert reranker.scale == LOGIT
    assert reranker.id == f"lexical#{learned_weights('lexical').id}" != f"lexical#{weights.id}"


async def test_words_side_by_side_beat_words_apart() -> None:
    apart = "The capital has many parks. Its mayor lives in a house. France is far away."
    texts = ["The capital of France has a mayor.", apart]
    for order in (texts, texts[::-1]):
        judgement = await create_reranker("lexical").rerank(
            "capital of France mayor", [passage(text) for text in order]
        )
        found = dict(zip(order, scores(judgement), strict=True))
        assert found[texts[0]] > found[texts[1]]  # type: ignore[operator]


def test_the_weights_that_come_with_it() -> None:
    for name, columns in (("lexical", LEXICAL_FEATURES), ("maxsim", MAXSIM_FEATURES)):
        weights = learned_weights(name)
        assert tuple(weights.weights) == columns
        assert weights.weights["fused"] > 0 > weights.bias


async def test_a_better_fused_score_is_better_if_all_else_is_equal() -> None:
    for low, high in product([0.1, 0.3], [0.4, 0.9]):
        some = [passage("the red fox", score=low), passage("the red fox", score=high)]
        first, second = scores(await create_reranker("lexical").rerank("red fox", some))
        assert first < second  # type: ignore[operator]


async def test_share_of_the_content_words_by_their_stems() -> None:
    judgement = await create_reranker("overlap").rerank(
        "Which dogs were retrieving truffles?",
        [
            passage("A dog retrieves truffles."),
            passage("The dogs sleep."),
            passage("Which were the ones?"),
            passage("It retrieved them.", title="Truffle dogs"),
        ],
    )
    assert scores(judgement) == pytest.approx([1, 1 / 3, 0, 1])


async def test_each_passage_by_the_rules_of_its_own_language() -> None:
    judgement = await create_reranker("overlap").rerank(
        "трюфельных собак", [passage("Собаки и трюфели", language="ru"), passage("Собаки и")]
    )
    found = scores(judgement)
    assert found[0] == pytest.approx(0.5)  # собаки and собак have one stem, the others differ
    assert found[1] == 0


async def test_with_idf_the_rare_word_counts_for_more() -> None:
    passages = [passage("red dog"), passage("red cat"), passage("red bird"), passage("green fox")]
    plain = scores(await create_reranker("overlap").rerank("red fox", passages))
    weighted = scores(await create_reranker("overlap-idf").rerank("red fox", passages))
    assert plain == pytest.approx([0.5] * 4)
    assert weighted[0] == weighted[1] == weighted[2]
    assert weighted[0] < 0.5 < weighted[3]  # type: ignore[operator]


async def test_a_query_without_words() -> None:
    for name in ("overlap", "overlap-idf"):
        assert scores(await create_reranker(name).rerank("?!", CANDIDATES)) == [0] * len(CANDIDATES)


@given(st.text(max_size=60), st.lists(st.text(max_size=80), max_size=4), st.booleans())
def test_shares_are_shares(query: str, texts: list[str], idf: bool) -> None:
    shares = overlap_shares(query, [passage(text) for text in texts], idf=idf)
    assert all(0 <= share <= 1 + 1e-12 for share in shares)


@given(st.text(max_size=60))
def test_a_passage_that_is_the_query_has_all_of_its_words(query: str) -> None:
    (found,) = match(query, [passage(query)])
    assert found.numbers == set(range(len(found.words)))
    assert [found.terms[offset] for offset, _ in found.offsets] == [
        term for term in found.query if term in found.words
    ]


async def test_what_is_below_the_minimum_goes_and_the_rest_keeps_its_score() -> None:
    judgement = await create_reranker("score:0.12").rerank(QUERY, CANDIDATES)
    assert scores(judgement) == [0.81, 0.79, 0.12, None, None]


def test_by_name() -> None:
    ids = [create_reranker(f"score:{minimum}").id for minimum in ("0.1", "0", "1")]
    assert ids == ["score:0.1", "score:0.0", "score:1.0"]


@pytest.mark.parametrize(
    "name", ["score", "score:", "score:high", "score:1.5", "score:-0.1", "score:nan"]
)
def test_no_minimum(name: str) -> None:
    with pytest.raises(ConfigError, match="score"):
        create_reranker(name)


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
    @pytest.fixture(params=["overlap", "score:0.1"])
    def reranker(self, request: pytest.FixtureRequest) -> Reranker:
        return create_reranker(request.param)


class TestContractOfThoseThatCompare(RerankerContract):
    independent = False

    @pytest.fixture(params=["lexical", "overlap-idf", "maxsim"])
    def reranker(self, request: pytest.FixtureRequest) -> Reranker:
        return create_reranker(request.param, embedder=WordVectors())


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
    some = [
        Candidate(id="1", text="apple", score=0.5),
        Candidate(id="2", text="eel", title="dog", score=0.5),
    ]
    # The vector of eel is that of apple: the words differ, the tokens are alike.
    found = await maxsim_scores(embedder, weights, "apple", some)
    assert found == pytest.approx([-1 + 2 + 3, -1 + 3])
    assert embedder.asked == [("query", ["apple"]), ("document", ["apple", "dog\n\neel"])]


async def test_an_alphabet_that_the_embedder_never_learned_leaves_the_lexical_features() -> None:
    embedder = WordVectors()
    reranker = create_reranker("maxsim", embedder=embedder)
    query = "Когда отменили Atlantis?"
    lexical = create_reranker("lexical")
    assert await reranker.rerank(query, CANDIDATES) == await lexical.rerank(query, CANDIDATES)
    assert not embedder.asked


async def test_a_failing_embedder() -> None:
    reranker = create_reranker("maxsim", embedder=WordVectors(failure="out of memory"))
    with pytest.raises(RerankError, match="out of memory"):
        await reranker.rerank(QUERY, CANDIDATES)


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


def test_a_word_that_fewer_candidates_hold_weighs_more() -> None:
    # 1 + ln((3 candidates + 1) / (those that hold it + 1))
    words = {"oak": 0, "soil": 1}
    matches = [Matches(("oak", "soil"), words, (), (), frozenset(held)) for held in ({0}, {0}, ())]
    for weights in idf_weights(matches):
        assert weights == pytest.approx([1 + np.log(4 / 3), 1 + np.log(4)])
