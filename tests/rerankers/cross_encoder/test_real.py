"""The real ms-marco-minilm-l12, if `lagotto models fetch` has put it on this machine.

`make test` does not fetch it: a download of 73 MB is no part of a test run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lagotto import Document, KnowledgeBase
from lagotto.models.fetch import model_status
from lagotto.rerankers import Candidate, Reranker, create_reranker
from lagotto.testing.rerankers import RerankerContract
from tests.rerankers.doubles import scores

NAME = "ms-marco-minilm-l12"
STATE = model_status(NAME).state

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(STATE != "present", reason=f"run `lagotto models fetch {NAME}`"),
]

# From the model card of ms-marco-MiniLM-L12-v2.
QUERY = "How many people live in Berlin?"
RIGHT = "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square "
RIGHT += "kilometers."
WRONG = "Berlin is well known for its museums."


@pytest.fixture
async def reranker() -> AsyncIterator[Reranker]:
    reranker = create_reranker(NAME)
    yield reranker
    await reranker.close()


class TestContract(RerankerContract):
    # Every pair runs alone, so the scales of the 8-bit graph are its own.
    tolerance = 0.0

    @pytest.fixture
    async def reranker(self) -> AsyncIterator[Reranker]:
        reranker = create_reranker(NAME)
        yield reranker
        await reranker.close()


async def test_the_published_scores(reranker: Reranker) -> None:
    some = [Candidate(id=text, text=text, score=0.5) for text in (RIGHT, WRONG)]
    right, wrong = scores(await reranker.rerank(QUERY, some))
    assert right == pytest.approx(9.22, abs=0.6)
    assert wrong == pytest.approx(-4.07, abs=1.2)


async def test_the_answer_in_the_middle_of_a_long_passage_is_read(reranker: Reranker) -> None:
    filler = "The museum island and the zoo are visited by many people every year. " * 40
    long = Candidate(id="long", text=filler + RIGHT + filler, score=0.5)
    (found,) = scores(await reranker.rerank(QUERY, [long]))
    assert found is not None
    assert found > 0


def test_a_base_with_it() -> None:
    with KnowledgeBase(":memory:") as kb:
        kb.add(Document(id="right", text=RIGHT), Document(id="wrong", text=WRONG))
        hits = kb.retrieve(QUERY, rerank=NAME)
        assert hits[0].document_id == "right"
        nonsense = kb.retrieve("xqzt florp", rerank=NAME)
        assert all(hit.score < 0.5 for hit in nonsense)
