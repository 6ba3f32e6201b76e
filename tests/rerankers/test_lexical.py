from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.rerankers import LOGIT, Candidate, Reranker, create_reranker
from lagotto.rerankers.lexical import (
    LEXICAL_FEATURES,
    LexicalReranker,
    LinearWeights,
    _best_window,
    learned_weights,
    lexical_features,
)
from lagotto.testing.rerankers import RerankerContract

from .doubles import scores


class TestContract(RerankerContract):
    independent = False

    @pytest.fixture
    def reranker(self) -> Reranker:
        return create_reranker("lexical")


def passage(text: str, *, title: str | None = None, score: float = 0.5) -> Candidate:
    return Candidate(id=text, text=text, title=title, score=score, language="en")


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


async def test_the_weighted_sum_is_the_score() -> None:
    weights = LinearWeights(
        weights={**dict.fromkeys(LEXICAL_FEATURES, 0.0), "coverage": 4.0}, bias=-1.0
    )
    reranker = LexicalReranker(weights)
    judgement = await reranker.rerank("red fox", [passage("the red fox"), passage("a dog")])
    assert scores(judgement) == pytest.approx([3, -1])
    assert reranker.scale == LOGIT
    assert reranker.id != LexicalReranker().id


async def test_words_side_by_side_beat_words_apart() -> None:
    apart = "The capital has many parks. Its mayor lives in a house. France is far away."
    texts = ["The capital of France has a mayor.", apart]
    for order in (texts, texts[::-1]):
        judgement = await LexicalReranker().rerank(
            "capital of France mayor", [passage(text) for text in order]
        )
        found = dict(zip(order, scores(judgement), strict=True))
        assert found[texts[0]] > found[texts[1]]  # type: ignore[operator]


def test_the_weights_that_come_with_it() -> None:
    for name in ("lexical", "maxsim"):
        weights = learned_weights(name)
        assert set(LEXICAL_FEATURES) <= set(weights.weights)
        assert weights.weights["fused"] > 0 > weights.bias


async def test_a_better_fused_score_is_better_if_all_else_is_equal() -> None:
    for low, high in product([0.1, 0.3], [0.4, 0.9]):
        some = [passage("the red fox", score=low), passage("the red fox", score=high)]
        first, second = scores(await LexicalReranker().rerank("red fox", some))
        assert first < second  # type: ignore[operator]
