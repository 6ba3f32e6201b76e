from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.rerankers import Candidate, Reranker, create_reranker
from lagotto.rerankers.lexical import OverlapReranker, match
from lagotto.testing.rerankers import CANDIDATES, RerankerContract
from tests.rerankers.doubles import scores


class TestOverlap(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        return create_reranker("overlap")


class TestOverlapIdf(RerankerContract):
    independent = False

    @pytest.fixture
    def reranker(self) -> Reranker:
        return create_reranker("overlap-idf")


def passage(text: str, *, language: str | None = "en", title: str | None = None) -> Candidate:
    return Candidate(id=text, text=text, score=0.5, language=language, title=title)


async def test_share_of_the_content_words_by_their_stems() -> None:
    judgement = await OverlapReranker().rerank(
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
    judgement = await OverlapReranker().rerank(
        "трюфельных собак", [passage("Собаки и трюфели", language="ru"), passage("Собаки и")]
    )
    found = scores(judgement)
    assert found[0] == pytest.approx(0.5)  # собаки and собак have one stem, the others differ
    assert found[1] == 0


async def test_with_idf_the_rare_word_counts_for_more() -> None:
    passages = [passage("red dog"), passage("red cat"), passage("red bird"), passage("green fox")]
    plain = scores(await OverlapReranker().rerank("red fox", passages))
    weighted = scores(await OverlapReranker(idf=True).rerank("red fox", passages))
    assert plain == pytest.approx([0.5] * 4)
    assert weighted[0] == weighted[1] == weighted[2]
    assert weighted[0] < 0.5 < weighted[3]  # type: ignore[operator]


async def test_a_query_without_words() -> None:
    for reranker in (OverlapReranker(), OverlapReranker(idf=True)):
        assert scores(await reranker.rerank("?!", CANDIDATES)) == [0] * len(CANDIDATES)


@given(st.text(max_size=60), st.lists(st.text(max_size=80), max_size=4), st.booleans())
def test_shares_are_shares(query: str, texts: list[str], idf: bool) -> None:
    shares = OverlapReranker(idf=idf)._shares(query, [passage(text) for text in texts])
    assert all(0 <= share <= 1 + 1e-12 for share in shares)


@given(st.text(max_size=60))
def test_a_passage_that_is_the_query_has_all_of_its_words(query: str) -> None:
    (found,) = match(query, [passage(query)])
    assert found.found == set(range(len(found.words.numbers)))
    assert [found.terms[offset] for offset, _ in found.offsets] == [
        term for term in found.words.terms if term in found.words.numbers
    ]


def test_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap takes no parameters"):
        create_reranker("overlap:3")
